"""One verdict per response: every mechanism weighed, the highest tier, one probability."""

from __future__ import annotations

from dataclasses import dataclass

from forensics import late_write, metadata_collision, stale_handoff
from forensics.fleet import Fleet
from forensics.late_write import DecodePolicy, Overlap
from forensics.page_evidence import PageEvidence
from forensics.reasons import reason
from forensics.response import Response
from forensics.tiers import (
    LATE_WRITE,
    MECHANISMS,
    STALE_HANDOFF,
    Reason,
    Tier,
    Weighing,
    combine,
    excluded,
    highest,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one response as recipient."""

    response_id: int
    tier: Tier
    probability: float | None
    low: float | None
    high: float | None
    level: str
    weighings: tuple[Weighing, ...]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons of the mechanisms that decide the tier."""
        return tuple(r for w in self.weighings if w.tier is self.tier for r in w.reasons)


@dataclass(frozen=True, slots=True)
class Judge:
    """Everything that the verdict functions look things up in."""

    fleet: Fleet
    policies: dict[tuple[int, int], DecodePolicy]
    overlaps: dict[int, Overlap]
    pages: PageEvidence

    def judge(self, response: Response) -> Verdict:
        """Weigh all mechanisms for one response."""
        if response.never_handed_over:
            why = reason("never_handed_over", response.evidence(side="prefill"))
            nothing = tuple(excluded(mechanism, why) for mechanism in MECHANISMS)
            return Verdict(response.response_id, Tier.EXCLUDED, 0.0, 0.0, 0.0, level(response),
                           nothing)
        side = self.fleet.prefill_side(response)
        weighings = [
            stale_handoff.weigh_stale(response, side),
            stale_handoff.weigh_truncated(response, side),
            late_write.weigh(response, self.fleet, self.policies, self.overlaps),
            metadata_collision.weigh(response, self.fleet),
        ]
        traced = self.pages.weigh(response)
        if traced:
            weighings = [_better(w, traced.get(w.mechanism)) for w in weighings]
        tier = highest(w.tier for w in weighings)
        probability, low, high = combine(weighings)
        if tier in (Tier.NOT_ASSESSABLE, Tier.EXCLUDED):
            probability, low, high = (
                (None, None, None) if tier is Tier.NOT_ASSESSABLE else (0.0, 0.0, 0.0))
        return Verdict(
            response.response_id, tier, probability, low, high,
            "L4" if traced else level(response), tuple(weighings))


def _better(weighing: Weighing, traced: Weighing | None) -> Weighing:
    """Let page-level evidence replace what the logs say, unless it contradicts a proof.

    Counts that prove a stale hand-off stand against a trace that shows none (a recorder can lose
    events); a log-level exclusion never outweighs a page-level finding. A stale hand-off that the
    counts rule out is not certain either: neither record is likelier to be the wrong one.
    """
    if traced is None or traced.mechanism not in (STALE_HANDOFF, LATE_WRITE):
        return weighing
    if weighing.tier is Tier.CONFIRMED and traced.tier is not Tier.CONFIRMED:
        return weighing
    if (traced.mechanism == STALE_HANDOFF and traced.tier is Tier.CONFIRMED
            and weighing.tier is Tier.EXCLUDED):
        return Weighing(STALE_HANDOFF, Tier.PROBABLE, 0.5, 0.0, 1.0, (
            *traced.reasons, reason("page_contradicted"), *weighing.reasons))
    return traced


def level(response: Response) -> str:
    """Return the evidence level of a response without page-level records: L2, L1 or L0."""
    if response.has_stats and response.alloc_lo is not None:
        return "L2"
    if response.decode_seen or response.p_has_end:
        return "L1"
    return "L0"
