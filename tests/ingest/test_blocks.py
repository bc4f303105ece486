"""Blocks: nothing lost, numbers and offsets right, memory bounded, versions known by content."""

from __future__ import annotations

import hashlib
import io
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.blocks import (
    Block,
    Digest,
    count_lines,
    decode_evidence,
    encoding_of,
    read_blocks,
    same_prefix,
)
from ingest.errors import IngestError
from ingest.limits import Limits

SMALL = Limits(max_line_bytes=20, block_bytes=64)


class Dribble:
    """A stream that hands out a few bytes at a time, and may fail at the end."""

    def __init__(self, data: bytes, step: int, failure: Exception | None = None) -> None:
        self._source = io.BytesIO(data)
        self._step = step
        self._failure = failure

    def read(self, size: int = -1, /) -> bytes:
        data = self._source.read(self._step if size < 0 else min(size, self._step))
        if not data and self._failure is not None:
            raise self._failure
        return data


class Generated:
    """A stream of chunks that never stand in memory together."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int = -1, /) -> bytes:
        if not self._rest:
            self._rest = next(self._chunks, b"")
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def together(blocks: list[Block], start: int = 0) -> bytes:
    """The file again: data as it is, skipped lines as so many 'x'; fails on gaps and overlaps."""
    pieces = [(b.byte_offset, b.data) for b in blocks if b.data]
    pieces += [(at, b"x" * length) for b in blocks for _, at, length in b.skipped]
    out = b""
    for at, data in sorted(pieces):
        assert at == start + len(out)
        out += data
    return out


def expected(data: bytes, limit: int) -> bytes:
    """The file with every line that is too long turned to 'x', its line end included."""
    whole = [line + b"\n" for line in data.split(b"\n")]
    whole[-1] = whole[-1][:-1]
    return b"".join(
        b"x" * len(line) if len(line.removesuffix(b"\n")) > limit else line for line in whole)


lines = st.lists(
    st.one_of(st.binary(max_size=30), st.sampled_from([b"[a", b"  tail", b"{", b"\x1b[2m", b"7"])),
    max_size=40,
)


@given(lines, st.integers(1, 80), st.integers(1, 50), st.integers(1, 70), st.booleans())
@settings(max_examples=400, deadline=None)
def test_blocks_and_skipped_lines_are_the_file(
    parts: list[bytes], block: int, line: int, step: int, ends: bool
) -> None:
    data = b"\n".join(parts) + (b"\n" if ends else b"")
    limits = Limits(max_line_bytes=line, block_bytes=block)
    digest = Digest()
    blocks = list(read_blocks(Dribble(data, step), limits, start_offset=7, start_line=3,
                              digest=digest))
    assert together(blocks, 7) == expected(data, line)
    assert digest.hexdigest() == hashlib.sha256(data).hexdigest()
    assert [b.final for b in blocks] == [False] * (len(blocks) - 1) + [True]
    assert blocks[-1].unterminated == (bool(data) and not data.endswith(b"\n"))
    for b in blocks[:-1]:
        assert b.data.endswith(b"\n")
        assert not b.unterminated
    for b in blocks:
        assert len(b.data) <= block + block // 2 + line + 1
        assert b.first_line_no == 3 + data[:b.byte_offset - 7].count(b"\n")
        for line_no, at, length in b.skipped:
            assert line_no == 3 + data[:at - 7].count(b"\n")
            assert at + length <= b.byte_offset or (b.unterminated and at == b.byte_offset)
            cut = data[at - 7 : at - 7 + length]
            assert len(cut.removesuffix(b"\n")) > line
            assert b"\n" not in cut[:-1]


def test_cut_keeps_tails_with_their_record() -> None:
    data = b"[1] a\n  tail\n[2] b\n  tail\n  tail\n[3]"
    limits = Limits(block_bytes=30)
    first = next(read_blocks(io.BytesIO(data), limits))
    assert first.data == b"[1] a\n  tail\n"
    # Without a record start near, the last line end has to do.
    tails = b"  tail\n" * 20
    assert next(read_blocks(io.BytesIO(tails), limits)).data == b"  tail\n" * 4


def test_empty_file_and_continuation_at_the_end() -> None:
    assert list(read_blocks(io.BytesIO(b""), SMALL)) == [Block(b"", 0, 1, (), True, False)]
    assert list(read_blocks(io.BytesIO(b""), SMALL, start_offset=9, start_line=4)) == [
        Block(b"", 9, 4, (), True, False)]


def test_long_last_line_without_newline_is_read_again_from_its_start() -> None:
    blocks = list(read_blocks(io.BytesIO(b"ok\n" + b"y" * 100), SMALL))
    assert blocks == [Block(b"ok\n", 0, 1), Block(b"", 3, 2, ((2, 3, 100),), True, True)]
    blocks = list(read_blocks(io.BytesIO(b"ok\n" + b"y" * 300 + b"\n"), SMALL))
    assert blocks == [Block(b"ok\n", 0, 1), Block(b"", 304, 3, ((2, 3, 301),), True, False)]


def test_what_was_readable_comes_before_the_error() -> None:
    blocks: list[Block] = []
    stream = Dribble(b"one\ntwo\nthr", 4, IngestError("it ends early"))
    with pytest.raises(IngestError, match="ends early"):
        blocks.extend(read_blocks(stream, SMALL))
    assert together(blocks) == b"one\ntwo\nthr"
    assert blocks[-1].final
    assert blocks[-1].unterminated


def test_line_of_200_mb_takes_bounded_memory() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"[first]\n"
        for _ in range(200):
            yield bytes(1 << 20).replace(b"\0", b"z")
        yield b"\n[last]\n"

    tracemalloc.start()
    blocks = list(read_blocks(Generated(chunks()), Limits()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [b.data for b in blocks] == [b"[first]\n", b"[last]\n"]
    assert blocks[1].skipped == ((2, 8, (200 << 20) + 1),)
    assert blocks[1].first_line_no == 3
    limits = Limits()
    assert peak < 2 * (limits.max_line_bytes + limits.block_bytes) + (4 << 20)


def test_count_lines() -> None:
    data = b"a\n\nb" * 300_000
    assert count_lines(data) == data.count(b"\n")
    assert count_lines(b"") == 0


@given(st.binary(max_size=9000), st.lists(st.integers(1, 5000), max_size=6))
@settings(max_examples=60, deadline=None)
def test_checkpoints_do_not_depend_on_how_the_bytes_come(data: bytes, cuts: list[int]) -> None:
    whole, parts = Digest(), Digest()
    whole.update(data)
    at = 0
    for cut in cuts:
        parts.update(memoryview(data)[at : at + cut])
        at += cut
    parts.update(data[at:])
    assert whole.checkpoints() == parts.checkpoints()
    assert whole.hexdigest() == parts.hexdigest() == hashlib.sha256(data).hexdigest()
    assert len(whole.checkpoints()) == len(data) // 4096 * 8


@pytest.mark.parametrize(
    ("differs_at", "proven"),
    [(0, 0), (4095, 0), (4096, 4096), (8191, 4096), ((1 << 20) - 1, (1 << 20) - 4096),
     (1 << 20, 1 << 20), ((1 << 20) + 65535, 1 << 20), ((1 << 20) + 65536, (1 << 20) + 65536)],
)
def test_same_prefix_is_what_is_proven(differs_at: int, proven: int) -> None:
    data = bytes(range(256)) * 5000
    other = bytearray(data)
    other[differs_at] ^= 1
    first, second = Digest(), Digest()
    first.update(data)
    second.update(bytes(other))
    assert same_prefix(first.checkpoints(), second.checkpoints()) == proven
    assert same_prefix(first.checkpoints(), first.checkpoints()) == (1 << 20) + (
        (len(data) - (1 << 20)) // 65536 * 65536)
    assert same_prefix(first.checkpoints(), b"") == 0


def test_a_grown_file_shares_its_whole_beginning() -> None:
    data = bytes(range(256)) * 64
    short, long = Digest(), Digest()
    short.update(data)
    long.update(data + b"more" * 5000)
    assert same_prefix(short.checkpoints(), long.checkpoints()) == len(data)


TEXT = "[2026-01-02 03:04:05] Grüße 消息\nzwei\n"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [(TEXT.encode(), "utf-8"), (b"", "utf-8"), (TEXT.encode("utf-16"), "utf-16-le"),
     (b"\xfe\xff" + TEXT.encode("utf-16-be"), "utf-16-be"),
     (("plain ascii text\n" * 9).encode("utf-16-le"), "utf-16-le"),
     (("plain ascii text\n" * 9).encode("utf-16-be"), "utf-16-be"),
     (bytes(range(256)) * 3 + bytes(200), "binary"), (TEXT.encode("utf-32"), "binary")],
)
def test_encodings_are_recognised(data: bytes, encoding: str) -> None:
    assert encoding_of(data) == encoding


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.integers(4, 50),
       st.booleans())
@settings(max_examples=100, deadline=None)
def test_utf_16_is_read_as_utf_8(text: str, step: int, big: bool) -> None:
    bom, codec = (b"\xfe\xff", "utf-16-be") if big else (b"\xff\xfe", "utf-16-le")
    stream = decode_evidence(io.BytesIO(bom + text.encode(codec)))
    out = b""
    while part := stream.read(step):
        assert len(part) <= step
        out += part
    # What looks like the mark of another encoding is not taken for this one.
    if encoding_of(bom + text.encode(codec)) == codec:
        assert out == ("\ufeff" + text).encode()


def test_mixed_encodings_in_one_file_pass_as_bytes() -> None:
    data = "[1] größe\n".encode() + "[2] größe\n".encode("latin-1") + b"[3] \xff\xfe\n"
    blocks = list(read_blocks(decode_evidence(io.BytesIO(data)), Limits()))
    assert b"".join(b.data for b in blocks) == data


def test_broken_utf_16_is_replaced() -> None:
    stream = decode_evidence(io.BytesIO(b"\xff\xfe" + "ab\n".encode("utf-16-le") + b"c"))
    assert b"".join(iter(lambda: stream.read(9), b"")) == "\ufeffab\n\ufffd".encode()
