"""``/v1/loads`` snapshots: top-level keys, and every rank's numbers under its rank."""

from __future__ import annotations

import json

import pytest
from request_dialects import FIXTURES, parse_document

from ingest.formats import server_info
from ingest.formats.loads import DOCUMENT_FORMATS
from ingest.records import Match

FORMAT = DOCUMENT_FORMATS[0]


@pytest.mark.parametrize("version", ["0.5.18", "0.5.23"])
def test_fixtures(version: str) -> None:
    data = (FIXTURES / f"loads.{version}.json").read_bytes()
    assert FORMAT.sniff(data, "x") == Match(0.95, "v1")
    assert server_info.DOCUMENT_FORMATS[0].sniff(data, "server_info.json") is None
    rows, rejects = parse_document(FORMAT, data)
    assert rejects == []
    assert {(row["source"], row["dialect"], row["snapshot"]) for row in rows} == {
        ("loads", "v1", 0)}
    load = json.loads(data)["loads"][0]
    found = {(row["dp"], row["key"]): json.loads(row["value"]) for row in rows}
    assert found[None, "version"] == version
    assert found[0, "timestamp"] == load["timestamp"]
    assert found[0, "max_total_num_tokens"] == load["max_total_num_tokens"]
    assert found[0, "disaggregation.mode"] == "decode"
    assert found[0, "memory.token_capacity"] == load["memory"]["token_capacity"]


def test_epoch_keeps_its_digits() -> None:
    data = (FIXTURES / "loads.0.5.23.json").read_bytes()
    rows, _ = parse_document(FORMAT, data)
    assert {row["value"] for row in rows if row["key"] == "timestamp"} == {
        "1796098361.8221552", '"2026-12-01T04:12:41.839236+00:00"'}


def test_ranks_and_snapshots() -> None:
    text = "".join(
        json.dumps({"version": "v", "loads": [
            {"dp_rank": rank, "num_running_reqs": number, "queues": {"waiting": rank}}
            for rank in (0, 1)]}) + "\n"
        for number in (5, 6)
    )
    assert FORMAT.sniff(text.encode(), "x") == Match(0.95, "v1")
    rows, rejects = parse_document(FORMAT, text.encode())
    assert rejects == []
    running = [(row["snapshot"], row["line_no"], row["dp"], row["value"])
               for row in rows if row["key"] == "num_running_reqs"]
    assert running == [(0, 1, 0, "5"), (0, 1, 1, "5"), (1, 2, 0, "6"), (1, 2, 1, "6")]
    assert [(row["dp"], row["value"]) for row in rows if row["key"] == "queues.waiting"][:2] == [
        (0, "0"), (1, "1")]


def test_bare_list_of_older_versions() -> None:
    data = b'[{"dp_rank": 0, "num_reqs": 2, "num_tokens": 5}, {"dp_rank": 1, "num_reqs": 3}]'
    assert FORMAT.sniff(data, "x") == Match(0.9, "list")
    rows, rejects = parse_document(FORMAT, data)
    assert rejects == []
    assert [(row["snapshot"], row["dp"], row["value"]) for row in rows if row["key"] == "num_reqs"
            ] == [(0, 0, "2"), (0, 1, "3")]


def test_damage_is_a_reject() -> None:
    data = (FIXTURES / "loads.0.5.23.json").read_bytes()
    rows, rejects = parse_document(FORMAT, data[:-20])
    assert (rows, [reject.reason for reject in rejects]) == ([], ["JSON is cut or malformed"])
    odd = b'{"loads": [7, {"dp_rank": "x", "num_running_reqs": 1}]}'
    rows, rejects = parse_document(FORMAT, odd)
    assert [(row["dp"], row["key"]) for row in rows] == [
        (None, "dp_rank"), (None, "num_running_reqs")]
    assert [reject.reason for reject in rejects] == ["a load is not an object"]


def test_other_documents_are_left_alone() -> None:
    for text in ("", "{}", '{"loads": 1}', '{"loads": []}', "[1]", '[{"dp_rank": 0}]'):
        assert FORMAT.sniff(text.encode(), "loads.json") is None
