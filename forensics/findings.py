"""Findings of the case that are not verdicts on one response: detectors, contradictions, gaps."""

from __future__ import annotations

from typing import Any

import duckdb

import queries
from forensics.fleet import Fleet

# Engine lines that a responder must see, and what they mean and do not mean.
_LINES: dict[str, str] = {
    "context_corruption": (
        "metadata row of another room read ({n} lines): the requests were aborted; a sign that "
        "late writes happen, or the known false alarm on slow TCP transport (before PR 27374)"),
    "checksum_mismatch": "KV checksum mismatch ({n} lines): the requests were aborted",
    "checksum_skipped": "KV checksum skipped ({n} lines): those requests were admitted unverified",
    "canary_violation": "kv-canary violation ({n} lines): a slot's content was not its reader's",
    "deferred_timeout": (
        "deferred release timed out ({n} lines): pages were given away without proof that the "
        "write had ended"),
    "deferred_failed": "deferred release failed ({n} lines)",
    "generationless_ack": (
        "generation-less ABORT_ACK ignored ({n} lines): mixed builds; every abort waits for the "
        "timeout and is then released without proof"),
    "session_failed": "transfer session failed ({n} lines)",
    "state_len_mismatch": (
        "state lengths differ between the roles ({n} lines): with one on prefill's side, a stub "
        "was handed over"),
    "kv_len_mismatch": "page lists of the two roles differ in length ({n} lines)",
    "memory_check": "memory invariant lines ({n})",
    "role_switch": "PD role switch ({n} lines)",
    "transfer_thread_died": "a transfer thread died ({n} lines)",
    "truncated": "prefill truncated prompts ({n} lines)",
}


def findings(con: duckdb.DuckDBPyConnection, fleet: Fleet) -> list[dict[str, Any]]:
    """Return the findings of the case: code, text, evidence ids."""
    found = []
    for row in queries.rows(con, "event_count"):
        if row["kind"] in _LINES:
            found.append({
                "code": row["kind"],
                "text": f"{row['worker']}: " + _LINES[row["kind"]].format(n=row["n"]),
                "evidence": list(row["refs"])})
    for row in queries.rows(con, "unlinked_refusal"):
        found.append({
            "code": "refusal_without_room",
            "text": (f"{row['worker']}: {row['n']} refused prompts whose request no other line "
                     "names: the responses cannot be told"),
            "evidence": list(row["refs"])})
    for (worker_id, number), epoch in sorted(fleet.epochs.items()):
        name = fleet.workers[worker_id].name
        if epoch.contradictory:
            found.append({
                "code": "build_contradiction",
                "text": (f"{name} (boot {number}): its lines contradict the stated build; the "
                         "wider range counts"),
                "evidence": list(epoch.evidence)})
        if epoch.config.get("disaggregation_decode_enable_offload_kvcache") is True:
            found.append({
                "code": "offload_kvcache_on",
                "text": (f"{name}: decode KV offload is on; builds 0.5.10 to 0.5.12 free slots "
                         "early (mechanism O gets no per-response verdict yet)"),
                "evidence": list(epoch.evidence)})
    found.extend(_asymmetric(fleet))
    versions = {str(e.version) for e in fleet.epochs.values()}
    if len(versions) > 1:
        found.append({
            "code": "mixed_builds",
            "text": "several builds are in use: " + "; ".join(sorted(versions)), "evidence": []})
    for row in queries.rows(con, "router_only"):
        if row["n"]:
            found.append({
                "code": "router_only",
                "text": (f"{row['n']} request ids stand in the router log and in no worker's log: "
                         "they are in no count"),
                "evidence": list(row["refs"])})
    return found


def _asymmetric(fleet: Fleet) -> list[dict[str, Any]]:
    """Find pools whose limits let decode accept what prefill refuses or cuts off."""
    limits: dict[str, list[int]] = {"prefill": [], "decode": []}
    evidence: list[str] = []
    for (worker_id, _), epoch in sorted(fleet.epochs.items()):
        role = fleet.workers[worker_id].role
        if role in limits and epoch.lowest_limit is not None:
            limits[role].append(epoch.lowest_limit)
            evidence.extend(epoch.evidence[:1])
    if not limits["prefill"] or not limits["decode"]:
        return []
    low, high = min(limits["prefill"]), max(limits["decode"])
    if low >= high:
        return []
    return [{
        "code": "asymmetric_pools",
        "text": (f"decode accepts prompts of up to {high - 1} tokens, prefill refuses from {low} "
                 "on: the gap is where the stale hand-off arises"),
        "evidence": evidence}]
