"""Wrappers: whatever was wrapped comes out again, whole, in order, whatever the block size."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wrapped import HOSTS, KINDS, STAMP_NS, Pairs, compose, cri, docker, grep, ray

from ingest.blocks import Block, read_blocks
from ingest.limits import Limits
from ingest.records import Line
from ingest.wrappers import PLAIN, Wrapper, detect_wrapper
from ingest.wrapping.clean import clean

ENGINE = [
    b"[2026-01-02 03:04:05 DP1 TP5 EP5] Decode batch, #running-req: 12, token usage: 0.12, ",
    b"[2026-01-02 03:04:05] server_args=ServerArgs(model_path='x | y', port=30000)",
    b'[2026-01-02 03:04:05] {"timestamp": "2026-01-02T03:04:05.1", "event": "request.received"}',
    b'{"timestamp": "2026-01-02T03:04:05.104211", "event": "request.finished", "rid": "a"}',
    b"2026-01-02 03:04:05  INFO http_request{method=POST}: smg::request: started | finished",
    b"I0102 03:04:05.758273 26021 transfer_engine_impl.cpp:21] Transfer Engine",
]
OTHER = [b"Traceback (most recent call last):", b'  File "x.py", line 3, in <module>', b"", b" ",
         b"ValueError: a: b", b"\tat x", "größe 消息".encode()]
odd = st.binary(max_size=40).filter(
    lambda raw: b"\n" not in raw and b"\x1b" not in raw and not raw.startswith(b"\r"))
engine_lines = st.sampled_from(ENGINE)
log_lines = st.lists(
    st.one_of(engine_lines, engine_lines, st.sampled_from(OTHER), odd), min_size=1, max_size=25,
).map(lambda lines: [raw for raw in lines if clean(raw) == raw] + ENGINE[:2])


def peel(data: bytes, block_bytes: int = 1 << 23, wrapper: Wrapper | None = None) -> list[Line]:
    wrapper = wrapper or detect_wrapper(data)
    out: list[Line] = []
    for block in read_blocks(io.BytesIO(data), Limits(block_bytes=block_bytes)):
        out += wrapper.peel(block)
    return out + list(wrapper.flush())


def by_stream(lines: Iterable[Line]) -> dict[str, list[bytes]]:
    out: dict[str, list[bytes]] = {}
    for line in lines:
        out.setdefault(line.stream, []).append(line.raw)
    return out


def spelled(lines: list[bytes], spelling: str, dice: random.Random) -> Pairs:
    return [(spelling % dice.choice(HOSTS) if spelling else "", line) for line in lines]


@pytest.mark.parametrize("name", KINDS)
@given(lines=log_lines, seed=st.integers(0, 1000), block=st.integers(1, 400))
@settings(max_examples=60, deadline=None)
def test_wrapped_lines_come_back(name: str, lines: list[bytes], seed: int, block: int) -> None:
    wrap, spelling, textual, timed = KINDS[name]
    dice = random.Random(seed)
    if textual:
        lines = [line.decode("utf-8", "replace").encode() for line in lines]
    if name in ("cri", "loki-tsv", "stamp", "grep", "journal-text"):
        # A trailing CR belongs to the line end; a line that is a stamp or number again is none.
        lines = [line for line in lines if not line[:1].isdigit() or line[:4] == b"2026"]
    pairs = spelled(lines, spelling, dice)
    data = wrap(pairs, dice)
    assert detect_wrapper(data).name == name
    peeled = peel(data, block)
    assert [(line.stream, line.raw) for line in peeled] == list(pairs)
    assert len({(line.stream, line.byte_offset) for line in peeled}) == len(peeled)
    assert [line.byte_offset for line in peeled] == sorted(line.byte_offset for line in peeled)
    for line in peeled:
        assert 0 <= line.byte_offset < len(data)
        assert line.line_no == 1 + data[: line.byte_offset].count(b"\n")
        if timed:
            assert line.outer_ns is not None
            assert abs(line.outer_ns - STAMP_NS) < 1_000_000


@given(lines=log_lines, block=st.integers(1, 400), ends=st.sampled_from([b"\n", b"\r\n"]),
       bom=st.booleans())
@settings(max_examples=200, deadline=None)
def test_plain_lines_come_back(lines: list[bytes], block: int, ends: bytes, bom: bool) -> None:
    data = b"\xef\xbb\xbf" * bom + ends.join(lines) + ends
    assert detect_wrapper(data).name == PLAIN
    peeled = peel(data, block)
    assert [line.raw for line in peeled] == lines
    at = 0
    for number, line in enumerate(peeled, 1):
        assert (line.line_no, line.stream, line.outer_ns) == (number, "", None)
        assert line.byte_offset == at
        at = data.index(b"\n", at) + 1


NESTED = {
    "compose+cri": lambda pairs, dice: compose(_each(cri, pairs, dice), dice),
    "grep+cri": lambda pairs, dice: grep(_each(cri, pairs, dice), dice),
    "cri+ray": lambda pairs, dice: cri(
        _each(ray, [(f"pid=1 ip={s}", line) for s, line in pairs], dice), dice),
    "docker+compose": lambda pairs, dice: docker(_each(compose, pairs, dice), dice),
    "compose+docker": lambda pairs, dice: compose(_each(docker, pairs, dice), dice),
    "grep+compose+cri": lambda pairs, dice: grep(
        _each(compose, [p for part in pairs for p in _each(cri, [part], dice)], dice), dice),
}


def _each(wrap: object, pairs: Pairs, dice: random.Random) -> Pairs:
    """Each line wrapped by itself, still under its stream."""
    return [(stream, row) for stream, line in pairs
            for row in wrap([(stream, line)], dice).splitlines()]  # type: ignore[operator]


@pytest.mark.parametrize("name", NESTED)
@given(lines=st.lists(st.sampled_from(ENGINE + OTHER[:4]), min_size=3, max_size=20),
       seed=st.integers(0, 1000), block=st.integers(1, 300))
@settings(max_examples=40, deadline=None)
def test_wrappers_nest(name: str, lines: list[bytes], seed: int, block: int) -> None:
    dice = random.Random(seed)
    pairs = [(dice.choice(["a.log", "b.log"]), line) for line in [*ENGINE[:3], *lines]]
    data = NESTED[name](pairs, dice)
    assert detect_wrapper(data).name == name
    peeled = by_stream(peel(data, block))
    streams: dict[str, list[bytes]] = {}
    for stream, line in pairs:
        streams.setdefault(stream, []).append(line)
    assert list(peeled.values()) == list(streams.values())
    assert all(any(stream in name for name in peeled) for stream in streams)


def test_interleaved_pieces_of_two_channels_and_containers() -> None:
    stamp = b"2026-01-02T03:04:05.1Z"
    data = b"".join([
        b"p-1  | " + stamp + b" stderr P [2026-01-02 03:04:05] one ",
        b"\nd-1  | " + stamp + b" stderr P [2026-01-02 03:04:05] two ",
        b"\np-1  | " + stamp + b" stdout F [2026-01-02 03:04:05] three",
        b"\np-1  | " + stamp + b" stderr P goes ",
        b"\nd-1  | " + stamp + b" stderr F on",
        b"\np-1  | " + stamp + b" stderr F on\n",
    ])
    peeled = peel(data, 30)
    assert [(line.stream, line.raw, line.line_no) for line in peeled] == [
        ("p-1", b"[2026-01-02 03:04:05] three", 3),
        ("d-1", b"[2026-01-02 03:04:05] two on", 2),
        ("p-1", b"[2026-01-02 03:04:05] one goes on", 1)]


def test_unfinished_pieces_are_pending_then_flushed() -> None:
    stamp = b"2026-01-02T03:04:05.1Z stderr "
    data = b"".join([stamp + b"F [1] a\n", stamp + b"P [2] b\n", stamp + b"P c\n"])
    wrapper = detect_wrapper(data)
    assert wrapper.pending() is None
    lines = list(wrapper.peel(Block(data, 1000, 7)))
    assert [line.raw for line in lines] == [b"[1] a"]
    assert wrapper.pending() == (1000 + data.index(b"\n") + 1, 8)
    [last] = wrapper.flush()
    assert (last.raw, last.line_no) == (b"[2] bc", 8)
    assert wrapper.pending() is None


@pytest.mark.parametrize("name", KINDS)
@given(lines=log_lines, seed=st.integers(0, 1000), data=st.data())
@settings(max_examples=25, deadline=None)
def test_reading_on_from_the_pending_place_gives_the_same(
    name: str, lines: list[bytes], seed: int, data: st.DataObject
) -> None:
    """A file that has grown is continued from ``pending``, or from the end of its whole lines."""
    wrap, spelling, _, _ = KINDS[name]
    dice = random.Random(seed)
    lines = [line.decode("utf-8", "replace").encode() for line in lines]
    whole = wrap(spelled(lines, spelling, dice), dice)
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    cut = data.draw(st.sampled_from(ends))
    first, second = detect_wrapper(whole), detect_wrapper(whole)
    before = list(first.peel(Block(whole[:cut], 0, 1)))
    at, line_no = first.pending() or (cut, 1 + whole[:cut].count(b"\n"))
    rest = list(second.peel(Block(whole[at:], at, line_no))) + list(second.flush())
    joined = [line for line in before if line.byte_offset < at] + rest
    key = [(line.byte_offset, line.stream, line.raw, line.line_no) for line in joined]
    assert sorted(key) == sorted(
        (line.byte_offset, line.stream, line.raw, line.line_no) for line in peel(whole))


def test_unwrapped_lines_between_wrapped_ones_pass() -> None:
    plain = [b"[2026-01-02 03:04:05] bare", b"plain | text", b'{"log": 3}', b'{"log":"cut']
    for name in ("cri", "docker", "ray", "loki-json", "journal-json", "kubectl"):
        wrap, spelling, _, _ = KINDS[name]
        dice = random.Random(1)
        wrapped = wrap(spelled(ENGINE, spelling, dice), dice)
        data = b"".join(row + b"\n" for row in plain) + wrapped
        assert detect_wrapper(data).name == name
        assert [line.raw for line in peel(data)] == plain + ENGINE


def test_hostile_pieces_do_not_fill_memory() -> None:
    row = b"2026-01-02T03:04:05.1Z stderr P " + b"x" * 65000 + b"\n"
    wrapper = detect_wrapper(row * 2)
    lines = [line for n in range(600) for line in wrapper.peel(Block(row, n * len(row), n + 1))]
    assert sum(len(line.raw) for line in lines) > 600 * 65000 - (17 << 20)
    assert all(len(line.raw) <= (16 << 20) + 65000 for line in lines)
    many = [b"c%d-1 | " % n + row for n in range(5000)]
    wrapper = detect_wrapper(b"".join(many[:50]))
    assert wrapper.name == "compose+cri"
    held = sum(1 for n, r in enumerate(many) for _ in wrapper.peel(Block(r, n * 70000, n + 1)))
    assert held > 4000


@pytest.mark.parametrize("name", KINDS)
def test_no_wrapper_is_slow_on_hostile_lines(name: str) -> None:
    wrap, spelling, _, _ = KINDS[name]
    dice = random.Random(2)
    wrapper = detect_wrapper(wrap(spelled(ENGINE, spelling, dice), dice))
    size = 1 << 20
    hostile = [b" " * size, b"**[" + b" " * size, b"(" + b"a " * (size // 2), b"a/" * (size // 2),
               b'{"log":"' + b"\\" * size, b"\x1b[" + b"0;" * (size // 2), b"\x1b]" * (size // 2),
               b'"' * size, b"{" * size, b"[" * size, b"a-" * (size // 2), b"1" * size,
               b'{"labels":' * (size // 10), b".log" * (size // 4), b'{"status":' + b'"\\' * size]
    start = time.process_time()
    for number, raw in enumerate(hostile):
        list(wrapper.peel(Block(raw + b"\n", number, 1)))
        detect_wrapper(raw)
    assert time.process_time() - start < 5
