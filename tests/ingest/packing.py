"""Archives for the tests, made in memory, and how the tests look into them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import zstandard

from ingest.archives import Found, look_into
from ingest.errors import IngestError
from ingest.limits import Limits
from ingest.stored import Stream
from ingest.text_encoding import Readable

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
LOG = b"".join(b"[2026-01-02 03:04:%02d] Decode batch, n=%d\n" % (n % 60, n) for n in range(4000))
NOISE = random.Random(7).randbytes(300_000)


def look(tmp_path: Path, data: bytes, limits: Limits | None = None) -> dict[str, Found]:
    path = tmp_path / "evidence"
    path.write_bytes(data)
    found = list(look_into(path, limits or Limits()))
    assert len({f.member for f in found}) == len(found)
    return {f.member: f for f in found}


def read(found: Found, limits: Limits | None = None) -> bytes:
    assert found.opener is not None
    assert found.reason == ""
    return content(found.opener(limits or Limits()))


def partial_read(found: Found, limits: Limits | None = None) -> tuple[bytes, str]:
    """What can be read, and the sentence of the error that ends it."""
    assert found.opener is not None
    parts: list[bytes] = []
    with found.opener(limits or Limits()) as stream:
        try:
            parts.extend(iter(lambda: stream.read(1000), b""))
        except IngestError as error:
            return b"".join(parts), error.message
    return b"".join(parts), ""


def drain(stream: Readable, step: int) -> None:
    while stream.read(step):
        pass
