"""Compiled reader of time-stats lines, in both spellings."""

from __future__ import annotations

import numpy as np

from ingest.bulk.kernel.keys import find_key, key_table, slots
from ingest.bulk.kernel.letters import RID, run
from ingest.bulk.kernel.reading import (
    compiled,
    read_decimal,
    read_digits,
    read_room,
    stands,
    starts,
    text,
)
from ingest.bulk.layout import FIRST_INT, NULL, ROLES, STATS_FLOATS, STATS_INTS

_STATS_INT = slots(STATS_INTS, {
    b"bootstrap_room": "room", b"input_len": "input_len", b"input len": "input_len",
    b"cached_input_len": "cached_input_len", b"cached input len": "cached_input_len",
    b"output_len": "output_len", b"output len": "output_len", b"attempts": "attempts"})
_STATS_FLOAT = slots(STATS_FLOATS, {
    b"bootstrap_duration": "bootstrap_ms", b"bootstrap_queue_duration": "bootstrap_queue_ms",
    b"alloc_wait_duration": "alloc_wait_ms", b"prealloc_queue_duration": "prealloc_queue_ms",
    b"transfer_duration": "transfer_ms", b"queue_duration": "queue_ms",
    b"forward_duration": "forward_ms"})
_ATTEMPTS, _ENTRY = STATS_INTS.index("attempts"), STATS_INTS.index("entry_ns")
_INPUT = STATS_INTS.index("input_len")
_SPEED = STATS_FLOATS.index("transfer_speed_gb_s")
_TOTAL = STATS_FLOATS.index("transfer_total_mb")
# Number of a key: 0..99 integer slot inside the parentheses, 100..199 float slot behind them,
# 200 entry time, 300 + role the end of the parentheses.
_NUMBERS, _SIZES, _ENDS, _WORDS = key_table(
    {k + b"=": n for k, n in _STATS_INT.items()}
    | {k + b"=": 100 + n for k, n in _STATS_FLOAT.items()}
    | {b"transfer_speed=": 100 + _SPEED, b"transfer_total=": 100 + _TOTAL, b"entry_time=": 200}
    | {f"type={role}): ".encode(): 300 + n for n, role in enumerate(ROLES)})
_MS, _GBS, _MB = text(b"ms"), text(b"GB/s"), text(b"MB")
# The last whole second that fits into 63 bits of nanoseconds.
_MAX_SECONDS = (2**63 - 1) // 10**9 - 1


@compiled
def read_stats(data, at, end, ints, floats, spans, guess):
    """Read what follows ``ReqTimeStats(rid=``; returns the role number or -1."""
    start = at
    at = run(data, at, end, RID)
    if at == start:
        return -1
    spans[0], spans[1] = start, at
    place = 0
    while True:
        if not (stands(data, at, end, 44) and stands(data, at + 1, end, 32)):
            return -1
        at += 2
        entry = find_key(data, at, _ENDS, _WORDS, guess, place)
        if entry < 0:
            return -1
        key = np.uint64(entry)
        place += 1
        at += _SIZES[key]
        number = _NUMBERS[key]
        if number >= 300:
            break
        if number >= 100 or ints[FIRST_INT + number] != NULL:
            return -1
        if number == 0:
            got, at, ok = read_room(data, at, end)
            if not ok:
                return -1
        else:
            got, at, count = read_digits(data, at, end)
            if count == 0 or (number == _ATTEMPTS and got > 2147483647):
                return -1
        ints[FIRST_INT + number] = got
    if ints[FIRST_INT + _INPUT] == NULL or not _times(data, at, end, ints, floats, guess, place):
        return -1
    return number - 300


@compiled
def _times(data, at, end, ints, floats, guess, place):
    """Read the durations, the entry time and the transfer figures; True if there is no more."""
    while True:
        entry = find_key(data, at, _ENDS, _WORDS, guess, place)
        if entry < 0:
            return False
        key = np.uint64(entry)
        place += 1
        at += _SIZES[key]
        number = _NUMBERS[key]
        if number == 200:
            at = _entry_time(data, at, end, ints)
        elif 100 <= number < 200:
            at = _figure(data, at, end, floats, number - 100)
        else:
            return False
        if at < 0:
            return False
        if at == end:
            return True
        if not (stands(data, at, end, 44) and stands(data, at + 1, end, 32)):
            return False
        at += 2


@compiled
def _figure(data, at, end, floats, number):
    """Read a number and its unit into a slot; position after it or -1."""
    slot = np.uint64(number)
    real, after, ok = read_decimal(data, at, end)
    if not ok or floats[slot] == floats[slot]:
        return np.int64(-1)
    floats[slot] = real
    if number < _SPEED:
        return after + 2 if starts(data, after, _MS) else np.int64(-1)
    # Transfer figures have a space before the unit since 0.5.12.
    if stands(data, after, end, 32):
        after += 1
    if number == _SPEED:
        return after + 4 if starts(data, after, _GBS) else np.int64(-1)
    return after + 2 if starts(data, after, _MB) else np.int64(-1)


@compiled
def _entry_time(data, at, end, ints):
    """Read epoch seconds as nanoseconds; position after them or -1."""
    whole, after, count = read_digits(data, at, end)
    if count == 0 or whole > _MAX_SECONDS or ints[FIRST_INT + _ENTRY] != NULL:
        return np.int64(-1)
    ns = whole * 1000000000
    if stands(data, after, end, 46):
        fraction, last, places = read_digits(data, after + 1, end)
        if places == 0 or places > 9:
            return np.int64(-1)
        for _ in range(9 - places):
            fraction *= 10
        ns += fraction
        after = last
    ints[FIRST_INT + _ENTRY] = ns
    return after
