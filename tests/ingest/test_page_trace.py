"""Page traces: extents, headers, restarts, counts, damage."""

from __future__ import annotations

import json
from typing import Any

import pytest
from document_rows import read
from hypothesis import given
from hypothesis import strategies as st
from request_dialects import FIXTURES

from ingest.formats import page_trace
from ingest.formats.page_trace import DOCUMENT_FORMATS, NO_HEADER
from ingest.records import Match

FORMAT = DOCUMENT_FORMATS[0]
HEADER = b'{"schema":"kv-page-trace/1","host":"h","role":"decode","dp_rank":1,"session":"s"}\n'
EVENT = b'{"t":5,"ev":"alloc","room":7,"pages":[[1,2]]}\n'


def _rows(data: bytes) -> tuple[list[dict[str, Any]], list[str]]:
    return read(FORMAT, data, "page_event")[:2]


@pytest.mark.parametrize("name", ["decode", "prefill", "counts"])
def test_fixtures(name: str) -> None:
    data = (FIXTURES / f"page_trace.{name}.jsonl").read_bytes()
    assert FORMAT.sniff(data, "x") == Match(0.98, "kv-page-trace/1")
    rows, rejects = _rows(data)
    assert rejects == []
    header, *events = [json.loads(line) for line in data.splitlines()]
    assert rows[0]["ev"] == "header"
    assert json.loads(rows[0]["attrs"]) == header
    assert {(row["host"], row["role"], row["dp_rank"], row["session"]) for row in rows} == {
        (header["host"], header["role"], header["dp_rank"], header.get("session"))}
    expected = [
        (number, event["t"], event["ev"], event.get("room"), event.get("rid"), extent_no, *extent,
         event.get("tokens"), event.get("why"), event.get("chunk"), event.get("dst_session"),
         event.get("ok"))
        for number, event in enumerate(events, 1)
        for extent_no, extent in enumerate(event.get("pages", [[None, event.get("n_pages")]]))
    ]
    keys = ("event_no", "t_ns", "ev", "room", "rid", "extent_no", "start_page", "n_pages",
            "tokens", "why", "chunk", "dst_session", "ok")
    assert [tuple(row[key] for key in keys) for row in rows[1:]] == expected


def test_one_row_in_full() -> None:
    rows, rejects = _rows(HEADER + b'{"t":5,"ev":"send_end","room":18446744073709551615,"rid":"r",'
                          b'"pages":[[1,2],[9,1]],"tokens":3,"chunk":0,"dst_session":"d","ok":false,'
                          b'"unknown":{"x":[1]}}\n')
    assert rejects == []
    assert rows[2] == {
        "stream": "", "line_no": 2, "byte_offset": len(HEADER), "stamp_ns": None,
        "stamp_res_ns": None, "outer_ns": None, "host": "h", "role": "decode", "dp_rank": 1,
        "session": "s", "event_no": 1, "t_ns": 5, "ev": "send_end", "room": 2**64 - 1, "rid": "r",
        "extent_no": 1, "start_page": 9, "n_pages": 1, "tokens": 3, "why": None, "chunk": 0,
        "dst_session": "d", "ok": False, "attrs": None}


def test_step_and_merge_keep_their_numbers() -> None:
    rows, _ = _rows((FIXTURES / "page_trace.counts.jsonl").read_bytes())
    assert [(row["ev"], row["n_pages"], row["attrs"]) for row in rows[1:]] == [
        ("alloc", 28, None),
        ("step", None, '{"bs":3,"growth":[6420809741411713570,9223372036854775807]}'),
        ("merge", None, '{"free":71}')]


def test_no_pages_and_empty_pages_differ() -> None:
    rows, _ = _rows(HEADER + b'{"t":5,"ev":"free","room":7}\n{"t":5,"ev":"free","pages":[]}\n')
    assert [(row["start_page"], row["n_pages"]) for row in rows[1:]] == [(None, None), (None, 0)]


def test_events_without_header_are_kept_and_said() -> None:
    rows, rejects = _rows(EVENT + EVENT)
    assert [(row["host"], row["event_no"]) for row in rows] == [(None, 0), (None, 1)]
    assert rejects == [NO_HEADER]
    rows, rejects = _rows(EVENT + HEADER + EVENT)
    assert [(row["host"], row["ev"]) for row in rows] == [
        (None, "alloc"), ("h", "header"), ("h", "alloc")]
    assert rejects == [NO_HEADER]


def test_every_header_starts_a_boot() -> None:
    other = HEADER.replace(b'"h"', b'"i"')
    rows, rejects = _rows(HEADER + EVENT + other + other + EVENT)
    assert rejects == []
    assert [(row["ev"], row["host"], row["event_no"]) for row in rows] == [
        ("header", "h", 0), ("alloc", "h", 1), ("header", "i", 2), ("header", "i", 3),
        ("alloc", "i", 4)]


@pytest.mark.parametrize(("header", "reason"), [
    (b'{"schema":"kv-page-trace/2","host":"h"}', "a header of another schema or version"),
    (b'{"schema":"kv-page-trace/1","dp_rank":"0"}',
     "header: a field has the wrong type: dp_rank"),
    (b'{"schema":"kv-page-trace/1","dp_rank":70000}', "header: dp_rank is out of range"),
])
def test_header_that_cannot_be_used(header: bytes, reason: str) -> None:
    rows, rejects = _rows(HEADER + header + b"\n" + EVENT)
    assert rejects == [reason, NO_HEADER]
    assert [(row["ev"], row["host"], row["attrs"] is None) for row in rows] == [
        ("header", "h", False), ("header", None, True), ("alloc", None, True)]


@pytest.mark.parametrize(("bad", "reason"), [
    (b'{"t":5,"ev":"alloc","room":1.8e18}', "a field has the wrong type: room"),
    (b'{"t":5,"ev":"alloc","room":18446744073709551616}', "room does not fit 64 bits"),
    (b'{"t":5,"ev":"alloc","room":-1}', "room does not fit 64 bits"),
    (b'{"t":5,"ev":"alloc","room":"x1"}', "room is not a whole number"),
    (b'{"t":9223372036854775808,"ev":"alloc"}', "a number does not fit 64 bits"),
    (b'{"t":5,"ev":"alloc","pages":[[1,0]]}', "a page extent is out of range"),
    (b'{"t":5,"ev":"alloc","pages":[[-1,1]]}', "a page extent is out of range"),
    (b'{"t":5,"ev":"alloc","pages":[[1,99999999999999999999]]}', "a page extent is out of range"),
    (b'{"t":5,"ev":"alloc","pages":[[1]]}', "a field has the wrong type: pages[0]"),
    (b'{"t":5,"ev":"alloc","chunk":2147483648}', "chunk does not fit 32 bits"),
    (b'{"t":5,"room":1}', "no event name"),
    (b'{"t":5,"ev":"' + b"x" * 600 + b'"}', "a text is too long"),
    (b'{"t":5,"ev":"alloc","ro', "malformed JSON"), (b"\xff\xfe", "malformed JSON"),
    (b"[1]", "a field has the wrong type: the line"),
])
def test_bad_events_are_rejects_and_the_rest_goes_on(bad: bytes, reason: str) -> None:
    rows, rejects = _rows(HEADER + EVENT + bad + b"\n" + EVENT)
    assert rejects == [reason]
    assert [(row["ev"], row["event_no"], row["line_no"]) for row in rows] == [
        ("header", 0, 1), ("alloc", 1, 2), ("alloc", 2, 4)]


def test_room_written_as_text() -> None:
    rows, rejects = _rows(HEADER + b'{"t":5,"ev":"alloc","room":"9065936072733175441"}\n')
    assert (rows[1]["room"], rejects) == (9065936072733175441, [])


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    data = (FIXTURES / "page_trace.decode.jsonl").read_bytes()
    whole = _rows(data)
    monkeypatch.setattr(page_trace, "CHUNK_LINES", 3)
    assert _rows(data) == whole
    # Blank lines and a cut end take the slow way to the same rows.
    cut = data.replace(b"\n", b"\r\n\r\n") + b'{"t":1,"ev'
    rows, rejects = _rows(cut)
    assert rejects == ["malformed JSON"]
    assert [{**row, "line_no": 0, "byte_offset": 0} for row in rows] == [
        {**row, "line_no": 0, "byte_offset": 0} for row in whole[0]]


def test_rejects_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_trace, "MAX_REJECTS", 3)
    _, rejects, other = read(FORMAT, HEADER + b"x\n" * 9, "page_event")
    assert rejects == ["malformed JSON"] * 2 + ["too many bad lines; the rest is not listed"]
    assert other == 6


@pytest.mark.parametrize(("head", "known"), [
    (HEADER, True), (b"\xef\xbb\xbf" + HEADER, True), (EVENT, True),
    (b'ms":5}\n' + EVENT, True), (b'{"t":5,"ev":"other"}\n', False), (b"", False),
    (b'{"schema":"palimpsest/response/1"}\n', False), 
    (b'{"x": {"schema":"kv-page-trace/1"}}', False),
])
def test_sniff(head: bytes, known: bool) -> None:
    assert (FORMAT.sniff(head, "kv-page-trace.jsonl") is not None) == known


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text()),
    lambda inner: st.lists(inner, max_size=3), max_leaves=6)
_KEYS = ("t", "ev", "room", "rid", "pages", "n_pages", "tokens", "why", "chunk", "dst_session",
         "ok", "bs", "growth", "free", "schema", "line", "host", "dp_rank", "session")


@given(st.lists(st.dictionaries(st.sampled_from(_KEYS), _VALUES), max_size=6), st.binary())
def test_never_raises(events: list[dict[str, Any]], noise: bytes) -> None:
    data = HEADER + b"".join(json.dumps(event).encode() + b"\n" for event in events) + noise
    FORMAT.sniff(data, "x")
    FORMAT.sniff(noise, "x")
    _rows(data)
    _rows(noise)
