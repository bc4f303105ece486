"""Times as request-level sources print them: naive local stamps and epoch seconds, to ns."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1)
# Length of 'YYYY-mm-ddTHH:MM:SS' with nothing, '.mmm' or '.ffffff' behind it -> width in ns.
_RESOLUTION_NS: Final = {19: 1_000_000_000, 23: 1_000_000, 26: 1_000}
_PREFIX: Final = re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{3}(?:\d{3})?)?(?![\d.])")
# Smaller values are monotonic clocks or unset fields, not epoch seconds (2000-01-01).
FIRST_EPOCH_S: Final = 946_684_800
LAST_EPOCH_S: Final = 9_223_372_035  # what fits into 64-bit nanoseconds


def stamp_ns(text: object) -> tuple[int | None, int | None]:
    """Read a naive ISO stamp as if it were UTC: (ns, width in ns), or (None, None)."""
    if type(text) is not str:
        return None, None
    width = _RESOLUTION_NS.get(len(text))
    if width is None:
        return None, None
    try:
        since = datetime.fromisoformat(text) - _EPOCH
    except (ValueError, TypeError):  # TypeError: a zone in the place of the fraction
        return None, None
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000, width


def prefix_stamp_ns(prefix: bytes | None) -> tuple[int | None, int | None]:
    """Read the stamp at the start of a log prefix: (ns, width in ns), or (None, None)."""
    found = _PREFIX.match(prefix) if prefix is not None else None
    return stamp_ns(found.group().decode("ascii")) if found is not None else (None, None)


def epoch_ns(value: object) -> int | None:
    """Convert epoch seconds to ns, exactly as the decimal text says; None if it is no epoch time.

    ``repr`` of a float gives back the digits that the engine printed (both sides use the shortest
    text that round-trips), so no binary rounding enters.
    """
    if type(value) is int:
        return value * 1_000_000_000 if FIRST_EPOCH_S <= value <= LAST_EPOCH_S else None
    if type(value) is not float or not FIRST_EPOCH_S <= value <= LAST_EPOCH_S:
        return None
    whole, _, fraction = repr(value).partition(".")
    return int(whole) * 1_000_000_000 + int(fraction[:9].ljust(9, "0"))
