"""JSON request log lines: every event, level, version family, batch shape and kind of damage."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from request_dialects import (
    FIXTURES,
    HOSTILE,
    MAX_LENGTH,
    PREFIX,
    STAMP_NS,
    json_line,
    known,
    lines_of,
    parse,
)

from ingest.formats.request_log_json import LINE_FORMATS
from ingest.records import Line

FORMAT = LINE_FORMATS[0]
CANARY = "CANARY-5f1c"


@pytest.mark.parametrize(("version", "count"), [("0.5.18", 34), ("0.5.23", 30)])
def test_fixture_counts(version: str, count: int) -> None:
    data = (FIXTURES / f"request_log_json.{version}.log").read_bytes()
    rows, rejects, claimed = parse(FORMAT, lines_of(data))
    assert rejects == []
    assert claimed == len(rows) == count == data.count(b'"event": "request.')
    assert {row["event"] for row in rows} == {"received", "finished", "received_openai"}


def test_recorded_openai_and_finished_records_in_full() -> None:
    data = (FIXTURES / "request_log_json.0.5.18.log").read_bytes()
    rows, _, _ = parse(FORMAT, lines_of(data))
    by_time = {row["stamp_ns"]: known(row) for row in rows}
    assert by_time[1_796_099_196_474_432_000] == {
        "event": "received_openai", "fmt": "json", "prefixed": True, "model": "default",
        "stamp_ns": 1_796_099_196_474_432_000, "stamp_res_ns": 1000, "streaming": False,
        "room": 5_791_207_066_335_339_000, "bootstrap_host": "127.0.0.1", "bootstrap_port": 8998,
        "prompt_chars": 40, "max_new_tokens": 16,
    }
    finished = known(rows[-1]) if rows[-1]["event"] == "finished" else known(rows[-2])
    assert finished["finish_type"] in ("length", "abort")
    assert finished["request_finished_ns"] > finished["request_received_ns"] > STAMP_NS


def test_finished_record_in_full() -> None:
    obj = {
        "rid": "c0ffee", "session_id": None, "text": "abc", "input_ids": [5, 6, 7, 8],
        "sampling_params": {"temperature": 0, "max_new_tokens": 77}, "stream": True,
        "bootstrap_host": "10.0.0.1", "bootstrap_port": 8998, "bootstrap_room": 2**63 - 25,
        "routed_dp_rank": 3, "external_trace_header": {"traceparent": "00-ab-cd-01"},
        "routing_key": "user-42", "priority": 5, "custom_labels": {"team": "a"},
    }
    out = {
        "text": "xyz", "output_ids": [1, 2],
        "meta_info": {
            "id": "c0ffee",
            "finish_reason": {"type": "abort", "message": "Aborted by AbortReq.",
                              "status_code": 500, "err_type": None},
            "prompt_tokens": 4, "completion_tokens": 2, "cached_tokens": 1, "num_retractions": 1,
            "dp_rank": 1, "e2e_latency": 2.77, "request_received_ts": 1796099144.646827,
            "request_finished_ts": 1796099146.6516805, "response_sent_to_client_ts": 1796099146.25,
        },
    }
    headers = {"X-Request-ID": "req-42", "x-tenant": "t1", "authorization": "Bearer zzz"}
    rows, rejects, _ = parse(FORMAT, [json_line("request.finished", obj, headers, out)])
    assert rejects == []
    assert known(rows[0]) == {
        "event": "finished", "fmt": "json", "prefixed": True,
        "stamp_ns": STAMP_NS + 669_894_000, "stamp_res_ns": 1000,
        "rid": "c0ffee", "room": 2**63 - 25, "bootstrap_host": "10.0.0.1", "bootstrap_port": 8998,
        "x_request_id": "req-42", "routed_dp_rank": 3, "dp_rank": 1, "streaming": True,
        "keys": '{"custom_labels":{"team":"a"},"priority":5,"routing_key":"user-42",'
                '"x-tenant":"t1"}',
        "prompt_chars": 3, "prompt_ids": 4, "output_ids": 2, "prompt_tokens": 4,
        "completion_tokens": 2, "cached_tokens": 1, "num_retractions": 1, "finish_type": "abort",
        "finish_message": "Aborted by AbortReq.", "status_code": 500, "e2e_latency_s": 2.77,
        "request_received_ns": 1_796_099_144_646_827_000,
        "request_finished_ns": 1_796_099_146_651_680_500,
        "response_sent_ns": 1_796_099_146_250_000_000, "max_new_tokens": 77,
        "traceparent": "00-ab-cd-01",
    }


def test_bare_lines_and_whole_second_stamps() -> None:
    bare = json_line("request.received", {"rid": "a"}, prefix="", timestamp="2026-12-01T04:22:17")
    odd = json_line("request.received", {"rid": "b"}, timestamp="yesterday")
    gone = json_line("request.received", {"rid": "c"}, timestamp="yesterday", prefix="")
    rows, rejects, _ = parse(FORMAT, [bare, odd, gone])
    assert rejects == []
    stamps = [(r["rid"], r["prefixed"], r["stamp_ns"], r["stamp_res_ns"]) for r in rows]
    assert stamps[0] == ("a", False, STAMP_NS, 10**9)
    assert stamps[1] == ("b", True, STAMP_NS, 10**9)
    assert stamps[2] == ("c", False, None, None)


@pytest.mark.parametrize(
    ("room", "kept", "reason"),
    [
        (0, 0, None), (2**63 - 1, 2**63 - 1, None), (2**64 - 1, 2**64 - 1, None),
        ("4611686018427387905", 4611686018427387905, None), (None, None, None),
        (2**64, None, "bootstrap_room does not fit 64 bits"),
        (10**30, None, "bootstrap_room does not fit 64 bits"),
        (-1, None, "bootstrap_room does not fit 64 bits"),
        (4.0, None, "bootstrap_room is not a whole number"),
        (True, None, "bootstrap_room is not a whole number"),
        ("room", None, "bootstrap_room is not a whole number"),
    ],
)
def test_rooms_are_exact(room: Any, kept: int | None, reason: str | None) -> None:
    good = json_line("request.received", {"rid": "a", "bootstrap_room": 7})
    line = json_line("request.received", {"rid": "b", "bootstrap_room": room})
    rows, rejects, _ = parse(FORMAT, [good, line])
    assert [(row["rid"], row["room"]) for row in rows] == [("a", 7), ("b", kept)]
    assert [reject.reason for reject in rejects] == ([reason] if reason else [])


def test_batches_give_one_row_per_element() -> None:
    obj = {
        "rid": ["a", "b"], "bootstrap_room": [2**62, 2**62 + 1], "bootstrap_host": "10.0.0.1",
        "bootstrap_port": [8998, 8999], "text": ["x", "yyy"], "lora_path": ["l0", None],
        "sampling_params": [{"max_new_tokens": 1}, {"max_new_tokens": 2}], "stream": False,
        "input_ids": [[1, 2], [3]],
    }
    rows, rejects, _ = parse(FORMAT, [json_line("request.received", obj)])
    assert rejects == []
    names = ("sub_index", "rid", "room", "bootstrap_host", "bootstrap_port", "prompt_chars",
             "prompt_ids", "max_new_tokens", "keys")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (0, "a", 2**62, "10.0.0.1", 8998, 1, 2, 1, '{"lora_path":"l0"}'),
        (1, "b", 2**62 + 1, "10.0.0.1", 8999, 3, 1, 2, None),
    ]


def test_a_scalar_beside_a_list_is_shared_and_unequal_lists_are_not_paired() -> None:
    shared = json_line("request.received", {"rid": ["a", "b"], "bootstrap_room": 9})
    unequal = json_line("request.received", {"rid": ["c", "d"], "bootstrap_room": [1, 2, 3]})
    empty = json_line("request.received", {"rid": [], "bootstrap_room": []})
    rows, rejects, _ = parse(FORMAT, [shared, unequal, empty])
    found = [(row["line_no"], row["sub_index"], row["rid"], row["room"]) for row in rows]
    assert found == [
        (1, 0, "a", 9), (1, 1, "b", 9),
        (2, 0, "c", None), (2, 1, "d", None), (2, 0, None, 1), (2, 1, None, 2), (2, 2, None, 3),
        (3, None, None, None),
    ]
    assert [(r.line_no, r.reason) for r in rejects] == [
        (2, "rid and bootstrap_room differ in length")
    ]


def test_elided_values_have_unknown_length() -> None:
    obj = {"rid": "a", "text": "x" * 2049, "input_ids": list(range(2049))}
    out = {"output_ids": list(range(3000)), "meta_info": {"id": "a"}}
    rows, _, _ = parse(FORMAT, [
        json_line("request.finished", obj, out=out, limit=MAX_LENGTH),
        json_line("request.finished", obj, out=out),
    ])
    sizes = [(row["prompt_chars"], row["prompt_ids"], row["output_ids"]) for row in rows]
    assert sizes == [(None, None, None), (2049, 2049, 3000)]


def test_elided_batch_keeps_what_it_shows() -> None:
    rids = [f"r{i}" for i in range(2050)]
    whole = json_line(
        "request.received", {"rid": rids, "bootstrap_room": list(range(2050))}, limit=MAX_LENGTH
    )
    shown = whole.replace('"rid": [', '"rid": null, "was": [', 1)
    rows, rejects, _ = parse(FORMAT, [whole, shown])
    found = [(row["line_no"], row["sub_index"], row["rid"], row["room"]) for row in rows]
    assert [item for item in found if item[0] == 1] == [
        (1, i, f"r{i}", None if i in (1024, 1025) else i) for i in range(2050)
    ]
    assert [item for item in found if item[0] == 2] == [
        *((2, i, f"r{i}", i) for i in range(1024)),
        *((2, None, f"r{i}", i) for i in range(1026, 2050)),
    ]
    assert [reject.reason for reject in rejects] == ["batch list is elided"] * 2


def test_a_rid_that_cannot_be_kept_is_a_reject() -> None:
    lines = [json_line("request.received", {"rid": rid}) for rid in ("x" * 512, "x" * 513, 7, "")]
    rows, rejects, _ = parse(FORMAT, lines)
    assert [row["rid"] for row in rows] == ["x" * 512, None, None, None]
    assert [(reject.line_no, reject.reason) for reject in rejects] == [
        (2, "rid is too long or no text"), (3, "rid is too long or no text")]


def test_damage_is_a_reject_and_never_silent() -> None:
    whole = json_line("request.received", {"rid": "a", "text": CANARY})
    damaged = [
        whole[:-9], whole[:120], whole + "W1201 glog",
        whole.replace("request.received", "request.new"),
    ]
    rows, rejects, claimed = parse(FORMAT, damaged)
    assert claimed == 4
    assert [row["rid"] for row in rows] == ["a"]
    assert [(r.line_no, r.reason) for r in rejects] == [
        (1, "JSON is cut or malformed"), (2, "JSON is cut or malformed"),
        (3, "bytes behind the JSON object"), (4, "unknown request event"),
    ]
    assert CANARY not in repr(rejects)


def test_crlf_bom_and_glued_records() -> None:
    one = json_line("request.received", {"rid": "a"}, prefix="")
    two = json_line("request.received", {"rid": "b"})
    data = b"\xef\xbb\xbf" + f"{one}\r\n{two}{two}\r\n".encode()
    rows, rejects, _ = parse(FORMAT, lines_of(data))
    assert [row["rid"] for row in rows] == ["a", "b", "b"]
    assert rejects == []


def test_unusual_values_are_read_as_open_maps() -> None:
    nan = '{"timestamp": "2026-12-01T04:22:17", "event": "request.finished", "rid": "a", "obj": ' \
        '{"rid": "a", "score": -Infinity, "bootstrap_port": "8998", "stream": "yes"}, "out": ' \
        '{"meta_info": {"finish_reason": "stop", "e2e_latency": NaN, "prompt_tokens": 3.5, ' \
        '"x": "\\ud800"}}}'
    broken = json_line("request.received", {"rid": "b", "text": "\udcff"})
    rows, rejects, _ = parse(FORMAT, [nan, broken])
    assert rejects == []
    assert known(rows[0]) == {
        "event": "finished", "fmt": "json", "prefixed": False, "stamp_ns": STAMP_NS,
        "stamp_res_ns": 10**9, "rid": "a", "finish_type": "stop",
    }
    assert rows[1]["rid"] == "b"


@pytest.mark.parametrize(
    ("status", "kept"),
    [(400, 400), ("500", 500), ("HTTPStatus.BAD_REQUEST", 400), ("<HTTPStatus.OK: 200>", 200),
     ("HTTPStatus.NO_SUCH", None), (True, None), (7, None), (None, None)],
)
def test_status_codes(status: Any, kept: int | None) -> None:
    out = {"meta_info": {"id": "a", "finish_reason": {"type": "abort", "status_code": status}}}
    rows, _, _ = parse(FORMAT, [json_line("request.finished", {"rid": "a"}, out=out)])
    assert rows[0]["status_code"] == kept


def test_messages_are_bounded_and_do_not_quote_the_client() -> None:
    messages = [
        "x" * 5000,
        f"Failed to compile json grammar: {CANARY}",
        f"Grammar preprocessing timed out: req.grammar_key=('json', '{CANARY}')",
        f"An exception while loading data:image/png;base64,{CANARY} failed",
    ]
    lines = [
        json_line("request.finished", {"rid": "a"}, out={
            "meta_info": {"id": "a", "finish_reason": {"type": "abort", "message": message}}})
        for message in messages
    ]
    rows, _, _ = parse(FORMAT, lines)
    assert [row["finish_message"] for row in rows] == [
        "x" * 400, "Failed to compile json grammar", "Grammar preprocessing timed out",
        "An exception while loading data:[elided] failed",
    ]


def test_long_strings_and_secrets_are_no_keys() -> None:
    obj = {"rid": "a", "routing_key": "x" * 201, "extra_key": "e",
           "custom_labels": {"a": "y" * 201}}
    headers = {"authorization": "s", "x-api-key": "s", "cookie": "s", "traceparent": "00-1-2-01"}
    rows, _, _ = parse(FORMAT, [json_line("request.received", obj, headers)])
    assert (rows[0]["keys"], rows[0]["traceparent"]) == ('{"extra_key":"e"}', "00-1-2-01")


def test_no_text_at_any_level() -> None:
    obj: dict[str, Any] = {
        "rid": "a", "text": CANARY, "input_embeds": [[CANARY]], "image_data": [CANARY],
        "sampling_params": {"stop": [CANARY], "json_schema": CANARY, "max_new_tokens": 1,
                            "custom_params": {CANARY: CANARY}},
        "messages": [{"role": "user", "content": CANARY}], "prompt": CANARY, "tools": [CANARY],
        "bootstrap_room": 2**70,
    }
    out = {"text": CANARY, "output_ids": [1], "embedding": [CANARY],
           "meta_info": {"id": "a", "finish_reason": {"type": "stop", "matched": CANARY},
                         "output_token_logprobs": [[0.1, 5, CANARY]]}}
    lines = []
    for event in ("request.received", "request.finished", "request.received.openai"):
        for text in (CANARY, CANARY * 400):
            for limit in (MAX_LENGTH, 2**30):
                for prefix in ("", PREFIX):
                    variant = obj | {"text": text, "prompt": text}
                    line = json_line(event, variant, out=out, limit=limit, prefix=prefix)
                    lines += [line, line[:-30], line.replace('"stop"', "NaN"), line + CANARY]
    rows, rejects, claimed = parse(FORMAT, lines)
    assert claimed == len(lines) == 96
    assert len(rejects) >= 96
    assert CANARY not in repr(rows) + repr(rejects)


@given(text=st.lists(st.sampled_from(HOSTILE) | st.text(max_size=20), max_size=8).map("".join))
def test_prompt_text_cannot_fool_the_parser(text: str) -> None:
    obj = {"rid": "real", "text": text, "bootstrap_room": 77}
    out = {"text": text, "meta_info": {"id": "real", "prompt_tokens": 9}}
    line = json_line("request.finished", obj, {"x-request-id": "q"}, out)
    rows, rejects, claimed = parse(FORMAT, [Line(line.encode("utf-8", "surrogatepass"), 1, 0)])
    assert (claimed, len(rows), rejects) == (1, 1, [])
    row = rows[0]
    assert (row["rid"], row["room"], row["x_request_id"], row["prompt_tokens"]) == (
        "real", 77, "q", 9)
    assert row["prompt_chars"] == len(text)


@settings(max_examples=200)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace")))
@example(b'{"timestamp": "", "event": "request.received"' + b"[" * 100_000)
@example(b'{"timestamp": "", "event": "request.received", "obj": ' + b"[" * 100_000)
@example(b'{"timestamp": "", "event": "request.received", "rid": ' + b"9" * 5_000 + b"}")
def test_any_bytes(raw: bytes) -> None:
    head = PREFIX.encode() + b'{"timestamp": "2026-12-01T04:22:17", "event": "request.received", '
    for line in (raw, head + raw, head + b'"obj": ' + raw):
        parse(FORMAT, [Line(line, 1, 0)])


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["rid", "text", "input_ids", "sampling_params", "stream", "bootstrap_room",
                         "bootstrap_port", "bootstrap_host", "routing_key", "custom_labels",
                         "priority", "external_trace_header", "routed_dp_rank"]),
        _VALUES, max_size=6),
    st.dictionaries(
        st.sampled_from(["id", "finish_reason", "prompt_tokens", "e2e_latency", "dp_rank",
                         "request_received_ts"]), _VALUES, max_size=4),
    _VALUES,
)
def test_any_types(obj: dict[str, Any], meta: dict[str, Any], headers: Any) -> None:
    record = {"timestamp": "2026-12-01T04:22:17.5", "event": "request.finished",
              "obj": obj, "headers": headers, "out": {"meta_info": meta}}
    rows, _, claimed = parse(FORMAT, [json.dumps(record)])
    assert claimed == 1
    assert len(rows) >= 1


@pytest.mark.parametrize(
    "line",
    ["", "{}", "{", PREFIX, "[2026-12-01 04:22:17] server_args={}", '{"event": "scheduler.status"}',
     '{"timestamp": "2026-12-01T04:22:17", "event": "scheduler.status", "rank": 0}',
     'noise {"timestamp": "x", "event": "request.received"}'],
)
def test_foreign_lines_are_left_alone(line: str) -> None:
    assert parse(FORMAT, [line]) == ([], [], 0)
