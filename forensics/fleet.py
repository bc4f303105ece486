"""What is known of every worker: build, backend, switches, pools and limits, per boot epoch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from forensics.grouping import Worker
from forensics.knowledge import load_knowledge
from forensics.response import Response
from forensics.versions import VersionRange

# A decode worker prints a batch line every 40 steps while anything runs: seconds, not this long.
SILENCE_NS: Final = 60 * 10**9
DEFERRED_SWITCH: Final = "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE"
_SWITCHES: Final = (
    "allow_auto_truncate", "disaggregation_enable_kv_checksum",
    "disaggregation_decode_allocation_policy", "disaggregation_decode_enable_radix_cache",
    "disaggregation_decode_enable_offload_kvcache", "enable_hierarchical_cache",
    "speculative_algorithm", "enable_dp_attention", "load_balance_method", "log_requests",
    "enable_request_time_stats_logging", "enable_metrics", "kv_canary",
)


@dataclass(frozen=True, slots=True)
class Pool:
    """One allocator's size as reported; ``limit`` is max_req_input_len (refused from there on)."""

    dp: int | None
    tokens: int | None
    context_len: int | None
    page_size: int | None
    limit: int | None


@dataclass(slots=True)
class Epoch:
    """One worker in one boot epoch."""

    worker_id: int
    number: int
    version: VersionRange = field(default_factory=VersionRange)
    version_basis: str = "nothing in the evidence bounds the build"
    contradictory: bool = False
    config: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    model_state: str | None = None
    hybrid: bool = False
    pools: tuple[Pool, ...] = ()

    @property
    def backend(self) -> str | None:
        value = self.config.get("disaggregation_transfer_backend")
        return str(value) if value else None

    @property
    def page_size(self) -> int | None:
        value = self.config.get("page_size")
        return value if isinstance(value, int) and value > 0 else None

    @property
    def dp_size(self) -> int | None:
        value = self.config.get("dp_size")
        return value if isinstance(value, int) else None

    @property
    def truncates(self) -> bool | None:
        value = self.config.get("allow_auto_truncate")
        return value if isinstance(value, bool) else None

    @property
    def deferred_switch(self) -> bool | None:
        """What the environment says of deferred release; None if nothing printed it."""
        value = self.config.get(f"env.{DEFERRED_SWITCH}")
        if value is None:
            return None
        return str(value).strip().lower() not in {"0", "false", "no", "off", ""}

    @property
    def lowest_limit(self) -> int | None:
        limits = [pool.limit for pool in self.pools if pool.limit is not None]
        return min(limits, default=None)

    def switches(self) -> dict[str, Any]:
        found = {name: self.config.get(name) for name in _SWITCHES}
        found[DEFERRED_SWITCH] = self.deferred_switch
        return found


@dataclass(frozen=True, slots=True)
class PrefillSide:
    """What is known of the prefill that served a response, for the hand-off mechanisms.

    ``known``: the very worker is known; otherwise the values hold for every prefill worker that
    it can have been (worst state, lowest limit).
    """

    known: bool
    version: str
    stale_state: str
    fails_closed: bool
    model_state: str
    lowest_limit: int | None
    truncates: bool | None
    evidence: tuple[str, ...]
    log: LogSpan | None = None
    prints_every_refusal: bool = False
    # It ends other requests on record, or refused one that no line ties to a room.
    records_ends: bool = False
    unlinked_refusal: bool = False

    def refusals_covered(self, response: Response) -> bool:
        """True if the log of this prefill would show a refusal of the response, and shows none.

        Needs a process log that brackets the response, holds its own start, and prints refusals
        for the rank: only global TP rank 0 prints them, so with DP attention only DP rank 0 does.
        A log that prints one record per request would show this room too: its silence is a gap.
        """
        log = self.log
        if not (self.known and log and self.prints_every_refusal) or log.has_stats:
            return False
        if self.records_ends or self.unlinked_refusal:
            return False
        start, end = response.received_lo or response.first_ns, response.ended_hi
        return (
            start is not None and end is not None
            and log.has_boot and log.first_ns <= start and log.last_ns >= end
        )


@dataclass(frozen=True, slots=True)
class LogSpan:
    """Time that a process log covers, worker axis; see ``queries/log_span.sql``."""

    first_ns: int
    last_ns: int
    has_boot: bool
    has_stats: bool
    silences: tuple[tuple[int, int], ...]
    refs: tuple[str, ...]


@dataclass(slots=True)
class Fleet:
    """All workers and their epochs; lookups for the verdict functions."""

    workers: dict[int, Worker]
    epochs: dict[tuple[int, int], Epoch]
    logs: dict[tuple[int, int], LogSpan] = field(default_factory=dict)
    # Times of rooms that prefill served and no decode log names, sorted.
    orphans: list[int] = field(default_factory=list)
    # Prefill workers that end requests on record, and those with a refusal of an unknown room.
    records_ends: frozenset[int] = frozenset()
    unlinked_refusals: frozenset[int] = frozenset()
    # When decode may have given pages back unseen: rooms that failed on prefill alone.
    lost_failures: list[tuple[int, int]] = field(default_factory=list)
    _sides: dict[tuple[int | None, int | None], PrefillSide] = field(default_factory=dict)

    def of(self, worker_id: int | None, epoch: int | None) -> Epoch | None:
        """Return the epoch's facts, or None for an unknown worker."""
        if worker_id is None:
            return None
        found = self.epochs.get((worker_id, epoch if epoch is not None else 0))
        return found or next(
            (e for (w, _), e in sorted(self.epochs.items()) if w == worker_id), None)

    def orphan_between(self, lo: int, hi: int) -> bool:
        """Say whether prefill served a room between two times that no decode log names."""
        at = bisect_left(self.orphans, lo)
        return at < len(self.orphans) and self.orphans[at] <= hi

    def lost_failure_between(self, lo: int, hi: int) -> bool:
        """Say whether a hand-off that no decode log names may have failed between two times."""
        return any(start <= hi and end >= lo for start, end in self.lost_failures)

    def prefill_side(self, response: Response) -> PrefillSide:
        """Return what is known of the prefill that served the response."""
        key = response.prefill_worker_id, response.p_epoch
        if key not in self._sides:
            self._sides[key] = self._prefill_side(*key)
        return self._sides[key]

    def _prefill_side(self, worker_id: int | None, epoch: int | None) -> PrefillSide:
        if worker_id is not None and epoch is not None:
            chosen = [e for e in (self.of(worker_id, epoch),) if e]
        else:
            chosen = [
                e for (w, _), e in sorted(self.epochs.items())
                if (w == worker_id if worker_id is not None
                    else self.workers[w].role in ("prefill", "unknown"))
            ]
        known = worker_id is not None
        # A prefill whose log is missing may exist beside the known ones: without a name for the
        # worker, the known builds close nothing.
        states = [_handoff_state(e) for e in chosen]
        state = _worst(s for s, _ in states) if states else "unknown"
        if not known and state == "closed":
            state = "unknown"
        limits = [e.lowest_limit for e in chosen]
        truncates = {e.truncates for e in chosen}
        only = chosen[0] if len(chosen) == 1 else None
        return PrefillSide(
            known=known,
            version=" / ".join(sorted({str(e.version) for e in chosen})) or "unknown",
            stale_state=state,
            fails_closed=bool(states) and all(closed for _, closed in states),
            model_state=(only.model_state if only else None) or "unknown",
            lowest_limit=(
                min((limit for limit in limits if limit is not None), default=None)
                if not known or None not in limits else None),
            truncates=truncates.pop() if known and len(truncates) == 1 else None,
            evidence=only.evidence if only else (),
            log=self.logs.get((only.worker_id, only.number)) if only else None,
            prints_every_refusal=bool(
                only and (only.dp_size == 1 or only.config.get("enable_dp_attention") is False)),
            records_ends=worker_id in self.records_ends,
            unlinked_refusal=worker_id in self.unlinked_refusals,
        )


def _handoff_state(epoch: Epoch) -> tuple[str, bool]:
    """Return (state of the stale hand-off, closed because the backend refuses it)."""
    assessment = load_knowledge().lookup(
        "stale_handoff", epoch.version, epoch.backend, epoch.model_state, {})
    plain = load_knowledge().lookup(
        "stale_handoff", epoch.version, epoch.backend, "plain", {})
    return assessment.state, assessment.state == "closed" and plain.state != "closed"


_SAFETY: Final = ("closed", "reduced", "unknown", "exposed")


def _worst(states: Iterable[str]) -> str:
    return max(states, key=_SAFETY.index, default="unknown")
