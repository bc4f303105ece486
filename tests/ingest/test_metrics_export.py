"""Lines of ``--export-metrics-to-file``: one finished request each, without a stamp."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from request_dialects import FIXTURES, HOSTILE, known, lines_of, parse

from ingest.formats.metrics_export import LINE_FORMATS
from ingest.records import Line

FORMAT = LINE_FORMATS[0]
CANARY = "CANARY-5f1c"


def _export(parameters: Any, **meta: Any) -> str:
    return json.dumps({"request_parameters": json.dumps(parameters), **meta})


@pytest.mark.parametrize("version", ["0.5.18", "0.5.23"])
def test_fixture_counts(version: str) -> None:
    data = (FIXTURES / f"metrics_export.{version}.log").read_bytes()
    rows, rejects, claimed = parse(FORMAT, lines_of(data))
    assert rejects == []
    assert claimed == len(rows) == data.count(b'{"request_parameters"') >= 5
    assert {(row["event"], row["fmt"], row["stamp_ns"]) for row in rows} == {
        ("finished", "export", None)}


def test_recorded_line_in_full() -> None:
    data = (FIXTURES / "metrics_export.0.5.23.log").read_bytes()
    rows, _, _ = parse(FORMAT, lines_of(data))
    found = next(row for row in rows if row["rid"] == "a05ca61431c5447b8b04f78b198c014c")
    assert known(found) == {
        "event": "finished", "fmt": "export", "rid": "a05ca61431c5447b8b04f78b198c014c",
        "room": 5993828340448537137, "bootstrap_host": "127.0.0.1", "bootstrap_port": 8998,
        "streaming": False, "prompt_chars": 4, "prompt_tokens": 4, "completion_tokens": 2,
        "cached_tokens": 0, "num_retractions": 0, "finish_type": "length", "max_new_tokens": 2,
        "e2e_latency_s": 0.19031367800016596,
        "request_received_ns": 1_796_098_161_573_385_700,
        "request_finished_ns": 1_796_098_161_763_699_300,
        "response_sent_ns": 1_796_098_161_764_229_500,
    }


def test_id_and_exact_room_without_metrics() -> None:
    rows, rejects, _ = parse(FORMAT, [
        _export({"bootstrap_room": 2**63 - 1}, id="a", finish_reason={"type": "stop"}),
        _export({"rid": "b", "bootstrap_room": 2**64}, id="b"),
    ])
    assert [(row["rid"], row["room"]) for row in rows] == [("a", 2**63 - 1), ("b", None)]
    assert [reject.line_no for reject in rejects] == [2]


def test_damage_is_a_reject() -> None:
    whole = _export({"rid": "a", "text": CANARY}, id="a")
    lines = [whole[:-5], whole + "x",
             '{"request_parameters": "{cut"}', '{"request_parameters": ""}',
             '{"request_parameters": {"rid": "d"}, "e2e_latency": NaN}']
    rows, rejects, claimed = parse(FORMAT, lines)
    assert claimed == 5
    assert [row["rid"] for row in rows] == ["d"]
    assert [reject.reason for reject in rejects] == [
        "JSON is cut or malformed", "bytes behind the JSON object", "JSON is cut or malformed",
        "JSON is cut or malformed",
    ]
    assert CANARY not in repr(rejects)


def test_crlf_and_bom() -> None:
    line = _export({"rid": "a"}, id="a")
    rows, rejects, _ = parse(FORMAT, lines_of(f"\ufeff{line}\r\n{line}\r\n".encode()))
    assert ([row["rid"] for row in rows], rejects) == (["a", "a"], [])


def test_no_text() -> None:
    parameters = {"rid": "a", "text": CANARY, "prompt": CANARY, "input_ids": [1],
                  "sampling_params": {"stop": CANARY}, "bootstrap_room": "x" + CANARY}
    meta = {"id": "a", "finish_reason": {"type": "stop", "matched": CANARY}, "text": CANARY}
    whole = _export(parameters, **meta)
    rows, rejects, _ = parse(FORMAT, [whole, whole[:-30], whole + CANARY])
    assert (len(rows), len(rejects)) == (1, 3)
    assert CANARY not in repr(rows) + repr(rejects)


@given(st.lists(st.sampled_from(HOSTILE) | st.text(max_size=20), max_size=8).map("".join))
def test_prompt_text_cannot_fool_the_parser(text: str) -> None:
    line = _export({"text": text, "rid": "real", "bootstrap_room": 77}, id="real", prompt_tokens=9)
    rows, rejects, _ = parse(FORMAT, [line])
    assert rejects == []
    assert [(row["rid"], row["room"], row["prompt_chars"]) for row in rows] == [
        ("real", 77, len(text))]


@given(st.binary(max_size=120))
def test_any_bytes(raw: bytes) -> None:
    for head in (b"", b'{"request_parameters": "', b'{"request_parameters": "{}", "id": '):
        parse(FORMAT, [Line(head + raw, 1, 0)])


def test_foreign_lines_are_left_alone() -> None:
    assert parse(FORMAT, ["", "{}", '{"id": "a", "request_parameters": "{}"']) == ([], [], 0)
