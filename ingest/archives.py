"""Compressed files and archives -> the files in them, each with a way to read it.

Nothing is extracted and no member name is used as a path: a member is a stream. Archives inside
archives are set aside in bounded temporary copies. What cannot be read is named with the reason.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from ingest.bounded import Bounded, check_size
from ingest.compression import codec_of, decompressed
from ingest.errors import EvidenceTooLarge, IngestError
from ingest.limits import Limits
from ingest.stored import Spool, Stored, StoredFile, Stream
from ingest.tar_members import BLOCK_BYTES, is_tar, next_member
from ingest.tar_reading import TarReading
from ingest.text_encoding import Readable
from ingest.zip_members import is_zip, open_directory, open_zip_member, zip_members

Opener = Callable[[Limits], Stream]
# bzip2 gives its first byte after a whole block of up to 900 kB.
_PEEK_BYTES: Final = 2**20
# Archives that other programs have to unpack.
_FOREIGN: Final = (
    (b"7z\xbc\xaf\x27\x1c", "7-Zip"), (b"Rar!\x1a\x07", "RAR"), (b"\x04\x22\x4d\x18", "LZ4"),
    (b"\x1f\x9d", "compress"),
)
_DRIVE: Final = re.compile(r"[A-Za-z]:")
# Control characters, marks that turn text around, bytes of names that are not UTF-8.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FILE: Final = "file"
_TAR: Final = "tar"
_ZIP: Final = "zip"
_COMPRESSED_AGAIN: Final = "compressed again"


@dataclass(frozen=True, slots=True)
class Found:
    """A file: by its member chain ('' for a file that is merely compressed), or why it is none.

    ``packed``: whether it is inside something; False means the file itself is plain.
    """

    member: str = ""
    reason: str = ""
    opener: Opener | None = None
    packed: bool = True


def look_into(path: Path, limits: Limits) -> Iterator[Found]:
    """The files in a file on disk; a plain file gives itself.

    Raises OSError and IngestError for the file as a whole; members that cannot be read are found
    with a reason.
    """
    stored = StoredFile(path)
    budget = _Budget(limits, stored.size)
    yield from _look(stored, "", 1, budget)


@dataclass(slots=True)
class _Budget:
    """What the members of one file may come to, archives in archives included."""

    limits: Limits
    file_bytes: int
    members: int = 0
    member_bytes: int = 0
    names: dict[str, int] = field(default_factory=dict)

    def charge(self, size: int) -> None:
        """Count a member; raises EvidenceTooLarge."""
        self.members += 1
        if self.members > self.limits.max_members:
            raise EvidenceTooLarge(
                f"The archive has more than {self.limits.max_members} members; "
                "unpack what is needed and give the folder")
        self.member_bytes += size
        check_size(self.member_bytes, self.file_bytes, self.limits)

    def own_name(self, name: str) -> str:
        """The name, told apart from an earlier member of the same name."""
        count = self.names[name] = self.names.get(name, 0) + 1
        return name if count == 1 else self.own_name(f"{name}~{count}")


def _look(stored: Stored, prefix: str, depth: int, budget: _Budget) -> Iterator[Found]:
    limits = budget.limits
    with stored.open() as file:
        head = file.read(BLOCK_BYTES)
        codec = codec_of(head)
        if codec is not None:
            file.seek(0)
            head = file.read(_PEEK_BYTES)
    kind = _kind(head)
    # What compressing twice hides is measured against the file that was given.
    packed_bytes = min(stored.size, budget.file_bytes)
    if kind == _FILE:
        if reason := _foreign(head):
            yield Found(prefix, reason)
        else:
            yield Found(prefix, opener=partial(_open_stored, stored, codec, packed_bytes),
                        packed=bool(prefix or codec))
    elif depth > limits.max_depth:
        yield Found(prefix, _too_deep(limits))
    elif kind == _TAR:
        yield from _tar(stored, codec, packed_bytes, prefix, depth, budget)
    elif codec is None:
        yield from _zip(stored, prefix, depth, budget)
    else:
        # Compressed twice, or a compressed zip: it has to be read from several places.
        try:
            with _open_stored(stored, codec, packed_bytes, limits) as stream:
                spool = Spool(stream, limits)
        except (OSError, IngestError) as error:
            yield Found(prefix, sentence(error))
            return
        yield from _look(spool, prefix, depth + 1, budget)


def _tar(
    stored: Stored, codec: str | None, packed_bytes: int, prefix: str, depth: int, budget: _Budget
) -> Iterator[Found]:
    reading = TarReading(stored, codec, packed_bytes, budget.limits)
    position = 0
    try:
        while True:
            stream = reading.at(position)
            try:
                member = next_member(stream)
            finally:
                reading.give_back(stream)
            if member is None:
                return
            position = member.end
            if not member.is_file:
                budget.charge(0)
                continue
            budget.charge(member.size if not member.reason else 0)
            yield from _member(
                member.name, member.reason, member.size,
                partial(reading.member, member.offset, member.size),
                partial(reading.peek, member.offset, member.size), prefix, depth, budget)
    except (OSError, IngestError) as error:
        # The members before are good; the archive's rest is not.
        yield Found(prefix, sentence(error))
    finally:
        reading.close()


def _zip(stored: Stored, prefix: str, depth: int, budget: _Budget) -> Iterator[Found]:
    try:
        file = stored.open()
        archive = open_directory(file, budget.limits)
        # Members may be opened long after this: the file stays open as long as one of them is.
        weakref.finalize(archive, file.close)
        for member in zip_members(archive):
            info = member.info
            budget.charge(info.file_size if not member.reason else 0)
            opener = partial(open_zip_member, archive, info)

            def peek(count: int, opener: Opener = opener) -> bytes:
                with opener(budget.limits) as stream:
                    return _exactly(stream, count)

            yield from _member(info.filename, member.reason, info.file_size, opener, peek, prefix,
                               depth, budget)
    except (OSError, IngestError) as error:
        yield Found(prefix, sentence(error))


def _member(
    name: str, reason: str, size: int, opener: Opener, peek: Callable[[int], bytes],
    prefix: str, depth: int, budget: _Budget,
) -> Iterator[Found]:
    """One member: a file, a compressed file, or an archive to look into."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    reason = _unsafe(name) or reason
    if not reason and any(part.startswith(".") or part == "__MACOSX" for part in parts):
        return
    own = printable("/".join(parts)) or "unnamed"
    chain = budget.own_name(f"{prefix}!{own}" if prefix else own)
    if reason:
        yield Found(chain, f"This member {reason}")
        return
    try:
        head = peek(BLOCK_BYTES)
        codec = codec_of(head)
        if codec is not None:
            head = peek(_PEEK_BYTES)
        kind = _kind(head)
        if kind == _FILE:
            if codec is not None:
                opener = partial(_inflating, opener, codec, size)
            yield Found(chain, _foreign(head), opener)
            return
        if depth >= budget.limits.max_depth:
            yield Found(chain, _too_deep(budget.limits))
            return
        with opener(budget.limits) as stream:
            spool = Spool(stream, budget.limits)
    except (OSError, IngestError) as error:
        yield Found(chain, sentence(error))
        return
    yield from _look(spool, chain, depth + 1, budget)


def printable(text: str) -> str:
    """Text without characters that act on a terminal or cannot be stored; they become escapes."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def sentence(error: OSError | IngestError) -> str:
    """One sentence about an error, with the way out if there is one; quotes no evidence."""
    if isinstance(error, IngestError):
        return f"{error.message}: {error.way_out[:1].lower()}{error.way_out[1:].rstrip('.')}" \
            if error.way_out else error.message
    if isinstance(error, PermissionError):
        return "Permission denied: run as a user who may read it, or change its permissions"
    return f"It cannot be read ({error.strerror or type(error).__name__}): copy it and try again"


def _open_stored(
    stored: Stored, codec: str | None, packed_bytes: int, limits: Limits
) -> Stream:
    file = stored.open()
    source: Readable = file if codec is None else decompressed(file, codec)
    return Bounded(source, None if codec is None else packed_bytes, limits, file.close)


def _inflating(opener: Opener, codec: str, size: int, limits: Limits) -> Stream:
    stream = opener(limits)
    return Bounded(decompressed(stream, codec), size, limits, stream.close)


def _kind(head: bytes) -> str:
    """What a file is by its first bytes, looked at behind its compression if there is one."""
    codec = codec_of(head)
    if codec is not None:
        try:
            head = _exactly(decompressed(_Head(head), codec), BLOCK_BYTES)
        except IngestError:
            # Damaged: reading it will say so.
            return _FILE
        if codec_of(head) is not None:
            return _COMPRESSED_AGAIN
    if is_tar(head):
        return _TAR
    return _ZIP if is_zip(head) else _FILE


def _foreign(head: bytes) -> str:
    """Why an archive that this program does not open cannot be read; '' for anything else."""
    for magic, name in _FOREIGN:
        if head.startswith(magic):
            return f"A {name} archive is not read: unpack it and give the folder"
    return ""


def _unsafe(name: str) -> str:
    """What is wrong with a member's name, if it would lead out of the archive."""
    parts = name.replace("\\", "/").split("/")
    if not parts[0] or ".." in parts or _DRIVE.match(name):
        return "has a name that leads out of the archive: it was not read; rename it"
    return ""


def _too_deep(limits: Limits) -> str:
    return (f"Archives are nested more than {limits.max_depth} deep: unpack the outer ones and "
            "give the folder")


@dataclass(slots=True)
class _Head:
    """The first bytes of a file as a stream."""

    data: bytes

    def read(self, size: int = -1, /) -> bytes:
        size = len(self.data) if size < 0 else size
        data, self.data = self.data[:size], self.data[size:]
        return data


def _exactly(stream: Readable, size: int) -> bytes:
    """``size`` bytes, fewer at the end or where the data is damaged."""
    parts: list[bytes] = []
    try:
        while size and (data := stream.read(size)):
            parts.append(data)
            size -= len(data)
    except IngestError:
        if not parts:
            raise
    return b"".join(parts)
