"""Bytes of one file -> blocks of whole lines, with where they stand in the file.

Does not parse. Memory is bounded by one block and one line of the longest length allowed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ingest.digest import Digest, same_prefix
from ingest.limits import Limits
from ingest.text_encoding import Readable, decode_evidence, encoding_of

__all__ = ["Block", "Digest", "Readable", "count_lines", "decode_evidence", "encoding_of",
           "read_blocks", "same_prefix"]

# How far back a cut looks for a line that begins a record.
_CUT_BACK_BYTES: Final = 1 << 20
_CUT_BACK_LINES: Final = 1000
# What records begin with: engine prefix, JSON, a stamp, a colour.
_RECORD_START: Final = frozenset(b"[{0123456789\x1b")
# Newlines are counted in slices that fit the cache.
_COUNT_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines; only the last block of a file may end without a newline, or be empty.

    ``byte_offset`` is that of ``data[0]`` in the bytes that were read, ``first_line_no`` counts
    from 1. ``skipped``: (line_no, byte_offset, length) of physical lines that were too long,
    line end included; all of them stand before ``data``. ``unterminated``: the last block, and
    its last line has no newline; if that line was skipped, the block is empty and stands where
    the line begins.
    """

    data: bytes
    byte_offset: int
    first_line_no: int
    skipped: tuple[tuple[int, int, int], ...] = ()
    final: bool = False
    unterminated: bool = False


def read_blocks(
    stream: Readable,
    limits: Limits,
    *,
    start_offset: int = 0,
    start_line: int = 1,
    digest: Digest | None = None,
) -> Iterator[Block]:
    """Yield a file as blocks of about ``limits.block_bytes``; exactly the last is ``final``.

    The stream stands at ``start_offset``, where line ``start_line`` begins. A block ends before a
    line that begins a record, if one is near, so that wrapped tails stay with their record. Lines
    of more than ``limits.max_line_bytes`` are skipped and reported. ``digest`` gets every byte.
    Raises what the stream raises, after everything that could be read was given.
    """
    reader = _Reader(stream, digest)
    place = _Place(limits, start_offset, start_line)
    pieces: list[bytes] = []
    held = 0
    while chunk := reader.read(max(limits.block_bytes - held, limits.block_bytes // 2, 1)):
        end = chunk.rfind(b"\n") + 1
        if end:
            cut = _record_cut(chunk, end)
            whole = not pieces and cut == len(chunk)
            data = chunk if whole else b"".join((*pieces, memoryview(chunk)[:cut]))
            rest = chunk[cut:]
            pieces, held = [rest] if rest else [], len(rest)
            yield from place.blocks(data)
            continue
        pieces.append(chunk)
        held += len(chunk)
        if held <= limits.max_line_bytes:
            continue
        # No newline in sight: give the whole lines that are held, then skip a line too long.
        data = b"".join(pieces)
        end = data.rfind(b"\n") + 1
        if end:
            yield from place.blocks(data[:end])
        length = len(data) - end
        rest = data[end:]
        if length > limits.max_line_bytes:
            del data, chunk
            pieces.clear()
            rest = place.skip(reader, length)
        pieces, held = [rest] if rest else [], len(rest)
    yield from place.final(b"".join(pieces))
    if reader.failure is not None:
        raise reader.failure


def count_lines(data: bytes) -> int:
    """Number of newlines; several times as fast as ``bytes.count``."""
    if len(data) < 4096:
        return data.count(b"\n")
    array = np.frombuffer(data, dtype=np.uint8)
    return sum(
        int(np.count_nonzero(array[at : at + _COUNT_BYTES] == 10))
        for at in range(0, len(array), _COUNT_BYTES)
    )


def _record_cut(chunk: bytes, end: int) -> int:
    """The last line start up to ``end`` that begins a record, if one is near; else ``end``."""
    at, lowest = end, max(1, end - _CUT_BACK_BYTES)
    for _ in range(_CUT_BACK_LINES):
        if at < len(chunk) and chunk[at] in _RECORD_START:
            return at
        at = chunk.rfind(b"\n", 0, at - 1) + 1
        if at < lowest:
            break
    return end


@dataclass(slots=True)
class _Reader:
    """Full reads; an error is kept until what came before it has been given."""

    stream: Readable
    digest: Digest | None
    failure: Exception | None = None
    ended: bool = False

    def read(self, size: int) -> bytes:
        """``size`` bytes, fewer only at the end or before an error."""
        parts: list[bytes] = []
        have = 0
        while have < size and not self.ended:
            try:
                part = self.stream.read(size - have)
            except Exception as error:
                self.failure = error
                part = b""
            if not part:
                self.ended = True
                break
            if self.digest is not None:
                self.digest.update(part)
            parts.append(part)
            have += len(part)
        return b"".join(parts)


@dataclass(slots=True)
class _Place:
    """Where reading stands, and the long lines that the next block has to report."""

    limits: Limits
    offset: int
    line_no: int
    skipped: list[tuple[int, int, int]] = field(default_factory=list)
    inside_line: bool = False

    def blocks(self, data: bytes) -> Iterator[Block]:
        """Whole lines as one block, or as several around lines that are too long."""
        data = yield from self._around_long_lines(data)
        if data:
            yield self._block(data)

    def final(self, data: bytes) -> Iterator[Block]:
        """What is left at the end of the file; its last line may have no newline."""
        data = yield from self._around_long_lines(data)
        yield Block(data, self.offset, self.line_no, tuple(self.skipped), final=True,
                    unterminated=self.inside_line or (bool(data) and not data.endswith(b"\n")))

    def skip(self, reader: _Reader, length: int) -> bytes:
        """Read past the end of a line of which ``length`` bytes are known; what follows it."""
        step = max(1, min(_CUT_BACK_BYTES, self.limits.block_bytes))
        while chunk := reader.read(step):
            end = chunk.find(b"\n") + 1
            if end:
                self._skipped(length + end)
                return chunk[end:]
            length += len(chunk)
        self.skipped.append((self.line_no, self.offset, length))
        self.inside_line = True
        return b""

    def _around_long_lines(self, data: bytes) -> Generator[Block, None, bytes]:
        """Give what stands before each line that is too long; return what follows the last."""
        while (start := self._long_line(data)) >= 0:
            if start:
                yield self._block(data[:start])
            end = data.find(b"\n", start) + 1
            if end == 0:
                self.skipped.append((self.line_no, self.offset, len(data) - start))
                self.inside_line = True
                return b""
            self._skipped(end - start)
            data = data[end:]
        return data

    def _long_line(self, data: bytes) -> int:
        """Where the first line begins that is too long; -1 if there is none."""
        limit, start = self.limits.max_line_bytes, 0
        while len(data) - start > limit:
            newline = data.rfind(b"\n", start, start + limit + 1)
            if newline < 0:
                return start
            start = newline + 1
        return -1

    def _skipped(self, length: int) -> None:
        self.skipped.append((self.line_no, self.offset, length))
        self.offset += length
        self.line_no += 1

    def _block(self, data: bytes) -> Block:
        block = Block(data, self.offset, self.line_no, tuple(self.skipped))
        self.offset += len(data)
        self.line_no += count_lines(data)
        self.skipped.clear()
        return block
