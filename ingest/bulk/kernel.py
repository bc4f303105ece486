"""The compiled scan itself: one pass over a block of bytes. No Python objects inside.

``scan_lines`` fills, per line: its kind, an integer and a float matrix, the spans of its texts and a
number that encodes role or dialect. A line that is not exactly in the expected spelling keeps kind 0.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ingest.bulk.layout import (
    ACCESS,
    BATCH_FLOATS,
    BATCH_INTS,
    DECODE,
    FIRST_INT,
    NULL,
    PREFILL,
    STATS,
    STATS_FLOATS,
    STATS_INTS,
    fnv,
)


def _slots(names, aliases):
    return {key: names.index(column) for key, column in aliases.items()}


_BATCH_INT = _slots(BATCH_INTS, {
    b"#running-req": "running_reqs", b"#queue-req": "queue_reqs", b"#new-seq": "new_seqs",
    b"#new-token": "new_tokens", b"#cached-token": "cached_tokens", b"#token": "used_tokens",
    b"#full token": "used_tokens", b"#swa token": "swa_tokens",
    b"#prealloc-req": "prealloc_reqs", b"#transfer-req": "transfer_reqs",
    b"#retracted-req": "retracted_reqs", b"#bootstrap-req": "bootstrap_reqs",
    b"#inflight-req": "inflight_reqs"})
_BATCH_FLOAT = _slots(BATCH_FLOATS, {
    b"token usage": "token_usage", b"full token usage": "token_usage",
    b"swa token usage": "swa_usage", b"pre-allocated usage": "prealloc_usage",
    b"gen throughput (token/s)": "throughput_tokens_s",
    b"input throughput (token/s)": "throughput_tokens_s"})
_STATS_INT = _slots(STATS_INTS, {
    b"bootstrap_room": "room", b"input_len": "input_len", b"cached_input_len": "cached_input_len",
    b"output_len": "output_len", b"attempts": "attempts"})
_STATS_FLOAT = _slots(STATS_FLOATS, {
    b"bootstrap_duration": "bootstrap_ms", b"bootstrap_queue_duration": "bootstrap_queue_ms",
    b"alloc_wait_duration": "alloc_wait_ms", b"prealloc_queue_duration": "prealloc_queue_ms",
    b"transfer_duration": "transfer_ms", b"queue_duration": "queue_ms",
    b"forward_duration": "forward_ms"})
# Keys that are read past: a number, True or False.
_IGNORED = (b"cuda graph", b"accept len", b"accept rate", b"waiting-image-req", b"cpu graph",
            b"#pending-token", b"#optimistic-req", b"#host-receive-req")
_BITS = {b"#bootstrap-req": 1, b"#host-receive-req": 2, b"#optimistic-req": 4,
         b"#pending-token": 8, b"#prealloc-req": 16}


def _table(entries):
    """Pack {key: number} into two sorted arrays for a binary search by hash."""
    pairs = sorted((fnv(key), number) for key, number in entries.items())
    return (np.array([h for h, _ in pairs], dtype=np.uint64),
            np.array([n for _, n in pairs], dtype=np.int64))


# Number of a batch key: 0..99 integer slot, 100..199 float slot, 200 read past; bits above 1000.
_BATCH_KEYS, _BATCH_NUMBERS = _table(
    {k: n + 1000 * _BITS.get(k, 0) for k, n in _BATCH_INT.items()}
    | {k: 100 + n for k, n in _BATCH_FLOAT.items()}
    | {k: 200 + 1000 * _BITS.get(k, 0) for k in _IGNORED})
_STATS_KEYS, _STATS_NUMBERS = _table(
    dict(_STATS_INT) | {k: 100 + n for k, n in _STATS_FLOAT.items()})

_ROLE_PREFILL, _ROLE_DECODE, _ROLE_UNIFIED = 0, 1, 2
_POWERS = np.array([10.0**k for k in range(23)])
_MAX_MANTISSA = 2**53


@njit(cache=True, nogil=True)
def _find(keys, numbers, value):
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < value:
            low = middle + 1
        else:
            high = middle
    if low < len(keys) and keys[low] == value:
        return numbers[low]
    return -1


@njit(cache=True, nogil=True)
def _digits(data, at, end):
    """Read decimal digits; (value, position after, count); count 0 if there are none."""
    value = np.int64(0)
    start = at
    while at < end:
        d = data[at] - 48
        if d < 0 or d > 9 or at - start >= 18:
            break
        value = value * 10 + d
        at += 1
    return value, at, at - start


@njit(cache=True, nogil=True)
def _room(data, at, end):
    """Read up to 20 digits into 64 unsigned bits; ok is False on overflow."""
    value = np.uint64(0)
    start = at
    ten = np.uint64(10)
    while at < end:
        d = data[at] - 48
        if d < 0 or d > 9:
            break
        if value > np.uint64(1844674407370955161) or (
                value == np.uint64(1844674407370955161) and d > 5):
            return value, at, False
        value = value * ten + np.uint64(d)
        at += 1
    return value, at, at > start


@njit(cache=True, nogil=True)
def _decimal(data, at, end):
    """Read ``123`` or ``123.45``; exact because mantissa and power are exact doubles."""
    whole, after, count = _digits(data, at, end)
    if count == 0:
        return 0.0, at, False
    if after < end and data[after] == 46:
        fraction, last, places = _digits(data, after + 1, end)
        if places == 0 or count + places > 15:
            return 0.0, at, False
        scale = _POWERS[places]
        mantissa = whole * np.int64(scale) + fraction
        if mantissa > _MAX_MANTISSA:
            return 0.0, at, False
        return mantissa / scale, last, True
    if count > 15:
        return 0.0, at, False
    return float(whole), after, True


@njit(cache=True, nogil=True)
def _two(data, at):
    a, b = data[at] - 48, data[at + 1] - 48
    if a < 0 or a > 9 or b < 0 or b > 9:
        return -1
    return a * 10 + b


@njit(cache=True, nogil=True)
def _days(year, month, day):
    """Days since 1970-01-01 of a Gregorian date (Howard Hinnant's civil-days arithmetic)."""
    y = year - 1 if month <= 2 else year
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468


@njit(cache=True, nogil=True)
def _month_days(year, month):
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@njit(cache=True, nogil=True)
def _prefix(data, at, end, ints):
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
        millis, after, count = _digits(data, p + 1, end)
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
        rank, after, count = _digits(data, p + name, end)
        if count == 0 or count > 4:
            return -1
        ints[slot] = rank
        p = after
    if p + 1 >= end or data[p] != 93 or data[p + 1] != 32:
        return -1
    return p + 2


@njit(cache=True, nogil=True)
def _starts(data, at, end, text):
    if end - at < len(text):
        return False
    for i in range(len(text)):
        if data[at + i] != text[i]:
            return False
    return True


@njit(cache=True, nogil=True)
def _batch(data, at, end, decode, ints, floats):
    """Read the ``key: value`` parts of a batch line; returns its dialect bits or -1."""
    bits = 0
    seen_running = False
    while True:
        value = np.uint64(14695981039346656037)
        start = at
        while at < end and data[at] != 58:
            if data[at] == 44:
                return -1
            value = (value ^ np.uint64(data[at])) * np.uint64(1099511628211)
            at += 1
        if at + 1 >= end or data[at + 1] != 32 or at == start:
            return -1
        at += 2
        number = _find(_BATCH_KEYS, _BATCH_NUMBERS, value)
        if number < 0:
            return -1
        bit = number // 1000
        number = number % 1000
        if bit and not (bit == 16 and decode):
            bits |= bit
        if number < 100:
            got, after, count = _digits(data, at, end)
            if count == 0 or ints[FIRST_INT + number] != NULL:
                return -1
            ints[FIRST_INT + number] = got
            if number == 0:
                seen_running = True
        elif number < 200:
            real, after, ok = _decimal(data, at, end)
            if not ok or floats[number - 100] == floats[number - 100]:
                return -1
            floats[number - 100] = real
        else:
            after = at
            if _starts(data, at, end, _TRUE):
                after = at + 4
            elif _starts(data, at, end, _FALSE):
                after = at + 5
            else:
                _, after, ok = _decimal(data, at, end)
                if not ok:
                    return -1
        at = after
        if at == end:
            return bits if seen_running else -1
        if at + 2 >= end or data[at] != 44 or data[at + 1] != 32:
            return -1
        at += 2


@njit(cache=True, nogil=True)
def _stats(data, at, end, ints, floats, spans):
    """Read what follows ``ReqTimeStats(rid=``; returns the role number or -1."""
    start = at
    while at < end and data[at] > 32 and data[at] < 127 and data[at] != 44 and data[at] != 40 and (
            data[at] != 41):
        at += 1
    if at >= end or data[at] != 44 or at == start:
        return -1
    spans[0], spans[1] = start, at
    role = -1
    while True:
        if at + 2 >= end or data[at] != 44 or data[at + 1] != 32:
            return -1
        at += 2
        if _starts(data, at, end, _TYPE):
            at += 5
            if _starts(data, at, end, _PREFILL_END):
                role, at = _ROLE_PREFILL, at + 10
            elif _starts(data, at, end, _DECODE_END):
                role, at = _ROLE_DECODE, at + 9
            elif _starts(data, at, end, _UNIFIED_END):
                role, at = _ROLE_UNIFIED, at + 10
            else:
                return -1
            break
        value = np.uint64(14695981039346656037)
        begin = at
        while at < end and data[at] != 61:
            if data[at] == 44 or at - begin > 24:
                return -1
            value = (value ^ np.uint64(data[at])) * np.uint64(1099511628211)
            at += 1
        number = _find(_STATS_KEYS, _STATS_NUMBERS, value)
        if at >= end or number < 0 or number >= 100 or ints[FIRST_INT + number] != NULL:
            return -1
        at += 1
        if number == 0:
            room, at, ok = _room(data, at, end)
            if not ok or room > np.uint64(9223372036854775807):
                return -1
            ints[FIRST_INT] = np.int64(room)
        else:
            got, at, count = _digits(data, at, end)
            if count == 0 or (number == 4 and got > 2147483647):
                return -1
            ints[FIRST_INT + number] = got
    if ints[FIRST_INT + 1] == NULL:
        return -1
    return role if _times(data, at, end, ints, floats) else -1


@njit(cache=True, nogil=True)
def _times(data, at, end, ints, floats):
    """Read the durations, the entry time and the transfer figures."""
    while True:
        if _starts(data, at, end, _ENTRY):
            whole, after, count = _digits(data, at + 11, end)
            if count == 0 or count > 12 or ints[FIRST_INT + 5] != NULL:
                return False
            ns = whole * 1000000000
            if after < end and data[after] == 46:
                fraction, last, places = _digits(data, after + 1, end)
                if places == 0 or places > 9:
                    return False
                for _ in range(9 - places):
                    fraction *= 10
                ns += fraction
                after = last
            ints[FIRST_INT + 5] = ns
            at = after
        elif _starts(data, at, end, _SPEED):
            real, after, ok = _decimal(data, at + 15, end)
            if not ok or floats[7] == floats[7]:
                return False
            if after < end and data[after] == 32:
                after += 1
            if not _starts(data, after, end, _GBS):
                return False
            floats[7] = real
            at = after + 4
        elif _starts(data, at, end, _TOTAL):
            real, after, ok = _decimal(data, at + 15, end)
            if not ok or floats[8] == floats[8]:
                return False
            if after < end and data[after] == 32:
                after += 1
            if not _starts(data, after, end, _MB):
                return False
            floats[8] = real
            at = after + 2
        else:
            value = np.uint64(14695981039346656037)
            begin = at
            while at < end and data[at] != 61:
                if data[at] == 44 or at - begin > 32:
                    return False
                value = (value ^ np.uint64(data[at])) * np.uint64(1099511628211)
                at += 1
            number = _find(_STATS_KEYS, _STATS_NUMBERS, value)
            if at >= end or number < 100 or floats[number - 100] == floats[number - 100]:
                return False
            real, after, ok = _decimal(data, at + 1, end)
            if not ok or after + 1 >= end or data[after] != 109 or data[after + 1] != 115:
                return False
            floats[number - 100] = real
            at = after + 2
        if at == end:
            return True
        if at + 2 >= end or data[at] != 44 or data[at + 1] != 32:
            return False
        at += 2


@njit(cache=True, nogil=True)
def _access(data, at, end, ints, spans):
    """Read ``ADDR:PORT - "METHOD PATH HTTP/1.1" CODE ...``; True if it is one."""
    start = at
    while at < end and data[at] != 32:
        c = data[at]
        if not (48 <= c <= 58 or c == 46 or 97 <= c <= 122 or 65 <= c <= 90 or c == 95):
            return False
        at += 1
    colon = at - 1
    while colon > start and data[colon] != 58:
        colon -= 1
    port, after, count = _digits(data, colon + 1, end)
    if colon <= start or count == 0 or count > 5 or after != at or colon - start > 64:
        return False
    if not _starts(data, at, end, _DASH):
        return False
    at += 4
    method = at
    while at < end and 65 <= data[at] <= 90:
        at += 1
    if at == method or at - method > 20 or at >= end or data[at] != 32:
        return False
    method_end = at
    at += 1
    path = at
    while at < end and 33 <= data[at] <= 126 and data[at] != 63 and data[at] != 34:
        at += 1
    if at == path or at >= end or data[at] != 32 or at - path > 2048:
        return False
    path_end = at
    if not _starts(data, at, end, _HTTP):
        return False
    at += 6
    while at < end and (48 <= data[at] <= 57 or data[at] == 46):
        at += 1
    if at + 4 >= end or data[at] != 34 or data[at + 1] != 32:
        return False
    code, after, count = _digits(data, at + 2, end)
    if count != 3 or (after < end and data[after] != 32):
        return False
    ints[FIRST_INT], ints[FIRST_INT + 1] = port, code
    spans[0], spans[1] = start, colon
    spans[2], spans[3] = method, method_end
    spans[4], spans[5] = path, path_end
    return True


def _bytes(text):
    return np.frombuffer(text, dtype=np.uint8).copy()


_DECODE_HEAD = _bytes(b"Decode batch, ")
_PREFILL_HEAD = _bytes(b"Prefill batch, ")
_STATS_HEAD = _bytes(b"ReqTimeStats(rid=")
_ACCESS_HEAD = _bytes(b"INFO:     ")
_TRUE, _FALSE = _bytes(b"True"), _bytes(b"False")
_TYPE, _ENTRY = _bytes(b"type="), _bytes(b"entry_time=")
_PREFILL_END, _DECODE_END = _bytes(b"prefill): "), _bytes(b"decode): ")
_UNIFIED_END = _bytes(b"unified): ")
_SPEED, _TOTAL = _bytes(b"transfer_speed="), _bytes(b"transfer_total=")
_GBS, _MB, _DASH, _HTTP = _bytes(b"GB/s"), _bytes(b"MB"), _bytes(b' - "'), _bytes(b" HTTP/")


@njit(cache=True, nogil=True)
def scan_lines(data, ends, kinds, ints, floats, spans, codes):
    """Fill the outputs for every line; ``ends`` are the positions of the line ends."""
    start = 0
    for row in range(len(ends)):
        end = ends[row]
        line, start = start, end + 1
        for i in range(ints.shape[1]):
            ints[row, i] = NULL
        at = _prefix(data, line, end, ints[row])
        if at < 0:
            continue
        first = data[at]
        for i in range(floats.shape[1]):
            floats[row, i] = np.nan
        if first == 68 and _starts(data, at, end, _DECODE_HEAD):
            bits = _batch(data, at + 14, end, True, ints[row], floats[row])
            if bits >= 0:
                kinds[row], codes[row] = DECODE, bits
        elif first == 80 and _starts(data, at, end, _PREFILL_HEAD):
            bits = _batch(data, at + 15, end, False, ints[row], floats[row])
            if bits >= 0:
                kinds[row], codes[row] = PREFILL, bits
        elif first == 82 and _starts(data, at, end, _STATS_HEAD):
            role = _stats(data, at + 17, end, ints[row], floats[row], spans[row])
            if role >= 0:
                kinds[row], codes[row] = STATS, role
        elif first == 73 and _starts(data, at, end, _ACCESS_HEAD) and (
                ints[row, 2] == NULL and ints[row, 3] == NULL and ints[row, 4] == NULL
                and ints[row, 5] == NULL and ints[row, 6] == NULL and ints[row, 7] == NULL
                and _access(data, at + 10, end, ints[row], spans[row])):
            kinds[row] = ACCESS


@njit(cache=True, nogil=True)
def copy_texts(data, rows, spans, column, offsets, out):
    """Copy one text per row into a contiguous buffer with offsets (the layout of Arrow strings)."""
    at = 0
    for i in range(len(rows)):
        row = rows[i]
        start, end = spans[row, 2 * column], spans[row, 2 * column + 1]
        for j in range(start, end):
            out[at] = data[j]
            at += 1
        offsets[i + 1] = at
