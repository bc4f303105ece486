"""Bytes of one file -> blocks of whole lines with their offsets, hashed as they are read.

Does not parse. Memory is bounded by one block plus one line, whatever the file holds.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol

from ingest.limits import Limits

_FINE: Final = 4096
_COARSE: Final = 65536
_FINE_UNTIL: Final = 1 << 20
_CHECK_BYTES: Final = 8
# How far back a cut looks for a line that begins a record, in bytes.
_CUT_BACK: Final = 1 << 20
_RECORD_START: Final = b"[{0123456789\x1b"


class Readable(Protocol):
    """What a source's stream offers."""

    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file; only the last block of a file may end without a newline.

    ``byte_offset`` of ``data[0]`` in the decompressed bytes (of the UTF-8 text for UTF-16 files);
    ``skipped``: (line_no, byte_offset, length) of physical lines that were too long to keep.
    """

    data: bytes
    byte_offset: int
    first_line_no: int
    skipped: tuple[tuple[int, int, int], ...] = ()
    final: bool = False
    unterminated: bool = False


class Digest:
    """Running sha256 with checkpoints, so that another version of a file is known by content.

    A checkpoint is the first 8 bytes of the digest of everything up to a multiple of 4 KiB (up to
    1 MiB) or of 64 KiB (after that).
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._length = 0
        self._checks = bytearray()

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        view = memoryview(data)
        while view:
            step = _FINE if self._length < _FINE_UNTIL else _COARSE
            room = step - self._length % step
            part, view = view[:room], view[room:]
            self._hash.update(part)
            self._length += len(part)
            if self._length % step == 0:
                self._checks += self._hash.digest()[:_CHECK_BYTES]

    def hexdigest(self) -> str:
        """Return the sha256 of all bytes so far, in hex."""
        return self._hash.hexdigest()

    def checkpoints(self) -> bytes:
        """Return all checkpoints so far, 8 bytes each."""
        return bytes(self._checks)


def same_prefix(checkpoints: bytes, other: bytes) -> int:
    """Return how many leading bytes of two files are proven equal by their checkpoints."""
    proven = 0
    for at in range(0, min(len(checkpoints), len(other)), _CHECK_BYTES):
        if checkpoints[at : at + _CHECK_BYTES] != other[at : at + _CHECK_BYTES]:
            break
        proven += _FINE if proven < _FINE_UNTIL else _COARSE
    return proven


def encoding_of(head: bytes) -> str:
    """Return 'utf-16-le', 'utf-16-be', 'binary' or 'utf-8' from the first bytes of a file."""
    if head.startswith(codecs.BOM_UTF16_LE) and not head.startswith(codecs.BOM_UTF32_LE):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    sample = head[:4096]
    if len(sample) >= 8 and sample.count(0) > len(sample) // 20:
        even, odd = sample[0::2].count(0), sample[1::2].count(0)
        if odd > 0.4 * len(sample) // 2 and even == 0:
            return "utf-16-le"
        if even > 0.4 * len(sample) // 2 and odd == 0:
            return "utf-16-be"
        return "binary"
    return "utf-8"


class _Transcoder:
    """A stream of UTF-16 text as UTF-8 bytes; broken units become U+FFFD."""

    def __init__(self, stream: Readable, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def read(self, size: int = -1, /) -> bytes:
        while True:
            raw = self._stream.read(size)
            text = self._decoder.decode(raw, final=not raw)
            if text or not raw:
                return text.encode("utf-8", errors="replace")


class _Pushback:
    """A stream whose first bytes were looked at already."""

    def __init__(self, head: bytes, stream: Readable) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int = -1, /) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            return head
        return self._stream.read(size)


def decode_evidence(stream: Readable) -> Readable:
    """Return the stream as UTF-8 bytes: UTF-16 text is transcoded, all else passes as it is."""
    head = stream.read(4096)
    encoding = encoding_of(head)
    rest = _Pushback(head, stream)
    return _Transcoder(rest, encoding) if encoding.startswith("utf-16") else rest


def read_blocks(
    stream: Readable | BinaryIO,
    limits: Limits,
    *,
    start_offset: int = 0,
    start_line: int = 1,
    digest: Digest | None = None,
) -> Iterator[Block]:
    """Yield the file as blocks; exactly one, the last, is ``final`` (it may be empty).

    A block ends where the next line begins a record, if one is near, so that wrapped tails stay
    with their record. A line longer than ``limits.max_line_bytes`` is skipped and reported.
    """
    source = _Blocks(stream, limits, digest, start_offset, start_line)
    return source.run()


class _Blocks:
    def __init__(
        self, stream: Readable | BinaryIO, limits: Limits, digest: Digest | None, offset: int,
        line_no: int,
    ) -> None:
        self._stream, self._limits, self._digest = stream, limits, digest
        self._offset, self._line_no = offset, line_no
        self._skipped: list[tuple[int, int, int]] = []

    def run(self) -> Iterator[Block]:
        rest = b""
        while True:
            data = self._read()
            if not data:
                break
            data = rest + data if rest else data
            cut = data.rfind(b"\n") + 1
            if cut == 0:
                if len(data) <= self._limits.max_line_bytes:
                    rest = data
                    continue
                rest = self._skip(data)
                continue
            cut = self._record_cut(data, cut)
            rest = data[cut:]
            yield self._take(data[:cut] if rest else data, final=False)
        yield self._take(rest, final=True)

    def _read(self) -> bytes:
        data = self._stream.read(self._limits.block_bytes)
        if data and self._digest is not None:
            self._digest.update(data)
        return data

    def _record_cut(self, data: bytes, cut: int) -> int:
        """Move a cut back to a line that begins a record, if one is within reach."""
        at, lowest = cut, max(1, cut - _CUT_BACK)
        while at > lowest:
            if at < len(data) and data[at] in _RECORD_START:
                return at
            previous = data.rfind(b"\n", 0, at - 1) + 1
            if previous < lowest:
                break
            at = previous
        return cut

    def _skip(self, start: bytes) -> bytes:
        """Read past the end of a line that is too long; return what follows it."""
        length, at, line_no = len(start), self._offset, self._line_no
        rest = b""
        while data := self._read():
            end = data.find(b"\n")
            if end >= 0:
                length += end + 1
                rest = data[end + 1 :]
                break
            length += len(data)
        self._skipped.append((line_no, at, length))
        self._offset += length
        self._line_no += 1
        return rest

    def _take(self, data: bytes, *, final: bool) -> Block:
        offset, line_no = self._offset, self._line_no
        self._offset += len(data)
        lines = data.count(b"\n")
        self._line_no += lines
        data = self._without_long_lines(data, offset, line_no)
        skipped, self._skipped = tuple(self._skipped), []
        return Block(
            data, offset, line_no, skipped, final,
            unterminated=final and bool(data) and not data.endswith(b"\n"))

    def _without_long_lines(self, data: bytes, offset: int, line_no: int) -> bytes:
        """Blank lines over the limit that arrived whole inside one block.

        They become empty lines of the same length in bytes, so that offsets and numbers hold.
        """
        limit = self._limits.max_line_bytes
        if len(data) <= limit:
            return data
        parts, start = [], 0
        changed = False
        for number, line in enumerate(data.split(b"\n")):
            if len(line) > limit:
                self._skipped.append((line_no + number, offset + start, len(line) + 1))
                line, changed = b" " * len(line), True
            parts.append(line)
            start += len(line) + 1
        return b"\n".join(parts) if changed else data
