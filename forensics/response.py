"""One response as the records of both roles describe it, and its weighing inputs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Response:
    """A row of ``queries/response.sql``; times are epoch ns on the worker's own clock.

    ``prompt_*`` and ``output_*`` are decode's counts, ``p_*`` prefill's; None is unknown.
    """

    response_id: int
    use_id: int | None
    room: int
    attempt: int
    rid: str | None
    p_rid: str | None
    request_id: str | None
    decode_worker_id: int | None
    prefill_worker_id: int | None
    prefill_seen: bool
    ambiguous: bool
    epoch: int | None
    p_epoch: int | None
    dp: int | None
    first_ns: int | None
    received_lo: int | None
    received_hi: int | None
    ended_lo: int | None
    ended_hi: int | None
    alloc_lo: int | None
    alloc_hi: int | None
    commit_lo: int | None
    prompt_low: int | None
    prompt_high: int | None
    output_low: int | None
    output_high: int | None
    has_stats: bool | None
    has_end: bool | None
    failed_lo: int | None
    failed_reason: str | None
    handshake_lo: int | None
    http_refused: bool | None
    detector: str | None
    validator: str | None
    finish_type: str | None
    finish_message: str | None
    status_code: int | None
    http_status: int | None
    model: str | None
    retractions: int | None
    refs: list[str] | None
    p_prompt_low: int | None
    p_prompt_high: int | None
    p_output_high: int | None
    p_sent_mb: float | None
    p_has_end: bool | None
    p_forwarded: bool | None
    p_validator: str | None
    p_rejected_tokens: int | None
    p_rejected_limit: int | None
    p_finish_type: str | None
    p_refs: list[str] | None
    router_refs: list[str] | None

    @property
    def decode_seen(self) -> bool:
        return self.decode_worker_id is not None

    @property
    def decode_count(self) -> int | None:
        """Decode's prompt length if its records agree."""
        return self.prompt_high if self.prompt_low == self.prompt_high else None

    @property
    def prefill_count(self) -> int | None:
        """Prefill's prompt length if its records agree and belong to this use for certain."""
        if self.ambiguous or self.p_prompt_low != self.p_prompt_high:
            return None
        return self.p_prompt_high

    @property
    def counts_contradict(self) -> bool:
        return (self.prompt_low != self.prompt_high) or (self.p_prompt_low != self.p_prompt_high)

    @property
    def no_tokens(self) -> bool:
        """True if a record says that decode returned nothing for this use.

        A failed transfer or handshake ends the use before decode appended any token. An answer
        that merely has no end on record is not one of these: tokens may have been streamed. What
        the HTTP layer refused never reached the scheduler.
        """
        if self.http_refused:
            return True
        if self.output_high is not None:
            return self.output_high == 0 and (
                bool(self.has_end) or self.failed_lo is not None or self.handshake_lo is not None
            )
        return self.decode_seen and (
            self.failed_lo is not None or self.handshake_lo is not None
        )

    @property
    def never_handed_over(self) -> bool:
        """True if prefill dropped the room before its forward pass and no decode log names it.

        Decode generates from what it is handed: without a hand-off there is no answer.
        """
        return not self.decode_seen and self.p_forwarded is False and self.p_output_high == 0

    @property
    def one_token(self) -> bool:
        return self.output_high == 1 and self.output_low == 1 and bool(self.has_end)

    def evidence(self, *sources: str, side: str = "decode") -> tuple[str, ...]:
        """Return the evidence ids of this side's lines, of the named sources or of all."""
        refs = self.refs if side == "decode" else self.p_refs
        split = (ref.split("|", 1) for ref in refs or [])
        return tuple(where for source, where in split if not sources or source in sources)


_FIELDS = frozenset(field.name for field in fields(Response))


def from_row(row: dict[str, Any]) -> Response:
    """Build a response from a row of the table ``response`` (further columns are ignored)."""
    values: dict[str, Any] = {name: row.get(name) for name in _FIELDS}
    return Response(**values)
