"""RFC 3339 stamps -> epoch nanoseconds UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

# A stamp that says its zone; the fraction may be missing.
STAMP: Final = (
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
)
_PARTS: Final = re.compile(
    rb"(\d{4}-\d\d-\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)\Z"
)
_MAX_NS: Final = 2**63 - 1


@lru_cache(maxsize=256)
def _day_s(day: bytes) -> int | None:
    """Epoch seconds at which a calendar day begins; None if there is no such day."""
    try:
        moment = datetime.strptime(day.decode(), "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp())


def epoch_ns(stamp: bytes) -> int | None:
    """Epoch ns of a stamp with a zone; None if it is none, or out of a 64-bit range."""
    match = _PARTS.match(stamp)
    if match is None:
        return None
    day, hour, minute, second, fraction, zone = match.groups()
    start = _day_s(day)
    if start is None or int(hour) > 23 or int(minute) > 59 or int(second) > 60:
        return None
    seconds = start + int(hour) * 3600 + int(minute) * 60 + int(second)
    if zone != b"Z":
        digits = zone[1:].replace(b":", b"")
        offset = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        seconds += offset if zone[:1] == b"-" else -offset
    return in_range(seconds * 10**9 + (int(fraction.ljust(9, b"0")) if fraction else 0))


def in_range(value: int) -> int | None:
    """The value if it fits the ``outer_ns`` column, else None."""
    return value if -_MAX_NS <= value <= _MAX_NS else None
