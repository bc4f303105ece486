"""One pass over the records of a case: counts of everything, rows of what the report shows.

Memory is bounded by the caps below, the number of accounts and of workers, not by the responses.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

# Rows that are shown of each tier; the rest stands in responses.jsonl.
# Four full tiers with page traces make 27 MB, which a browser opens in seconds.
CAPS: Final = {"confirmed": 500, "probable": 500, "possible": 500, "not_assessable": 500}
# Candidate sources that are shown of each response; the rest stands in exposures.jsonl.
MAX_SOURCES: Final = 20
EXPOSED: Final = ("confirmed", "probable", "possible")

Record = dict[str, Any]
Key = tuple[str, int]


@dataclass(slots=True)
class AccountTally:
    """What one account got, and what of it may have been exposed."""

    recipient: Counter[str] = field(default_factory=Counter)
    source: Counter[str] = field(default_factory=Counter)
    expected: float = 0.0
    high: float = 0.0
    source_expected: float = 0.0

    @property
    def concerned(self) -> bool:
        """Whether the account has to be listed."""
        return (any(self.recipient[t] for t in (*EXPOSED, "not_assessable"))
                or any(self.source[t] for t in EXPOSED))


@dataclass(slots=True)
class Rows:
    """What the report is made of, besides the summary."""

    shown: dict[str, list[Record]] = field(default_factory=lambda: {tier: [] for tier in CAPS})
    excluded_codes: Counter[str] = field(default_factory=Counter)
    accounts: dict[str, AccountTally] = field(default_factory=lambda: defaultdict(AccountTally))
    workers: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    models: Counter[str] = field(default_factory=Counter)
    first: Record | None = None
    last: Record | None = None
    sources: dict[Key, list[Record]] = field(default_factory=dict)
    # Sources beyond MAX_SOURCES, per response.
    unlisted: Counter[Key] = field(default_factory=Counter)


def collect(
    responses: Iterable[Record], exposures: Iterable[Record], caps: dict[str, int] | None = None
) -> Rows:
    """Count all responses and keep those that are shown, with their candidate sources."""
    caps = caps or CAPS
    rows = Rows()
    for record in responses:
        _count(rows, record)
        tier = record["recipient_tier"]
        if tier in caps:
            kept = rows.shown[tier]
            kept.append(record)
            if len(kept) > 2 * caps[tier] + 64:
                kept.sort(key=_order)
                del kept[caps[tier]:]
    for tier, kept in rows.shown.items():
        kept.sort(key=_order)
        del kept[caps[tier]:]
    # The first and the last exposed response are shown whatever their tier's cap.
    for pinned in (rows.first, rows.last):
        if pinned is not None:
            kept = rows.shown[pinned["recipient_tier"]]
            if not any(pinned is other for other in kept):
                kept.append(pinned)
    _collect_sources(rows, exposures)
    return rows


def key_of(record: Record) -> Key:
    """Return what exposures name a response by."""
    return str(record["room"]), int(record["attempt"])


def began(record: Record) -> str:
    """Return the earliest time of a response, '' if none is known."""
    return record.get("received_at") or record.get("finished_at") or ""


def ended(record: Record) -> str:
    """Return the latest time of a response, '' if none is known."""
    return (record.get("finished_at_hi") or record.get("finished_at")
            or record.get("received_at_hi") or record.get("received_at") or "")


def _order(record: Record) -> tuple[float, str, str, int, str]:
    room, attempt = key_of(record)
    return (-(record.get("recipient_probability") or 0.0), began(record), room.rjust(20), attempt,
            str(record.get("decode_worker")))


def _count(rows: Rows, record: Record) -> None:
    tier = record["recipient_tier"]
    exposed = tier in EXPOSED
    for side in ("decode_worker", "prefill_worker"):
        if record.get(side) is not None:
            rows.workers[record[side]][tier] += 1
    if exposed:
        if record.get("model"):
            rows.models[record["model"]] += 1
        if began(record) and (rows.first is None or began(record) < began(rows.first)):
            rows.first = record
        if ended(record) and (rows.last is None or ended(record) > ended(rows.last)):
            rows.last = record
    elif tier == "excluded":
        rows.excluded_codes.update({
            code for weighed in record.get("mechanisms") or () for code in weighed["reasons"]})
    if record.get("account") is not None:
        account = rows.accounts[record["account"]]
        account.recipient[tier] += 1
        account.source[record.get("source_tier") or "not_assessable"] += 1
        if exposed:
            account.expected += record.get("recipient_probability") or 0.0
            account.high += record.get("recipient_probability_high") or 0.0
        if record.get("source_tier") in EXPOSED:
            account.source_expected += record.get("source_probability") or 0.0


def _collect_sources(rows: Rows, exposures: Iterable[Record]) -> None:
    keys = {key_of(record) for kept in rows.shown.values() for record in kept}
    for exposure in exposures:
        key = str(exposure["recipient_room"]), int(exposure["recipient_attempt"])
        if key not in keys:
            continue
        listed = rows.sources.setdefault(key, [])
        # The row without a room carries the mass of those that are not listed: it is always kept.
        if len(listed) < MAX_SOURCES or exposure.get("source_room") is None:
            listed.append(exposure)
        else:
            rows.unlisted[key] += 1
