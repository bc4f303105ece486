"""The engine process log: lines that real programs printed, and documented ones of old builds."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.formats.engine_log import EngineLog
from ingest.formats.glog import Glog
from ingest.formats.uvicorn_access import UvicornAccess
from ingest.records import ENGINE_KINDS, TABLES, Batch, Line

ENGINE, GLOG, ACCESS = EngineLog(), Glog(), UvicornAccess()
ROOM = 6917529027641081856


def parse(text: str | bytes, line_format=ENGINE) -> Batch:
    batch = Batch()
    raw = text.encode() if isinstance(text, str) else text
    assert line_format.parse(Line(raw, 7, 420, "s", 99), batch)
    return batch


def one(text: str, table: str = "engine_event", line_format=ENGINE) -> dict:
    batch = parse(text, line_format)
    assert not batch.rejects, batch.rejects
    (row,) = batch.rows[table]
    assert (row["line_no"], row["byte_offset"], row["stream"], row["outer_ns"]) == (7, 420, "s", 99)
    list(batch.arrow())
    return row


@pytest.mark.parametrize(("prefix", "expected"), [
    ("[2025-09-29 08:12:31]", {"stamp_ns": 1759133551 * 10**9, "stamp_res_ns": 10**9}),
    ("[2025-09-29 08:12:31.417 TP0]", {"stamp_ns": 1759133551417000000, "stamp_res_ns": 10**6,
                                       "tp": 0}),
    ("[2025-09-29 08:12:31 DP1 TP5 EP5]", {"dp": 1, "tp": 5, "ep": 5}),
    ("[2025-09-29 08:12:31 PP0 ATTN_CP0 TP0]", {"pp": 0, "attn_cp": 0, "tp": 0}),
    ("[2025-09-29 08:12:31 DP0 PP1 ATTN_CP2 MOE_DP3 TP4 EP5]",
     {"dp": 0, "pp": 1, "attn_cp": 2, "moe_dp": 3, "tp": 4, "ep": 5}),
    ("[2025-09-29 08:12:31 encode_dp_worker[2]]", {"stamp_res_ns": 10**9}),
    ("2025-09-29 08:12:31 TP0]", {"tp": 0}),
    ("[08:12:31 TP0]", {"tp": 0}),
])
def test_prefixes(prefix, expected):
    row = one(f"{prefix} The server is fired up and ready to roll!")
    assert row["kind"] == "ready"
    assert {key: row.get(key) for key in expected} == expected
    if prefix.startswith("[08"):
        assert row.get("stamp_ns") is None


P = "[2025-09-29 08:12:31 TP0] "
REASON = f"KVTransferError(bootstrap_room={ROOM}): Aborted by AbortReq."
EVENTS = [
    (f"Decode transfer failed for request rank=0 decode_req.req.rid='9f0c' "
     f"decode_req.req.bootstrap_room={ROOM} with exception {REASON}",
     {"kind": "decode_transfer_failed", "rid": "9f0c", "room": ROOM, "role_hint": "decode",
      "reason": "Aborted by AbortReq."}),
    (f"Decode handshake failed for request rank=3 decode_req.req.rid='9f0c' "
     f"decode_req.req.bootstrap_room={ROOM}",
     {"kind": "decode_handshake_failed", "rid": "9f0c", "room": ROOM}),
    (f"Prefill transfer failed for request rank=3 req.rid=\"it's\" req.bootstrap_room={ROOM} with "
     f"exception KVTransferError(bootstrap_room={ROOM}): Failed to send kv chunk of {ROOM} to "
     "10.0.3.4:41211",
     {"kind": "prefill_transfer_failed", "rid": "it's",
      "reason": f"Failed to send kv chunk of {ROOM} to 10.0.3.4:41211"}),
    (f"Prefill bootstrap failed for request rank=0 req.rid='x' req.bootstrap_room={ROOM} with "
     f"exception KVTransferError(bootstrap_room={ROOM}): Request {ROOM} timed out after 300.0s in "
     "KVPoll.Bootstrapping", {"kind": "prefill_bootstrap_failed", "room": ROOM}),
    ("Input length (2743 tokens) exceeds the maximum allowed length (2042 tokens). Use a shorter "
     "input or enable --allow-auto-truncate., self.rid='8ca2'",
     {"kind": "input_too_long", "n1": 2743, "n2": 2042, "rid": "8ca2"}),
    ("[http_server] Error: Input length (2743 tokens) exceeds the maximum allowed length (2042 "
     "tokens). Use a shorter input or enable --allow-auto-truncate.",
     {"kind": "http_input_too_long", "n1": 2743, "n2": 2042}),
    ("[http_server] Error: The input (8857 tokens) is longer than the model's context length "
     "(8192 tokens).", {"kind": "http_input_too_long", "n1": 8857, "n2": 8192}),
    ("Compiling grammar failed: bad schema, self.rid='8ca2'",
     {"kind": "finish_abort", "rid": "8ca2", "reason": "Compiling grammar failed: bad schema"}),
    ("Request length is longer than the KV cache pool size or the max context length. Truncated. "
     "len(req.origin_input_ids)=5000, max_req_input_len=2042.",
     {"kind": "truncated", "n1": 5000, "n2": 2042}),
    ("Request abc exceeds the maximum number of tokens: 5000 > 2048",
     {"kind": "reject_prefill", "rid": "abc", "n1": 5000, "n2": 2048}),
    (f"Deferred KV release for room {ROOM} timed out after 30.0s without a full drain ack from "
     "prefill; releasing anyway.", {"kind": "deferred_timeout", "room": ROOM, "n1": 30000}),
    (f"Deferred KV release failed for room {ROOM}", {"kind": "deferred_failed", "room": ROOM}),
    ("Generation-less ABORT_ACK received; ignoring it. Mixed SGLang versions may wait for the KV "
     "release timeout.", {"kind": "generationless_ack"}),
    (f"Context corruption detected: Request abc (bootstrap_room={ROOM}) received metadata from "
     "bootstrap_room=12. Metadata buffer index: 5. This indicates metadata buffer index collision.",
     {"kind": "context_corruption", "rid": "abc", "room": ROOM, "peer_room": 12, "n1": 5}),
    (f"Metadata unexpectedly not ready after readiness gate: request abc, bootstrap_room={ROOM}, "
     "metadata_buffer_index=3", {"kind": "metadata_not_ready", "room": ROOM, "n1": 3}),
    (f"KV checksum mismatch req=abc bootstrap_room={ROOM} expected=0x1 got=0x2",
     {"kind": "checksum_mismatch", "rid": "abc", "reason": "expected=0x1 got=0x2"}),
    (f"KV checksum mismatch on a peer rank req=abc bootstrap_room={ROOM}",
     {"kind": "checksum_mismatch", "reason": "on a peer rank"}),
    ("KV checksum skipped: prefill layout signature 0x1 differs from this decode's 0x2 …; its "
     "requests are admitted unverified.", {"kind": "checksum_skipped"}),
    ("kv_canary violation: launch_tag=HEAD_K_FULL fail_reason=verify_chain_hash+verify_token "
     "slot_idx=70413 position=812 stored_token=1923 expected_token=17",
     {"kind": "canary_violation", "n1": 70413, "n2": 812}),
    ("[canary] step=100 protected_tokens=5 sweep_passes=0 violations=2 launch_tags_active=4/8",
     {"kind": "canary_stats", "n1": 100, "n2": 2}),
    ("len(prefill_state_indices) = 1, len(dst_state_indices) = 410",
     {"kind": "state_len_mismatch", "n1": 1, "n2": 410, "role_hint": "prefill"}),
    ("State index length mismatch for dsa: src=1 dst=410; truncating to common prefix=1",
     {"kind": "state_len_mismatch", "n1": 1, "n2": 410}),
    ("len(chunked_dst_kv_indice) = 7, len(kv_chunk.prefill_kv_indices) = 8",
     {"kind": "kv_len_mismatch", "n1": 7, "n2": 8}),
    ("Session 10.0.3.4:16117 failed.", {"kind": "session_failed", "session": "10.0.3.4:16117"}),
    ("Lost connection with prefill instance (bootstrap_addr: 10.0.0.1:8998), 12 requests affected",
     {"kind": "prefill_lost", "n1": 12}),
    ("Request is disconnected from the client side (type 1). Abort request obj.rid='9f5c'",
     {"kind": "client_disconnected", "n1": 1, "rid": "9f5c"}),
    ("[http_server] Error: Request is disconnected from the client side (type 3). Abort request "
     "obj.rid='9f5c'", {"kind": "client_disconnected", "n1": 3, "rid": "9f5c"}),
    ("Received output for rid='9f5c' but the state was deleted in TokenizerManager.",
     {"kind": "state_deleted", "rid": "9f5c"}),
    (f"Sent abort notification for room {ROOM} to 10.0.0.1:9", {"kind": "abort_sent"}),
    (f"Received abort notification for room {ROOM}, marked as Failed; ACK deferred until transfer "
     "drains", {"kind": "abort_received", "room": ROOM, "role_hint": "prefill"}),
    ("KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 500, "
     "#new_token_ratio: 0.5 -> 0.6", {"kind": "retracted", "n1": 2, "n2": 500}),
    ("KV pool holds 1600 tokens, fewer than --context-length 8192. One full-length request cannot "
     "fit", {"kind": "pool_short", "n1": 1600, "n2": 8192}),
    ("max_total_num_tokens=431872, chunked_prefill_size=8192, max_prefill_tokens=16384, "
     "max_running_requests=4096, context_len=131072, available_gpu_mem=11.62 GB",
     {"kind": "pool", "n1": 431872, "n2": 131072}),
    ("max_total_num_tokens=1600, chunked_prefill_size=4096, max_prefill_tokens=16384, "
     "max_running_requests=800, context_len=8192, available_cpu_mem=18.69 GB",
     {"kind": "pool", "n1": 1600, "n2": 8192}),
    ("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 431872, K size: 26.36 GB, V size: "
     "26.36 GB", {"kind": "kv_cache", "n1": 431872}),
    ("Load weight end. elapsed=20.11 s, type=GlmMoeDsaForCausalLM, avail mem=71.40 GB",
     {"kind": "model_loaded", "attrs": '{"type":"GlmMoeDsaForCausalLM"}'}),
    ("SWAKVPool mem usage: 1.50 GB, swa size: 100, full size: 200", {"kind": "pool_hybrid"}),
    ("PD role switch succeeded: prefill -> decode", {"kind": "role_switch"}),
    ("SIGTERM received. signum=None frame=None. Draining requests", {"kind": "stopping"}),
    ("Subprocess scheduler_0 (pid=12) crashed with exit code -9.", {"kind": "crashed"}),
]


@pytest.mark.parametrize(("message", "expected"), EVENTS, ids=[e["kind"] for _, e in EVENTS])
def test_messages(message, expected):
    row = one(P + message)
    assert row["kind"] in ENGINE_KINDS
    assert {key: row.get(key) for key in expected} == expected
    assert set(row) <= set(TABLES["engine_event"].names)


DECODE = {
    "0.5.9": ("Decode batch, #running-req: 118, #token: 301224, token usage: 0.70, pre-allocated "
              "usage: 0.06, #prealloc-req: 1, #transfer-req: 5, #retracted-req: 0, cuda graph: "
              "True, gen throughput (token/s): 5310.02, #queue-req: 0", ""),
    "0.5.21": ("Decode batch [41], #running-req: 118, #full token: 301224, full token usage: 0.70, "
               "#swa token: 9, swa token usage: 0.01, pre-allocated usage: 0.06, #prealloc-req: 1, "
               "#transfer-req: 5, #host-receive-req: 2, #retracted-req: 0, cuda graph: True, gen "
               "throughput (token/s): 5310.02, #queue-req: 0", "host-receive-req"),
}


@pytest.mark.parametrize("version", DECODE)
def test_decode_batch(version):
    text, dialect = DECODE[version]
    row = one(P + text, "batch_line")
    assert (row["kind"], row["running_reqs"], row["used_tokens"]) == ("decode", 118, 301224)
    assert (row["token_usage"], row["prealloc_usage"], row["transfer_reqs"]) == (0.70, 0.06, 5)
    assert (row["throughput_tokens_s"], row["queue_reqs"]) == (5310.02, 0)
    assert row["dialect"] == dialect


PREFILL = {
    "0.4": ("Prefill batch. #new-seq: 3, #new-token: 4096, #cached-token: 512, token usage: 0.41, "
            "#running-req: 0, #queue-req: 7, #unbootstrapped-req: 2, #transferring-req: 4, ", ""),
    "0.5.9": ("Prefill batch, #new-seq: 3, #new-token: 4096, #cached-token: 512, token usage: 0.41,"
              " #running-req: 0, #queue-req: 7, #prealloc-req: 2, #inflight-req: 4, cuda graph: "
              "False, input throughput (token/s): 18211.43", "prealloc-req"),
    "0.5.16": ("Prefill batch, #new-seq: 3, #new-token: 4096, #cached-token: 512, token usage: "
               "0.41, #running-req: 0, #queue-req: 7, #pending-token: 5120, #bootstrap-req: 2, "
               "#inflight-req: 4, #optimistic-req: 0, cuda graph: False, input throughput "
               "(token/s): 18211.43", "bootstrap-req,optimistic-req,pending-token"),
}


@pytest.mark.parametrize("version", PREFILL)
def test_prefill_batch(version):
    text, dialect = PREFILL[version]
    row = one(P + text, "batch_line")
    assert (row["kind"], row["new_seqs"], row["new_tokens"], row["cached_tokens"]) == (
        "prefill", 3, 4096, 512)
    assert row["dialect"] == dialect


def test_time_stats_in_both_spellings():
    new = one(P + f"ReqTimeStats(rid=9f0c1e, bootstrap_room={ROOM}, input_len=812, "
              "cached_input_len=0, output_len=77, attempts=0, type=decode): bootstrap_duration="
              "1.20ms, alloc_wait_duration=0.31ms, transfer_duration=14.90ms, queue_duration="
              "0.42ms, forward_duration=2688.10ms, entry_time=1759133552.981", "time_stats")
    old = one(P + f"Req Time Stats(rid=9f0c1e, bootstrap_room={ROOM}, input len=812, output "
              "len=77, type=decode): bootstrap_duration=1.20ms, alloc_wait_duration=0.31ms, "
              "transfer_duration=14.90ms, queue_duration=0.42ms, forward_duration=2688.10ms, "
              "entry_time=1759133552.981", "time_stats")
    for row in (new, old):
        assert (row["rid"], row["room"], row["role"]) == ("9f0c1e", ROOM, "decode")
        assert (row["input_len"], row["output_len"]) == (812, 77)
        assert (row["transfer_ms"], row["forward_ms"]) == (14.9, 2688.1)
        assert row["entry_ns"] == 1759133552981000000
    assert (new["attempts"], old.get("attempts")) == (0, None)
    assert (new["spelling"], old["spelling"]) == ("ReqTimeStats", "Req Time Stats")


@pytest.mark.parametrize("speed", ["18.20 GB/s", "18.20GB/s"])
def test_time_stats_of_prefill(speed):
    row = one(P + "ReqTimeStats(rid=a, bootstrap_room=5, input_len=1308, cached_input_len=0, "
              "output_len=1, attempts=0, type=prefill): bootstrap_queue_duration=0.00ms, "
              f"queue_duration=0.00ms, forward_duration=148.23ms, entry_time=1791237603.679, "
              f"transfer_speed={speed}, transfer_total=78.75 MB", "time_stats")
    assert (row["transfer_speed_gb_s"], row["transfer_total_mb"]) == (18.2, 78.75)
    assert row["bootstrap_queue_ms"] == 0.0


@pytest.mark.parametrize("text", [
    "ReqTimeStats(rid=9f0c1e, bootstrap_room=1, input_len=8",
    "ReqTimeStats(rid=a, bootstrap_room=1, input_len=x, output_len=1, type=decode): ",
    "ReqTimeStats(rid=a, bootstrap_room=99999999999999999999, input_len=1, type=decode): ",
    "Decode batch, #running-req: many, #token: 1",
    "max_total_num_tokens=431872, chunked_prefill",
])
def test_damaged_lines_are_rejects_that_quote_nothing(text):
    batch = parse(P + text)
    assert len(batch.rejects) == 1
    assert not batch.rows
    assert "9f0c1e" not in batch.rejects[0].reason


def test_an_impossible_date_is_a_reject():
    assert len(parse("[2025-13-45 08:12:31 TP0] Decode batch, #running-req: 1").rejects) == 1


def test_request_log_lines_are_left_to_their_own_formats():
    for text in ('[2025-09-29 08:12:33] {"timestamp": "x"}',
                 "[2025-09-29 08:12:33] Receive: obj=GenerateReqInput(rid='x')",
                 "[2025-09-29 08:12:33] Finish: obj=GenerateReqInput(rid='x')",
                 '[2025-09-29 08:12:33] INFO:     1.2.3.4:5 - "GET / HTTP/1.1" 200 OK'):
        assert not ENGINE.parse(Line(text.encode(), 1, 0), Batch())


DATACLASS = ("server_args=ServerArgs(model_path='/m', port=30000, api_key='sk-1', page_size=64, "
             "mode=<DisaggregationMode.X: 'decode'>, bs=[1, 2, (3, 'a, b')], nested={'k': "
             "{'x': None}}, disaggregation_mode='prefill', allow_auto_truncate=False)")
DICT = ("server_args={'model_path': '/m', 'port': 30000, 'api_key': 'sk-1', 'page_size': 64, "
        "'mode': <DisaggregationMode.X: 'decode'>, 'bs': [1, 2, (3, 'a, b')], 'nested': {'k': "
        "{'x': None}}, 'disaggregation_mode': 'prefill', 'allow_auto_truncate': False}")


@pytest.mark.parametrize(("text", "dialect"), [(DATACLASS, "dataclass"), (DICT, "dict")])
def test_server_args_in_both_forms(text, dialect):
    batch = parse("[2025-09-29 07:58:02] " + text)
    rows = {row["key"]: row for row in batch.rows["config_entry"]}
    values = {key: json.loads(row["value"]) for key, row in rows.items()}
    assert values["page_size"] == 64
    assert values["bs"] == [1, 2, [3, "a, b"]]
    assert values["nested"] == {"k": {"x": None}}
    assert values["disaggregation_mode"] == "prefill"
    assert values["allow_auto_truncate"] is False
    assert "sk-1" not in json.dumps(values)
    assert {row["dialect"] for row in rows.values()} == {dialect}
    assert [row["kind"] for row in batch.rows["engine_event"]] == ["boot"]
    assert not batch.rejects


def test_cut_server_args_keep_the_whole_keys_and_say_so():
    batch = parse("[2025-09-29 07:58:02] " + DICT[:60])
    assert {row["key"] for row in batch.rows["config_entry"]} == {"model_path", "port"}
    assert len(batch.rejects) == 1


def test_server_args_are_never_evaluated():
    batch = parse("[2025-09-29 07:58:02] server_args={'a': __import__('os').getpid(), 'b': 1}")
    values = {row["key"]: json.loads(row["value"]) for row in batch.rows["config_entry"]}
    assert values["b"] == 1
    assert values["a"].startswith("__import__")


def test_token_ids_in_messages_are_not_kept():
    row = one(P + "Grammar failed for Req(rid=1, input_ids=[5, 6, 7]), self.rid='x'")
    assert re.search(r"5, ?6", json.dumps(row)) is None


def test_glog_failures_and_glued_lines():
    text = ("E1005 22:02:03.929026 20927 worker_pool.cpp:654] Worker: Process failed for slice "
            "(opcode: 1, peer_nic: 10.0.2.12:16130@mlx5_3, retry_cnt: 9): transport retry counter "
            "exceeded")
    for raw in (text, "Loading: 100% 14.38it/s]" + text):
        row = one(raw, line_format=GLOG)
        assert (row["kind"], row["session"]) == ("send_failed_slice", "10.0.2.12:16130")
        assert row["stamp_ns"] is None
        assert json.loads(row["attrs"])["mmdd"] == "1005"
    dated = one("E20261005" + text[5:], line_format=GLOG)
    assert dated["stamp_ns"] == 1791237723929026000
    assert parse("I1005 22:02:03.929026 20927 a.cpp:1] listening on 10.0.2.12:1", GLOG
                 ).other_lines == 1


@pytest.mark.parametrize(("text", "expected"), [
    ('[2025-09-29 08:12:31] INFO:     10.2.0.7:53412 - "POST /v1/chat/completions HTTP/1.1" 200 '
     "OK", ("10.2.0.7", 53412, "POST", "/v1/chat/completions", 200)),
    ('INFO:     77.xx.xx.78:1 - "GET /x?api_key=1 HTTP/1.1" 404', ("77.xx.xx.78", 1, "GET", "/x",
                                                                    404)),
    ('INFO:     ::1:40 - "GET / HTTP/1.1" 500 Internal Server Error', ("::1", 40, "GET", "/", 500)),
])
def test_access_lines(text, expected):
    row = one(text, "access_line", ACCESS)
    assert (row["client_addr"], row["client_port"], row["method"], row["path"],
            row["status_code"]) == expected


@given(st.binary(max_size=300))
def test_no_bytes_raise(raw):
    for line_format in (ENGINE, GLOG, ACCESS):
        batch = Batch()
        line_format.parse(Line(raw, 1, 0), batch)
        list(batch.arrow())


@given(st.sampled_from([m for m, _ in EVENTS] + [t for t, _ in (*DECODE.values(),
                                                               *PREFILL.values())]),
       st.data())
def test_no_damage_raises(message, data):
    raw = bytearray((P + message).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    batch = Batch()
    ENGINE.parse(Line(bytes(raw[: data.draw(st.integers(0, len(raw)))]), 1, 0), batch)
    list(batch.arrow())
