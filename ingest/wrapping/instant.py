"""RFC 3339 stamps -> epoch nanoseconds UTC."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Final

# A stamp that says its zone; the fraction may be missing.
STAMP: Final = (
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)"
)
_PARTS: Final = re.compile(
    rb"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)\Z"
)
_MAX_NS: Final = 2**63 - 1
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


@lru_cache(maxsize=1024)
def _minute_s(minute: bytes, zone: bytes) -> int | None:
    """Epoch seconds at which a minute begins; None if there is no such minute."""
    try:
        day = date.fromisoformat(minute[:10].decode())
        hours, minutes = int(minute[11:13]), int(minute[14:16])
    except ValueError:
        return None
    if hours > 23 or minutes > 59:
        return None
    seconds = (day.toordinal() - _EPOCH_DAY) * 86400 + hours * 3600 + minutes * 60
    if zone != b"Z":
        digits = zone[1:].replace(b":", b"")
        offset = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        seconds += offset if zone[:1] == b"-" else -offset
    return seconds


@lru_cache(maxsize=1024)
def _second_s(second: bytes) -> int | None:
    """Epoch seconds of a UTC stamp of whole seconds."""
    match = _PARTS.match(second + b"Z")
    if match is None or match[2] > b"60":
        return None
    minute = _minute_s(match[1], b"Z")
    return None if minute is None else minute + int(match[2])


def epoch_ns(stamp: bytes) -> int | None:
    """Epoch ns of a stamp with a zone; None if it is none, or out of a 64-bit range."""
    # The usual spelling, without the cost of a pattern: many lines share their second.
    if stamp[19:20] == b"." and stamp[-1:] == b"Z":
        whole, fraction = _second_s(stamp[:19]), stamp[20:-1]
        if whole is not None and fraction.isdigit() and len(fraction) <= 9:
            return in_range(whole * 10**9 + int(fraction) * 10 ** (9 - len(fraction)))
    match = _PARTS.match(stamp)
    if match is None:
        return None
    minute, second, fraction, zone = match.groups()
    start = _minute_s(minute, zone)
    if start is None or second > b"60":
        return None
    nanos = (start + int(second)) * 10**9
    return in_range(nanos + int(fraction.ljust(9, b"0")) if fraction else nanos)


def in_range(value: int) -> int | None:
    """The value if it fits the ``outer_ns`` column, else None."""
    return value if -_MAX_NS <= value <= _MAX_NS else None
