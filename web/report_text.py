"""Numbers, times and names as the report prints them: exact, bounded, fit for hostile text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ingest.visible import visible

# Longest name (rid, host, account, file) and longest sentence, in characters.
MAX_NAME_CHARS: Final = 120
MAX_SENTENCE_CHARS: Final = 1200
_RFC3339: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its bounds; what could not be assessed stands beside it, never in it."""

    low: int
    expected: str
    high: int
    not_assessable: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A time in UTC: ``text`` to the second, ``exact`` as recorded, ``ns`` since the epoch."""

    text: str
    exact: str
    ns: int


def name(value: object) -> str:
    """Return a name as it is shown; hidden characters are visible, long names are cut."""
    return visible(str(value), MAX_NAME_CHARS)


def sentence(value: object) -> str:
    """Return a sentence as it is shown."""
    return visible(str(value), MAX_SENTENCE_CHARS)


def count(value: float) -> str:
    """Return a whole number with its thousands apart."""
    return f"{value:,.0f}"


def amount(value: float) -> str:
    """Return an expected number: one decimal, or three significant digits below one."""
    if value and value < 0.95:
        return f"{value:.3g}"
    return f"{value:,.1f}".removesuffix(".0")


def probability(value: float | None) -> str:
    """Return a probability; what is not exactly 0 or 1 never reads as if it were."""
    if value is None:
        return "–"
    if value in (0.0, 1.0):
        return f"{value:.0f}"
    if value < 0.001:
        return "<0.001"
    return ">0.999" if value > 0.999 else f"{value:.3f}".rstrip("0")


def estimate(fields: dict[str, Any]) -> Estimate:
    """Return an estimate of ``summary.json``."""
    return Estimate(int(fields["low"]), amount(float(fields["expected"])), int(fields["high"]),
                    int(fields["not_assessable"]))


def moment(value: object) -> Moment | None:
    """Read an RFC 3339 time in UTC; None for no time or anything else."""
    match = _RFC3339.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    day, clock, fraction = match.groups()
    try:
        whole = datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=UTC)
    except ValueError:
        return None
    ns = int(whole.timestamp()) * 10**9 + int((fraction or "0").ljust(9, "0"))
    return Moment(f"{day} {clock}", match.group(), ns)


def duration(ns: int) -> str:
    """Return a length of time in its two largest units."""
    seconds = round(ns / 1e9)
    if seconds < 1:
        return "less than a second"
    parts = []
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])


def joined(names: Iterable[str], most: int = 4) -> str:
    """Join names; what is beyond ``most`` is counted."""
    listed = list(names)
    text = ", ".join(listed[:most])
    return f"{text} and {len(listed) - most} more" if len(listed) > most else text


def slug(value: object) -> str:
    """Return a text that can be part of an anchor."""
    return re.sub(r"[^a-z0-9_]+", "-", str(value).lower())[:60] or "-"


def upper_first(text: str) -> str:
    """Return the text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def plural(number: int, one: str, many: str = "") -> str:
    """Return the number with its noun."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
