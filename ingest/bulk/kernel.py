"""The compiled scan itself: one pass over a block of bytes. No Python objects inside.

``scan_lines`` fills, per group of lines: one row of memory per integer, decimal and text span column
and a number that encodes kind and dialect, role or event. A line that is not exactly in the expected spelling
keeps kind 0.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ingest.bulk.layout import (
    ACCESS,
    BATCH_FLOATS,
    BATCH_INTS,
    DECODE,
    EVENT,
    FIRST_INT,
    GROUP_ACCESS,
    GROUP_BATCH,
    GROUP_EVENT,
    GROUP_STATS,
    NULL,
    PREFILL,
    STATS,
    STATS_FLOATS,
    STATS_INTS,
    fnv,
)
from ingest.records import MAX_REASON_CHARS, TABLES


# numpy's error model: no check for division by zero, so that no call has to report an error.
_compiled = njit(cache=True, nogil=True, error_model="numpy")


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


def _table(entries, separator):
    """Pack {key: number} into arrays sorted by hash, the key's text with its separator beside."""
    pairs = sorted((fnv(key), number, key + separator) for key, number in entries.items())
    ends = np.cumsum([len(text) for _, _, text in pairs])
    return (np.array([h for h, _, _ in pairs], dtype=np.uint64),
            np.array([n for _, n, _ in pairs], dtype=np.int64),
            np.frombuffer(b"".join(text for _, _, text in pairs), dtype=np.uint8).copy(),
            np.concatenate((np.zeros(1, dtype=np.int64), ends)).astype(np.int64))


# Number of a key: 0..99 integer slot, 100..199 float slot, 200 read past.
_BATCH_KEYS, _BATCH_NUMBERS, _BATCH_TEXTS, _BATCH_AT = _table(
    dict(_BATCH_INT) | {k: 100 + n for k, n in _BATCH_FLOAT.items()} | dict.fromkeys(_IGNORED, 200),
    b": ")
_BATCH_BITS = np.array(
    [_BITS.get(_BATCH_TEXTS[start : stop - 2].tobytes(), 0)
     for start, stop in zip(_BATCH_AT[:-1], _BATCH_AT[1:], strict=True)], dtype=np.int64)
_STATS_KEYS, _STATS_NUMBERS, _STATS_TEXTS, _STATS_AT = _table(
    dict(_STATS_INT) | {k: 100 + n for k, n in _STATS_FLOAT.items()}, b"=")
# Highest value of each integer slot of a batch line: that of its column's type.
_BATCH_MAX = np.array(
    [2 ** (TABLES["batch_line"].field(name).type.bit_width - 1) - 1 for name in BATCH_INTS],
    dtype=np.int64)
# Longest key that is looked up, and places in a line whose key is remembered.
_LONGEST_KEY = 32
_PLACES = 32

_ROLE_PREFILL, _ROLE_DECODE, _ROLE_UNIFIED = 0, 1, 2
_POWERS = np.array([10.0**k for k in range(23)])
_MAX_MANTISSA = 2**53


@_compiled
def _is_key(data, at, end, texts, places, entry):
    # Unsigned indexes: signed ones are checked for counting from the end.
    start = np.uint64(places[entry])
    size = np.uint64(places[entry + 1]) - start
    if np.uint64(end - at) < size:
        return False
    at = np.uint64(at)
    for i in range(size):
        if data[at + i] != texts[start + i]:
            return False
    return True


@_compiled
def _key(data, at, end, keys, texts, places, guess, place):
    """Entry of the key that stands here with its separator, -1 if none does.

    A line has the keys of the line before nearly always, so the one seen at this place is tried
    before any hash is computed.
    """
    place = min(place, _PLACES - 1)
    entry = guess[place]
    if _is_key(data, at, end, texts, places, entry):
        return entry
    last = texts[len(texts) - 1]
    separator = 58 if last == 32 else last
    value = np.uint64(14695981039346656037)
    i = at
    while i < end and data[i] != separator:
        if i - at > _LONGEST_KEY:
            return -1
        value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
        i += 1
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < value:
            low = middle + 1
        else:
            high = middle
    if low == len(keys) or keys[low] != value or not _is_key(data, at, end, texts, places, low):
        return -1
    guess[place] = low
    return low


@_compiled
def _digits(data, at, end):
    """Read decimal digits; (value, position after, count); count 0 if there are none."""
    value = np.int64(0)
    start = at
    last = min(end, at + 18)
    while at < last:
        d = np.int64(data[np.uint64(at)]) - 48
        if d < 0 or d > 9:
            break
        value = value * 10 + d
        at += 1
    return value, at, at - start


@_compiled
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


@_compiled
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


@_compiled
def _two(data, at):
    a, b = data[at] - 48, data[at + 1] - 48
    if a < 0 or a > 9 or b < 0 or b > 9:
        return -1
    return a * 10 + b


@_compiled
def _days(year, month, day):
    """Days since 1970-01-01 of a Gregorian date (Howard Hinnant's civil-days arithmetic)."""
    y = year - 1 if month <= 2 else year
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719468


@_compiled
def _month_days(year, month):
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31


@_compiled
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


@_compiled
def _starts(data, at, end, text):
    if end - at < len(text):
        return False
    at = np.uint64(at)
    for i in range(np.uint64(len(text))):
        if data[at + i] != text[i]:
            return False
    return True


@_compiled
def _batch(data, at, end, decode, ints, floats, guess):
    """Read the ``key: value`` parts of a batch line; returns its dialect bits or -1."""
    bits = 0
    place = 0
    while True:
        entry = _key(data, at, end, _BATCH_KEYS, _BATCH_TEXTS, _BATCH_AT, guess, place)
        if entry < 0:
            return -1
        place += 1
        at += _BATCH_AT[entry + 1] - _BATCH_AT[entry]
        number = _BATCH_NUMBERS[entry]
        bit = _BATCH_BITS[entry]
        if bit and not (bit == 16 and decode):
            bits |= bit
        if number < 100:
            got, after, count = _digits(data, at, end)
            if count == 0 or ints[FIRST_INT + number] != NULL or got > _BATCH_MAX[number]:
                return -1
            ints[FIRST_INT + number] = got
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
            return bits if ints[FIRST_INT] != NULL else -1
        if at + 2 >= end or data[at] != 44 or data[at + 1] != 32:
            return -1
        at += 2


@_compiled
def _stats(data, at, end, ints, floats, spans, guess):
    """Read what follows ``ReqTimeStats(rid=``; returns the role number or -1."""
    start = at
    while at < end and data[at] > 32 and data[at] < 127 and data[at] != 44 and data[at] != 40 and (
            data[at] != 41):
        at += 1
    if at >= end or data[at] != 44 or at == start:
        return -1
    spans[0], spans[1] = start, at
    role, place = -1, 0
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
        entry = _key(data, at, end, _STATS_KEYS, _STATS_TEXTS, _STATS_AT, guess, place)
        if entry < 0:
            return -1
        place += 1
        at += _STATS_AT[entry + 1] - _STATS_AT[entry]
        number = _STATS_NUMBERS[entry]
        if number >= 100 or ints[FIRST_INT + number] != NULL:
            return -1
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
    return role if _times(data, at, end, ints, floats, guess, place) else -1


@_compiled
def _times(data, at, end, ints, floats, guess, place):
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
            entry = _key(data, at, end, _STATS_KEYS, _STATS_TEXTS, _STATS_AT, guess, place)
            if entry < 0:
                return False
            place += 1
            number = _STATS_NUMBERS[entry]
            if number < 100 or floats[number - 100] == floats[number - 100]:
                return False
            real, after, ok = _decimal(data, at + _STATS_AT[entry + 1] - _STATS_AT[entry], end)
            if not ok or after + 1 >= end or data[after] != 109 or data[after + 1] != 115:
                return False
            floats[number - 100] = real
            at = after + 2
        if at == end:
            return True
        if at + 2 >= end or data[at] != 44 or data[at + 1] != 32:
            return False
        at += 2


@_compiled
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
    for i in range(after, end):
        if data[i] < 32 or data[i] > 126:
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


_FAILED_WORDS = (_bytes(b"Decode transfer failed"), _bytes(b"Decode handshake failed"),
                 _bytes(b"Prefill transfer failed"), _bytes(b"Prefill bootstrap failed"))
_FOR_REQUEST, _RANK = _bytes(b" for request"), _bytes(b" rank=")
_DECODE_REQ, _NONE = _bytes(b"decode_req."), _bytes(b"None")
_REQ_RID, _REQ_ROOM = _bytes(b"req.rid="), _bytes(b"req.bootstrap_room=")
_EXCEPTION = _bytes(b" with exception KVTransferError(bootstrap_room=")
_GONE = _bytes(b"Request is disconnected from the client side (type ")
_GONE_RID = _bytes(b"). Abort request obj.rid=")


@_compiled
def _quoted(data, at, end, spans):
    """Read a quoted id of plain characters into the first span; position after it or -1."""
    if at >= end or (data[at] != 39 and data[at] != 34):
        return -1
    quote = data[at]
    start = at + 1
    at = start
    while at < end and data[at] != 39 and data[at] != 34:
        if data[at] < 33 or data[at] > 126:
            return -1
        at += 1
    if at == start or at - start > 512 or at >= end or data[at] != quote:
        return -1
    spans[0], spans[1] = start, at
    return at + 1


@_compiled
def _room_or_none(data, at, end, ints):
    """Read a room or ``None`` into the first slot; position after it or -1."""
    if _starts(data, at, end, _NONE):
        return at + 4
    room, after, ok = _room(data, at, end)
    if not ok or after - at > 20 or room > np.uint64(9223372036854775807):
        return -1
    ints[FIRST_INT] = np.int64(room)
    return after


@_compiled
def _failed(data, at, end, ints, spans):
    """Read ``<side> <step> failed for request rank=...``; returns the event number or -1.

    A reason is taken only if nothing in it would be redacted, escaped or cut.
    """
    event = -1
    for number in range(len(_FAILED_WORDS)):
        if _starts(data, at, end, _FAILED_WORDS[number]):
            event = number
            at += len(_FAILED_WORDS[number])
    if event < 0:
        return -1
    if _starts(data, at, end, _FOR_REQUEST):
        at += 12
    if not _starts(data, at, end, _RANK):
        return -1
    at += 6
    _, after, count = _digits(data, at, end)
    if count == 0 or count > 5 or after >= end or data[after] != 32:
        return -1
    spans[2], spans[3] = at, after
    at = after + 1
    if _starts(data, at, end, _DECODE_REQ):
        at += 11
    if not _starts(data, at, end, _REQ_RID):
        return -1
    at = _quoted(data, at + 8, end, spans)
    if at < 0 or at >= end or data[at] != 32:
        return -1
    at += 1
    if _starts(data, at, end, _DECODE_REQ):
        at += 11
    if not _starts(data, at, end, _REQ_ROOM):
        return -1
    at = _room_or_none(data, at + 19, end, ints)
    if at < 0:
        return -1
    spans[4], spans[5] = end, end
    if at == end:
        return event
    if not _starts(data, at, end, _EXCEPTION):
        return -1
    at += 47
    if _starts(data, at, end, _NONE):
        at += 4
    else:
        start = at
        while at < end and 48 <= data[at] <= 57:
            at += 1
        if at == start or at - start > 20:
            return -1
    if at + 3 >= end or data[at] != 41 or data[at + 1] != 58 or data[at + 2] != 32:
        return -1
    at += 3
    if end - at > MAX_REASON_CHARS or data[at] == 32 or data[end - 1] == 32:
        return -1
    for i in range(at, end):
        c = data[i]
        if c < 32 or c > 126 or c == 34 or c == 39 or c == 91:
            return -1
    spans[4] = at
    return event


@_compiled
def _gone(data, at, end, ints, spans):
    """Read ``Request is disconnected from the client side ...``; True if it is one."""
    if not _starts(data, at, end, _GONE):
        return False
    number, after, count = _digits(data, at + 51, end)
    if count == 0 or not _starts(data, after, end, _GONE_RID):
        return False
    ints[FIRST_INT + 1] = number
    spans[2] = spans[3] = spans[4] = spans[5] = end
    return _quoted(data, after + 25, end, spans) == end


@_compiled
def scan_lines(data, ends, kinds, rows, counts, ints, floats, spans, codes):
    """Fill the outputs for every line; ``ends`` are the positions of the line ends.

    ``kinds`` has a value per line; the others one per line of a group (first index), of which
    ``counts`` tells the number: the line's index, and one row of memory per column.
    """
    some = np.empty(ints.shape[1], dtype=np.int64)
    real = np.empty(floats.shape[1], dtype=np.float64)
    span = np.zeros(spans.shape[1], dtype=np.int64)
    guess = np.zeros((3, _PLACES), dtype=np.int64)
    start = 0
    for row in range(len(ends)):
        end = ends[row]
        line, start = start, end + 1
        some[:] = NULL
        at = _prefix(data, line, end, some)
        if at < 0 or at >= end:
            continue
        first = data[at]
        group, kind, code = -1, 0, 0
        if first == 68 and _starts(data, at, end, _DECODE_HEAD):
            real[:] = np.nan
            code = _batch(data, at + 14, end, True, some, real, guess[0])
            group, kind = GROUP_BATCH, DECODE
        elif first == 80 and _starts(data, at, end, _PREFILL_HEAD):
            real[:] = np.nan
            code = _batch(data, at + 15, end, False, some, real, guess[1])
            group, kind = GROUP_BATCH, PREFILL
        elif first == 82 and _starts(data, at, end, _STATS_HEAD):
            real[:] = np.nan
            code = _stats(data, at + 17, end, some, real, span, guess[2])
            group, kind = GROUP_STATS, STATS
        elif first == 73 and _starts(data, at, end, _ACCESS_HEAD):
            group, kind = GROUP_ACCESS, ACCESS
            if not (some[2] == NULL and some[3] == NULL and some[4] == NULL and some[5] == NULL
                    and some[6] == NULL and some[7] == NULL
                    and _access(data, at + 10, end, some, span)):
                code = -1
        elif first == 68 or first == 80:
            code = _failed(data, at, end, some, span)
            group, kind = GROUP_EVENT, EVENT
        elif first == 82:
            code = 4 if _gone(data, at, end, some, span) else -1
            group, kind = GROUP_EVENT, EVENT
        if group < 0 or code < 0:
            continue
        if group == GROUP_BATCH:
            code = 2 * code + (1 if kind == PREFILL else 0)
        kinds[row] = kind
        at = counts[group]
        counts[group] = at + 1
        rows[group, at] = row
        codes[group, at] = code
        for i in range(len(some)):
            ints[group, i, at] = some[i]
        if group == GROUP_BATCH or group == GROUP_STATS:
            for i in range(len(real)):
                floats[group, i, at] = real[i]
        if group != GROUP_BATCH:
            for i in range(len(span)):
                spans[group, i, at] = span[i]


@_compiled
def copy_texts(data, starts, ends, offsets, out):
    """Copy one text per row into a contiguous buffer with offsets (the layout of Arrow strings)."""
    at = 0
    for i in range(len(starts)):
        for j in range(starts[i], ends[i]):
            out[at] = data[j]
            at += 1
        offsets[i + 1] = at
