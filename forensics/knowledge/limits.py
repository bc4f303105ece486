"""Input limits that follow from the pool sizes a worker prints at start-up."""

from __future__ import annotations

from collections.abc import Sequence

from forensics.knowledge.lookup import candidates
from forensics.knowledge.model import Capacity
from forensics.versions import Version, VersionRange


def input_limits(
    capacities: Sequence[Capacity],
    known: Sequence[Version],
    reserve: int,
    max_total_num_tokens: int,
    context_len: int,
    versions: VersionRange,
    dcp: int,
) -> tuple[int, int]:
    """Return (lowest, highest) max_req_input_len, in tokens, over the versions of a range."""
    factors = {
        dcp if capacity.times_dcp else 1
        for version in candidates(known, versions)
        for capacity in capacities
        if version is None or capacity.since <= version.base <= capacity.until
    }
    limits = [
        min(context_len - 1, max_total_num_tokens * factor - 1) - reserve
        for factor in factors or {1, dcp}
    ]
    return min(limits), max(limits)
