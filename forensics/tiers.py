"""Tiers of a verdict, the mechanisms that are weighed, and what one weighing of one says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Tier(StrEnum):
    """How far the records carry a verdict.

    confirmed: page-level or count-level records show it.
    probable: every necessary condition was observed and the model puts it over the threshold.
    possible: no necessary condition is refuted.
    not_assessable: the records that would decide are missing.
    excluded: a recorded fact refutes a necessary condition.
    """

    CONFIRMED = "confirmed"
    PROBABLE = "probable"
    POSSIBLE = "possible"
    NOT_ASSESSABLE = "not_assessable"
    EXCLUDED = "excluded"


# Order of DESIGN.md, section 2: a response's tier is the highest over its mechanisms.
RANK: Final = {tier: rank for rank, tier in enumerate(reversed(list(Tier)))}
EXPOSED: Final = (Tier.CONFIRMED, Tier.PROBABLE, Tier.POSSIBLE)

STALE_HANDOFF: Final = "stale_handoff"
TRUNCATED_HANDOFF: Final = "truncated_handoff"
LATE_WRITE: Final = "late_write"
METADATA_COLLISION: Final = "metadata_collision"
MECHANISMS: Final = (STALE_HANDOFF, TRUNCATED_HANDOFF, LATE_WRITE, METADATA_COLLISION)


@dataclass(frozen=True, slots=True)
class Reason:
    """One step of a verdict: a code of ``forensics.reasons``, its sentence, its evidence ids."""

    code: str
    text: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Weighing:
    """What one mechanism means for one response.

    ``probability`` is that of at least one foreign token attended, 0..1, with bounds; None when
    the tier is not_assessable.
    """

    mechanism: str
    tier: Tier
    probability: float | None
    low: float | None
    high: float | None
    reasons: tuple[Reason, ...]

    def __post_init__(self) -> None:
        assessable = self.tier is not Tier.NOT_ASSESSABLE
        if assessable != (self.probability is not None):
            raise ValueError(f"{self.mechanism}: a probability is given iff it is assessable")
        if self.probability is not None:
            low, high = self.low or 0.0, self.high if self.high is not None else 0.0
            if not 0.0 <= low <= self.probability <= high <= 1.0:
                raise ValueError(f"{self.mechanism}: {low} <= {self.probability} <= {high} fails")


def excluded(mechanism: str, *reasons: Reason) -> Weighing:
    """A recorded fact refutes a necessary condition."""
    return Weighing(mechanism, Tier.EXCLUDED, 0.0, 0.0, 0.0, reasons)


def unknown(mechanism: str, *reasons: Reason) -> Weighing:
    """The records that would decide are missing."""
    return Weighing(mechanism, Tier.NOT_ASSESSABLE, None, None, None, reasons)


def highest(tiers: Iterable[Tier]) -> Tier:
    """Return the highest tier; not_assessable for none at all."""
    return max(tiers, key=lambda tier: RANK[tier], default=Tier.NOT_ASSESSABLE)


def combine(weighings: Iterable[Weighing]) -> tuple[float | None, float | None, float | None]:
    """Return (probability, low, high) that at least one mechanism exposed the response.

    The mechanisms are taken as independent; one that cannot be assessed leaves the interval
    open above (high = 1) and no probability if nothing else was assessed.
    """
    assessed = [w for w in weighings if w.probability is not None]
    open_above = any(w.probability is None for w in weighings)
    if not assessed:
        return None, None, None
    miss = miss_low = miss_high = 1.0
    for weighing in assessed:
        miss *= 1.0 - (weighing.probability or 0.0)
        miss_low *= 1.0 - (weighing.low or 0.0)
        miss_high *= 1.0 - (weighing.high or 0.0)
    high = 1.0 if open_above else 1.0 - miss_high
    return 1.0 - miss, 1.0 - miss_low, high
