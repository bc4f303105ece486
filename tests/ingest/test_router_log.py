"""Router logs: the three spellings, every event, wrapped lines, bodies that stay out."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from request_dialects import FIXTURES, known, lines_of, parse

from ingest.dispatch import parse_lines
from ingest.formats.router_log import LINE_FORMATS
from ingest.records import Batch, Line

FORMAT = LINE_FORMATS[0]
SPAN = 'http_request{method=POST uri=/generate version=HTTP/1.1 module="smg" request_id="gnt-A"}'
PD = f"{SPAN}: smg::routers::http::pd_router: src/routers/http/pd_router.rs:590: "


def _rows(name: str) -> list[dict[str, Any]]:
    lines = lines_of((FIXTURES / name).read_bytes())
    rows, rejects, claimed = parse(FORMAT, lines)
    assert rejects == []
    assert claimed == len(lines)
    return rows


def _one(text: str) -> dict[str, Any]:
    rows, rejects, _ = parse(FORMAT, [text])
    assert (len(rows), rejects) == (1, [])
    return known(rows[0])


def test_fixture_counts() -> None:
    assert Counter(row["event"] for row in _rows("router_log.0.3.2.log")) == {
        "server_start": 2, "started": 2, "finished": 2, "server_error": 2, "select_failed": 4,
        "decode_error": 2, "circuit_breaker": 2, "other": 3, "retry": 1, "dispatch": 1,
        "prefill_error": 2,
    }


def test_finished_request_in_full() -> None:
    row = next(row for row in _rows("router_log.0.3.2.log")
               if row["event"] == "finished" and row["path"] != "/health")
    assert row | {"line_no": 0, "byte_offset": 0} == {
        "stream": "", "line_no": 0, "byte_offset": 0, "stamp_ns": 1_796_097_601_000_000_000,
        "stamp_res_ns": 10**9, "outer_ns": None, "level": "INFO", "event": "finished",
        "request_id": "req-c0acc1b24dcc72bb", "method": "POST", "path": "/v1/chat/completions",
        "status_code": 200, "latency_us": 6085, "prefill_url": None, "decode_url": None,
        "reason": None,
    }


def test_start_names_every_worker() -> None:
    start = [known(row) for row in _rows("router_log.0.3.2.log") if row["event"] == "server_start"]
    shared = {"stamp_ns": 1_796_097_310_000_000_000, "stamp_res_ns": 10**9, "level": "INFO",
              "event": "server_start"}
    assert start == [
        shared | {"prefill_url": "http://127.0.0.1:31001", "reason": "bootstrap_port=8998"},
        shared | {"decode_url": "http://127.0.0.1:31002"},
    ]


def test_start_without_disaggregation() -> None:
    row = _one("2026-12-01 03:55:10  INFO smg::server: src/server.rs:794: Starting router on "
               '0.0.0.0:8000 | mode: Regular { worker_urls: ["http://a:1"] }')
    assert row["event"] == "server_start"
    assert "prefill_url" not in row
    assert "decode_url" not in row


def test_pd_messages() -> None:
    rows = {row["event"]: known(row) for row in _rows("router_log.0.3.2.log")}
    pair = {"prefill_url": "http://10.0.1.11:30000", "decode_url": "http://10.0.2.11:30001"}
    for event in ("retry", "dispatch"):
        assert {key: rows[event][key] for key in pair} == pair
    assert rows["select_failed"]["reason"] == (
        "No available prefill workers (all circuits open or unhealthy)")
    assert "status_code" not in rows["decode_error"]
    assert rows["decode_error"]["reason"] == "500 Internal Server Error"
    assert rows["decode_error"]["decode_url"] == "http://127.0.0.1:31002"
    assert rows["circuit_breaker"]["reason"] == "closed -> open"
    failed, refused = (
        known(row) for row in _rows("router_log.0.3.2.log") if row["event"] == "prefill_error")
    assert failed["prefill_url"] == refused["prefill_url"] == "http://10.0.1.11:30000"
    assert failed["reason"].startswith("error sending request for url (http://10.0.1.11")
    assert (refused.get("status_code"), refused["reason"]) == (None, "400 Bad Request")
    assert refused["request_id"] == "gnt-A"


def test_old_spelling() -> None:
    started, finished = (known(row) for row in _rows("router_log.0.1.9.log"))
    assert started["event"] == "started"
    assert started["stamp_ns"] == 1_756_714_353_250_907_000
    assert started["stamp_res_ns"] == 1000
    assert finished["request_id"] == "gnt-AAAA"
    assert (finished["status_code"], finished["latency_us"]) == (200, 2_041_450)


def test_json_mode() -> None:
    started, refused, failed = (known(row) for row in _rows("router_log.json.log"))
    assert started == {
        "stamp_ns": 1_767_323_045_123_456_000, "stamp_res_ns": 1000, "level": "INFO",
        "event": "started", "request_id": "gnt-B", "method": "POST", "path": "/generate"}
    assert (refused["event"], refused["status_code"], refused["latency_us"]) == (
        "client_error", 400, 2_376_544)
    assert (failed["event"], failed["reason"], failed["decode_url"], failed["request_id"]) == (
        "decode_error", "500 Internal Server Error", "http://10.0.2.11:30001", "gnt-C")


@pytest.mark.parametrize(("text", "ns", "width"), [
    ("2026-01-02 03:04:05", 1_767_323_045 * 10**9, 10**9),
    ("2026-01-02T03:04:05Z", 1_767_323_045 * 10**9, 10**9),
    ("2026-01-02T03:04:05.25Z", 1_767_323_045 * 10**9 + 250_000_000, 10**7),
    ("2026-01-02T03:04:05.123456789+00:00", 1_767_323_045_123_456_789, 1),
    ("2026-01-02T11:04:05+08:00", 1_767_323_045 * 10**9, 10**9),
    ("2026-01-01T22:04:05-0500", 1_767_323_045 * 10**9, 10**9),
])
def test_stamps(text: str, ns: int, width: int) -> None:
    row = _one(f"{text}  INFO {SPAN}: smg::request: src/m.rs:1: started processing request")
    assert (row["stamp_ns"], row["stamp_res_ns"]) == (ns, width)


@pytest.mark.parametrize(("latency", "us"), [
    ("2771043", 2_771_043), ("2.5s", 2_500_000), ("15.25ms", 15_250), ("415.5µs", 415),
    ("999ns", 0),
])
def test_latencies(latency: str, us: int) -> None:
    line = ("2026-01-02 03:04:05  INFO http_request{status_code=200 latency=" + latency +
            "}: smg::response: finished processing request")
    assert _one(line)["latency_us"] == us


def test_bodies_and_queries_stay_out() -> None:
    texts = [
        PD + "Prefill server returned error status prefill_url=http://a:1 status=400 Bad Request "
        'body={"text": "canary-words"}',
        PD + 'Decode request failed decode_url=http://a:1 error=bad: {"prompt": "canary-words"',
        "smg::x: src/x.rs:1: cannot parse payload: {'messages': 1} request=canary-words",
        SPAN.replace("/generate", "/generate?canary-words") +
        ": smg::request: src/m.rs:1: started processing request",
        PD + "Decode request failed decode_url=http://canary-words@a:1 error=x",
    ]
    for text in texts:
        row = _one(f"2026-01-02 03:04:05 ERROR {text}")
        assert "canary" not in repr(row)


def test_a_message_cannot_forge_the_span() -> None:
    row = _one("2026-01-02 03:04:05 ERROR " + PD + "Decode request failed decode_url=http://a:1 "
               'error=x request_id="forged" method=GET status_code=299')
    assert (row["request_id"], row["method"]) == ("gnt-A", "POST")
    assert "status_code" not in row
    quoted = SPAN.replace("gnt-A", r"a\" status_code=299 x=\"")
    row = _one(f"2026-01-02 03:04:05  INFO {quoted}: smg::request: started processing request")
    assert row["request_id"] == 'a" status_code=299 x="'
    assert "status_code" not in row


WRAPPED = ("2026-01-02 03:04:05 ERROR " + PD + "Decode server returned error status "
           "decode_url=http://10.0.2.11:30001 status=500 Internal Server Error")


@pytest.mark.parametrize("cut", range(40, WRAPPED.index(" status=500")))
def test_wrapped_line_gives_its_row(cut: int) -> None:
    batch = parse_lines([FORMAT], [Line(WRAPPED[:cut].encode(), 1, 0),
                                   Line(WRAPPED[cut:].encode(), 2, cut + 1)]).batch
    assert batch.rejects == []
    assert [(r["event"], r["decode_url"], r["status_code"], r["request_id"])
            for r in batch.rows["router_event"]] == [
        ("decode_error", "http://10.0.2.11:30001", None, "gnt-A")]


def test_complete_lines_take_no_tail() -> None:
    whole = Line(("2026-01-02 03:04:05  INFO " + SPAN +
                  ": smg::request: started processing request").encode(), 1, 0)
    assert not FORMAT.continues(whole, Line(b"some other text", 2, 200))
    cut = Line(whole.raw[:60], 1, 0)
    assert FORMAT.continues(cut, Line(b"rest", 2, 61))
    assert not FORMAT.continues(cut, Line(b"[2026-01-02 03:04:05] x", 2, 61))


@pytest.mark.parametrize("text", [
    "2026-01-02 03:04:05  INFO some_app::x: hello",
    "2026-12-01 03:44:33 NIXL INFO    logging.py:82 Log level set",
    "[2026-01-02 03:04:05] INFO: smg::x: y",
    '{"timestamp":"2026-01-02T03:04:05Z","level":"INFO","target":"other::x","message":"m"}',
    "", "smg::request: started processing request",
])
def test_foreign_lines(text: str) -> None:
    assert parse(FORMAT, [text]) == ([], [], 0)


def test_damage_is_a_reject_without_text() -> None:
    texts = ["2026-13-02 03:04:05  INFO smg::server: src/s.rs:1: Starting router on canary",
             "2026-01-02 03:04:05  INFO http_request{method=POST uri=canary",
             '{"timestamp":"2026-01-02T03:04:05Z","level":"INFO","target":"smg::x","message":canary']
    rows, rejects, claimed = parse(FORMAT, texts)
    assert (rows, claimed, len(rejects)) == ([], 3, 3)
    assert "canary" not in repr(rejects)


_PIECES = st.sampled_from([
    "2026-01-02 03:04:05  INFO ", "ERROR ", SPAN, "http_request{", "}: ", "smg::x: ", "a=", '"',
    "\\", "decode_url=", "status=500 ", "error=", "body={", "Starting router on ",
    "prefill_urls: [", '("http://a", Some(1)), ', "latency=1s", "status_code=9999999", "\0",
    "é", '{"timestamp":"',
    "Decode request failed ", "2026-01-02T03:04:05Z",
])


@given(st.lists(st.one_of(_PIECES, st.text(max_size=8)), max_size=20).map("".join))
def test_never_raises(text: str) -> None:
    batch = Batch()
    line = Line(text.encode("utf-8", "surrogatepass"), 1, 0)
    FORMAT.parse(line, batch)
    FORMAT.continues(line, Line(b"x", 2, 0))
    list(batch.arrow())


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_never_raises_on_bytes(head: bytes, tail: bytes) -> None:
    batch = Batch()
    for start in (b"", b"2026-01-02 03:04:05  INFO smg::x: ", SPAN.encode()):
        FORMAT.parse(Line(start + head + tail, 1, 0), batch)
        FORMAT.continues(Line(start + head, 1, 0), Line(tail, 2, 9))
    list(batch.arrow())
