"""Compiled reader of batch lines."""

from __future__ import annotations

import itertools

import numpy as np

from ingest.bulk.kernel.keys import find_key, key_table, slots
from ingest.bulk.kernel.reading import compiled, read_decimal, read_digits, starts, text
from ingest.bulk.layout import BATCH_FLOATS, BATCH_INTS, FIRST_INT, NULL
from ingest.records import TABLES

_BATCH_INT = slots(BATCH_INTS, {
    b"#running-req": "running_reqs", b"#queue-req": "queue_reqs", b"#new-seq": "new_seqs",
    b"#new-token": "new_tokens", b"#cached-token": "cached_tokens", b"#token": "used_tokens",
    b"#full token": "used_tokens", b"#swa token": "swa_tokens",
    b"#prealloc-req": "prealloc_reqs", b"#transfer-req": "transfer_reqs",
    b"#retracted-req": "retracted_reqs", b"#bootstrap-req": "bootstrap_reqs",
    b"#inflight-req": "inflight_reqs"})
_BATCH_FLOAT = slots(BATCH_FLOATS, {
    b"token usage": "token_usage", b"full token usage": "token_usage",
    b"swa token usage": "swa_usage", b"pre-allocated usage": "prealloc_usage",
    b"gen throughput (token/s)": "throughput_tokens_s",
    b"input throughput (token/s)": "throughput_tokens_s"})
# Keys that are read past: a number, True or False.
_IGNORED = (b"cuda graph", b"accept len", b"accept rate", b"waiting-image-req", b"cpu graph",
            b"#pending-token", b"#optimistic-req", b"#host-receive-req")
_BITS = {b"#bootstrap-req": 1, b"#host-receive-req": 2, b"#optimistic-req": 4,
         b"#pending-token": 8, b"#prealloc-req": 16}
# Number of a key: 0..99 integer slot, 100..199 float slot, 200 read past.
_BATCH_KEYS, _BATCH_NUMBERS, _BATCH_TEXTS, _BATCH_AT = key_table(
    dict(_BATCH_INT) | {k: 100 + n for k, n in _BATCH_FLOAT.items()} | dict.fromkeys(_IGNORED, 200),
    b": ")
_BATCH_BITS = np.array(
    [_BITS.get(_BATCH_TEXTS[start : stop - 2].tobytes(), 0)
     for start, stop in itertools.pairwise(_BATCH_AT)], dtype=np.int64)
# Highest value of each integer slot of a batch line: that of its column's type.
_BATCH_MAX = np.array(
    [2 ** (TABLES["batch_line"].field(name).type.bit_width - 1) - 1 for name in BATCH_INTS],
    dtype=np.int64)
_TRUE, _FALSE = text(b"True"), text(b"False")


@compiled
def read_batch(data, at, end, decode, ints, floats, guess):
    """Read the ``key: value`` parts of a batch line; returns its dialect bits or -1."""
    bits = 0
    place = 0
    while True:
        entry = find_key(data, at, end, _BATCH_KEYS, _BATCH_TEXTS, _BATCH_AT, guess, place)
        if entry < 0:
            return -1
        place += 1
        at += _BATCH_AT[entry + 1] - _BATCH_AT[entry]
        number = _BATCH_NUMBERS[entry]
        bit = _BATCH_BITS[entry]
        if bit and not (bit == 16 and decode):
            bits |= bit
        if number < 100:
            got, after, count = read_digits(data, at, end)
            if count == 0 or ints[FIRST_INT + number] != NULL or got > _BATCH_MAX[number]:
                return -1
            ints[FIRST_INT + number] = got
        elif number < 200:
            real, after, ok = read_decimal(data, at, end)
            if not ok or floats[number - 100] == floats[number - 100]:
                return -1
            floats[number - 100] = real
        else:
            after = at
            if starts(data, at, end, _TRUE):
                after = at + 4
            elif starts(data, at, end, _FALSE):
                after = at + 5
            else:
                _, after, ok = read_decimal(data, at, end)
                if not ok:
                    return -1
        at = after
        if at == end:
            return bits if ints[FIRST_INT] != NULL else -1
        if at + 2 >= end or data[at] != 44 or data[at + 1] != 32:
            return -1
        at += 2
