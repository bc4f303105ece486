"""Mechanism C: another room's metadata row (first token) is read. leak-mechanisms.md, section 5."""

from __future__ import annotations

from typing import Final

from forensics.fleet import Fleet
from forensics.knowledge import load_knowledge
from forensics.reasons import reason
from forensics.response import Response
from forensics.tiers import METADATA_COLLISION, Tier, Weighing, excluded, unknown

# No record discriminates and no rate is published: the figure says "rare, not bounded".
_UNCHECKED: Final = (0.001, 0.0, 1.0)


def weigh(response: Response, fleet: Fleet) -> Weighing:
    """Weigh the metadata collision for one response."""
    if response.detector in ("context_corruption", "metadata_not_ready") and response.no_tokens:
        return excluded(METADATA_COLLISION, reason(
            "room_check_fired", response.evidence("context_corruption", "metadata_not_ready")))
    if response.no_tokens and response.decode_seen:
        return excluded(METADATA_COLLISION, reason("no_tokens_returned", response.evidence()))
    epoch = fleet.of(response.decode_worker_id, response.epoch) if response.decode_seen else None
    if epoch is None:
        return unknown(METADATA_COLLISION, reason(
            "pool_unknown", response.evidence(side="prefill")))
    state = load_knowledge().lookup(
        METADATA_COLLISION, epoch.version, epoch.backend, epoch.model_state, {}).state
    if state == "closed":
        return excluded(METADATA_COLLISION, reason(
            "room_check", epoch.evidence, version=epoch.version))
    if state == "exposed" and not epoch.version.unknown:
        return Weighing(METADATA_COLLISION, Tier.POSSIBLE, *_UNCHECKED, (reason(
            "room_check_absent", epoch.evidence, version=epoch.version),))
    return unknown(METADATA_COLLISION, reason("decode_build_unknown", response.evidence()))
