"""The directory of a zip archive, bounded before it is read; no member is extracted."""

from __future__ import annotations

import lzma
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, BinaryIO, Final

from ingest.bounded import Bounded
from ingest.errors import EvidenceTooLarge, IngestError
from ingest.limits import Limits
from ingest.stored import Stream

_END: Final = b"PK\x05\x06"
_END_BYTES: Final = 22
_END64_LOCATOR: Final = b"PK\x06\x07"
_MAX_COMMENT_BYTES: Final = 65535
# Directory entries take 46 bytes and a name; more than this on average is no honest archive.
_ENTRY_BYTES: Final = 1024
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2,
                             zipfile.ZIP_LZMA})
_CHUNK_BYTES: Final = 2**20
_DAMAGE: Final = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError,
                  NotImplementedError, RuntimeError, ValueError)


@dataclass(frozen=True, slots=True)
class ZipMember:
    """One entry; ``reason`` says why it cannot be read."""

    info: zipfile.ZipInfo
    reason: str = ""


def is_zip(head: bytes) -> bool:
    """Whether a file begins as a zip archive does."""
    return head.startswith((b"PK\x03\x04", _END))


def open_directory(file: BinaryIO, limits: Limits) -> zipfile.ZipFile:
    """Read the archive's directory; raises IngestError on damage, EvidenceTooLarge on its size."""
    size = _directory_bytes(file)
    if size > limits.max_members * _ENTRY_BYTES:
        raise EvidenceTooLarge(
            f"The archive lists more than {limits.max_members} members; unpack what is needed")
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError):
        raise IngestError("The archive is damaged; fetch it again") from None


def zip_members(archive: zipfile.ZipFile) -> Iterator[ZipMember]:
    """The files of the archive in the order of its directory."""
    for info in archive.infolist():
        if info.is_dir():
            continue
        kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system == 3 else 0
        if info.flag_bits & 0x41:
            yield ZipMember(info, "is encrypted; decrypt it first")
        elif kind not in (0, stat.S_IFREG):
            yield ZipMember(info, "is a link or device, not a file; collect the file itself")
        elif info.compress_type not in _METHODS:
            yield ZipMember(info, "is compressed in a way that this program does not read; "
                                  "unpack the archive and give the folder")
        else:
            yield ZipMember(info)


def open_zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, limits: Limits) -> Stream:
    """A member's bytes; reading raises IngestError on damage, EvidenceTooLarge on a bomb."""
    try:
        file = archive.open(info)
    except _DAMAGE:
        raise _damage() from None
    return Bounded(_Member(file), info.compress_size, limits, file.close)


class _Member:
    """A member's bytes with damage in words."""

    def __init__(self, file: IO[bytes]) -> None:
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; b'' at the end."""
        try:
            return self._read(_CHUNK_BYTES if size < 0 else size)
        except _DAMAGE:
            raise _damage() from None


def _damage() -> IngestError:
    return IngestError("This member of the archive is damaged", way_out="Fetch it again.")


def _directory_bytes(file: BinaryIO) -> int:
    """Size of the directory as the end record states it; 0 if there is no end record."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _END_BYTES - _MAX_COMMENT_BYTES - 20))
    tail = file.read(_END_BYTES + _MAX_COMMENT_BYTES + 20)
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_BYTES:
        return 0
    stated = int.from_bytes(tail[at + 12 : at + 16], "little")
    if stated == 0xFFFFFFFF or tail[max(0, at - 20) : at].startswith(_END64_LOCATOR):
        place = int.from_bytes(tail[at - 12 : at - 4], "little")
        if place < size:
            file.seek(place)
            stated = int.from_bytes(file.read(48)[40:48], "little")
    return stated
