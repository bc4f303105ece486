"""Mechanisms A and A2: decode attends positions that prefill never handed over.

leak-mechanisms.md, sections 2 and 9. The two token counts of one room decide where both are
recorded; limits and builds only where one is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from forensics.fleet import PrefillSide
from forensics.reasons import reason
from forensics.response import Response
from forensics.tiers import (
    STALE_HANDOFF,
    TRUNCATED_HANDOFF,
    Reason,
    Tier,
    Weighing,
    excluded,
    unknown,
)

# Source of the two priors: leak-mechanisms.md gives necessary conditions, not frequencies. They
# stand for "all conditions observed but the count" and "nothing refuted".
PROBABLE = (0.9, 0.5, 1.0)
POSSIBLE = (0.25, 0.0, 1.0)


def _weigh(
    mechanism: str, tier: Tier, bounds: tuple[float, float, float], *reasons: Reason
) -> Weighing:
    return Weighing(mechanism, tier, *bounds, reasons)


def _nothing_attended(response: Response, mechanism: str) -> Weighing | None:
    """Return the exclusion of a use whose decode attended no page, if that is recorded."""
    if response.no_tokens:
        return excluded(mechanism, reason("no_tokens_returned", response.evidence()))
    if response.one_token:
        return excluded(mechanism, reason(
            "only_prefill_token", response.evidence("stats", "finished")))
    return None


def weigh_stale(response: Response, side: PrefillSide) -> Weighing:
    """Weigh the stale hand-off for one response; ``side`` is what is known of its prefill."""
    if response.decode_seen and (done := _nothing_attended(response, STALE_HANDOFF)):
        return done
    if response.counts_contradict and not response.ambiguous and response.p_prompt_low == 1:
        return _weigh(STALE_HANDOFF, Tier.POSSIBLE, POSSIBLE, reason(
            "counts_contradict", response.evidence(side="prefill"),
            low=response.p_prompt_low, high=response.p_prompt_high))
    if response.prefill_count is not None:
        return _by_counts(response, side, response.prefill_count)
    return _without_prefill_count(response, side)


def _by_counts(response: Response, side: PrefillSide, p: int) -> Weighing:
    both = response.evidence("stats", "finished") + response.evidence(
        "stats", "finished", side="prefill")
    d, o = response.decode_count, response.output_high
    if p > 1:
        code = "counts_equal" if d == p else "prefill_not_stub"
        return excluded(STALE_HANDOFF, reason(code, both, p=p, d=d))
    if d == 1:
        return excluded(STALE_HANDOFF, reason("one_token_prompt", both))
    fixed = side.stale_state == "closed"
    if d is not None and o is not None and o > 1:
        steps = [reason("counts_differ_stub", both, p=p, d=d, o=o, stale=d - 1)]
        if fixed:
            steps.append(reason("fixed_build_contradicted", side.evidence, version=side.version))
        if response.p_validator:
            steps.append(_validator(response))
        return _weigh(STALE_HANDOFF, Tier.CONFIRMED, (1.0, 1.0, 1.0), *steps)
    if fixed:
        return excluded(STALE_HANDOFF, reason("fixed_build", side.evidence, version=side.version))
    if not response.decode_seen:
        return _weigh(STALE_HANDOFF, Tier.POSSIBLE, (0.5, 0.0, 1.0), reason(
            "decode_record_missing", response.evidence(side="prefill")))
    if d is None and o is not None and o > 1 and response.p_validator:
        return _weigh(STALE_HANDOFF, Tier.PROBABLE, PROBABLE, _validator(response), reason(
            "prompt_count_missing", response.evidence(), role="decode"))
    return _weigh(STALE_HANDOFF, Tier.POSSIBLE, (0.5, 0.0, 1.0), reason(
        "counts_differ_unended", both, p=p, d="an unknown number" if d is None else d))


def _validator(response: Response) -> Reason:
    return reason(
        "validator_stub",
        response.evidence("input_too_long", "finish_abort", "reject_prefill", side="prefill"),
        n=response.p_rejected_tokens or "an unknown number of",
        limit=response.p_rejected_limit or "unknown",
    )


def _without_prefill_count(response: Response, side: PrefillSide) -> Weighing:
    if side.stale_state == "closed":
        if not side.fails_closed and _answered_after_refusal(response, side):
            return _weigh(STALE_HANDOFF, Tier.POSSIBLE, POSSIBLE, reason(
                "fixed_build_answered", response.evidence("stats", "finished") + side.evidence,
                version=side.version, o=response.output_high))
        code = "fails_closed_backend" if side.fails_closed else "fixed_build"
        return excluded(STALE_HANDOFF, reason(
            code, side.evidence, version=side.version, state=side.model_state))
    if not response.decode_seen:
        return unknown(STALE_HANDOFF, reason(
            "decode_record_missing", response.evidence(side="prefill")))
    if response.ambiguous:
        return unknown(STALE_HANDOFF, reason("pairing_ambiguous", response.evidence()))
    d, o = response.prompt_high, response.output_high
    if response.p_validator:
        tier, bounds = (
            (Tier.PROBABLE, PROBABLE) if o is not None and o > 1 else (Tier.POSSIBLE, POSSIBLE))
        return _weigh(STALE_HANDOFF, tier, bounds, _validator(response), reason(
            "prefill_count_missing", response.evidence(side="prefill")))
    if d is None:
        return unknown(STALE_HANDOFF, reason(
            "prompt_count_missing", response.evidence(), role="both roles"))
    if side.lowest_limit is not None and d >= side.lowest_limit:
        if side.known and side.stale_state == "exposed" and o is not None and o > 1:
            return _weigh(STALE_HANDOFF, Tier.PROBABLE, PROBABLE, reason(
                "over_limit_vulnerable", response.evidence("stats", "finished") + side.evidence,
                d=d, limit=side.lowest_limit, version=side.version))
        return _weigh(STALE_HANDOFF, Tier.POSSIBLE, POSSIBLE, reason(
            "over_limit_unknown", response.evidence("stats", "finished") + side.evidence,
            d=d, limit=side.lowest_limit))
    if side.refusals_covered(response) and side.lowest_limit is not None:
        return excluded(STALE_HANDOFF, reason(
            "under_limit_covered", response.evidence("stats", "finished") + side.evidence,
            d=d, limit=side.lowest_limit))
    return unknown(STALE_HANDOFF, reason(
        "prefill_record_missing", response.evidence(), missing=_deciding_records(side)))


def _answered_after_refusal(response: Response, side: PrefillSide) -> bool:
    """True if prefill must have refused the prompt and decode returned tokens all the same.

    A build that retires refused requests cannot show that: the stated build is wrong.
    """
    d, o = response.prompt_high, response.output_high
    over = d is not None and side.lowest_limit is not None and d >= side.lowest_limit
    return o is not None and o > 1 and (bool(response.p_validator) or over)


def _deciding_records(side: PrefillSide) -> str:
    return (
        "its ReqTimeStats line or request log" if side.known
        else "the log of the prefill worker that served it"
    )


def weigh_truncated(response: Response, side: PrefillSide) -> Weighing:
    """Weigh the truncated hand-off for one response."""
    if response.decode_seen and (done := _nothing_attended(response, TRUNCATED_HANDOFF)):
        return done
    p, d, o = response.prefill_count, response.decode_count, response.output_high
    both = response.evidence("stats", "finished") + response.evidence(
        "stats", "finished", "truncated", side="prefill")
    if p is not None and d is not None:
        if p >= d:
            code = "counts_equal" if p == d else "prefill_counted_more"
            return excluded(TRUNCATED_HANDOFF, reason(code, both, p=p, d=d))
        if p > 1:
            if o is not None and o > 1 and side.truncates is not False:
                return _weigh(TRUNCATED_HANDOFF, Tier.CONFIRMED, (1.0, 1.0, 1.0), reason(
                    "counts_differ_truncated", both, p=p, d=d, o=o, stale=d - p))
            return _weigh(TRUNCATED_HANDOFF, Tier.POSSIBLE, (0.5, 0.0, 1.0), reason(
                "counts_differ_unended", both, p=p, d=d))
    if side.truncates is False:
        return excluded(TRUNCATED_HANDOFF, reason("truncate_off", side.evidence))
    if p == 1:
        return excluded(TRUNCATED_HANDOFF, reason(
            "stub_not_truncated", response.evidence("stats", "finished", side="prefill")))
    longest = d if d is not None else response.prompt_high
    if longest is None and p is not None:
        # A truncated prompt has exactly the limit's length: a shorter one was not cut.
        longest = p if side.lowest_limit is not None and p < side.lowest_limit else None
    if longest is not None and side.known and side.lowest_limit is not None:
        if longest < side.lowest_limit:
            return excluded(TRUNCATED_HANDOFF, reason(
                "under_limit", both + side.evidence, d=longest, limit=side.lowest_limit))
        tier, bounds = (
            (Tier.PROBABLE, PROBABLE)
            if side.truncates and o is not None and o > 1 else (Tier.POSSIBLE, POSSIBLE))
        return _weigh(TRUNCATED_HANDOFF, tier, bounds, reason(
            "over_limit_unknown", both + side.evidence, d=longest, limit=side.lowest_limit))
    return unknown(TRUNCATED_HANDOFF, reason(
        "prefill_record_missing" if response.decode_seen else "decode_record_missing",
        response.evidence() or response.evidence(side="prefill"),
        missing=_deciding_records(side)))


def pages(n_tokens: int, page_size: int) -> int:
    """Return the number of pages that ``n_tokens`` tokens take."""
    return -(-n_tokens // page_size)


def stale_positions(response: Response, weighings: Sequence[Weighing]) -> int | None:
    """Return how many attended positions were never handed over; None if unknown."""
    shown = {w.mechanism for w in weighings if w.tier is Tier.CONFIRMED}
    p, d = response.prefill_count, response.decode_count
    if p is None or d is None or not shown & {STALE_HANDOFF, TRUNCATED_HANDOFF}:
        return None
    return d - p
