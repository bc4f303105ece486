"""evidence.toml: every key, its type, what is unknown, secrets, damage."""

from __future__ import annotations

import json
from typing import Any

import pytest
from document_rows import read
from hypothesis import given
from hypothesis import strategies as st
from request_dialects import FIXTURES, lines_of

from ingest.formats.evidence_toml import DOCUMENT_FORMATS
from ingest.records import Match

FORMAT = DOCUMENT_FORMATS[0]


def _rows(text: str) -> tuple[list[tuple[int, str, Any]], list[str]]:
    rows, rejects, _ = read(FORMAT, text.encode(), "config_entry")
    return [(row["snapshot"], row["key"], json.loads(row["value"])) for row in rows], rejects


def test_fixture() -> None:
    data = (FIXTURES / "evidence_toml.toml").read_bytes()
    assert FORMAT.sniff(data, "evidence.toml") == Match(0.95)
    assert _rows(data.decode()) == ([
        (0, "name", "decode-0"), (0, "host", "node-7"), (0, "role", "decode"),
        (0, "files", ["decode.log", "requests/*.log"]), (0, "version", "0.5.18"),
        (0, "backend", "mooncake"), (0, "timezone", "+08:00"), (0, "model", "glm"),
        (0, "model_state", "dsa"),
        (0, "env.SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE", "0"),
        (0, "env.API_KEY", "[redacted]"), (1, "name", "prefill-0")], [])


def test_one_row_in_full() -> None:
    rows, _, _ = read(FORMAT, b'# who\n\n[[worker]]\nhost = "h"\n', "config_entry")
    assert rows == [{
        "stream": "", "line_no": 3, "byte_offset": 7, "stamp_ns": None, "stamp_res_ns": None,
        "outer_ns": None, "dp": None, "source": "evidence_toml", "dialect": "", "snapshot": 0,
        "key": "host", "value": '"h"'}]


@pytest.mark.parametrize(("line", "reason"), [
    ("nmae = 'x'", "unknown key: nmae"), ("'a b' = 1", "unknown key: a key of unusual characters"),
    ("name = 1", "name is not a text"), ("files = 'x'", "files is not a list of texts"),
    ("files = ['x', 1]", "files is not a list of texts"),
    ("role = 'decoder'", "role is not one of: decode, prefill, router, unified"),
    ("timezone = 'Asia/Shanghai'", "timezone is not UTC, Z, +HH:MM or -HH:MM"),
    ("timezone = '+15:00'", "timezone is not UTC, Z, +HH:MM or -HH:MM"),
    ("model_state = 'moe'", "model_state is not one of: dsa, mamba, plain, swa"),
    ("version = 0.5", "version is not a text"), ("env = 'x'", "env is not a table"),
    ("env = {A = 1.5}", "env.A is not a text"), ("env = {A = true}", "env.A is not a text"),
    (f"name = '{'x' * 1001}'", "name is not a text"),
])
def test_what_is_wrong_is_named(line: str, reason: str) -> None:
    assert _rows(f"[[worker]]\nhost = 'h'\n{line}\n") == ([(0, "host", "h")], [reason])


def test_env_number_is_text() -> None:
    assert _rows("[[worker]]\n[worker.env]\nSGLANG_X = 1\n") == ([(0, "env.SGLANG_X", "1")], [])


def test_other_shapes() -> None:
    assert _rows("worker = [{name = 'a'}, 3]\nx = 1\n") == (
        [(0, "name", "a")], ["unknown key: x", "a worker is not a table"])
    assert _rows("[worker]\nname = 'a'\n")[1] == ["worker is not a list, or too long a one"]


@pytest.mark.parametrize(("text", "line_no"), [
    ("[[worker]]\n\nname = canary\nhost = 'h'\n", 3), ("[[worker]]\n\nname = 'canary\n", 3),
    ("[[worker]]\nname = 'a'\nname = 'canary'\nhost = 'h'\n", 3),
    ("[[worker]]\nx = " + "[" * 5000 + "\n", None),
])
def test_broken_toml_is_one_reject(text: str, line_no: int | None) -> None:
    batches = FORMAT.parse(iter(lines_of(text.encode())), "x")
    rejects = [reject for batch in batches for reject in batch.rejects]
    assert [reject.reason for reject in rejects] == ["not valid TOML; nothing of it is used"]
    assert line_no in (None, rejects[0].line_no)


def test_size_is_bounded() -> None:
    rows, rejects = _rows("[[worker]]\nname = 'a'\n" + "# x\n" * 400_000)
    assert (rows, rejects) == ([], ["too long; nothing of it is used"])


@pytest.mark.parametrize(("head", "known"), [
    (b"[[worker]]\n", True), (b"\xef\xbb\xbf[[worker]]", True), (b"  [[ worker ]]", True),
    (b"worker = [\n", True), (b"[worker]\n", False), (b"# [[worker]]\n", False), (b"", False),
    (b"[[workers]]\n", False),
])
def test_sniff(head: bytes, known: bool) -> None:
    assert (FORMAT.sniff(head, "evidence.toml") is not None) == known


_PIECES = st.sampled_from(["[[worker]]\n", "name", "files", " = ", "'x'", '"', "[", "]", "\n",
                           "[worker.env]\n", "1979-05-27", "1e400", "{", "}", "#", "nan"])


@given(st.lists(st.one_of(_PIECES, st.text(max_size=4)), max_size=20).map("".join), st.binary())
def test_never_raises(text: str, noise: bytes) -> None:
    for data in (text.encode("utf-8", "surrogatepass"), noise):
        FORMAT.sniff(data, "x")
        read(FORMAT, data, "config_entry")
        read(FORMAT, b"[[worker]]\n" + data, "config_entry")
