"""``summary.json`` (DESIGN.md, section 5): counts with bounds, the fleet, and what is missing."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb

import queries
from forensics.analysis import Analysis
from forensics.clocks import rfc3339
from forensics.findings import findings
from forensics.fleet import DEFERRED_SWITCH, Epoch
from forensics.gaps import MISSING, missing_records
from forensics.knowledge import load_knowledge
from forensics.tiers import EXPOSED, LATE_WRITE, MECHANISMS, Tier

SCHEMA: Final = "palimpsest/summary/1"
# The role whose build decides a mechanism; None: both do.
_DECIDES: Final = {"stale_handoff": "prefill", "truncated_handoff": "prefill", "late_write": None,
                   "metadata_collision": "decode"}


@dataclass(slots=True)
class Party:
    """Running count of one account in one role."""

    confirmed: bool = False
    exposed: bool = False
    unassessed: bool = False
    miss: float = 1.0

    def add(self, tier: Tier, probability: float | None) -> None:
        self.confirmed |= tier is Tier.CONFIRMED
        self.exposed |= tier in EXPOSED
        self.unassessed |= tier is Tier.NOT_ASSESSABLE
        self.miss *= 1.0 - (probability or 0.0)


@dataclass(slots=True)
class Tally:
    """Counts over the objects of ``responses.jsonl``, in one pass."""

    tiers: Counter[str] = field(default_factory=Counter)
    mechanisms: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    levels: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    gaps: Counter[str] = field(default_factory=Counter)
    expected: float = 0.0
    high: float = 0.0
    window: list[str] = field(default_factory=list)
    observed: list[str] = field(default_factory=list)
    recipients: dict[str, Party] = field(default_factory=lambda: defaultdict(Party))
    sources: dict[str, Party] = field(default_factory=lambda: defaultdict(Party))
    accounts_known: bool = False

    def add(self, record: dict[str, Any]) -> None:
        """Count one object of ``responses.jsonl``."""
        tier = Tier(record["recipient_tier"])
        self.tiers[tier.value] += 1
        self.levels[record["evidence_level"]] += 1
        for weighed in record["mechanisms"]:
            self.mechanisms[weighed["mechanism"]][weighed["tier"]] += 1
        codes = {code for weighed in record["mechanisms"] if weighed["tier"] == tier.value
                 for code in weighed["reasons"]}
        self.codes.update(codes)
        if tier is Tier.NOT_ASSESSABLE:
            self.gaps.update(codes & MISSING.keys())
        if tier in EXPOSED:
            self.expected += record["recipient_probability"]
            self.high += record["recipient_probability_high"]
            _stretch(self.window, record)
        _stretch(self.observed, record)
        if record["account"] is not None:
            self.accounts_known = True
            self.recipients[record["account"]].add(tier, record["recipient_probability"])
            self.sources[record["account"]].add(
                Tier(record["source_tier"]), record["source_probability"])

    def exposed(self) -> dict[str, Any]:
        """Return the bounded number of exposed responses."""
        return {
            "low": self.tiers[Tier.CONFIRMED.value],
            "expected": round(self.expected, 6),
            "high": math.ceil(round(self.high, 6)),
            "not_assessable": self.tiers[Tier.NOT_ASSESSABLE.value],
        }


def _stretch(span: list[str], record: dict[str, Any]) -> None:
    first = record["received_at"] or record["finished_at"]
    last = (record.get("finished_at_hi") or record["finished_at"]
            or record.get("received_at_hi") or record["received_at"])
    if first is None or last is None:
        return
    if not span:
        span.extend((first, last))
    span[0], span[1] = min(span[0], first), max(span[1], last)


def _accounts(parties: dict[str, Party]) -> dict[str, Any]:
    return {
        "low": sum(p.confirmed for p in parties.values()),
        "expected": round(sum(1.0 - p.miss for p in parties.values() if p.exposed), 6),
        "high": sum(p.exposed for p in parties.values()),
        "not_assessable": sum(p.unassessed and not p.exposed for p in parties.values()),
    }


def summarise(
    con: duckdb.DuckDBPyConnection, analysis: Analysis, tally: Tally, version: str
) -> dict[str, Any]:
    """Return the object of ``summary.json``."""
    evidence = list(queries.rows(con, "evidence_list"))
    span: list[str | None] = [*tally.window] or [None, None]
    observed: list[str | None] = [*tally.observed] or [None, None]
    total = sum(tally.tiers.values())
    return {
        "schema": SCHEMA,
        "tool": {
            "version": version,
            "knowledge_version": load_knowledge().version,
            "evidence_root": evidence_root(evidence),
        },
        "window": {"first": span[0], "last": span[1]},
        "observed": {"first": observed[0], "last": observed[1]},
        "exposed_responses": tally.exposed(),
        "accounts": {
            "known": tally.accounts_known,
            "as_recipient": _accounts(tally.recipients),
            "as_source": _accounts(tally.sources),
        },
        "responses": {
            "total": total,
            "by_tier": {tier.value: tally.tiers[tier.value] for tier in Tier},
        },
        "mechanisms": {
            name: {tier.value: tally.mechanisms[name][tier.value] for tier in Tier}
            for name in MECHANISMS
        },
        "coverage": {
            level: {"responses": tally.levels[level],
                    "share": round(tally.levels[level] / total, 6) if total else 0.0}
            for level in ("L0", "L1", "L2", "L3", "L4")
        },
        "reason_counts": dict(sorted(tally.codes.items())),
        "not_assessable": [
            {"code": code, **MISSING[code], "responses": count}
            for code, count in sorted(tally.gaps.items())
        ],
        "missing": missing_records(analysis.fleet, tally.gaps),
        "fleet": _fleet(analysis),
        "findings": findings(con, analysis.fleet),
        "evidence": [
            {"id": row["evidence_id"], "name": row["name"], "sha256": row["sha256"],
             "format": row["format"], "lines": row["lines"], "records": row["records"],
             "rejects": row["rejects"], "status": row["status"],
             "first_at": row["first_at"], "last_at": row["last_at"]}
            for row in evidence
        ],
    }


def evidence_root(evidence: list[dict[str, Any]]) -> str:
    """Return one sha256 over the sorted hashes of all current evidence."""
    hashes = sorted({row["sha256"] for row in evidence if row["sha256"] and row["current"]})
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _fleet(analysis: Analysis) -> list[dict[str, Any]]:
    entries = []
    for worker_id, worker in sorted(analysis.fleet.workers.items()):
        epochs = [e for (w, _), e in sorted(analysis.fleet.epochs.items()) if w == worker_id]
        if not epochs:
            continue
        last, clock = epochs[-1], analysis.clocks[worker_id]
        entries.append({
            "worker": worker.name,
            "host": worker.host,
            "role": worker.role,
            "role_basis": worker.role_basis,
            "version": {
                "low": str(last.version.low) if last.version.low else None,
                "high": str(last.version.high) if last.version.high else None,
                "text": str(last.version),
                "basis": last.version_basis,
                "contradictory": last.contradictory,
            },
            "backend": last.backend,
            "model_state": last.model_state,
            "boots": len(epochs),
            "pools": [
                {"dp": pool.dp, "tokens": pool.tokens, "page_size": pool.page_size,
                 "max_req_input_len": pool.limit, "context_len": pool.context_len}
                for pool in last.pools
            ],
            "clock": {
                "zone_offset_s": clock.zone_ns // 10**9 if clock.known else None,
                "basis": clock.basis,
                "steps_back_s": round(clock.step_ns / 1e9, 3),
            },
            "switches": last.switches(),
            "knowledge": {
                mechanism: _known(mechanism, last) for mechanism in MECHANISMS
                if _DECIDES[mechanism] in (worker.role, None) or worker.role == "unknown"
            },
            "evidence": list(last.evidence),
            "log": _log(analysis, worker_id, last.number),
        })
    return entries


def _known(mechanism: str, epoch: Epoch) -> dict[str, str]:
    """Return what the knowledge base says of one worker's build, and why."""
    knowledge = load_knowledge()
    note = ""
    if mechanism == LATE_WRITE:
        switch = epoch.deferred_switch
        if switch is None:
            default = knowledge.switch_default(DEFERRED_SWITCH, epoch.version, epoch.backend)
            switch = default if isinstance(default, bool) else None
            note = "assumes the build's default of deferred release, which nothing records: "
        found = knowledge.lookup_late_write(epoch.version, epoch.version, epoch.backend, switch)
    else:
        found = knowledge.lookup(mechanism, epoch.version, epoch.backend, epoch.model_state,
                                 {"allow_auto_truncate": epoch.truncates})
    why = found.why if isinstance(found.why, str) else "; ".join(found.why)
    return {"state": found.state, "why": note + why}


def _log(analysis: Analysis, worker_id: int, epoch: int) -> dict[str, Any] | None:
    span = analysis.fleet.logs.get((worker_id, epoch))
    if span is None:
        return None
    return {
        "first_at": rfc3339(span.first_ns), "last_at": rfc3339(span.last_ns),
        "has_start": span.has_boot, "silences_over_60s": len(span.silences),
    }
