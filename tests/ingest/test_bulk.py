"""The compiled scan against the grammar: the same rows on real, rendered and damaged lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ingest import bulk
from ingest.block_rows import BlockRows, finish_rows
from ingest.dispatch import Parsed, parse_lines
from ingest.formats.engine_log import EngineLog
from ingest.formats.uvicorn_access import UvicornAccess
from ingest.records import Line

TESTS = Path(__file__).parents[1]
REAL = (TESTS / "bench" / "fixtures" / "engine_mixed.log",
        *sorted((TESTS / "fixtures" / "late-write-0.5.18").glob("*.log")))
FORMATS = (EngineLog(), UvicornAccess())
FIRST_OFFSET = 7_000_000_000
FIRST_LINE = 41

Rows = dict[str, list[dict[str, Any]]]


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """A row that equals its like: NaN does not equal itself."""
    return {name: repr(value) if value != value else value for name, value in row.items()}


def facts(rows: BlockRows) -> tuple[Rows, dict[str, int], int]:
    """Rows per table, lines per format, other lines."""
    tables: Rows = {}
    for name, table in rows.tables:
        tables.setdefault(name, []).extend(map(comparable, table.to_pylist()))
    batch = rows.parsed.batch
    return tables, batch.formats, batch.other_lines


def by_grammar(data: bytes) -> tuple[Rows, dict[str, int], int]:
    """What the grammar alone makes of the lines."""
    lines, offset = [], FIRST_OFFSET
    raws = data.split(b"\n")
    for number, raw in enumerate(raws if raws[-1] else raws[:-1], FIRST_LINE):
        lines.append(Line(raw, number, offset))
        offset += len(raw) + 1
    return facts(finish_rows(parse_lines(FORMATS, lines, Parsed(tails={"": None}))))


def by_scan(data: bytes) -> tuple[Rows, dict[str, int], int]:
    """What the scan takes, and the grammar makes of the rest."""
    found = bulk.scan(data, FIRST_OFFSET, FIRST_LINE)
    rest = [Line(data[start:end], number, FIRST_OFFSET + start)
            for start, end, number in found.rest.tolist()]
    parsed = parse_lines(FORMATS, rest, Parsed(tails={"": None}))
    assert found.lines == len(rest) + sum(found.taken.values())
    parsed.batch.tables.extend(found.tables)
    for name, count in found.taken.items():
        parsed.batch.formats[name] = parsed.batch.formats.get(name, 0) + count
    return facts(finish_rows(parsed))


def taken(data: bytes) -> int:
    """Lines that the scan takes."""
    return sum(bulk.scan(data, 0, 1).taken.values())


digits = st.integers(0, 10**6).map(str)
sizes = st.one_of(digits, st.integers(2**31, 2**70).map(str))
reals = st.one_of(
    st.integers(0, 10**5).map(lambda n: f"{n / 100:.2f}"), digits,
    st.sampled_from(["nan", "inf", "1e3", "-0.5", "0.1234567890123456789", ".5", "5.", "", "1_0"]),
    st.floats(0, 1e9).map(repr))
rooms = st.one_of(st.integers(0, 2**62).map(str), st.integers(2**63 - 2, 2**64 + 2).map(str),
                  st.just("None"))
rids = st.one_of(st.uuids().map(lambda value: value.hex),
                 st.text("abc019-_.'\",() é\t", max_size=12))
booleans = st.sampled_from(["True", "False"])

PREFIXES = st.builds(
    "[{} {}{}{}] ".format,
    st.sampled_from(["2026-10-05", "2024-02-29", "2023-02-29", "1970-01-01", "2300-01-01"]),
    st.one_of(st.times().map(lambda time: f"{time:%H:%M:%S}"), st.just("23:59:60")),
    st.sampled_from(["", ".001", ".357", ",123", ".123456"]),
    st.sampled_from(["", " TP0", " DP0 TP0 EP0", " DP1 PP0 ATTN_CP1 MOE_DP0 TP12 EP3", " DP1 DP1",
                     " TP12345", " XP1"]))

# Keys of batch lines, version by version (0.5.9 to 0.5.23), full and hybrid pools.
USAGE = ("#token: {n}, token usage: {f}",
         "#full token: {n}, full token usage: {f}, #swa token: {n}, swa token usage: {f}")
BATCHES = (
    "Prefill batch, #new-seq: {n}, #new-token: {n}, #cached-token: {n}, token usage: {f}, "
    "#running-req: {n}, #queue-req: {n}, #prealloc-req: {n}, #inflight-req: {n}, "
    "input throughput (token/s): {f}",
    "Prefill batch, #new-seq: {n}, #new-token: {n}, #cached-token: {n}, token usage: {f}, "
    "#running-req: {n}, #queue-req: {n}, #pending-token: {n}, #bootstrap-req: {n}, "
    "#inflight-req: {n}, #optimistic-req: {n}, cuda graph: {b}, input throughput (token/s): {f}",
    "Prefill batch [{n}], #new-seq: {n}, #running-req: {n}",
    *("Decode batch, #running-req: {n}, " + usage + ", pre-allocated usage: {f}, #prealloc-req: "
      "{n}, #transfer-req: {n}, #retracted-req: {n}, cuda graph: {b}, gen throughput (token/s): "
      "{f}, #queue-req: {n}" for usage in USAGE),
    "Decode batch, #running-req: {n}, #token: {n}, token usage: {f}, accept len: {f}, "
    "accept rate: {f}, #host-receive-req: {n}, #queue-req: {n}, cpu graph: {b}",
    "Decode batch, #running-req: {n}, #running-req: {n}, #token: {n}",
    "Decode batch, #token: {n}, unknown key: {n}",
)
DURATIONS = (
    "bootstrap_queue_duration={f}ms, queue_duration={f}ms, forward_duration={f}ms, "
    "entry_time={f}, transfer_speed={f}GB/s, transfer_total={f}MB",
    "bootstrap_duration={f}ms, alloc_wait_duration={f}ms, transfer_duration={f}ms, "
    "queue_duration={f}ms, forward_duration={f}ms, entry_time=1791237607.087",
    "queue_duration={f}ms, forward_duration={f}ms, entry_time={f}, transfer_speed={f} GB/s, "
    "transfer_total={f} MB",
    "prealloc_queue_duration={f}ms, bootstrap_done_time={f}, forward_duration={f}ms, "
    "forward_duration={f}ms",
)
STATS = tuple(
    head + durations for durations in DURATIONS for head in (
        "Req Time Stats(rid={r}, bootstrap_room={room}, input len={n}, output len={n}, "
        "type=decode): ",
        "ReqTimeStats(rid={r}, bootstrap_room={room}, input_len={n}, cached_input_len={n}, "
        "output_len={n}, type=prefill): ",
        "ReqTimeStats(rid={r}, input_len={n}, cached_input_len={n}, output_len={n}, "
        "attempts={n}, type=unified): ",
        "ReqTimeStats(rid={r}, bootstrap_room={room}, input_len={n}, input_len={n}, type=other): ",
    ))
ACCESS = tuple(
    'INFO:     ' + host + ':{n} - "' + request + '" {n}' + tail
    for host in ("10.2.0.7", "[::1]", "fe80::1", "host_name.example")
    for request in ("POST /v1/chat/completions HTTP/1.1", "GET /health?a=b HTTP/1.0",
                    "get / HTTP/2", "GET /\u00e9 HTTP/1.1", "GET  / HTTP/1.1")
    for tail in ("", " OK", " Internal Server Error\r", "x"))
EVENTS = (
    *(words + " failed" + request + " rank={n} " + side + "req.rid='{r}' " + side
      + "req.bootstrap_room={room}" + tail
      for words in ("Decode transfer", "Decode handshake", "Prefill transfer", "Prefill bootstrap")
      for request in (" for request", "")
      for side in ("decode_req.", "")
      for tail in (
          "", " with exception KVTransferError(bootstrap_room={room}): Aborted by AbortReq.",
          " with exception KVTransferError(bootstrap_room={room}): text=['a'] {r}",
          " with exception KVTransferError(bootstrap_room={room}):  \u202espaces ",
          " with exception KVTransferError(bootstrap_room={room}): " + "long " * 90)),
    "Request is disconnected from the client side (type {n}). Abort request obj.rid='{r}'",
    'Request is disconnected from the client side (type {n}). Abort request obj.rid="{r}" more',
    "Request is disconnected from the client side (type {n}). Abort request obj.rid='{r}\"",
    "Deferred KV release for room {room} timed out after {f}s", "",
)


@st.composite
def rendered(draw: st.DrawFn, usual: bool = False) -> bytes:
    """One line; ``usual``: with nothing in it that a healthy engine would not print."""
    template = draw(st.sampled_from((*BATCHES, *STATS, *ACCESS, *EVENTS)))
    values = {"n": digits if usual else st.one_of(digits, sizes), "f": reals, "b": booleans,
              "r": rids, "room": rooms}
    parts = template.split("{")
    text = parts[0]
    for part in parts[1:]:
        name, _, rest = part.partition("}")
        text += draw(values[name]) + rest
    return (draw(PREFIXES) + text).encode()


@st.composite
def damaged(draw: st.DrawFn, lines: st.SearchStrategy[bytes]) -> bytes:
    """A line with a few bytes changed, cut, doubled or put in."""
    line = bytearray(draw(lines))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(line)))
        match draw(st.integers(0, 4)):
            case 0 if at < len(line):
                line[at] = draw(st.integers(0, 255).filter(lambda byte: byte not in (0, 10)))
            case 1:
                del line[at:]
            case 2:
                part = bytes(line).split(b", ")
                line[at:at] = b", " + part[draw(st.integers(0, len(part) - 1))]
            case 3:
                line[at:at] = draw(st.sampled_from(
                    [b"\r", b"\x1b[0m", "é".encode(), b"\xff", b"9" * 25, b" ", b",", b": ", b"'"]))
            case _:
                del line[at : at + draw(st.integers(1, 4))]
    return bytes(line)


REAL_LINES = [line for path in REAL for line in path.read_bytes().splitlines()
              if len(line) < 1000 and b"server_args=" not in line]
blocks = st.lists(
    st.one_of(rendered(usual=True), rendered(), damaged(rendered()),
              damaged(st.sampled_from(REAL_LINES))), min_size=1, max_size=12)


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_real_logs(path: Path) -> None:
    data = path.read_bytes()
    assert by_scan(data) == by_grammar(data)


def test_scan_takes_what_engines_print_most() -> None:
    data = REAL[0].read_bytes()
    assert taken(data) == data.count(b"\n")


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(blocks, st.booleans())
@example([b"[2026-10-05 22:00:03] INFO:     a:1 - \"GET / HTTP/1.1\" 200\r"], True)
@example([b"[2026-10-05 22:00:03] "], True)
@example([b""], False)
def test_same_rows_as_the_grammar(lines: list[bytes], ended: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    assert by_scan(data) == by_grammar(data)


@pytest.mark.parametrize("code", [b"\r", b"\x1b[0m", b"\0", b"\xc2\x85", b"\t"])
def test_no_line_is_taken_that_is_cleaned_first(code: bytes) -> None:
    line = b'[2026-10-05 22:00:03] INFO:     10.0.0.1:80 - "GET / HTTP/1.1" 200 OK'
    assert taken(line) == 1
    for at in range(len(line) + 1):
        assert taken(line[:at] + code + line[at:]) == 0
