"""Compiled reader of the prefix ``[2025-09-29 08:12:31.417 DP1 TP5 EP5] ``."""

from __future__ import annotations

import numpy as np

from ingest.bulk.kernel.reading import compiled, read_digits
from ingest.bulk.layout import NULL


@compiled
def _two(data, at):
    a, b = data[at] - 48, data[at + 1] - 48
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
def read_prefix(data, at, end, ints):
    """Read ``[stamp ranks] ``; returns the position of the message or -1."""
    if end - at < 24 or data[at] != 91:
        return -1
    p = at + 1
    century, decade = _two(data, p), _two(data, p + 2)
    month, day = _two(data, p + 5), _two(data, p + 8)
    hour, minute, second = _two(data, p + 11), _two(data, p + 14), _two(data, p + 17)
    if (century < 0 or decade < 0 or month < 1 or month > 12 or day < 1 or hour < 0 or hour > 23
            or minute < 0 or minute > 59 or second < 0 or second > 59):
        return -1
    if (data[p + 4] != 45 or data[p + 7] != 45 or data[p + 10] != 32 or data[p + 13] != 58
            or data[p + 16] != 58):
        return -1
    year = century * 100 + decade
    if year < 1971 or year > 2200 or day > _month_days(year, month):
        return -1
    ns = (np.int64(_days(year, month, day)) * 86400 + hour * 3600 + minute * 60 + second)
    ns *= 1000000000
    width = np.int64(1000000000)
    p += 19
    if data[p] == 46:
        millis, after, count = read_digits(data, p + 1, end)
        if count != 3:
            return -1
        ns += millis * 1000000
        width = np.int64(1000000)
        p = after
    ints[0], ints[1] = ns, width
    while p < end and data[p] == 32:
        p += 1
        slot, name = -1, 0
        if p + 2 < end:
            a, b = data[p], data[p + 1]
            if a == 68 and b == 80:
                slot, name = 2, 2
            elif a == 80 and b == 80:
                slot, name = 3, 2
            elif a == 84 and b == 80:
                slot, name = 4, 2
            elif a == 69 and b == 80:
                slot, name = 7, 2
            elif p + 7 < end and a == 65 and data[p + 5] == 67:
                slot, name = 5, 7
            elif p + 6 < end and a == 77 and data[p + 4] == 68:
                slot, name = 6, 6
        if slot < 0 or ints[slot] != NULL:
            return -1
        if name == 7 and not (b == 84 and data[p + 2] == 84 and data[p + 3] == 78
                              and data[p + 4] == 95 and data[p + 6] == 80):
            return -1
        if name == 6 and not (b == 79 and data[p + 2] == 69 and data[p + 3] == 95
                              and data[p + 5] == 80):
            return -1
        rank, after, count = read_digits(data, p + name, end)
        if count == 0 or count > 4:
            return -1
        ints[slot] = rank
        p = after
    if p + 1 >= end or data[p] != 93 or data[p + 1] != 32:
        return -1
    return p + 2
