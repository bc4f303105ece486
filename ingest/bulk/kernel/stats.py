"""Compiled reader of ``ReqTimeStats`` lines."""

from __future__ import annotations

import numpy as np

from ingest.bulk.kernel.keys import find_key, key_table, slots
from ingest.bulk.kernel.reading import compiled, read_decimal, read_digits, read_room, starts, text
from ingest.bulk.layout import FIRST_INT, NULL, STATS_FLOATS, STATS_INTS

_STATS_INT = slots(STATS_INTS, {
    b"bootstrap_room": "room", b"input_len": "input_len", b"cached_input_len": "cached_input_len",
    b"output_len": "output_len", b"attempts": "attempts"})
_STATS_FLOAT = slots(STATS_FLOATS, {
    b"bootstrap_duration": "bootstrap_ms", b"bootstrap_queue_duration": "bootstrap_queue_ms",
    b"alloc_wait_duration": "alloc_wait_ms", b"prealloc_queue_duration": "prealloc_queue_ms",
    b"transfer_duration": "transfer_ms", b"queue_duration": "queue_ms",
    b"forward_duration": "forward_ms"})
_STATS_KEYS, _STATS_NUMBERS, _STATS_TEXTS, _STATS_AT = key_table(
    dict(_STATS_INT) | {k: 100 + n for k, n in _STATS_FLOAT.items()}, b"=")
_ROLE_PREFILL, _ROLE_DECODE, _ROLE_UNIFIED = 0, 1, 2
_TYPE, _ENTRY = text(b"type="), text(b"entry_time=")
_PREFILL_END, _DECODE_END = text(b"prefill): "), text(b"decode): ")
_UNIFIED_END = text(b"unified): ")
_SPEED, _TOTAL = text(b"transfer_speed="), text(b"transfer_total=")
_GBS, _MB = text(b"GB/s"), text(b"MB")


@compiled
def read_stats(data, at, end, ints, floats, spans, guess):
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
        if starts(data, at, end, _TYPE):
            at += 5
            if starts(data, at, end, _PREFILL_END):
                role, at = _ROLE_PREFILL, at + 10
            elif starts(data, at, end, _DECODE_END):
                role, at = _ROLE_DECODE, at + 9
            elif starts(data, at, end, _UNIFIED_END):
                role, at = _ROLE_UNIFIED, at + 10
            else:
                return -1
            break
        entry = find_key(data, at, end, _STATS_KEYS, _STATS_TEXTS, _STATS_AT, guess, place)
        if entry < 0:
            return -1
        place += 1
        at += _STATS_AT[entry + 1] - _STATS_AT[entry]
        number = _STATS_NUMBERS[entry]
        if number >= 100 or ints[FIRST_INT + number] != NULL:
            return -1
        if number == 0:
            room, at, ok = read_room(data, at, end)
            if not ok or room > np.uint64(9223372036854775807):
                return -1
            ints[FIRST_INT] = np.int64(room)
        else:
            got, at, count = read_digits(data, at, end)
            if count == 0 or (number == 4 and got > 2147483647):
                return -1
            ints[FIRST_INT + number] = got
    if ints[FIRST_INT + 1] == NULL:
        return -1
    return role if _times(data, at, end, ints, floats, guess, place) else -1


@compiled
def _times(data, at, end, ints, floats, guess, place):
    """Read the durations, the entry time and the transfer figures."""
    while True:
        if starts(data, at, end, _ENTRY):
            whole, after, count = read_digits(data, at + 11, end)
            if count == 0 or count > 12 or ints[FIRST_INT + 5] != NULL:
                return False
            ns = whole * 1000000000
            if after < end and data[after] == 46:
                fraction, last, places = read_digits(data, after + 1, end)
                if places == 0 or places > 9:
                    return False
                for _ in range(9 - places):
                    fraction *= 10
                ns += fraction
                after = last
            ints[FIRST_INT + 5] = ns
            at = after
        elif starts(data, at, end, _SPEED):
            real, after, ok = read_decimal(data, at + 15, end)
            if not ok or floats[7] == floats[7]:
                return False
            if after < end and data[after] == 32:
                after += 1
            if not starts(data, after, end, _GBS):
                return False
            floats[7] = real
            at = after + 4
        elif starts(data, at, end, _TOTAL):
            real, after, ok = read_decimal(data, at + 15, end)
            if not ok or floats[8] == floats[8]:
                return False
            if after < end and data[after] == 32:
                after += 1
            if not starts(data, after, end, _MB):
                return False
            floats[8] = real
            at = after + 2
        else:
            entry = find_key(data, at, end, _STATS_KEYS, _STATS_TEXTS, _STATS_AT, guess, place)
            if entry < 0:
                return False
            place += 1
            number = _STATS_NUMBERS[entry]
            if number < 100 or floats[number - 100] == floats[number - 100]:
                return False
            real, after, ok = read_decimal(data, at + _STATS_AT[entry + 1] - _STATS_AT[entry], end)
            if not ok or after + 1 >= end or data[after] != 109 or data[after + 1] != 115:
                return False
            floats[number - 100] = real
            at = after + 2
        if at == end:
            return True
        if at + 2 >= end or data[at] != 44 or data[at + 1] != 32:
            return False
        at += 2
