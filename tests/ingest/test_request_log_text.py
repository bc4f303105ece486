"""Text request log lines: the same facts as JSON, and nothing a client writes taken for one."""

from __future__ import annotations

import time
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
    Call,
    json_line,
    known,
    lines_of,
    parse,
    text_line,
)

from ingest.formats import request_log_json
from ingest.formats.request_log_text import LINE_FORMATS
from ingest.records import Line

FORMAT = LINE_FORMATS[0]
JSON_FORMAT = request_log_json.LINE_FORMATS[0]
CANARY = "CANARY-5f1c"
WORDS = {
    "request.received": "Receive",
    "request.finished": "Finish",
    "request.received.openai": "Receive OpenAI",
}


@pytest.mark.parametrize(("version", "count"), [("0.5.18", 32), ("0.5.23", 34)])
def test_fixture_counts(version: str, count: int) -> None:
    data = (FIXTURES / f"request_log_text.{version}.log").read_bytes()
    rows, rejects, claimed = parse(FORMAT, lines_of(data))
    assert rejects == []
    assert claimed == len(rows) == count == data.count(b": obj=")
    assert {row["event"] for row in rows} == {"received", "finished", "received_openai"}


def test_recorded_lines_in_full() -> None:
    data = (FIXTURES / "request_log_text.0.5.23.log").read_bytes()
    rows, _, _ = parse(FORMAT, lines_of(data))
    openai, health, aborted, finished = (known(row) for row in rows[-4:])
    assert openai == {
        "event": "received_openai", "fmt": "text", "prefixed": True, "model": "default",
        "stamp_ns": 1_796_098_163_000_000_000, "stamp_res_ns": 10**9, "streaming": False,
        "room": 2251819937276653372, "bootstrap_host": "127.0.0.1", "bootstrap_port": 8998,
        "max_new_tokens": 8,
    }
    assert health == {
        "event": "received", "fmt": "text", "prefixed": True, "bootstrap_host": "2.2.2.2",
        "rid": "HEALTH_CHECK_9aa9432e3d9d44d5b090a118b8863344", "room": 0, "streaming": False,
        "stamp_ns": 1_796_098_159_000_000_000, "stamp_res_ns": 10**9, "prompt_ids": 1,
        "max_new_tokens": 1,
    }
    assert (aborted["finish_type"], aborted["rid"]) == ("abort", "client-11-00044")
    assert aborted["status_code"] in (400, 500)
    assert finished == {
        "event": "finished", "fmt": "text", "prefixed": True, "streaming": False,
        "stamp_ns": 1_796_098_161_000_000_000, "stamp_res_ns": 10**9, "max_new_tokens": 2,
        "rid": "a05ca61431c5447b8b04f78b198c014c", "room": 5993828340448537137,
        "bootstrap_host": "127.0.0.1", "bootstrap_port": 8998, "prompt_chars": 6,
        "output_ids": 2, "prompt_tokens": 4, "completion_tokens": 2, "cached_tokens": 0,
        "num_retractions": 0, "finish_type": "length", "e2e_latency_s": 0.19031367800016596,
        "request_received_ns": 1_796_098_161_573_385_700,
        "request_finished_ns": 1_796_098_161_763_699_300,
        "response_sent_ns": 1_796_098_161_764_229_500,
    }


_TEXT = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=12), max_size=6).map("".join)
_OBJECTS = st.fixed_dictionaries(
    {
        "rid": st.just("real") | st.just(["r0", "r1"]), "session_id": st.none() | _TEXT,
        "text": st.none() | _TEXT | st.just("x" * 3000) | st.lists(_TEXT, min_size=2, max_size=2),
        "input_ids": st.none() | st.lists(st.integers(0, 9), max_size=4)
        | st.lists(st.lists(st.integers(0, 9), max_size=2), min_size=2, max_size=2)
        | st.just(list(range(2100))),
        "image_data": st.none() | st.lists(_TEXT, max_size=2),
        "sampling_params": st.none()
        | st.fixed_dictionaries({"stop": st.lists(_TEXT, max_size=2),
                                 "max_new_tokens": st.none() | st.integers(0, 99)}),
        "stream": st.booleans(), "lora_path": st.none() | _TEXT,
        "bootstrap_host": st.none() | st.just("10.0.0.1"),
        "bootstrap_port": st.none() | st.integers(1, 65535),
        "bootstrap_room": st.none() | st.integers(0, 2**64 - 1) | st.just([2**63 - 1, 5]),
        "routed_dp_rank": st.none() | st.integers(0, 9), "routing_key": st.none() | _TEXT,
        "custom_labels": st.none() | st.fixed_dictionaries({"team": _TEXT}),
        "external_trace_header": st.none() | st.just({"traceparent": "00-a-b-01"}),
    }
)
_OUT = st.fixed_dictionaries(
    {
        "text": _TEXT, "output_ids": st.lists(st.integers(0, 9), max_size=3),
        "meta_info": st.fixed_dictionaries(
            {
                "id": st.just("real"),
                "finish_reason": st.none()
                | st.fixed_dictionaries({"type": st.just("stop"), "matched": _TEXT})
                | st.fixed_dictionaries({
                    "type": st.just("abort"), "message": _TEXT | st.just("m" * 4000),
                    "status_code": st.none() | st.just(500), "err_type": st.none()}),
                "prompt_tokens": st.integers(0, 10**6), "dp_rank": st.none() | st.integers(0, 7),
                "e2e_latency": st.floats(0, 1e3),
                "request_received_ts": st.none() | st.floats(1.7e9, 1.9e9),
            }
        ),
    }
)
_HEADERS = st.none() | st.fixed_dictionaries({"x-request-id": _TEXT, "x-tenant": _TEXT})


@given(
    st.sampled_from(sorted(WORDS)), _OBJECTS, _HEADERS, _OUT, st.sampled_from([2**30, MAX_LENGTH])
)
def test_text_and_json_say_the_same(
    event: str, obj: dict[str, Any], headers: dict[str, str] | None, out: dict[str, Any], limit: int
) -> None:
    answer = out if event == "request.finished" else None
    printed = obj if event == "request.received.openai" else Call(obj)
    text = text_line(WORDS[event], printed, headers, answer, limit=limit)
    same = json_line(event, obj, headers, answer, limit=limit)
    found, rejects, claimed = parse(FORMAT, [Line(text.encode("utf-8", "replace"), 1, 0)])
    expected, expected_rejects, _ = parse(
        JSON_FORMAT, [Line(same.encode("utf-8", "replace"), 1, 0)]
    )
    assert claimed == 1
    for row in found:
        assert (row.pop("fmt"), row.pop("stamp_ns"), row.pop("stamp_res_ns")) == (
            "text", STAMP_NS, 10**9)
    for row in expected:
        del row["fmt"], row["stamp_ns"], row["stamp_res_ns"]
        message = row["finish_message"]
        assert message is None or len(message) <= 400
    assert found == expected
    assert [r.reason for r in rejects] == [r.reason for r in expected_rejects]


@given(_TEXT, _TEXT)
def test_prompt_text_cannot_fool_the_scanner(prompt: str, answer: str) -> None:
    obj = Call(rid="real", text=prompt, bootstrap_room=77, routing_key=answer[:50])
    out = {"text": answer, "meta_info": {"id": "real", "prompt_tokens": 9}}
    line = text_line("Finish", obj, {"x-request-id": "q"}, out)
    rows, rejects, claimed = parse(FORMAT, [Line(line.encode("utf-8", "replace"), 1, 0)])
    assert (claimed, len(rows), rejects) == (1, 1, [])
    row = rows[0]
    assert (row["rid"], row["room"], row["x_request_id"], row["prompt_tokens"]) == (
        "real", 77, "q", 9)
    assert row["prompt_chars"] == len(prompt)


def test_unescaped_keys_of_a_client_cannot_replace_a_field() -> None:
    key = "x': 1}}, bootstrap_room=123, zz={'a': {'b"
    obj = Call(rid="real", sampling_params={"custom_params": {key: 5}}, bootstrap_room=77)
    rows, rejects, claimed = parse(FORMAT, [text_line("Receive", obj)])
    assert (claimed, rows) == (1, [])
    assert [reject.reason for reject in rejects] == ["a field occurs twice"]


def test_other_classes_and_bare_lines() -> None:
    obj = Call(rid="e", text=["a", "bc"], image_data="<object at 0x7f>", bootstrap_room=3)
    obj.name = "EmbeddingReqInput"
    bare = text_line("Receive", obj, prefix="")
    ranked = text_line("Receive", obj, prefix="[2026-12-01 04:22:17.250 DP0 TP1] ")
    rows, rejects, _ = parse(FORMAT, [bare, ranked])
    assert rejects == []
    assert known(rows[0]) == {
        "event": "received", "fmt": "text", "prefixed": False, "rid": "e", "room": 3,
    }
    assert (rows[1]["stamp_ns"], rows[1]["stamp_res_ns"]) == (STAMP_NS + 250_000_000, 10**6)


def test_enum_status_codes_and_objects() -> None:
    line = (
        f"{PREFIX}Finish: obj=GenerateReqInput(rid='a', sampling_params=SamplingParams(n=1), "
        "bootstrap_room=99999999999999999999999), out={'meta_info': {'id': 'a', 'finish_reason': "
        "{'type': 'abort', 'message': 'm', 'status_code': HTTPStatus.BAD_REQUEST}}}"
    )
    rows, rejects, _ = parse(FORMAT, [line])
    assert (rows[0]["status_code"], rows[0]["room"]) == (400, None)
    assert [reject.reason for reject in rejects] == ["bootstrap_room does not fit 64 bits"]


def test_batches_and_elided_batches() -> None:
    short = Call(rid=["a", "b"], text=["x", "yyy"], input_ids=[[1], [2, 3]],
                 bootstrap_room=[2**62, 2**62 + 1])
    rids = [f"r{i}" for i in range(2050)]
    long = Call(rid=rids, bootstrap_room=list(range(2050)))
    rows, rejects, _ = parse(
        FORMAT, [text_line("Receive", short), text_line("Receive", long, limit=MAX_LENGTH)]
    )
    names = ("sub_index", "rid", "room", "prompt_chars", "prompt_ids")
    assert [tuple(row[name] for name in names) for row in rows[:2]] == [
        (0, "a", 2**62, 1, 1), (1, "b", 2**62 + 1, 3, 2),
    ]
    assert [(row["sub_index"], row["rid"], row["room"]) for row in rows[2:]] == [
        *((i, f"r{i}", i) for i in range(1024)), *((None, f"r{i}", i) for i in range(1026, 2050)),
    ]
    assert [reject.reason for reject in rejects] == ["batch list is elided"]


def test_every_cut_of_a_line_is_a_reject_or_the_record() -> None:
    obj = Call(rid="a", text="it's \"q\" [(", bootstrap_room=77)
    whole = text_line("Finish", obj, {"x": "y"}, {"meta_info": {"id": "a"}})
    head = len(PREFIX) + len("Finish: obj=GenerateReqInput(")
    for end in range(head, len(whole)):
        rows, rejects, claimed = parse(FORMAT, [whole[:end]])
        assert (claimed, len(rows), len(rejects)) == (1, 0, 1), whole[:end]
    rows, rejects, _ = parse(FORMAT, [whole, whole + "W1201 glog"])
    assert ([row["room"] for row in rows], [r.reason for r in rejects]) == (
        [77], ["text behind the record"])


def test_no_text_at_any_level() -> None:
    obj = Call(
        rid="a", text=CANARY, input_embeds=[[CANARY]], image_data=[CANARY],
        sampling_params={"stop": [CANARY], "regex": CANARY, "custom_params": {CANARY: CANARY}},
        messages=[{"content": CANARY}], prompt=CANARY, bootstrap_room=2**70,
    )
    out = {"text": CANARY, "output_ids": [1], "embedding": [CANARY],
           "meta_info": {"id": "a", "finish_reason": {"type": "stop", "matched": CANARY},
                         "output_token_logprobs": [[0.1, 5, CANARY]]}}
    lines = []
    for word in WORDS.values():
        for text in (CANARY, CANARY * 400, "'" + CANARY):
            for limit in (MAX_LENGTH, 2**30):
                for prefix in ("", PREFIX):
                    printed = Call(obj | {"text": text, "prompt": text})
                    answer = out if word == "Finish" else None
                    line = text_line(word, printed, None, answer, limit=limit, prefix=prefix)
                    lines += [line, line[:-30], line + CANARY, line.replace("rid=", "rid={'")]
    rows, rejects, claimed = parse(FORMAT, lines)
    assert claimed == len(lines) == 144
    assert (len(rows), len(rejects)) == (36, 144)
    assert CANARY not in repr(rows) + repr(rejects)


@settings(max_examples=200)
@given(st.binary(max_size=120) | _TEXT.map(lambda text: text.encode("utf-8", "replace")))
@example(b"a=" + b"[" * 100_000)
@example(b"rid=" + b"9" * 5_000 + b")")
@example(b"rid='\\ud800')")
@example(b"rid=" + b"[" * 60 + b"]" * 60 + b")")
@example(b"rid='" + b"\\N{x}" * 9 + b"')")
def test_any_bytes(raw: bytes) -> None:
    for head in (b"", b"Receive: obj=", b"Receive: obj=A(", b"Finish: obj={",
                 b"Receive: obj=A(rid=", b"Receive: obj=A(text=",
                 b"Finish: obj=A(rid='a'), out={'meta_info': "):
        parse(FORMAT, [Line(head + raw, 1, 0)])


@pytest.mark.parametrize("unit", [b"\\'", b"''", b"[]", b"a=1, ", b"'a': 1, ", b"{", b"\\", b"\"'"])
def test_time_grows_with_length_only(unit: bytes) -> None:
    raw = b"Finish: obj=A(x='" + unit * 200_000
    started = time.process_time()
    parse(FORMAT, [Line(raw, 1, 0), Line(raw.replace(b"x='", b"x="), 2, 0)])
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize(
    "line",
    ["", PREFIX + "server_args={}", "Receive: obj=", "Receive: obj=None",
     "x Receive: obj=A(rid='a')", PREFIX + "Decode batch, #running-req: 1",
     "Finish: objection=A(", "Receive: obj='text'"],
)
def test_foreign_lines_are_left_alone(line: str) -> None:
    assert parse(FORMAT, [line]) == ([], [], 0)
