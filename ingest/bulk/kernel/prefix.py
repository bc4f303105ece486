"""Compiled reader of the prefix ``[2025-09-29 08:12:31.417 DP1 TP5 EP5] ``."""

from __future__ import annotations

import numpy as np

from ingest.bulk.kernel.memory import byte, word
from ingest.bulk.kernel.reading import compiled, read_digits, stands, starts, text
from ingest.bulk.layout import NULL

_CP, _MOE = text(b"ATTN_CP"), text(b"MOE_DP")
# Eight line ends, which no stamp holds: nothing is remembered yet.
NO_MINUTE = np.uint64(0x0A0A0A0A0A0A0A0A)


@compiled
def _two(data, at):
    a, b = byte(data, at) - 48, byte(data, at + 1) - 48
    if a < 0 or a > 9 or b < 0 or b > 9:
        return -1
    return a * 10 + b


@compiled
def _days(year, month, day):
    """Days since 1970-01-01 of a Gregorian date (Howard Hinnant's civil-days arithmetic)."""
    y = year - 1 if month <= 2 else year
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468


@compiled
def _month_days(year, month):
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@compiled
def _minute(data, p):
    """Seconds since 1970 of ``2025-09-29 08:12``, -1 if it is no date."""
    century, decade = _two(data, p), _two(data, p + 2)
    month, day = _two(data, p + 5), _two(data, p + 8)
    hour, minute = _two(data, p + 11), _two(data, p + 14)
    if (century < 0 or decade < 0 or month < 1 or month > 12 or day < 1 or hour < 0 or hour > 23
            or minute < 0 or minute > 59):
        return -1
    if (byte(data, p + 4) != 45 or byte(data, p + 7) != 45 or byte(data, p + 10) != 32
            or byte(data, p + 13) != 58):
        return -1
    year = century * 100 + decade
    if year < 1971 or year > 2200 or day > _month_days(year, month):
        return -1
    return _days(year, month, day) * 86400 + hour * 3600 + minute * 60


@compiled
def read_prefix(data, at, end, ints, memo):
    """Read ``[stamp ranks] ``; returns the position of the message or -1.

    ``memo``: the text of the minute that was read last, as two words, and its seconds. The line
    has at least 24 bytes.
    """
    if byte(data, at) != 91:
        return -1
    p = at + 1
    date, clock = word(data, p), word(data, p + 8)
    if date != memo[0] or clock != memo[1]:
        seconds = _minute(data, p)
        if seconds < 0:
            return -1
        memo[0], memo[1], memo[2] = date, clock, np.uint64(seconds)
    second = _two(data, p + 17)
    if byte(data, p + 16) != 58 or second < 0 or second > 59:
        return -1
    ns = (np.int64(memo[2]) + second) * 1000000000
    width = np.int64(1000000000)
    p += 19
    if byte(data, p) == 46:
        millis, after, count = read_digits(data, p + 1, end)
        if count != 3:
            return -1
        ns += millis * 1000000
        width = np.int64(1000000)
        p = after
    ints[0], ints[1] = ns, width
    while stands(data, p, end, 32):
        p += 1
        if p + 2 >= end:
            return -1
        first = byte(data, p)
        slot, size = -1, 2
        if byte(data, p + 1) == 80:
            if first == 68:
                slot = 2
            elif first == 80:
                slot = 3
            elif first == 84:
                slot = 4
            elif first == 69:
                slot = 7
        elif starts(data, p, _CP):
            slot, size = 5, 7
        elif starts(data, p, _MOE):
            slot, size = 6, 6
        if slot < 0 or ints[slot] != NULL:
            return -1
        rank, after, count = read_digits(data, p + size, end)
        if count == 0 or count > 4:
            return -1
        ints[slot] = rank
        p = after
    if p + 2 >= end or byte(data, p) != 93 or byte(data, p + 1) != 32:
        return -1
    return p + 2
