"""An invented case: summary, responses and exposures as an analysis writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ingest.excerpts import Excerpt

MECHANISMS = ("stale_handoff", "truncated_handoff", "late_write", "metadata_collision")
TIERS = ("confirmed", "probable", "possible", "not_assessable", "excluded")
EXPOSED = TIERS[:3]
BOUNDS = {"confirmed": (1.0, 1.0, 1.0), "probable": (0.5, 0.7, 0.9), "possible": (0.0, 0.2, 0.6),
          "not_assessable": (None, None, None), "excluded": (0.0, 0.0, 0.0)}


def response(number: int, tier: str, mechanism: str = "stale_handoff", **fields: Any) -> dict[
        str, Any]:
    """One object of responses.jsonl; the minute of its times is its number."""
    low, middle, high = BOUNDS[tier]
    code = {"confirmed": "counts_differ_stub", "probable": "over_limit_vulnerable",
            "possible": "late_window", "not_assessable": "prefill_record_missing",
            "excluded": "counts_equal"}[tier]
    weighed = [
        {"mechanism": m, "tier": tier if m == mechanism else "excluded",
         "probability": middle if m == mechanism else 0.0,
         "reasons": [code if m == mechanism else "no_trigger"]} for m in MECHANISMS]
    record = {
        "schema": "palimpsest/response/1", "room": str(7_000_000_000_000_000_000 + number),
        "attempt": 0, "rid": f"rid-{number}", "prefill_rid": f"prefill-rid-{number}",
        "request_id": None, "account": f"acct-{number % 3}", "model": "glm-5",
        "prefill_worker": "prefill-a", "decode_worker": "decode-b", "dp_rank": 0,
        "received_at": f"2026-09-08T{number // 60 % 24:02d}:{number % 60:02d}:00.000000000Z",
        "finished_at": f"2026-09-08T{number // 60 % 24:02d}:{number % 60:02d}:30.500000000Z",
        "prompt_tokens": 690_000 + number, "prefill_prompt_tokens": 1, "completion_tokens": 64,
        "http_status": 200, "finish_reason": "stop", "evidence_level": "L2",
        "recipient_tier": tier, "recipient_probability": middle,
        "recipient_probability_low": low, "recipient_probability_high": high,
        "source_tier": "excluded", "source_probability": 0.0, "mechanisms": weighed,
        "reasons": [{"code": code, "text": f"Reason of {number}.", "evidence": [f"3:{number}"]},
                    {"code": "no_trigger", "text": "No trigger.", "evidence": []}],
        "retry_of": None,
    }
    return record | fields


def exposure(recipient: dict[str, Any], source: str | None, **fields: Any) -> dict[str, Any]:
    """One object of exposures.jsonl."""
    return {
        "schema": "palimpsest/exposure/1", "recipient_room": recipient["room"],
        "recipient_attempt": recipient["attempt"], "recipient_account": recipient["account"],
        "source_room": source, "source_attempt": 0 if source else None,
        "source_account": "acct-source" if source else None, "mechanism": "stale_handoff",
        "tier": "possible", "probability": 0.25, "pages": 12, "tokens": None,
        "worker": "decode-b", "dp_rank": 0, "page_extents": None, "first_at": None,
        "last_at": None, "reasons": [{"code": "source_in_pool", "text": "It freed pages.",
                                      "evidence": []}]} | fields


def worker(name: str, role: str, version: str, states: dict[str, str], **fields: Any) -> dict[
        str, Any]:
    """One entry of summary.fleet."""
    limit = {"prefill": 681_274, "decode": 1_048_570}.get(role)
    return {
        "worker": name, "host": None, "role": role, "role_basis": "server_args",
        "version": {"low": version, "high": version, "basis": "stated in server_info"},
        "backend": "mooncake", "boots": 1,
        "pools": [{"dp": 0, "tokens": 681_280, "page_size": 64, "max_req_input_len": limit,
                   "context_len": 1_048_576}],
        "switches": {"SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE": None,
                     "allow_auto_truncate": False},
        "knowledge": {m: {"state": s, "why": f"because {s}"} for m, s in states.items()},
    } | fields


OPEN_FLEET = [
    worker("prefill-a", "prefill", "0.5.18", {"stale_handoff": "exposed", "late_write": "exposed"}),
    worker("decode-b", "decode", "0.5.18", {"late_write": "exposed",
                                            "metadata_collision": "closed"}),
]
FIXED_FLEET = [
    worker("prefill-a", "prefill", "0.5.23", {"stale_handoff": "closed", "late_write": "closed"}),
    worker("decode-b", "decode", "0.5.23", {"late_write": "closed",
                                            "metadata_collision": "closed"}),
]


def summary(records: Iterable[dict[str, Any]], fleet: list[dict[str, Any]] | None = None,
            **fields: Any) -> dict[str, Any]:
    """summary.json of the records, counted here once more and independently."""
    records = list(records)
    tiers = {t: sum(r["recipient_tier"] == t for r in records) for t in TIERS}
    shown = [r for r in records if r["recipient_tier"] in EXPOSED]
    blind = tiers["not_assessable"]
    party = {"low": 0, "expected": 0.0, "high": 0, "not_assessable": 0}
    return {
        "schema": "palimpsest/summary/1",
        "tool": {"version": "0.1.0", "knowledge_version": "1+abc", "evidence_root": "ab" * 32},
        "window": {"first": min((r["received_at"] for r in shown), default=None),
                   "last": max((r["finished_at"] for r in shown), default=None)},
        "observed": {"first": min((r["received_at"] for r in records), default=None),
                     "last": max((r["finished_at"] for r in records), default=None)},
        "exposed_responses": {
            "low": tiers["confirmed"],
            "expected": sum(r["recipient_probability"] for r in shown),
            "high": round(sum(r["recipient_probability_high"] for r in shown) + 0.499999),
            "not_assessable": blind},
        "accounts": {"as_recipient": party | {"low": 2, "expected": 2.4, "high": 3},
                     "as_source": party | {"expected": 0.9, "high": 1}, "known": True},
        "responses": {"total": len(records), "by_tier": tiers},
        "mechanisms": {m: {t: sum(w["tier"] == t for r in records for w in r["mechanisms"]
                                  if w["mechanism"] == m) for t in TIERS} for m in MECHANISMS},
        "coverage": {"L0": 0, "L1": 0, "L2": len(records), "L3": 0, "L4": 0},
        "reason_counts": {},
        "not_assessable": [{"code": "prefill_record_missing", "text": "no prefill record",
                            "responses": blind, "switch": "--log-requests"}] if blind else [],
        "missing": [{"what": "prefill-a prints no ReqTimeStats lines", "why": "token counts",
                     "switch": "--enable-request-time-stats-logging"}],
        "fleet": OPEN_FLEET if fleet is None else fleet,
        "findings": [{"code": "asymmetric_pools", "text": "Decode accepts what prefill refuses.",
                      "evidence": ["1:0"]}],
        "evidence": [{"id": 3, "name": "logs/decode.log", "sha256": "cd" * 32,
                      "format": "engine_log", "lines": 1234, "records": 1000, "rejects": 2,
                      "status": "ok", "first_at": "2026-09-08T00:00:00",
                      "last_at": "2026-09-08T23:00:00"}],
    } | fields


def excerpts(ids: Iterable[str]) -> dict[str, Excerpt]:
    """A line for every id, as ingest.excerpts gives them."""
    return {i: Excerpt(3, "logs/decode.log", 17, int(i.split(":")[1]), "cd" * 32,
                       f"[2026-09-08 00:00:00 TP0] ReqTimeStats(line of {i})", "") for i in ids}
