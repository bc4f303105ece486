"""Scheduler status lines: who ran and who waited."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from request_dialects import PREFIX, STAMP_NS, lines_of, parse

from ingest.formats.scheduler_status import LINE_FORMATS
from ingest.records import Line

FORMAT = LINE_FORMATS[0]


def _status(prefix: str = PREFIX, **fields: Any) -> str:
    record = {"timestamp": "2026-12-01T04:22:17.669894", "event": "scheduler.status", **fields}
    return prefix + json.dumps(record)


def _facts(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["line_no"], row["rank"], row["state"], row["rid"]) for row in rows]


def test_one_row_per_request() -> None:
    line = _status(rank=3, running_rids=["a", "b"], queued_rids=["c"])
    rows, rejects, claimed = parse(FORMAT, [line])
    assert (claimed, rejects) == (1, [])
    assert rows[0] == {
        "stream": "", "line_no": 1, "byte_offset": 0, "outer_ns": None,
        "stamp_ns": STAMP_NS + 669_894_000, "stamp_res_ns": 1000,
        "rank": "3", "state": "running", "rid": "a",
    }
    assert _facts(rows) == [
        (1, "3", "running", "a"), (1, "3", "running", "b"), (1, "3", "queued", "c")]


def test_a_moment_without_requests_is_on_record() -> None:
    rows, rejects, _ = parse(FORMAT, [_status("", rank=0, running_rids=[], queued_rids=[])])
    assert (_facts(rows), rejects) == ([(1, "0", None, None)], [])
    assert rows[0]["stamp_res_ns"] == 1000


def test_damage_is_a_reject() -> None:
    whole = _status(rank=0, running_rids=["a"], queued_rids=[])
    odd = _status(rank=0, running_rids="a", queued_rids=[5, "b"])
    rows, rejects, claimed = parse(FORMAT, [whole[:-4], whole + "x", odd])
    assert claimed == 3
    assert _facts(rows) == [(2, "0", "running", "a"), (3, "0", "queued", "b")]
    assert [(reject.line_no, reject.reason) for reject in rejects] == [
        (1, "JSON is cut or malformed"), (2, "bytes behind the JSON object"),
        (3, "running_rids is not a list"), (3, "queued_rids holds something else than a rid"),
    ]


def test_crlf_bom_and_prefix_stamp() -> None:
    line = _status(running_rids=["a"]).replace("669894", "x")
    rows, rejects, _ = parse(FORMAT, lines_of(f"\ufeff{line}\r\n".encode()))
    assert rejects == []
    assert (rows[0]["stamp_ns"], rows[0]["stamp_res_ns"]) == (STAMP_NS, 10**9)
    assert _facts(rows) == [(1, None, "running", "a")]


@given(st.binary(max_size=120))
def test_any_bytes(raw: bytes) -> None:
    head = b'{"event": "scheduler.status", "running_rids": ["a", '
    for line in (raw, head + raw, head + raw + b'"], "rank": 1}'):
        parse(FORMAT, [Line(line, 1, 0)])


def test_foreign_lines_are_left_alone() -> None:
    foreign = ["", "{}", PREFIX + '{"timestamp": "x", "event": "request.received"}']
    assert parse(FORMAT, foreign) == ([], [], 0)
