"""``/server_info`` and ``/model_info`` snapshots: keys, ranks, several in one file, secrets."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from request_dialects import FIXTURES, lines_of, parse_document

from ingest.formats import loads, model_info, server_info
from ingest.records import Match
from ingest.requests.secret import REDACTED, redact, redact_command, redact_variable

FORMAT = server_info.DOCUMENT_FORMATS[0]
MODEL_FORMAT = model_info.DOCUMENT_FORMATS[0]
SECRET = "s3cr3t-Xy"


def _entries(rows: list[dict[str, Any]], snapshot: int = 0) -> dict[str, Any]:
    return {row["key"]: json.loads(row["value"]) for row in rows if row["snapshot"] == snapshot}


@pytest.mark.parametrize("version", ["0.5.18", "0.5.23"])
def test_fixtures(version: str) -> None:
    data = (FIXTURES / f"server_info.{version}.json").read_bytes()
    assert FORMAT.sniff(data, "x") == Match(0.95, version)
    rows, rejects = parse_document(FORMAT, data)
    assert rejects == []
    document = json.loads(data)
    entries = _entries(rows)
    assert set(document) - {"internal_states"} == {key for key in entries if "[" not in key}
    assert entries["version"] == version
    assert entries["max_total_num_tokens"] == document["max_total_num_tokens"]
    assert entries["internal_states[0].disaggregation_mode"] == "decode"
    state = document["internal_states"][0]
    assert entries["internal_states[0].memory_usage"] == state["memory_usage"]
    assert "internal_states[0].tp_size" not in entries
    assert {row["source"] for row in rows} == {"server_info"}
    assert {row["dp"] for row in rows} == {None}


def test_one_row_in_full() -> None:
    data = b'\n{"model_path": "m", "tp_size": 4}\n'
    rows, _ = parse_document(FORMAT, data)
    assert rows[1] == {
        "stream": "", "line_no": 2, "byte_offset": 1, "stamp_ns": None, "stamp_res_ns": None,
        "outer_ns": None, "dp": None, "source": "server_info", "dialect": "flat", "snapshot": 0,
        "key": "tp_size", "value": "4",
    }


def test_ranks_and_environment() -> None:
    document = {
        "model_path": "m", "tp_size": 1, "page_size": 64, "internal_states": [
            {"dp_rank": 1, "page_size": 64, "tp_size": 1, "memory_usage": {"kvcache": 1.5},
             "env_vars": {"SGLANG_X_TOKENS": "512", "HF_TOKEN": SECRET}},
            {"page_size": 16, "env_vars": {"SGLANG_X_TOKENS": "512"}},
            {"env_vars": {"SGLANG_X_TOKENS": "512"}},
        ],
    }
    rows, rejects = parse_document(FORMAT, json.dumps(document).encode())
    assert rejects == []
    found = [(row["key"], row["dp"], row["value"]) for row in rows if row["key"] not in document]
    assert found == [
        ("internal_states[0].dp_rank", 1, "1"), ("internal_states[0].page_size", 1, "64"),
        ("internal_states[0].memory_usage", 1, '{"kvcache":1.5}'),
        ("env.SGLANG_X_TOKENS", 1, '"512"'), ("env.HF_TOKEN", 1, f'"{REDACTED}"'),
        ("internal_states[1].page_size", None, "16"), ("env.SGLANG_X_TOKENS", None, '"512"'),
    ]


@pytest.mark.parametrize("shape", ["pretty", "ndjson", "concatenated", "list", "crlf"])
def test_several_snapshots_in_one_file(shape: str) -> None:
    one, two = ({"model_path": "m", "tp_size": size, "x": {"y": [1]}} for size in (1, 2))
    text = {
        "pretty": json.dumps(one, indent=4) + "\n" + json.dumps(two, indent=4) + "\n",
        "ndjson": json.dumps(one) + "\n" + json.dumps(two) + "\n",
        "concatenated": json.dumps(one) + json.dumps(two),
        "list": json.dumps([one, two]),
        "crlf": "\ufeff" + json.dumps(one, indent=1).replace("\n", "\r\n") + json.dumps(two),
    }[shape]
    data = text.encode()
    assert FORMAT.sniff(data, "x") is not None
    rows, rejects = parse_document(FORMAT, data)
    assert rejects == []
    assert [_entries(rows, number) for number in (0, 1)] == [one, two]
    if shape == "pretty":
        assert [row["line_no"] for row in rows] == [1, 1, 1, 10, 10, 10]
        assert rows[3]["byte_offset"] == len(json.dumps(one, indent=4)) + 1


def test_damage_is_a_reject_and_keeps_the_rest() -> None:
    whole = json.dumps({"model_path": "m", "tp_size": 1})
    rows, rejects = parse_document(FORMAT, f"{whole}\n{whole[:-6]}\n{whole}\n7\n".encode())
    assert [row["line_no"] for row in rows] == [1, 1, 3, 3]
    assert [(reject.line_no, reject.reason) for reject in rejects] == [
        (2, "JSON is cut or malformed"), (4, "JSON is not an object")]


def test_no_secret_in_a_row() -> None:
    document: dict[str, Any] = {
        "model_path": "m", "tp_size": 1, "tokenizer_path": "keep", "max_total_tokens": 9,
        "api_key": SECRET, "admin_api_key": SECRET, "ssl_keyfile_password": SECRET,
        "hicache_storage_backend_extra_config": json.dumps({"access_key": SECRET, "a": "keep"}),
        "nested": {"deep": [{"password": SECRET, "hf_token": SECRET}]},
        "otlp_traces_endpoint": f"http://user:{SECRET}@host:4317",
        "launch_command": f"HF_TOKEN={SECRET} python -m sglang --api-key {SECRET} --port 1 "
                          f"--admin-api-key='{SECRET} {SECRET}' --max-total-tokens 9",
        "argv": ["--api-key", SECRET, "--port", "1", f"--hf-token={SECRET}"],
        "env_vars": {"AWS_SECRET_ACCESS_KEY": SECRET, "PATH": "keep", "SGLANG_API_KEY": SECRET},
        "internal_states": [{"api_key": SECRET + "2", "env_vars": {"MY_PASSWORD": SECRET}}],
    }
    rows, rejects = parse_document(FORMAT, json.dumps(document).encode())
    assert rejects == []
    assert SECRET not in repr(rows)
    entries = _entries(rows)
    assert entries["tokenizer_path"] == "keep"
    assert entries["max_total_tokens"] == 9
    assert json.loads(entries["hicache_storage_backend_extra_config"]) == {
        "access_key": REDACTED, "a": "keep"}
    assert entries["launch_command"] == (
        f"HF_TOKEN={REDACTED} python -m sglang --api-key {REDACTED} --port 1 "
        f"--admin-api-key={REDACTED} --max-total-tokens 9")
    assert entries["argv"] == ["--api-key", REDACTED, "--port", "1", f"--hf-token={REDACTED}"]
    assert entries["env.PATH"] == "keep"
    assert entries["otlp_traces_endpoint"] == f"http://{REDACTED}@host:4317"


def test_what_is_no_secret_stays() -> None:
    for name, value in {"tokenizer_mode": "auto", "token_capacity": 5, "api_key": None,
                        "enable_custom_logit_processor": True, "monkey": "keyboard"}.items():
        assert redact(name, value) == value
    assert redact_variable("SGLANG_TOKEN_LIMIT", "4096") == "4096"
    assert redact_variable("SGLANG_KEY", "on") == "on"
    assert redact_variable("OTHER_KEY", "4096") == REDACTED
    command = "--tokenizer-path /m --skip-tokenizer-init --max-prefill-tokens 5 --token-limit 3"
    assert redact_command(command) == command


def test_oversized_values_are_rejected() -> None:
    document = {"model_path": "m" * 70_000, "tp_size": 1, "k" * 300: 1}
    rows, rejects = parse_document(FORMAT, json.dumps(document).encode())
    assert [row["key"] for row in rows] == ["tp_size"]
    assert [reject.reason for reject in rejects] == ["a value or its key is too long"] * 2


@pytest.mark.parametrize("version", ["0.5.18", "0.5.23"])
def test_model_info(version: str) -> None:
    data = (FIXTURES / f"model_info.{version}.json").read_bytes()
    assert FORMAT.sniff(data, "server_info.json") is None
    assert MODEL_FORMAT.sniff(data, "server_info.json") == Match(0.95)
    rows, rejects = parse_document(MODEL_FORMAT, data)
    assert rejects == []
    assert _entries(rows) == json.loads(data)
    assert {row["source"] for row in rows} == {"model_info"}


@given(st.binary(max_size=200), st.sampled_from([b"", b'{"model_path": "m", "tp_size": 1, ', b"["]))
def test_any_bytes(raw: bytes, head: bytes) -> None:
    for document_format in (FORMAT, MODEL_FORMAT, loads.DOCUMENT_FORMATS[0]):
        document_format.sniff(head + raw, "x.json")
        parse_document(document_format, head + raw)


def test_a_long_file_is_read_in_batches() -> None:
    one = {"model_path": "m", "tp_size": 1} | {f"k{i}": i for i in range(50)}
    for text in (json.dumps(one), json.dumps(one, indent=2)):
        data = (text + "\n").encode() * 1_000
        batches = list(FORMAT.parse(iter(lines_of(data)), "x"))
        assert max(len(batch.rows["config_entry"]) for batch in batches[:-1]) <= 20_052
        rows = [row for batch in batches for row in batch.rows.get("config_entry", [])]
        assert [row["snapshot"] for row in rows] == [i for i in range(1_000) for _ in one]
        assert sum(batch.lines for batch in batches) == data.count(b"\n")


@pytest.mark.parametrize("unit", ["{\n}\n,", "}\n", "[\n]\n", "{}\n", '{"a"\n'])
def test_time_grows_with_length_only(unit: str) -> None:
    started = time.process_time()
    parse_document(FORMAT, ("[\n" + unit * 50_000).encode())
    parse_document(FORMAT, (unit * 50_000).encode())
    assert time.process_time() - started < 10.0


def test_deep_nesting_is_a_reject() -> None:
    data = b'{"model_path": "m", "tp_size": 1, "a": ' + b"[" * 100_000
    rows, rejects = parse_document(FORMAT, data)
    assert (rows, len(rejects)) == ([], 1)


def test_other_documents_are_left_alone() -> None:
    for text in ("", "{}", "[]", '{"model_path": "m"}', "Receive: obj={'model_path': 1}",
                 '{"schema": "palimpsest/summary/1", "version": "1"}'):
        assert FORMAT.sniff(text.encode(), "server_info.json") is None
        assert MODEL_FORMAT.sniff(text.encode(), "model_info.json") is None
