"""Engine messages that state a fact: failures, releases, refusals, detectors, pools, starts.

Each rule is the documented format string of the printing code (engine-telemetry.md, sections 3 to 5
and 10.5; sglang/srt, 0.5.9 to 0.5.23). The rules are tried by the first word of the message.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ingest.records import MAX_ROOM, to_json
from ingest.redact import message as kept


class Rule(NamedTuple):
    """``pattern`` with named groups rid, room, peer, n1, n2, session, reason; ``attrs``: groups
    that go into attrs under their own names."""

    kind: str
    pattern: re.Pattern[bytes]
    role: str | None = None
    attrs: tuple[str, ...] = ()


def _rule(kind: str, pattern: str, role: str | None = None, *attrs: str) -> Rule:
    return Rule(kind, re.compile(pattern.encode(), re.DOTALL), role, attrs)


_FAILED: Final = (
    r"(?: for request)? rank=(?P<rank>\d{1,5}) (?:decode_req\.)?req\.rid="
    r"(?P<q>['\"])(?P<rid>.{0,512}?)(?P=q) (?:decode_req\.)?req\.bootstrap_room="
    r"(?P<room>\d{1,20}|None)"
    r"(?: with exception KVTransferError\(bootstrap_room=(?:\d{1,20}|None)\): (?P<reason>.*))?")
_RID: Final = r"(?P<q>['\"])(?P<rid>.{0,512}?)(?P=q)"

# First word -> rules in the order in which they are tried.
_RULES: Final[dict[bytes, tuple[Rule, ...]]] = {
    b"Decode": (
        _rule("decode_transfer_failed", "Decode transfer failed" + _FAILED, "decode", "rank"),
        _rule("decode_handshake_failed", "Decode handshake failed" + _FAILED, "decode", "rank"),
    ),
    b"Prefill": (
        _rule("prefill_transfer_failed", "Prefill transfer failed" + _FAILED, "prefill", "rank"),
        _rule("prefill_bootstrap_failed", "Prefill bootstrap failed" + _FAILED, "prefill", "rank"),
    ),
    b"Input": (
        _rule("input_too_long",
              r"Input length \((?P<n1>\d+) tokens\) exceeds the maximum allowed length "
              r"\((?P<n2>\d+) tokens\)\..*?(?:, self\.rid=" + _RID + r")?$"),
    ),
    b"Request": (
        _rule("client_disconnected",
              r"Request is disconnected from the client side \(type (?P<n1>\d+)\)\. Abort request "
              r"obj\.rid=" + _RID),
        _rule("reject_prefill",
              r"Request (?P<rid>\S{1,512}) exceeds the maximum number of tokens: "
              r"(?P<n1>\d+) > (?P<n2>\d+)", "prefill"),
        _rule("abort_received",
              r"Request with bootstrap_room=(?P<room>\d{1,20}) already failed", "prefill"),
        _rule("truncated",
              r"Request length is longer than .*? len\(req\.origin_input_ids\)=(?P<n1>\d+), "
              r"max_req_input_len=(?P<n2>\d+)"),
    ),
    b"[http_server]": (
        _rule("client_disconnected",
              r"\[http_server\] Error: Request is disconnected from the client side "
              r"\(type (?P<n1>\d+)\)\. Abort request obj\.rid=" + _RID),
        _rule("http_input_too_long",
              r"\[http_server\] Error: (?:Input length \(|The input \()(?P<n1>\d+) tokens\)"
              r" (?:exceeds the maximum allowed length|is longer than the model's context length)"
              r" \((?P<n2>\d+) tokens\)"),
    ),
    b"The": (
        _rule("ready", r"The server is fired up and ready to roll!"),
        _rule("http_input_too_long",
              r"The input \((?P<n1>\d+) tokens\) is longer than the model's context length "
              r"\((?P<n2>\d+) tokens\)"),
    ),
    b"Deferred": (
        _rule("deferred_timeout",
              r"Deferred KV release for room (?P<room>\d{1,20}) timed out after "
              r"(?P<seconds>[\d.]{1,12})s", "decode", "seconds"),
        _rule("deferred_failed", r"Deferred KV release failed for room (?P<room>\d{1,20})",
              "decode"),
    ),
    b"Generation-less": (
        _rule("generationless_ack", r"Generation-less ABORT_ACK received", "decode"),
        _rule("abort_received", r"Generation-less ABORT for room (?P<room>\d{1,20})", "prefill"),
    ),
    b"Context": (
        _rule("context_corruption",
              r"Context corruption detected: Request (?P<rid>\S{1,512}) \(bootstrap_room="
              r"(?P<room>\d{1,20})\) received metadata from bootstrap_room=(?P<peer>\d{1,20})\."
              r" Metadata buffer index: (?P<n1>\d+)", "decode"),
    ),
    b"Metadata": (
        _rule("metadata_not_ready",
              r"Metadata unexpectedly not ready after readiness gate: request (?P<rid>[^,]{1,512}),"
              r" bootstrap_room=(?P<room>\d{1,20}), metadata_buffer_index=(?P<n1>\d+)", "decode"),
    ),
    b"KV": (
        _rule("checksum_mismatch",
              r"KV checksum mismatch(?P<peer_rank> on a peer rank)? req=(?P<rid>\S{1,512}) "
              r"bootstrap_room=(?P<room>\d{1,20})(?: (?P<reason>expected=.*))?", "decode"),
        _rule("checksum_skipped", r"KV checksum skipped: (?P<reason>.*)", "decode"),
        _rule("retracted",
              r"KV cache pool is full\. Retract requests\. #retracted_reqs: (?P<n1>\d+), "
              r"#new_tokens?_gained: (?P<n2>\d+)"),
        _rule("pool_short",
              r"KV pool holds (?P<n1>\d+) tokens, fewer than --context-length (?P<n2>\d+)"),
        _rule("kv_cache",
              r"KV Cache is allocated\. dtype: (?P<dtype>[\w.]{1,40}), #tokens: (?P<n1>\d+)", None,
              "dtype"),
        _rule("memory_check", r"KV page use-after-free: (?P<n1>\d+)"),
        _rule("canary_violation",
              r"KV cache canary violation detected \(kernel_kind=(?P<launch_tag>\w{1,40}), "
              r"slot_idx=(?P<n1>\d+), position=(?P<n2>\d+)\)", None, "launch_tag"),
    ),
    b"kv_canary": (
        _rule("canary_violation",
              r"kv_canary violation: launch_tag=(?P<launch_tag>\w{1,40}) fail_reason="
              r"(?P<fail_reason>[\w+]{1,120}) slot_idx=(?P<n1>\d+) position=(?P<n2>\d+)", None,
              "launch_tag", "fail_reason"),
    ),
    b"[canary]": (
        _rule("canary_stats",
              r"\[canary\] step=(?P<n1>\d+) protected_tokens=(?P<protected_tokens>\d+) "
              r"sweep_passes=(?P<sweep_passes>\d+) violations=(?P<n2>\d+)", None,
              "protected_tokens", "sweep_passes"),
    ),
    b"kv-canary:": (_rule("canary_overflow", r"kv-canary: per-forward verify skipped this step"),),
    b"install_canary:": (_rule("canary_installed", r"install_canary: (?P<reason>.{0,400})"),),
    b"len(prefill_state_indices)": (
        _rule("state_len_mismatch",
              r"len\(prefill_state_indices\) = (?P<n1>\d+), len\(dst_state_indices\) = (?P<n2>\d+)",
              "prefill"),
    ),
    b"len(chunked_dst_kv_indice)": (
        _rule("kv_len_mismatch",
              r"len\(chunked_dst_kv_indice\) = (?P<n1>\d+), len\(kv_chunk\.prefill_kv_indices\) = "
              r"(?P<n2>\d+)", "prefill"),
    ),
    b"State": (
        _rule("state_len_mismatch",
              r"State index length mismatch.{0,40}? (?:src|prefill)=(?P<n1>\d+),? dst=(?P<n2>\d+)",
              "prefill"),
    ),
    b"CommonKVSender": (
        _rule("sender_init",
              r"CommonKVSender init with num_kv_indices: (?P<n1>\d+) and aux_index: (?P<n2>\d+)",
              "prefill"),
    ),
    b"Session": (
        _rule("session_failed", r"Session (?P<session>\S{1,120}) failed\.", "prefill"),
        _rule("session_recovered", r"Session (?P<session>\S{1,120}) recovered via probe",
              "prefill"),
    ),
    b"Received": (
        _rule("state_deleted",
              r"Received output for rid=" + _RID + r" but the state was deleted"),
        _rule("abort_received",
              r"Received abort notification for room (?P<room>\d{1,20})(?P<reason>.*)", "prefill"),
    ),
    b"Abort": (
        _rule("abort_unknown_rid",
              r"Abort request for rid=(?P<rid>\S{1,512}) not found in rid_to_state"),
        _rule("abort_queue",
              r"Abort (?P<queue>\w+(?: \w+)?)(?: queue)? request\. ?(?:decode_req\.)?"
              r"(?:req\.rid=(?P<rid>\S{1,512}))?", None, "queue"),
    ),
    b"Sent": (
        _rule("abort_sent", r"Sent abort notification for room (?P<room>\d{1,20})", "decode"),
        _rule("abort_ack_sent", r"Sent ABORT_ACK for room (?P<room>\d{1,20})", "prefill"),
    ),
    b"Lost": (
        _rule("prefill_lost",
              r"Lost connection with prefill instance \(bootstrap_addr: "
              r"(?P<session>[^)]{1,120})\), (?P<n1>\d+) requests affected", "decode"),
    ),
    b"Some": (
        _rule("timeouts_once", r"Some requests (?:timed out when bootstrapping|fail to receive)"),
    ),
    b"retract_decode:": (
        _rule("retract_aborted",
              r"retract_decode: aborted (?:last )?request (?P<rid>[^\s:]{1,512})", "decode"),
    ),
    b"Req": (
        _rule("optimistic_retry",
              r"Req (?P<rid>\S{1,512}) (?:optimistic prefill yielded|exhausted optimistic)",
              "prefill"),
    ),
    b"PD": (_rule("role_switch", r"PD role switch (?P<reason>.{0,200})"),),
    b"Start": (_rule("warmup", r"Start of pd disaggregation warmup"),),
    b"End": (_rule("warmup", r"End of prefill (?:disaggregation mode )?warmup"),),
    b"SIGTERM": (_rule("stopping", r"SIGTERM received"),),
    b"SIGQUIT": (_rule("crashed", r"SIGQUIT received"),),
    b"Subprocess": (
        _rule("crashed", r"Subprocess (?P<process>\w{1,60}) \(pid=\d+\) crashed", None, "process"),
    ),
    b"Scheduler": (_rule("crashed", r"Scheduler hit an exception"),),
    b"Load": (
        _rule("model_loaded", r"Load weight end\..*?type=(?P<type>\w{1,120})", None, "type"),
    ),
    b"SWAKVPool": (_rule("pool_hybrid", r"SWAKVPool (?P<reason>.{0,200})"),),
    b"Use": (_rule("pool_hybrid", r"Use sliding window memory pool\. (?P<reason>.{0,200})"),),
    b"Mamba": (_rule("pool_hybrid", r"Mamba Cache is allocated\. (?P<reason>.{0,300})"),),
    b"DSV4": (_rule("pool_hybrid", r"DSV4 pool sizes: (?P<reason>.{0,300})"),),
    b"[unified-memory-pool]": (
        _rule("pool_hybrid", r"\[unified-memory-pool\] (?P<reason>.{0,200})"),),
    b"NIXL": (
        _rule("nixl_error", r"NIXL transport error for room (?P<room>\d{1,20}): (?P<reason>.*)",
              "prefill"),
        _rule("nixl_error", r"NIXL invalidated remote agent (?P<session>\S{1,120})", "prefill"),
    ),
    b"Unexpected": (
        _rule("nixl_error", r"Unexpected transfer worker error for room (?P<room>\d{1,20})",
              "prefill"),
    ),
    b"prefill": (_rule("transfer_thread_died", r"prefill bootstrap_thread died", "prefill"),),
    b"Mori": (
        _rule("mori_error",
              r"Mori transfer (?:submission|worker|drainer) failed for room (?P<room>\d{1,20})",
              "prefill"),
    ),
    b"Room": (
        _rule("abort_received", r"Room (?P<room>\d{1,20}) marked Failed via ABORT", "prefill"),
    ),
    b"[STAGING]": (
        _rule("staging_error", r"\[STAGING\] (?P<reason>.*?room=(?P<room>\d{1,20}).*)"),),
    b"RuntimeError:": (
        _rule("transfer_thread_died", r"RuntimeError: Transfer thread failed because of ",
              "prefill"),
        _rule("state_len_mismatch",
              r"RuntimeError: State index length mismatch.{0,60}? prefill=(?P<n1>\d+), "
              r"dst=(?P<n2>\d+)", "prefill"),
    ),
    b"ValueError:": (
        _rule("client_disconnected",
              r"ValueError: Request is disconnected from the client side \(type (?P<n1>\d+)\)\. "
              r"Abort request obj\.rid=" + _RID),
    ),
    b"[Mem": (_rule("memory_check", r"\[Mem Check (?P<reason>.{0,300})"),),
    b"Cache": (_rule("flush_cache", r"Cache flushed successfully"),),
    b"Traceback": (_rule("traceback", r"Traceback \(most recent call last\)"),),
}
_POOL = re.compile(rb"max_total_num_tokens=(\d+), .*?context_len=(\d+)")
_POOL_FIELD = re.compile(rb"(\w+)=([\d.]+)")
_SELF_RID = re.compile(rb"(?P<reason>.*), self\.rid=" + _RID.encode() + rb"$", re.DOTALL)
_TRUNCATED = re.compile(
    rb"len\(req\.origin_input_ids\)=(\d+), max_req_input_len=(\d+)")
_LEAK = re.compile(rb"memory leak detected!|leaked_full_pages=")
_GROUPS: Final[dict[str, Callable[[bytes], Any]]] = {"n1": int, "n2": int}


def parse(message: bytes) -> tuple[str, dict[str, Any]] | str | None:
    """Return (kind, columns) of a message, a reason why it is malformed, or None for no fact."""
    word = message[:40].split(b" ", 1)[0]
    for rule in _RULES.get(word, ()):
        match = rule.pattern.match(message)
        if match is not None:
            return _columns(rule, match)
    if word.startswith(b"max_total_num_tokens="):
        return _pool(message)
    if b"self.rid=" in message and (match := _SELF_RID.match(message)):
        return "finish_abort", {"rid": _text(match["rid"]), "reason": kept(match["reason"])}
    if b"max_req_input_len=" in message and (cut := _TRUNCATED.search(message)):
        return "truncated", {"n1": int(cut[1]), "n2": int(cut[2])}
    if b"leak" in message and _LEAK.search(message):
        return "memory_check", {"reason": kept(message)}
    return None


def _columns(rule: Rule, match: re.Match[bytes]) -> tuple[str, dict[str, Any]] | str:
    groups = match.groupdict()
    values: dict[str, Any] = {}
    if rule.role:
        values["role_hint"] = rule.role
    for name in ("rid", "session"):
        if groups.get(name) is not None:
            values[name] = _text(groups[name])
    for name, column in (("room", "room"), ("peer", "peer_room")):
        text = groups.get(name)
        if text is not None and text != b"None":
            if int(text) > MAX_ROOM:
                return f"{column} is out of range"
            values[column] = int(text)
    for name, convert in _GROUPS.items():
        if groups.get(name) is not None:
            if len(groups[name]) > 18:
                return f"{name} is out of range"
            values[name] = convert(groups[name])
    if groups.get("reason"):
        values["reason"] = kept(groups["reason"])
    if rule.kind == "deferred_timeout":
        values["n1"] = round(float(groups["seconds"]) * 1000)
    if rule.kind == "input_too_long" and "rid" not in values:
        return "http_input_too_long", values
    if groups.get("peer_rank"):
        values["reason"] = "on a peer rank"
    attrs = {name: _text(groups[name]) for name in rule.attrs if groups.get(name) is not None}
    if attrs:
        values["attrs"] = to_json(attrs)
    return rule.kind, values


def _pool(message: bytes) -> tuple[str, dict[str, Any]] | str:
    match = _POOL.match(message)
    if match is None:
        return "the pool line is cut"
    fields = {_text(name): _text(value) for name, value in _POOL_FIELD.findall(message)}
    return "pool", {"n1": int(match[1]), "n2": int(match[2]), "attrs": to_json(fields)}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")
