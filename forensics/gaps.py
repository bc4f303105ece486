"""What is missing, and which switch would have recorded it."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from forensics.fleet import DEFERRED_SWITCH, Fleet

# Reason codes of 'not assessable', the record that would decide, and the switch that writes it.
MISSING: Final[dict[str, dict[str, str]]] = {
    "prefill_record_missing": {
        "text": "no prefill record names the room",
        "switch": "--enable-request-time-stats-logging on prefill, and its log for the whole time"},
    "decode_record_missing": {
        "text": "no decode record names the room",
        "switch": "the decode worker's log, with --enable-request-time-stats-logging"},
    "prompt_count_missing": {
        "text": "no record gives the prompt length",
        "switch": "--enable-request-time-stats-logging or --log-requests on both roles"},
    "pairing_ambiguous": {
        "text": "the room was used several times and the uses cannot be paired",
        "switch": "a router that mints rooms (--log-requests on both roles names every use)"},
    "pool_unknown": {
        "text": "the decode worker of the response is unknown",
        "switch": "the logs of every decode worker"},
    "decode_log_gap": {
        "text": "the decode log does not cover the response's life",
        "switch": "the rotated files of the decode worker's process log (stderr)"},
    "decode_build_unknown": {
        "text": "nothing bounds the decode worker's build",
        "switch": "a GET /server_info snapshot, or version= in evidence.toml"},
}


def missing_records(fleet: Fleet, gaps: Counter[str]) -> list[dict[str, Any]]:
    """Return what this evidence lacks: (what, why it matters, the switch), worst first."""
    found: list[dict[str, Any]] = [
        {"what": MISSING[code]["text"], "why": f"{count} responses could not be assessed",
         "switch": MISSING[code]["switch"]}
        for code, count in gaps.most_common()
    ]
    roles = {worker.role for worker in fleet.workers.values()}
    found.extend(
        {"what": f"no {role} worker's log is here",
         "why": "hand-offs can only be judged with both roles",
         "switch": f"collect the process log of every {role} worker"}
        for role in ("prefill", "decode") if role not in roles and fleet.workers
    )
    for (worker_id, _), epoch in sorted(fleet.epochs.items()):
        name = fleet.workers[worker_id].name
        log = fleet.logs.get((worker_id, epoch.number))
        if log is None or not log.has_stats:
            found.append({
                "what": f"{name} prints no ReqTimeStats lines",
                "why": "allocation and release times, and the two token counts of a room",
                "switch": "--enable-request-time-stats-logging"})
        if epoch.version.unknown or epoch.contradictory:
            found.append({
                "what": f"the build of {name} is not known for certain",
                "why": "the build decides which mechanisms are open",
                "switch": "GET /server_info, or version= in evidence.toml"})
        if fleet.workers[worker_id].role == "decode" and epoch.deferred_switch is None:
            found.append({
                "what": f"{name}: whether deferred release was on",
                "why": "a default is no record: it decides how late writes are handled",
                "switch": f"SGLANG_EXPOSE_OWN_ENV_VARS=1 (shows {DEFERRED_SWITCH}), or "
                          "--enable-metrics (decode_deferred_kv_release_total, 0.5.22 and later)"})
        if epoch.config.get("disaggregation_enable_kv_checksum") is False:
            found.append({
                "what": f"{name}: the KV checksum is off",
                "why": "it catches stale pages before the first token",
                "switch": "--disaggregation-enable-kv-checksum on both roles (0.5.23)"})
    return found
