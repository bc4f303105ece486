"""Compiled reader of batch lines."""

from __future__ import annotations

import numpy as np

from ingest.bulk.kernel.keys import find_key, key_table, slots
from ingest.bulk.kernel.reading import compiled, read_decimal, read_digits, stands, starts, text
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
# Keys that are read past: True, False, a number or nan, perhaps in percent. Beyond those of every
# deployment: speculative decoding, hybrid pools, --enable-mfu-metrics and the device timer.
_IGNORED = (b"cuda graph", b"cpu graph", b"npu graph", b"musa graph", b"waiting-image-req",
            b"#pending-token", b"#optimistic-req", b"#host-receive-req", b"#replay-token",
            b"accept len", b"accept rate", b"cap len", b"block accept len",
            b"mamba num", b"mamba usage", b"#gpu token", b"#cpu token",
            b"est. prefill TFLOPS/s (per GPU)", b"est. decode TFLOPS/s (per GPU)",
            b"est. read BW (GB/s per GPU)", b"est. write BW (GB/s per GPU)",
            b"fwd occupancy", b"fwd+idle occupancy")
_BITS = {b"#bootstrap-req": 1, b"#host-receive-req": 2, b"#optimistic-req": 4,
         b"#pending-token": 8, b"#prealloc-req": 16}
# Number of a key: 0..99 integer slot, 100..199 float slot, 200 read past.
_ENTRIES = (dict(_BATCH_INT) | {k: 100 + n for k, n in _BATCH_FLOAT.items()}
            | dict.fromkeys(_IGNORED, 200))
_NUMBERS, _SIZES, _ENDS, _WORDS = key_table({k + b": ": n for k, n in _ENTRIES.items()})
_KEY_BITS = np.array([_BITS.get(key, 0) for key in _ENTRIES], dtype=np.int64)
# Highest value of each integer slot of a batch line: that of its column's type.
_BATCH_MAX = np.array(
    [2 ** (TABLES["batch_line"].field(name).type.bit_width - 1) - 1 for name in BATCH_INTS],
    dtype=np.int64)
_TRUE, _FALSE, _NAN = text(b"True"), text(b"False"), text(b"nan")


@compiled
def read_batch(data, at, end, decode, ints, floats, guess):
    """Read the ``key: value`` parts of a batch line; returns its dialect bits or -1."""
    bits = 0
    place = 0
    while True:
        entry = find_key(data, at, _ENDS, _WORDS, guess, place)
        if entry < 0:
            return -1
        key = np.uint64(entry)
        place += 1
        at += _SIZES[key]
        number = _NUMBERS[key]
        bit = _KEY_BITS[key]
        if bit and not (bit == 16 and decode):
            bits |= bit
        if number < 100:
            slot = np.uint64(number)
            got, after, count = read_digits(data, at, end)
            if count == 0 or ints[slot + np.uint64(FIRST_INT)] != NULL or got > _BATCH_MAX[slot]:
                return -1
            ints[slot + np.uint64(FIRST_INT)] = got
        elif number < 200:
            slot = np.uint64(number - 100)
            real, after, ok = read_decimal(data, at, end)
            if not ok or floats[slot] == floats[slot]:
                return -1
            floats[slot] = real
        else:
            after = _read_past(data, at, end)
            if after < 0:
                return -1
        at = after
        if at == end:
            return bits if ints[FIRST_INT] != NULL else -1
        if not (stands(data, at, end, 44) and stands(data, at + 1, end, 32)):
            return -1
        at += 2


@compiled
def _read_past(data, at, end):
    """Position after a value that no column takes, -1 if it is none that an engine prints."""
    if starts(data, at, _TRUE):
        return at + 4
    if starts(data, at, _FALSE):
        return at + 5
    if starts(data, at, _NAN):
        after = at + 3
    else:
        _, after, ok = read_decimal(data, at, end)
        if not ok:
            return np.int64(-1)
    return after + 1 if stands(data, after, end, 37) else after
