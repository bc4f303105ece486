"""Every reason code that a verdict can carry, with its sentence. The docs list them from here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from forensics.tiers import Reason

REASONS: Final[dict[str, str]] = {
    # Stale and truncated hand-off
    "counts_differ_stub": (
        "Prefill counted {p} prompt token for this room, decode counted {d} and returned {o} "
        "tokens: decode attended {stale} positions that nobody wrote for this request."),
    "counts_differ_truncated": (
        "Prefill counted {p} prompt tokens for this room, decode counted {d} and returned {o} "
        "tokens: the last {stale} positions were never handed over."),
    "counts_differ_unended": (
        "Prefill counted {p} prompt tokens for this room and decode {d}, but no record says "
        "whether decode returned tokens."),
    "counts_equal": "Both roles counted the same {d} prompt tokens for this room.",
    "prefill_counted_more": (
        "Prefill counted {p} prompt tokens and decode {d}: every position that decode attended "
        "was handed over."),
    "prefill_not_stub": (
        "Prefill counted {p} prompt tokens for this room: it handed over no one-token stub."),
    "no_tokens_returned": "Decode returned no token for this use of the room.",
    "never_handed_over": (
        "Prefill dropped this room before its forward pass and no decode log names it: nothing was "
        "handed over, so nothing was generated."),
    "only_prefill_token": (
        "The answer is one token, which comes from prefill: decode attended nothing."),
    "one_token_prompt": "The prompt is one token long: a stub covers it.",
    "over_limit_vulnerable": (
        "The prompt has {d} tokens; prefill refuses from {limit} on and decode accepts it; decode "
        "returned tokens; prefill's build ({version}) hands the stub over. Prefill's own count "
        "for the room is missing."),
    "validator_stub": (
        "Prefill's validator refused this request ({n} tokens, limit {limit})."),
    "prefill_count_missing": (
        "Prefill's own count for the room is missing: ReqTimeStats or the request log would "
        "decide."),
    "fixed_build": (
        "Prefill runs {version}: since 0.5.20 a refused request is retired and nothing is handed "
        "over."),
    "fixed_build_answered": (
        "Prefill is taken for {version}, which answers no refused prompt, yet prefill must have "
        "refused this one and decode returned {o} tokens: the build is in doubt."),
    "fixed_build_contradicted": (
        "Prefill is taken for {version}, which hands no stub over, yet the two counts of this "
        "room differ: the counts decide."),
    "under_limit_covered": (
        "The prompt has {d} tokens, below every prefill limit ({limit}), and the prefill log, "
        "which covers the time and prints refusals of its rank, has none."),
    "fails_closed_backend": (
        "nixl with {state} state refuses a hand-off whose state lengths differ."),
    "under_limit": (
        "The prompt has {d} tokens, below prefill's limit of {limit}: nothing is cut off."),
    "stub_not_truncated": "Prefill handed over the one-token stub, not a truncated prompt.",
    "truncate_off": "Prefill does not truncate prompts (allow_auto_truncate is off).",
    "over_limit_unknown": (
        "The prompt has {d} tokens, at or over a prefill limit of {limit}; prefill's own count for "
        "the room is missing."),
    "prefill_record_missing": (
        "No prefill record names this room: {missing} would decide."),
    "decode_record_missing": (
        "Only prefill names this room: the decode worker's log would decide."),
    "prompt_count_missing": (
        "No record gives the prompt length on {role}: ReqTimeStats or the request log would "
        "decide."),
    "pairing_ambiguous": (
        "The room was used several times and the two roles recorded different numbers of uses: "
        "counts cannot be compared."),
    "counts_contradict": (
        "The records of one role give different prompt lengths ({low} and {high}) for this room."),
    "stale_never_written": (
        "By the recorded allocations the decode pool had not been used up since its start: the "
        "positions may never have held anybody's data."),
    # Late write
    "late_window": (
        "On the same pool {n} use(s) gave pages back while a write may have been outstanding, "
        "and this response owned or took pages inside that window."),
    "late_window_unbounded": (
        "A send failure line for {n} of them says that nothing bounds when the write landed."),
    "late_timed_out": (
        "A deferred release timed out and gave pages back without proof that the write had ended."),
    "late_switch_unknown": (
        "The decode build ({version}) holds such pages by default; no record shows that the "
        "switch was on, and none that the holds drained."),
    "no_trigger": (
        "No use on this pool gave pages back with a write outstanding while this response could "
        "own them."),
    "all_drained": (
        "Every hold of this decode worker drained: {n} failed transfers, {drained} drained "
        "releases, no timeout."),
    "pool_unknown": "The decode worker or rank of this response is unknown.",
    "decode_log_gap": (
        "The decode log does not cover this response's life from allocation to end."),
    "fake_backend": "The fake transfer backend writes nothing.",
    # Candidate sources
    "source_in_pool": (
        "This request gave pages back to the same pool before the recipient took them; which "
        "pages, no log says."),
    "source_remainder": "{n} further candidates share the remaining weight.",
    "source_unlisted": (
        "The candidates cannot be weighed: the pool's size, its page size or the recipient's "
        "allocation is not recorded."),
    "source_trigger": (
        "This request gave its pages back while a write of its data may have been outstanding."),
    "source_trigger_unbounded": (
        "This request's transfer failed in sending: nothing bounds when its data landed."),
    "source_page": (
        "The page trace names this request as the last writer of {pages} attended pages."),
    "source_stub": (
        "The one page that prefill handed over was this request's before: all slots but one held "
        "its data."),
    "source_page_late": (
        "The page trace shows this request's write still running to {pages} pages after they were "
        "given away."),
    # Page-level evidence
    "page_stale": (
        "The page trace shows {n} attended pages that no write of this request reached in time; "
        "their last writers are known."),
    "page_contradicted": (
        "The logs rule out what the page trace shows; one of the two records is incomplete."),
    "page_all_written": (
        "The page trace shows every attended page written by this request before it was attended."),
    "page_late_write": (
        "The page trace shows a write of another request landing on {n} of this response's pages "
        "after its own write and before its last read."),
    "page_late_write_open": (
        "The page trace shows a failed write of another request to {n} of this response's pages "
        "whose landing time is not known."),
    "page_late_write_span": (
        "The page trace shows a write of another request to {n} of this response's pages that may "
        "have landed before or after its own write: the send spans both."),
    "page_no_late_write": (
        "The page trace shows no write of another request on this response's pages between its "
        "own write and its last read."),
    # Metadata collision
    "room_check": (
        "Decode runs {version}: a metadata row of another room aborts the request."),
    "room_check_fired": (
        "The room check found another room's metadata row and aborted this request without an "
        "answer."),
    "room_check_absent": (
        "Decode's build ({version}) has no room check on metadata rows: no log can tell."),
    "decode_build_unknown": "Nothing in the evidence bounds the decode worker's build.",
}


def reason(code: str, evidence: Iterable[str] = (), /, **values: object) -> Reason:
    """Fill the sentence of ``code``; KeyError if the code or a value is missing."""
    return Reason(code, REASONS[code].format(**values), tuple(evidence))
