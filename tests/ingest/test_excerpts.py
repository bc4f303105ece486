"""Excerpts: the right line of the right bytes, redacted; and a note where it cannot be shown."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from request_dialects import Call, json_line, text_line

from ingest.case import open_case
from ingest.excerpt_text import MAX_CHARS, line_text, scrub
from ingest.excerpts import Excerpt, read_excerpts
from ingest.pipeline import ingest
from ingest.records import TABLES
from ingest.visible import visible

STAMP = "[2026-12-01 04:25:55 TP0] "
ROOM = 4096703817223315620
LOG = [
    "a banner that carries no fact",
    "[2026-12-01 04:24:46] server_args=ServerArgs(model_path='/m', page_size=16, tp_size=2, "
    "context_length=8192, disaggregation_mode='decode', api_key='SECRETKEY', "
    "disaggregation_transfer_backend='mooncake', chat_template='CONTENT', dp_size=1)",
    f"{STAMP}ReqTimeStats(rid=abc, bootstrap_room={ROOM}, input_len=2743, cached_input_len=0, "
    "output_len=64, attempts=0, type=decode): bootstrap_duration=2.81ms, queue_duration=0.48ms, "
    "forward_duration=6.28ms, entry_time=1796099155.423",
    f"{STAMP}Decode transfer failed for request rank=0 decode_req.req.rid='abc' "
    f"decode_req.req.bootstrap_room={ROOM} with exception KVTransferError(bootstrap_room={ROOM}): "
    "Aborted by AbortReq.",
]


@contextmanager
def opened(tmp_path: Path, *evidence: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    ingest([str(path) for path in evidence], tmp_path / "case", workers=1)
    with open_case(tmp_path / "case", read_only=True) as case:
        yield case.con


def write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def all_ids(con: duckdb.DuckDBPyConnection) -> list[str]:
    """An id for every place that the case has a row of."""
    ids = set()
    for table in TABLES:
        ids |= {f"{file}:{offset}" for file, offset in con.execute(
            f'SELECT DISTINCT evidence_id, byte_offset FROM "{table}"').fetchall()}
    return sorted(ids)


def offset_of(lines: list[str], number: int) -> int:
    return len("".join(f"{line}\n" for line in lines[:number]).encode())


def one(con: duckdb.DuckDBPyConnection, lines: list[str], number: int) -> Excerpt:
    name = f"1:{offset_of(lines, number)}"
    return read_excerpts(con, [name])[name]


def test_an_engine_line_is_shown_as_it_stands(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "decode.log", LOG)
    with opened(tmp_path, path) as con:
        assert one(con, LOG, 2) == Excerpt(
            1, "decode.log", 3, offset_of(LOG, 2), hashlib.sha256(path.read_bytes()).hexdigest(),
            LOG[2], "")
        assert one(con, LOG, 3).text == LOG[3]


def test_the_configuration_is_shortened_to_what_matters(tmp_path: Path) -> None:
    with opened(tmp_path, write(tmp_path / "decode.log", LOG)) as con:
        text = one(con, LOG, 1).text
    assert text == (
        '[2026-12-01 04:24:46] server_args: disaggregation_mode="decode", '
        'disaggregation_transfer_backend="mooncake", context_length=8192, page_size=16, '
        "tp_size=2, dp_size=1, …")


def test_an_unknown_line_is_its_length_and_hash(tmp_path: Path) -> None:
    with opened(tmp_path, write(tmp_path / "decode.log", LOG)) as con:
        text = one(con, LOG, 0).text
    digest = hashlib.sha256(LOG[0].encode()).hexdigest()
    assert text == f"(a line that is not recognised: {len(LOG[0])} bytes, sha256 {digest})"


def test_request_lines_are_rebuilt_from_safe_fields(tmp_path: Path) -> None:
    obj = Call(rid="abc", text="CONTENT", input_ids=[424242] * 9, stream=True,
               bootstrap_host="10.0.0.1", bootstrap_port=8998, bootstrap_room=ROOM)
    out = {"text": "CONTENT", "meta_info": {
        "id": "abc", "finish_reason": {"type": "stop", "matched": 424242}, "prompt_tokens": 35,
        "completion_tokens": 2, "cached_tokens": 0}}
    lines = [json_line("request.finished", obj, {"x-smg-routing-key": "CONTENT"}, out),
             text_line("Finish", obj, {"x-smg-routing-key": "CONTENT"}, out),
             text_line("Receive OpenAI", {"model": "m", "messages": [{"content": "CONTENT"}],
                                          "bootstrap_room": ROOM})]
    with opened(tmp_path, write(tmp_path / "requests.log", lines)) as con:
        texts = [one(con, lines, number).text for number in range(3)]
    assert texts[0] == (
        '[2026-12-01 04:22:17] {"timestamp": "2026-12-01T04:22:17.669894", "event": '
        '"request.finished", "obj": {"rid": "abc", "bootstrap_host": "10.0.0.1", '
        f'"bootstrap_port": 8998, "bootstrap_room": {ROOM}, "stream": true, …}}, "out": '
        '{"meta_info": {"finish_reason": {"type": "stop", …}, "prompt_tokens": 35, '
        '"completion_tokens": 2, "cached_tokens": 0, …}, …}, …}')
    assert texts[1] == (
        "[2026-12-01 04:22:17] Finish: obj=GenerateReqInput(rid='abc', "
        f"bootstrap_host='10.0.0.1', bootstrap_port=8998, bootstrap_room={ROOM}, stream=True, …), "
        "out={'meta_info': {'finish_reason': {'type': 'stop', …}, 'prompt_tokens': 35, "
        "'completion_tokens': 2, 'cached_tokens': 0, …}, …}")
    assert texts[2] == (
        f"[2026-12-01 04:22:17] Receive OpenAI: obj={{'bootstrap_room': {ROOM}, …}}")


CANARY = "kanarienvogel"
TOKEN = 73501973


def full_request() -> dict[str, Any]:
    """A request with the canary in every field that a client fills, and in every token list."""
    content = {
        name: f"{CANARY} in {name} " * 300 for name in (
            "text", "prompt", "session_params", "custom_logit_processor", "extra_key", "cache_salt",
            "lora_path", "routing_key", "conversation_id", "session_id", "priority", "model",
            "chat_template", "system", "suffix", "user", "echo_text", "regex", "json_schema")}
    return content | {
        "rid": "rid-1", "bootstrap_host": "10.0.0.1", "bootstrap_port": 8998,
        "bootstrap_room": ROOM, "stream": False, "input_ids": [TOKEN] * 30,
        "input_embeds": [[TOKEN]], "image_data": [f"data:image/png;base64,{CANARY}"],
        "messages": [{"role": "user", "content": CANARY, "name": CANARY},
                     {"role": "tool", "content": [{"type": "text", "text": CANARY}]}],
        "tools": [{"function": {"name": CANARY, "description": CANARY}}],
        "sampling_params": {"max_new_tokens": 8, "stop": [CANARY], "regex": CANARY,
                            "custom_params": {CANARY: CANARY}},
        "custom_labels": {CANARY: CANARY}, "logit_bias": {CANARY: 1.0},
        "external_trace_header": {"traceparent": CANARY, "tracestate": CANARY},
        "multi_item_delimiter_indices": [TOKEN],
    }


def full_answer() -> dict[str, Any]:
    return {"text": CANARY, "output_ids": [TOKEN] * 30, "meta_info": {
        "id": "rid-1", "finish_reason": {"type": "abort", "message": CANARY, "status_code": 400,
                                         "matched": CANARY},
        "prompt_tokens": 3, "completion_tokens": 4, "cached_tokens": 0,
        "output_token_logprobs": [[-0.1, TOKEN, CANARY]], "weight_version": CANARY,
        "hidden_states": CANARY, "response_text": CANARY}}


HEADERS = {"x-smg-routing-key": CANARY, "authorization": f"Bearer {CANARY}", "cookie": CANARY,
           "x-request-id": CANARY, "x-custom": CANARY}


def canary_lines() -> dict[str, list[str]]:
    """Every dialect that can carry content, by file."""
    request, answer = full_request(), full_answer()
    files: dict[str, list[str]] = {}
    for limit in (2**30, 2048, 64):
        for prefix in ("[2026-12-01 04:22:17] ", ""):
            files[f"requests-{limit}-{len(prefix)}.log"] = [
                json_line("request.received", request, HEADERS, prefix=prefix, limit=limit),
                json_line("request.finished", request, HEADERS, answer, prefix=prefix,
                          limit=limit),
                json_line("request.received.openai", request, HEADERS, prefix=prefix, limit=limit),
                text_line("Receive", Call(request), HEADERS, prefix=prefix, limit=limit),
                text_line("Finish", Call(request), HEADERS, answer, prefix=prefix, limit=limit),
                text_line("Receive OpenAI", request, HEADERS, prefix=prefix, limit=limit),
                text_line("Finish", Call(request), HEADERS, answer)[:700],
                json_line("request.finished", request, HEADERS, answer)[:900],
                *text_line("Receive", Call(request | {"text": CANARY})).replace(
                    CANARY, f"{CANARY}\n{CANARY}").split("\n"),
            ]
    batch = request | {"rid": ["rid-1", "rid-2"], "bootstrap_room": [ROOM, ROOM + 1],
                       "text": [CANARY, CANARY], "input_ids": [[TOKEN], [TOKEN]]}
    files["batch.log"] = [json_line("request.finished", batch, HEADERS, answer),
                          text_line("Finish", Call(batch), HEADERS, answer)]
    files["export.log"] = [json.dumps(
        {"request_parameters": json.dumps(request), **answer["meta_info"]})]
    files["engine.log"] = [
        f"[2026-12-01 04:24:46] server_args=ServerArgs(page_size=16, chat_template='{CANARY}', "
        f"api_key='{CANARY}', served_model_name='m', json_model_override_args='{CANARY}', "
        "disaggregation_mode='prefill', disaggregation_transfer_backend='nixl')",
        f"{STAMP}Failed to compile json grammar: {{'const': '{CANARY}'}}, self.rid='rid-1'",
        f"{STAMP}Invalid grammar request with cache hit: key=('json', '{CANARY}'), "
        "self.rid='rid-1'",
        f"{STAMP}Multimodal input error: {CANARY}, self.rid='rid-1'",
        f"{STAMP}Input length (5 tokens) exceeds the maximum allowed length (4 tokens). Use a "
        f"shorter input. text='{CANARY}', self.rid='rid-1'",
        f"{STAMP}Deferred KV release for room {ROOM} timed out after 30.0s without a full drain "
        f"ack from prefill; releasing anyway.[2026-12-01 04:22:17] Receive: obj=G(text='{CANARY}')",
        f"{STAMP}Session 10.0.0.1:15 failed. 'messages': ['{CANARY}']",
        f"{STAMP}Decode transfer failed for request rank=0 decode_req.req.rid='rid-1' "
        f"decode_req.req.bootstrap_room={ROOM} with exception KVTransferError(bootstrap_room="
        f"{ROOM}): input_ids=[{TOKEN}, {TOKEN}]",
        f"{STAMP}Decode transfer failed for request rank=0 decode_req.req.rid='rid-1' "
        f"decode_req.req.bootstrap_room={ROOM} with exception KVTransferError(bootstrap_room="
        f"{ROOM}): [{', '.join([str(TOKEN)] * 9)}",
        f"{CANARY} E1201 04:25:19.357470 25175 worker_pool.cpp:654] Worker: Process failed for "
        "slice (length: 65536, peer_nic: 10.0.2.11:15125@mlx5_0): transport retry counter exceeded",
        f'[2026-12-01 04:22:17] INFO:     10.0.0.1:53 - "GET /generate?text={CANARY} HTTP/1.1" 200',
        f"{STAMP}something that no grammar knows {CANARY}",
        f"{CANARY} {TOKEN}",
    ]
    return files


def test_no_content_reaches_an_excerpt(tmp_path: Path) -> None:
    files = [write(tmp_path / "in" / name, lines) for name, lines in canary_lines().items()]
    with opened(tmp_path, tmp_path / "in") as con:
        # Every line, whether the case has rows of it or not.
        ids = [f"{file}:{offset_of(lines, number)}"
               for file, name in con.execute("SELECT evidence_id, name FROM evidence").fetchall()
               for lines in [path.read_text().split("\n")[:-1] for path in files
                             if name.endswith(path.name)]
               for number in range(len(lines))]
        found = read_excerpts(con, ids)
        recognised = set(all_ids(con))
    assert len(recognised) > 40
    assert len(ids) == sum(len(p.read_text().split("\n")) - 1 for p in files)
    for name in ids:
        text = found[name].text
        assert text, found[name]
        assert CANARY not in text, text
        assert str(TOKEN) not in text, text
    words = {match[1] for e in found.values() if (match := re.search(r"([\w ]+): obj=", e.text))}
    assert {word.strip() for word in words} == {"Receive", "Finish", "Receive OpenAI"}
    assert any("Failed to compile json grammar…, self.rid='rid-1'" in e.text
               for e in found.values())


@pytest.mark.parametrize("version", ["0.5.18", "0.5.23"])
@pytest.mark.parametrize("dialect", ["request_log_json", "request_log_text", "metrics_export",
                                     "server_info", "model_info", "loads"])
def test_fixtures_of_the_formats_give_excerpts(
    tmp_path: Path, dialect: str, version: str
) -> None:
    suffix = "log" if dialect in ("request_log_json", "request_log_text", "metrics_export") else (
        "json")
    fixture = Path(__file__).parent / "fixtures" / f"{dialect}.{version}.{suffix}"
    with opened(tmp_path, fixture) as con:
        found = read_excerpts(con, all_ids(con))
    assert found
    for excerpt in found.values():
        assert excerpt.note == ""
        assert excerpt.line_no > 0
        assert 0 < len(excerpt.text) <= MAX_CHARS + 40
        assert "Filler" not in excerpt.text  # the word that the fixtures' prompts begin with


def test_page_events_say_what_their_lines_say(tmp_path: Path) -> None:
    fixture = Path(__file__).parent / "fixtures" / "page_trace.decode.jsonl"
    lines = fixture.read_text().splitlines()
    with opened(tmp_path, fixture) as con:
        texts = [one(con, lines, number).text for number in range(len(lines))]
    assert '"ev": "header"' in texts[0]
    assert '"host": "node-g6", "role": "decode", "dp_rank": 1' in texts[0]
    for line, text in zip(lines[1:6], texts[1:6], strict=True):
        assert json.loads(text.replace(", …}", "}")) == json.loads(line)


def test_long_and_hostile_lines_are_bounded_and_visible(tmp_path: Path) -> None:
    lines = [f"{STAMP}Session \u202e\x07{'y' * 60} failed. {'z' * 3000}",
             f"{STAMP}Session <script> failed."]
    with opened(tmp_path, write(tmp_path / "prefill.log", lines)) as con:
        first, second = one(con, lines, 0).text, one(con, lines, 1).text
    assert "\\u202e\\x07y" in first
    assert first.endswith(f"… (+{len(lines[0]) - MAX_CHARS} characters)")
    assert second == lines[1]  # escaping is the page's business


def test_visible_text_has_no_hidden_characters() -> None:
    assert visible("a\x1b[31m\u200b\u2066b\ud800", 40) == "a\\x1b[31m\\u200b\\u2066b\\ud800"
    assert visible("abcdef", 4) == "abcd… (+2 characters)"
    assert visible("naïve 页", 40) == "naïve 页"
    assert visible("Z" + "\u0334" * 5, 40) == "Z" + "\u0334" * 2 + "\\u0334" * 3


def test_secrets_in_engine_messages_are_redacted() -> None:
    assert scrub("run --api-key hunter2 on http://me:pw@host/") == (
        "run --api-key [redacted] on http://[redacted]@host/")


def test_a_file_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "decode.log", LOG)
    with opened(tmp_path, path) as con:
        path.unlink()
        excerpt = one(con, LOG, 2)
    assert excerpt.text == ""
    assert "no longer where it was read" in excerpt.note
    assert (excerpt.line_no, excerpt.byte_offset) == (3, offset_of(LOG, 2))


def test_a_changed_file_shows_nothing_of_the_new_content(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "decode.log", LOG)
    with opened(tmp_path, path) as con:
        path.write_bytes(path.read_bytes().replace(b"output_len=64", b"output_len=65"))
        excerpt = one(con, LOG, 2)
    assert excerpt.text == ""
    assert "no longer holds what it held" in excerpt.note


def test_what_is_proven_of_a_changed_file_is_still_shown(tmp_path: Path) -> None:
    lines = [*LOG, *(LOG[2].replace("abc", f"rid-{n}") for n in range(200))]
    path = write(tmp_path / "in" / "decode.log", lines)
    with opened(tmp_path, path) as con:
        with path.open("r+b") as file:
            file.seek(-3, io.SEEK_END)
            file.write(b"X")
        assert one(con, lines, 2).text == LOG[2]
        assert one(con, lines, 203).text == ""


def test_a_file_that_grew_is_read_as_it_was(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "decode.log", LOG)
    with opened(tmp_path, path) as con:
        with path.open("ab") as file:
            file.write(b"more\n")
        assert one(con, LOG, 3).text == LOG[3]


def test_a_file_without_a_last_line_end(tmp_path: Path) -> None:
    path = tmp_path / "decode.log"
    path.write_text("\n".join(LOG))
    with opened(tmp_path, path) as con:
        assert one(con, LOG, 3).text == LOG[3]


def test_a_kept_copy_stands_in_for_a_rotated_file(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "decode.log", LOG)
    ingest([str(path)], tmp_path / "case", workers=1, copy_evidence=True)
    path.unlink()
    with open_case(tmp_path / "case", read_only=True) as case:
        assert one(case.con, LOG, 3).text == LOG[3]


def test_members_of_archives_and_compressed_files_are_read(tmp_path: Path) -> None:
    content = "".join(f"{line}\n" for line in LOG).encode()
    packed = tmp_path / "decode.log.gz"
    packed.write_bytes(gzip.compress(content))
    archive = tmp_path / "bundle.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("a/prefill.log", "b/prefill.log"):
            data = content.replace(b"abc", name[0].encode() * 3).replace(b"'decode'", b"'prefill'")
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    with opened(tmp_path, packed, archive) as con:
        found = read_excerpts(con, all_ids(con))
    shown = {e.name: e.text for e in found.values() if "ReqTimeStats" in e.text}
    assert shown == {
        "decode.log.gz": LOG[2],
        "bundle.tar.gz!a/prefill.log": LOG[2].replace("abc", "aaa"),
        "bundle.tar.gz!b/prefill.log": LOG[2].replace("abc", "bbb")}
    assert all(e.note == "" for e in found.values())


def test_a_collectors_wrapping_is_taken_off(tmp_path: Path) -> None:
    lines = [json.dumps({"log": f"{line}\n", "stream": "stderr",
                         "time": f"2026-12-01T04:25:5{n}.000000001Z"})
             for n, line in enumerate(LOG)]
    with opened(tmp_path, write(tmp_path / "decode-json.log", lines)) as con:
        assert one(con, lines, 2).text == LOG[2]


def test_utf16_files_are_read_at_their_text_offsets(tmp_path: Path) -> None:
    path = tmp_path / "decode.log"
    path.write_bytes("".join(f"{line}\n" for line in LOG).encode("utf-16"))
    with opened(tmp_path, path) as con:
        row = con.execute("SELECT byte_offset FROM time_stats").fetchone()
        assert row is not None
        assert read_excerpts(con, [f"1:{row[0]}"])[f"1:{row[0]}"].text == LOG[2]


def test_ids_that_name_nothing_are_answered(tmp_path: Path) -> None:
    path = write(tmp_path / "decode.log", LOG)
    with opened(tmp_path, path) as con:
        found = read_excerpts(con, ["x", "9:0", "1:999999", "1:3", "1:" + "9" * 40, "1:-1"])
    assert found["x"].note == found["1:" + "9" * 40].note == found["1:-1"].note == (
        "This is no evidence id.")
    assert found["9:0"].note == "The case has no such file."
    # Beyond the end, and in the middle of a line.
    for name in ("1:999999", "1:3"):
        assert found[name].text == ""
        assert found[name].note


def test_no_ids_give_no_excerpts(tmp_path: Path) -> None:
    with opened(tmp_path, write(tmp_path / "decode.log", LOG)) as con:
        assert read_excerpts(con, []) == {}


def test_a_rejected_line_is_not_quoted() -> None:
    text = line_text(b"secret", b"secret", {"reject": [{"reason": "x"}]})
    assert text.startswith("(a line that could not be parsed: 6 bytes, sha256 ")
    assert "secret" not in text
