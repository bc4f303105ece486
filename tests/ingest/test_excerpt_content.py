"""No content in an excerpt: canaries in every field of every dialect, also behind collectors."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from excerpt_runs import LOG, ROOM, STAMP, all_ids, offset_of, opened, write
from request_dialects import Call, json_line, text_line
from wrapped import HOSTS, KINDS

from ingest.excerpts import read_excerpts

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


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_content_comes_out_from_behind_a_collector(tmp_path: Path, kind: str) -> None:
    wrap, spelling, _, _ = KINDS[kind]
    stream = spelling % HOSTS[0] if "%s" in spelling else spelling
    lines = [line for name, found in canary_lines().items() for line in found
             if f"-{2**30}-" not in name]
    pairs = [(stream, line.encode()) for line in [*LOG, *lines]]
    data = wrap(pairs, random.Random(7))
    path = tmp_path / "in" / f"{kind}.log"
    path.parent.mkdir()
    path.write_bytes(data)
    with opened(tmp_path, path) as con:
        offsets = [0, *(match.end() for match in re.finditer(rb"\n", data[:-1]))]
        recognised = all_ids(con)
        found = read_excerpts(con, [*(f"1:{offset}" for offset in offsets), *recognised])
    assert len(recognised) > 20
    for excerpt in found.values():
        assert excerpt.text or excerpt.note
        assert CANARY not in excerpt.text, excerpt.text
        assert str(TOKEN) not in excerpt.text, excerpt.text
    assert any("obj=" in excerpt.text for excerpt in found.values())
