"""Blocks parsed fast and slow give the same rows, counts and edges that a neighbour can use."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest

from ingest import block_rows
from ingest.block_rows import (
    BlockRows,
    Period,
    finish_rows,
    parse_block,
    parse_engine_block,
    parse_request_block,
)
from ingest.blocks import Block, read_blocks
from ingest.dispatch import parse_lines
from ingest.limits import Limits
from ingest.records import Batch, Line
from ingest.registry import registry
from ingest.wrappers import detect_wrapper

FORMATS = registry().lines
ENGINE = (
    b"[2025-09-29 08:12:31 TP0] Decode batch, #running-req: 3, #token: 1920, token usage: 0.01, "
    b"pre-allocated usage: 0.00, #prealloc-req: 0, #transfer-req: 1, #retracted-req: 0, "
    b"cuda graph: True, gen throughput (token/s): 85.31, #queue-req: 0",
    b'[2025-09-29 08:12:31] INFO:     10.2.0.7:53412 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    b"[2025-09-29 08:12:32 TP0] The server is fired up and ready to roll!",
    b"[2025-09-29 08:12:32 TP0] Load weight begin. avail mem=70.00 GB",
    b"2025-09-29 08:12:33 TP0] The server is fired up and ready to roll!",
    b"**[2025-09-29 08:12:33 TP0] The server is fired up and ready to roll!**",
    b"Traceback (most recent call last):",
    b'  File "x.py", line 3',
    b"",
    b"nul \0 byte",
    b"2025-09-29 08:12:33  INFO http_request{method=POST uri=/generate version=HTTP/1.1 "
    b'request_id="gnt-A"}: smg::request: src/middleware.rs:310: started processing request',
)
REQUEST = (
    b'[2025-09-29 08:12:33] {"timestamp": "2025-09-29T08:12:33.104211", "event": '
    b'"request.received", "rid": "c0ffee%d", "obj": {"rid": "c0ffee%d", "stream": true}}'
)


def _slow(block: Block) -> BlockRows:
    return finish_rows(parse_lines(FORMATS, detect_wrapper(b"").peel(block)))


def _facts(rows: BlockRows) -> dict[str, Any]:
    parsed = rows.parsed
    return {
        "rows": sorted((name, repr(row)) for name, table in rows.tables
                       for row in table.to_pylist()),
        "formats": parsed.batch.formats,
        "other": parsed.batch.other_lines,
        "orphans": parsed.orphans,
        "streams": set(parsed.tails),
        "period": rows.period,
    }


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_scan_and_formats_agree(seed: int, end: bytes) -> None:
    chance = random.Random(seed)
    lines = chance.choices(ENGINE, k=60)
    if seed % 3 == 0:
        lines.insert(20, b"\x1b[32m" + ENGINE[1] + b"\x1b[0m")
    data = (b"\xef\xbb\xbf" if seed % 4 == 1 else b"") + end.join(lines) + end * (seed % 2)
    offset = 0 if seed % 4 == 1 else 1000
    block = Block(data, offset, 7)
    fast = parse_engine_block(FORMATS, block)
    if fast is not None:
        assert _facts(finish_rows(fast)) == _facts(_slow(block))
        last = offset + len(data.rstrip(b"\r\n")) - len(lines[-1])
        claimed = [seen for seen in fast.recent if seen.byte_offset >= last and seen.format]
        slow = parse_lines(FORMATS, detect_wrapper(b"").peel(block))
        assert claimed == [s for s in slow.recent if s.byte_offset >= last and s.format]
    else:
        assert b"\x1b" in data or end == b"\r\n"


def test_scan_is_used_for_large_blocks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(block_rows, "KERNEL", "not loaded")
    monkeypatch.setattr(block_rows, "parse_engine_block",
                        lambda formats, block: calls.append(len(block.data)))
    line = ENGINE[1] + b"\n"
    parse_block(FORMATS, Block(line, 0, 1))
    large = line * (block_rows.BULK_BYTES // len(line) + 1)
    assert len(parse_block(FORMATS, Block(large, 0, 1)).tables) == 1
    assert calls == [len(large)]
    # Once the scan is loaded, smaller blocks are worth it.
    monkeypatch.setattr(block_rows, "KERNEL", "sys")
    parse_block(FORMATS, Block(line, 0, 1))
    small = line * (block_rows.LOADED_BULK_BYTES // len(line) + 1)
    parse_block(FORMATS, Block(small, 0, 1))
    assert calls == [len(large), len(small)]


@pytest.mark.parametrize("odd", [b"", b"noise\n", b"\x1b[1m\n", b'{"timestamp": "x"}\n'])
def test_request_block_and_formats_agree(odd: bytes) -> None:
    data = b"".join(REQUEST % (n, n) + b"\n" for n in range(40)) + odd + REQUEST % (99, 99)
    block = Block(data, 500, 3)
    assert _facts(parse_block(FORMATS, block)) | {"streams": None} == \
        _facts(_slow(block)) | {"streams": None}
    fast = parse_request_block(FORMATS, block)
    assert (fast is None) == (odd in (b"noise\n", b"\x1b[1m\n", b'{"timestamp": "x"}\n'))


def test_row_that_fits_no_column_is_a_reject_and_the_others_stay() -> None:
    batch = Batch()
    for number, port in enumerate([80, 2**40, "x", 443]):
        batch.add("access_line", Line(b"", number + 1, number), client_port=port)
    tables = dict(block_rows.arrow_tables(batch))
    assert tables["access_line"]["client_port"].to_pylist() == [80, 443]
    assert tables["reject"]["line_no"].to_pylist() == [2, 3]


def test_too_long_line_is_one_reject_wherever_the_block_ends() -> None:
    text = b"noise\n" + b"y" * 300 + b"\n" + ENGINE[1] + b"\n"
    counts = set()
    for size in (64, 200, 1000):
        blocks = list(read_blocks(io.BytesIO(text), Limits(block_bytes=size, max_line_bytes=200)))
        rows = [parse_block(FORMATS, block) for block in blocks]
        rejects = [row for r in rows for name, table in r.tables if name == "reject"
                   for row in table.to_pylist()]
        other = sum(r.parsed.batch.other_lines + len(r.parsed.orphans.get("", [])) for r in rows)
        counts.add((len(rejects), rejects[0]["line_no"], rejects[0]["byte_offset"], other))
    assert counts == {(1, 2, 6, 1)}


def test_period_names_the_collector_only_where_nothing_else_has_a_time() -> None:
    period = Period()
    assert (period.clock, period.bounds) == (None, (None, None))
    period.include("collector, utc", 5, 9)
    assert (period.clock, period.bounds) == ("collector, utc", (5, 9))
    period.include("utc", 6, 7)
    period.include("epoch", 2, 3)
    assert (period.clock, period.bounds) == ("epoch; utc", (2, 7))
