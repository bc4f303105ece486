"""Headers of a tar archive, read one after the other with bounds; no member is extracted.

Understands ustar, old tar, GNU long names and pax (POSIX.1-2017 ``pax``, "ustar Interchange
Format"; GNU tar "Basic Tar Format"). Known gap: sparse and multi-volume members are named, not
read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from ingest.errors import EvidenceTooLarge, IngestError

BLOCK_BYTES: Final = 512
# Longest extended header that is read into memory.
_MAX_EXTENDED_BYTES: Final = 2**20
_FILE_TYPES: Final = b"0\0007"
# Directories, volume labels and GNU directory dumps hold nothing to read.
_EMPTY_TYPES: Final = b"5VD"
_LINK_REASON: Final = "is a link or device, not a file; collect the file itself"


class TarBytes(Protocol):
    """The decompressed archive, read forwards."""

    position: int

    def exactly(self, size: int) -> bytes:
        """``size`` bytes, fewer only at the end of the data."""
        ...


@dataclass(frozen=True, slots=True)
class TarMember:
    """One entry; ``reason`` says why it cannot be read. ``end`` is where the next header is."""

    name: str
    offset: int
    size: int
    end: int
    reason: str = ""
    is_file: bool = True


def is_tar(head: bytes) -> bool:
    """Whether the first 512 bytes are a tar header with a right checksum."""
    return len(head) >= BLOCK_BYTES and head[0] != 0 and _checksum_fits(head[:BLOCK_BYTES])


def next_member(stream: TarBytes) -> TarMember | None:
    """Read the header at the stream's position; None behind the last member.

    Raises IngestError on damage and where the archive was cut.
    """
    names: dict[str, str] = {}
    ended = False
    while True:
        header = stream.exactly(BLOCK_BYTES)
        if not header and ended:
            return None
        if len(header) < BLOCK_BYTES:
            raise IngestError("The archive ends early; fetch it again")
        if not any(header):
            # Archives may be joined, so what follows the end mark is looked at.
            ended = True
            continue
        if not _checksum_fits(header):
            raise IngestError("The archive is damaged; fetch it again")
        size = _number(header[124:136])
        kind = header[156:157]
        if kind in b"LKxXg":
            _extend(names, kind, stream, size)
            continue
        return _member(header, kind, size, names, stream.position)


def _member(
    header: bytes, kind: bytes, size: int, names: dict[str, str], offset: int
) -> TarMember:
    name = _text(header[:100])
    if header[257:263] == b"ustar\0" and (prefix := _text(header[345:500])):
        name = f"{prefix}/{name}"
    name = names.get("path", name)
    if "size" in names:
        size = _decimal(names["size"])
    if kind == b"5":
        size = 0
    is_folder = kind in _EMPTY_TYPES or (kind in b"\0000" and name.endswith("/"))
    reason = ""
    if not is_folder and kind not in _FILE_TYPES:
        # Only files and GNU's own kinds have data behind their header.
        reason = _LINK_REASON
        if kind in b"SM":
            reason = "is stored in pieces; unpack the archive and give the folder"
        elif kind in b"12346":
            size = 0
    elif any(key.startswith("GNU.sparse.") for key in names):
        reason = "is stored in pieces; unpack the archive and give the folder"
    end = offset + -(-size // BLOCK_BYTES) * BLOCK_BYTES
    return TarMember(name, offset, size, end, reason, not is_folder)


def _extend(names: dict[str, str], kind: bytes, stream: TarBytes, size: int) -> None:
    """Take up a GNU long name or the records of a pax header."""
    if size > _MAX_EXTENDED_BYTES:
        raise EvidenceTooLarge("A header inside the archive is too large to be one")
    data = stream.exactly(-(-size // BLOCK_BYTES) * BLOCK_BYTES)[:size]
    if len(data) < size:
        raise IngestError("The archive ends early; fetch it again")
    if kind == b"L":
        names["path"] = _text(data)
    elif kind in b"xX":
        at = 0
        while at < len(data):
            space = data.find(b" ", at, at + 10)
            length = _decimal(_text(data[at:space])) if space > 0 else 0
            record = data[space + 1 : at + length]
            if length <= 0 or not record.endswith(b"\n"):
                raise IngestError("The archive is damaged; fetch it again")
            key, _, value = record[:-1].partition(b"=")
            names[_text(key)] = _text(value)
            at += length


def _checksum_fits(header: bytes) -> bool:
    try:
        stated = _number(header[148:156])
    except IngestError:
        return False
    unsigned = sum(header[:148]) + sum(header[156:]) + 8 * 32
    # Some old programs summed signed bytes.
    signed = unsigned - 256 * sum(byte > 127 for byte in header[:148] + header[156:])
    return stated in (unsigned, signed)


def _number(field: bytes) -> int:
    """An octal number, or a base-256 one if its first bit is set."""
    if field[0] & 0x80:
        value = int.from_bytes(field, "big") & ~(0x80 << 8 * (len(field) - 1))
        if field[0] & 0x40 or value >= 2**62:
            raise IngestError("The archive is damaged; fetch it again")
        return value
    digits = field.replace(b"\0", b" ").strip()
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        raise IngestError("The archive is damaged; fetch it again") from None


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise IngestError("The archive is damaged; fetch it again")
    return int(text)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")
