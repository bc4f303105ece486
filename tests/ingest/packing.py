"""Archives for the tests, made in memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Mapping

import zstandard

from ingest.limits import Limits
from ingest.stored import Stream

CODECS = {
    "gz": lambda data: gzip.compress(data, mtime=0),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


def tar(members: Mapping[str, bytes], *, form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tar_entry(name: str, kind: bytes, *, target: str = "", data: bytes = b"") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(data)
    return info.tobuf() + data + bytes(-len(data) % 512)


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def content(stream: Stream, step: int = 1 << 20) -> bytes:
    with stream:
        return b"".join(iter(lambda: stream.read(step), b""))


SMALL = Limits(ratio_from_bytes=1 << 16, max_ratio=100)
