"""Compressed files and archives as bounded streams; nothing is extracted, no member name is a path.

A member is named by its chain inside the archive, parts joined by ``!`` for archives in archives.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

import zstandard

from ingest.errors import EvidenceTooLarge
from ingest.limits import Limits

# What damaged data raises while it is opened or read.
DAMAGE: Final = (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, tarfile.TarError,
                 zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError)
_MAGIC: Final = (
    (b"\x1f\x8b", "gz"), (b"\x28\xb5\x2f\xfd", "zst"), (b"BZh", "bz2"), (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"), (b"PK\x05\x06", "zip"),
)
_TAR_MAGIC_AT: Final = 257
# A member: its name, why it is not read (''), and how to open it: (stream, packed size).
Opener = Callable[[], AbstractContextManager[tuple[BinaryIO, int]]]
Listed = tuple[str, str, Opener]
# Archives in archives up to this size are held in memory, larger ones in an unnamed file.
_SPOOL_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """A file inside an archive ('' for a merely compressed file), or why it is not one."""

    name: str
    reason: str = ""


def explain(error: BaseException) -> str:
    """Return one sentence about a damage; quotes nothing of the file."""
    if isinstance(error, EvidenceTooLarge):
        return str(error)
    if isinstance(error, RuntimeError) and "encrypted" in str(error):
        return "it is encrypted; decrypt it first"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, EOFError):
        return "the compressed data ends early; copy it again"
    return f"the data is damaged ({type(error).__name__}); copy it again"


def kind_of(head: bytes) -> str | None:
    """Return gz, zst, bz2, xz, zip or tar by the first 512 bytes, None for anything else."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar":
        return "tar"
    return None


def kind_of_file(path: Path) -> str | None:
    """Return the kind of a file on disk."""
    with path.open("rb") as file:
        return kind_of(file.read(512))


class _Bounded(io.RawIOBase):
    """A decompressed stream that stops at the size and ratio limits."""

    def __init__(self, stream: BinaryIO, compressed: int, limits: Limits) -> None:
        self._stream, self._limits = stream, limits
        self._compressed, self._count = max(compressed, 1), 0

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(size)

    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            size = 1 << 20
        data = self._stream.read(min(size, 1 << 23))
        self._count += len(data)
        limits = self._limits
        if self._count > limits.max_file_bytes:
            raise EvidenceTooLarge(
                f"more than {limits.max_file_bytes} bytes after decompression",
                way_out="Split the file, or decompress it yourself if you trust it.")
        if (self._count > limits.ratio_from_bytes
                and self._count > self._compressed * limits.max_ratio):
            raise EvidenceTooLarge(
                f"it grows more than {limits.max_ratio}-fold when decompressed: a decompression "
                "bomb", way_out="Decompress it yourself if you trust it.")
        return data

    def close(self) -> None:
        self._stream.close()
        super().close()


def _decompress(raw: BinaryIO, kind: str) -> BinaryIO:
    if kind == "gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=raw, mode="rb"))
    if kind == "bz2":
        return cast(BinaryIO, bz2.BZ2File(raw))
    if kind == "xz":
        return cast(BinaryIO, lzma.LZMAFile(raw))
    return cast(BinaryIO, zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
        raw, read_across_frames=True))


@contextmanager
def open_member(path: Path, member: str | None, limits: Limits) -> Iterator[BinaryIO]:
    """Open a file, or a member of an archive by its chain, as decompressed bounded bytes."""
    with ExitStack() as stack:
        stream: BinaryIO = stack.enter_context(path.open("rb"))
        size = path.stat().st_size
        parts = member.split("!") if member else []
        for depth in range(limits.max_depth * 2 + 1):
            seekable = stream if depth == 0 else _spool(stack, stream)
            kind = kind_of(seekable.read(512))
            seekable.seek(0)
            if kind is None or (not parts and kind in ("zip", "tar")):
                yield seekable
                return
            if kind == "zip":
                archive = stack.enter_context(zipfile.ZipFile(seekable))
                info = archive.getinfo(parts.pop(0))
                stream = cast(BinaryIO, _Bounded(
                    cast(BinaryIO, stack.enter_context(archive.open(info))),
                    info.compress_size, limits))
            elif kind == "tar":
                tar = stack.enter_context(tarfile.open(fileobj=seekable, mode="r:"))
                found = tar.extractfile(tar.getmember(parts.pop(0)))
                if found is None:
                    raise tarfile.TarError("not a file")
                stream = cast(BinaryIO, _Bounded(cast(BinaryIO, found), size, limits))
            else:
                stream = cast(BinaryIO, _Bounded(_decompress(seekable, kind), size, limits))
                if not parts:
                    # A compressed file: its content is streamed, unless it is an archive again.
                    head = _peek(stream)
                    yield cast(BinaryIO, head)
                    return
        raise EvidenceTooLarge(
            f"archives are nested more than {limits.max_depth} deep",
            way_out="Unpack the outer ones first.")


class _Peeked(io.RawIOBase):
    """A stream with its first bytes put back."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self.head, self._stream = head, stream

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(size)

    def read(self, size: int = -1, /) -> bytes:
        if self.head:
            if 0 <= size < len(self.head):
                data, self.head = self.head[:size], self.head[size:]
            else:
                data, self.head = self.head, b""
            return data
        return self._stream.read(size)


def _peek(stream: BinaryIO) -> _Peeked:
    return _Peeked(stream.read(512), stream)


def _spool(stack: ExitStack, stream: BinaryIO) -> BinaryIO:
    """Copy a stream into a bounded, seekable, unnamed file."""
    spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115
    stack.enter_context(spool)
    shutil.copyfileobj(stream, spool, 1 << 20)
    spool.seek(0)
    return cast(BinaryIO, spool)


def members(path: Path, limits: Limits) -> Iterator[Member]:
    """Yield the files inside a compressed file or an archive, archives in archives included."""
    with ExitStack() as stack:
        stream = stack.enter_context(path.open("rb"))
        count = [0]
        yield from _members(stack, stream, path.stat().st_size, "", 0, count, limits)


def _members(
    stack: ExitStack, stream: BinaryIO, size: int, prefix: str, depth: int, count: list[int],
    limits: Limits,
) -> Iterator[Member]:
    kind = kind_of(stream.read(512))
    stream.seek(0)
    if kind is None:
        yield Member(prefix)
        return
    if depth >= limits.max_depth:
        yield Member(prefix, f"archives are nested more than {limits.max_depth} deep; unpack the "
                     "outer ones first")
        return
    if kind not in ("zip", "tar"):
        inner = _peek(cast(BinaryIO, _Bounded(_decompress(stream, kind), size, limits)))
        if kind_of(inner.head) not in ("tar", "zip"):
            yield Member(prefix)
            return
        spooled = _spool(stack, cast(BinaryIO, inner))
        yield from _members(stack, spooled, size, prefix, depth + 1, count, limits)
        return
    listed = _zip_members(stream) if kind == "zip" else _tar_members(stream)
    for name, reason, opener in listed:
        count[0] += 1
        if count[0] > limits.max_members:
            yield Member(_join(prefix, name),
                         f"the archive has more than {limits.max_members} members; split it")
            return
        if reason:
            yield Member(_join(prefix, name), reason)
            continue
        try:
            with opener() as (raw, packed):
                bounded = cast(BinaryIO, _Bounded(raw, packed, limits))
                if kind_of(bounded.read(512)) is None:
                    yield Member(_join(prefix, name))
                    continue
            with opener() as (raw, packed), ExitStack() as inner_stack:
                spooled = _spool(inner_stack, cast(BinaryIO, _Bounded(raw, packed, limits)))
                yield from _members(inner_stack, spooled, packed, _join(prefix, name), depth + 1,
                                    count, limits)
        except (OSError, EvidenceTooLarge, *DAMAGE) as error:
            yield Member(_join(prefix, name), f"cannot be read: {explain(error)}")


def _join(prefix: str, name: str) -> str:
    return f"{prefix}!{name}" if prefix else name


def _unsafe(name: str) -> str:
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or (len(name) > 1 and name[1] == ":"):
        return "its name leads out of the archive; it was not read"
    if "!" in name or "\0" in name:
        return "its name holds a character that names are joined with; rename it"
    return ""


def _zip_members(stream: BinaryIO) -> Iterator[Listed]:
    archive = zipfile.ZipFile(stream)
    for info in archive.infolist():
        if info.is_dir():
            continue
        reason = _unsafe(info.filename)
        if not reason and info.flag_bits & 1:
            reason = "it is encrypted; decrypt it first"
        if not reason and (info.external_attr >> 28) == 0xA:
            reason = "a link, not a file; collect the file itself"

        @contextmanager
        def opener(info: zipfile.ZipInfo = info) -> Iterator[tuple[BinaryIO, int]]:
            with archive.open(info) as raw:
                yield cast(BinaryIO, raw), max(info.compress_size, 1)

        yield info.filename, reason, opener


def _tar_members(stream: BinaryIO) -> Iterator[Listed]:
    tar = tarfile.open(fileobj=stream, mode="r:")  # noqa: SIM115 - lives as long as its stream
    for info in tar:
        if info.isdir():
            continue
        reason = _unsafe(info.name)
        if not reason and not info.isreg():
            reason = "a link or device, not a file; collect the file itself"

        @contextmanager
        def opener(info: tarfile.TarInfo = info) -> Iterator[tuple[BinaryIO, int]]:
            raw = tar.extractfile(info)
            if raw is None:
                raise tarfile.TarError("not a file")
            with raw:
                yield cast(BinaryIO, raw), max(info.size, 1)

        yield info.name, reason, opener
