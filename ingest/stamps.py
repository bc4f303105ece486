"""Time texts to integer nanoseconds, without floating point.

A naive stamp is read as if it were UTC; which zone it really has is decided later, from anchors.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

SECOND: Final = 10**9
_EPOCH: Final = datetime(1970, 1, 1)
_STAMP = re.compile(
    rb"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?")


@lru_cache(maxsize=4096)
def _seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    moment = datetime(year, month, day, hour, minute, min(second, 59))
    # A leap second is stamped :60; it is the next second on every clock that counts.
    return (moment - _EPOCH) // timedelta(seconds=1) + max(0, second - 59)


def parse_stamp(text: bytes) -> tuple[int, int, bool] | None:
    """Parse ``YYYY-mm-dd HH:MM:SS[.fraction][zone]`` (space or T).

    Returns (nanoseconds, width of the stamp in nanoseconds, zone was stated) or None for other
    text and impossible dates. A stated zone is applied: the result is epoch time then.
    """
    match = _STAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        whole = _seconds(int(year), int(month), int(day), int(hour), int(minute), int(second))
    except ValueError:
        return None
    ns, width = whole * SECOND, SECOND
    if fraction:
        width = 10 ** (9 - len(fraction))
        ns += int(fraction) * width
    if zone and zone != b"Z":
        minutes = int(zone[1:3]) * 60 + int(zone[-2:])
        ns -= (1 if zone[:1] == b"+" else -1) * minutes * 60 * SECOND
    return ns, width, zone is not None


def epoch_text_ns(text: bytes | str) -> int | None:
    """Turn decimal epoch seconds (``1759133552.981``) into nanoseconds; None for other text."""
    if isinstance(text, bytes):
        text = text.decode("ascii", errors="replace")
    whole, _, fraction = text.partition(".")
    if not whole.isdigit() or len(whole) > 12 or (fraction and not fraction.isdigit()):
        return None
    return int(whole) * SECOND + int((fraction[:9]).ljust(9, "0"))
