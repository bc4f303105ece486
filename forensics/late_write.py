"""Mechanism B: a write that lands after its pages were given away. Triggers, windows, recipients.

leak-mechanisms.md, sections 4 and 9. At evidence levels L1 and L2 a recipient is never more than
possible: overlap and landing time are modelled here, plainly, inside the bounds 0 and 1 that the
records leave open. Replay and page traces narrow them.

Model of one (recipient, trigger) pair: overlap = 1 - (1 - r/n)^k for k pages taken after r of n
pages were released; survival S(t) = (1 - w) * max(0, 1 - t/c) + w * max(0, 1 - t/R) with c the time
of one transfer in this fleet, R the planning bound and w the share of transfers that failed in
sending (at least 1 %; 1 for a trigger that failed so itself).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa

import queries
from forensics.fleet import DEFERRED_SWITCH, Epoch, Fleet
from forensics.knowledge import load_knowledge
from forensics.reasons import reason
from forensics.response import Response
from forensics.tiers import LATE_WRITE, Tier, Weighing, excluded, unknown

NEVER: Final = 2**62
_SECOND: Final = 10**9
# A use that never ended had waited at most the bootstrap plus the waiting timeout (300 s each,
# leak-mechanisms.md, section 8).
LONGEST_WAIT_NS: Final = 600 * _SECOND
# Weight of the heavy tail when the fleet logged no failed transfer (leak-mechanisms.md, section 4:
# "tail 0 ... observed failure rate"; one percent keeps the tail from vanishing on short logs).
_LEAST_TAIL: Final = 0.01
# One transfer when no record times any: 8,192 tokens at 25 GB/s (leak-mechanisms.md, section 8).
_DEFAULT_TRANSFER_NS: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class DecodePolicy:
    """How one decode worker gives pages back, in one boot epoch."""

    worker_id: int
    epoch: int
    reach_ns: int
    page_size: int | None
    pool_pages: int | None
    growth_by_count: bool
    deferred_proven: bool
    switch_unknown: bool
    drained: int
    failed: int
    drained_ref: str | None


@dataclass(frozen=True, slots=True)
class Overlap:
    """All candidates pairs of one response, folded."""

    n_triggers: int
    n_unbounded: int
    n_timed_out: int
    probability: float
    evidence: tuple[str, ...]


def policies(con: duckdb.DuckDBPyConnection, fleet: Fleet) -> dict[tuple[int, int], DecodePolicy]:
    """Decide each decode epoch's release policy and store it as the table ``decode_policy``."""
    outcomes = {row["worker_id"]: row for row in queries.rows(con, "deferred_outcome")}
    found = {
        key: _policy(epoch, outcomes.get(key[0]), _boots(fleet, key[0]))
        for key, epoch in sorted(fleet.epochs.items())
        if fleet.workers[key[0]].role in ("decode", "unknown")
    }
    arrow = pa.Table.from_pylist(
        [{"worker_id": p.worker_id, "epoch": p.epoch, "reach_ns": p.reach_ns,
          "page_size": p.page_size, "growth_by_count": p.growth_by_count,
          "deferred_proven": p.deferred_proven} for p in found.values()],
        schema=pa.schema([
            ("worker_id", pa.int32()), ("epoch", pa.int32()), ("reach_ns", pa.int64()),
            ("page_size", pa.int64()), ("growth_by_count", pa.bool_()),
            ("deferred_proven", pa.bool_())]))
    con.register("_incoming", arrow)
    con.execute("CREATE OR REPLACE TABLE decode_policy AS SELECT * FROM _incoming")
    con.unregister("_incoming")
    return found


def _boots(fleet: Fleet, worker_id: int) -> int:
    return sum(1 for w, _ in fleet.epochs if w == worker_id)


def _policy(epoch: Epoch, outcome: dict[str, Any] | None, boots: int) -> DecodePolicy:
    knowledge = load_knowledge()
    counted = outcome or {}
    failed = max(int(counted.get("failed_lines") or 0), int(counted.get("failed_metric") or 0))
    drained = int(counted.get("drained") or 0)
    # Every drained release belongs to one failed transfer: equal numbers leave none unheld.
    # Counters of several boots cannot be told apart, so they prove nothing then.
    proven = bool(
        boots == 1 and counted.get("exported") and drained >= failed > 0
        and not counted.get("timed_out") and not counted.get("errors")
        # A scrape may be older than the end of the log.
        and not counted.get("logged_timeouts"))
    radix = epoch.config.get("disaggregation_decode_enable_radix_cache")
    plain_growth = (
        epoch.config.get("speculative_algorithm", "absent") is None
        or ("speculative_algorithm" not in epoch.config and bool(epoch.config))
    ) and radix in (False, None) and not epoch.config.get("enable_hierarchical_cache")
    return DecodePolicy(
        worker_id=epoch.worker_id, epoch=epoch.number,
        reach_ns=int(knowledge.reach_seconds(epoch.backend) * _SECOND),
        page_size=epoch.page_size,
        pool_pages=_pool_pages(epoch),
        growth_by_count=plain_growth and not epoch.hybrid,
        deferred_proven=proven,
        switch_unknown=epoch.deferred_switch is None and knowledge.switch_default(
            DEFERRED_SWITCH, epoch.version, epoch.backend) is True,
        drained=drained, failed=failed, drained_ref=counted.get("ref"),
    )


def _pool_pages(epoch: Epoch) -> int | None:
    tokens = [pool.tokens for pool in epoch.pools if pool.tokens]
    if not tokens or not epoch.page_size:
        return None
    return min(tokens) // epoch.page_size


def overlaps(
    con: duckdb.DuckDBPyConnection, found: dict[tuple[int, int], DecodePolicy]
) -> dict[int, Overlap]:
    """Run the trigger and candidate queries; return the folded pairs by use_id."""
    queries.run(con, "late_trigger", never=NEVER, longest_wait=LONGEST_WAIT_NS)
    queries.run(con, "late_candidate", never=NEVER)
    transfer_ns, tail = _fleet_transfer(con)
    pool_pages = {p.worker_id: p.pool_pages for p in found.values()}
    reach = {p.worker_id: p.reach_ns for p in found.values()}
    folded: dict[int, Overlap] = {}
    result = con.execute(
        "SELECT c.use_id, d.worker_id, c.n_pages, c.n_prompt_pages, c.trigger_pages, "
        "c.write_gap_ns, c.beyond_bound, t.timed_out, t.refs FROM late_candidate AS c "
        "JOIN decode_use AS d USING (use_id) "
        "JOIN late_trigger AS t ON t.use_id = c.trigger_id ORDER BY c.use_id, c.trigger_id")
    while chunk := result.fetchmany(4096):
        for use_id, worker_id, taken, prompt, released, gap, unbounded, timed_out, refs in chunk:
            p = _pair(taken, prompt, released, pool_pages.get(worker_id), gap, transfer_ns,
                      1.0 if unbounded else tail, reach.get(worker_id, 60 * _SECOND))
            before = folded.get(use_id) or Overlap(0, 0, 0, 0.0, ())
            evidence = before.evidence
            if before.n_triggers < 8:
                evidence += tuple(_trigger_lines(refs))
            folded[use_id] = Overlap(
                before.n_triggers + 1, before.n_unbounded + bool(unbounded),
                before.n_timed_out + bool(timed_out),
                1.0 - (1.0 - before.probability) * (1.0 - p), evidence)
    return folded


def _trigger_lines(refs: Iterable[str]) -> list[str]:
    split = [ref.split("|", 1) for ref in refs]
    failing = [where for source, where in split
               if "failed" in source or source.startswith("deferred") or "disconnect" in source]
    return (failing or [where for _, where in split])[:2]


def _fleet_transfer(con: duckdb.DuckDBPyConnection) -> tuple[int, float]:
    """Return (median time of one hand-off in ns, share of failed transfers) of this fleet."""
    row = con.execute(
        "SELECT median(1e6 * sent_mb / speed_gb_s)::BIGINT FROM prefill_use "
        "WHERE sent_mb > 0 AND speed_gb_s > 0").fetchall()[0]
    transfer_ns = int(row[0]) if row[0] else _DEFAULT_TRANSFER_NS
    row = con.execute(
        "SELECT (SELECT count(*) FILTER (beyond_bound) FROM late_trigger) / nullif(count(*), 0) "
        "FROM decode_use").fetchall()[0]
    share = float(row[0]) if row[0] is not None else 0.0
    return max(transfer_ns, 1), min(1.0, max(_LEAST_TAIL, share))


def _pair(
    taken: int | None, prompt: int | None, released: int | None, pool: int | None,
    gap_ns: int | None, transfer_ns: int, tail: float, reach_ns: int,
) -> float:
    """Probability of one pair under the model of the module docstring."""
    if not taken or not released or not pool:
        overlap_prompt, overlap_growth = 0.5, 0.0
    else:
        share = min(1.0, released / pool)
        grown = taken - (prompt or 0)
        overlap_prompt = 1.0 - (1.0 - share) ** (prompt or 0)
        overlap_growth = 1.0 - (1.0 - share) ** max(grown, 0)
    late = max(0, gap_ns) if gap_ns is not None else 0
    prompt_part = overlap_prompt * survival(late, transfer_ns, tail, reach_ns)
    growth_part = overlap_growth * survival(late, transfer_ns, tail, reach_ns)
    return 1.0 - (1.0 - prompt_part) * (1.0 - growth_part)


def survival(delay_ns: int, transfer_ns: int, tail: float, reach_ns: int) -> float:
    """Return the probability that an outstanding write lands more than ``delay_ns`` later."""
    body = max(0.0, 1.0 - delay_ns / transfer_ns)
    heavy = max(0.0, 1.0 - delay_ns / reach_ns) if reach_ns > 0 else 0.0
    return (1.0 - tail) * body + tail * heavy


def weigh(
    response: Response, fleet: Fleet, found: dict[tuple[int, int], DecodePolicy],
    pairs: dict[int, Overlap],
) -> Weighing:
    """Weigh the late write for one response as recipient."""
    if response.no_tokens and response.decode_seen:
        return excluded(LATE_WRITE, reason("no_tokens_returned", response.evidence()))
    if response.one_token:
        return excluded(LATE_WRITE, reason(
            "only_prefill_token", response.evidence("stats", "finished")))
    policy = found.get((response.decode_worker_id or 0, response.epoch or 0)) if (
        response.decode_seen) else None
    if policy is None or response.use_id is None:
        return unknown(LATE_WRITE, reason("pool_unknown", response.evidence(side="prefill")))
    epoch = fleet.of(response.decode_worker_id, response.epoch)
    if epoch and epoch.backend == "fake":
        return excluded(LATE_WRITE, reason("fake_backend", epoch.evidence))
    pair = pairs.get(response.use_id)
    if pair is not None:
        return _possible(pair, policy, epoch)
    if not covered(response, fleet, policy):
        return unknown(LATE_WRITE, reason("decode_log_gap", response.evidence()))
    if policy.deferred_proven:
        refs = (policy.drained_ref,) if policy.drained_ref else ()
        return excluded(LATE_WRITE, reason(
            "all_drained", refs, n=policy.failed, drained=policy.drained))
    log = fleet.logs.get((policy.worker_id, policy.epoch))
    return excluded(LATE_WRITE, reason(
        "no_trigger", response.evidence("stats", "finished") + (log.refs if log else ())))


def _possible(pair: Overlap, policy: DecodePolicy, epoch: Epoch | None) -> Weighing:
    steps = [reason("late_window", pair.evidence, n=pair.n_triggers)]
    if pair.n_unbounded:
        steps.append(reason("late_window_unbounded", n=pair.n_unbounded))
    if pair.n_timed_out:
        steps.append(reason("late_timed_out", n=pair.n_timed_out))
    probability = min(pair.probability, 0.49)
    if policy.switch_unknown:
        steps.append(reason(
            "late_switch_unknown", epoch.evidence if epoch else (),
            version=epoch.version if epoch else "unknown"))
        probability *= 0.1
    return Weighing(LATE_WRITE, Tier.POSSIBLE, probability, 0.0, 1.0, tuple(steps))


def covered(response: Response, fleet: Fleet, policy: DecodePolicy) -> bool:
    """True if the decode process log would show every trigger that can matter to the response.

    It must hold the time from the planning bound before the response's start (or the boot, before
    which no page was handed out) to its end.
    """
    log = fleet.logs.get((policy.worker_id, policy.epoch))
    start = response.alloc_lo or response.received_lo or response.first_ns
    end = response.ended_hi if response.has_end else None
    if log is None or start is None:
        return False
    begins = log.has_boot or log.first_ns <= start - policy.reach_ns
    last = end if end is not None else start
    running_since = response.commit_lo or start
    silent = any(
        # While this response ran the log cannot have been silent: lines are missing there. Before
        # it, silence is a gap only where prefill served rooms that no decode log names.
        (lo < last and hi > running_since)
        or (hi > start - policy.reach_ns and lo < last and fleet.orphan_between(lo, hi))
        for lo, hi in log.silences
    )
    # A hand-off that failed on prefill gave pages back somewhere: its line on decode is lost.
    lost = fleet.lost_failure_between(start - policy.reach_ns, last)
    # Without an end the response may have run until the log stops: it must then speak that long.
    return begins and log.last_ns >= last and not silent and not lost
