"""Numbers that the kernel and the column assembly share: kinds of lines, slots, key hashes."""

from __future__ import annotations

from typing import Final

REST: Final = 0
DECODE: Final = 1
PREFILL: Final = 2
STATS: Final = 3
ACCESS: Final = 4
EVENT: Final = 5

# Groups of lines with the same columns.
GROUP_BATCH: Final = 0
GROUP_STATS: Final = 1
GROUP_ACCESS: Final = 2
GROUP_EVENT: Final = 3
N_GROUPS: Final = 4

NULL: Final = -(2**63)

# Slots of the integer matrix. The first eight are the prefix.
PREFIX: Final = ("stamp_ns", "stamp_res_ns", "dp", "pp", "tp", "attn_cp", "moe_dp", "ep")
BATCH_INTS: Final = (
    "running_reqs", "queue_reqs", "new_seqs", "new_tokens", "cached_tokens", "used_tokens",
    "swa_tokens", "prealloc_reqs", "transfer_reqs", "retracted_reqs", "bootstrap_reqs",
    "inflight_reqs")
BATCH_FLOATS: Final = ("token_usage", "swa_usage", "prealloc_usage", "throughput_tokens_s")
STATS_INTS: Final = ("room", "input_len", "cached_input_len", "output_len", "attempts", "entry_ns")
STATS_FLOATS: Final = (
    "bootstrap_ms", "bootstrap_queue_ms", "alloc_wait_ms", "prealloc_queue_ms", "transfer_ms",
    "queue_ms", "forward_ms", "transfer_speed_gb_s", "transfer_total_mb")
ACCESS_INTS: Final = ("client_port", "status_code")
EVENT_INTS: Final = ("room", "n1")
ROLES: Final = ("prefill", "decode", "unified")
# Events by number: (kind, role_hint).
EVENTS: Final = (
    ("decode_transfer_failed", "decode"), ("decode_handshake_failed", "decode"),
    ("prefill_transfer_failed", "prefill"), ("prefill_bootstrap_failed", "prefill"),
    ("client_disconnected", None))
# Dialect keys, as bits; on decode lines #prealloc-req bounds nothing and has no bit.
DIALECT: Final = ("bootstrap-req", "host-receive-req", "optimistic-req", "pending-token",
                  "prealloc-req")

N_INTS: Final = len(PREFIX) + max(len(BATCH_INTS), len(STATS_INTS))
N_FLOATS: Final = max(len(BATCH_FLOATS), len(STATS_FLOATS))
# No line that the scan takes is shorter, which bounds the memory of a block of short lines.
MIN_LINE_BYTES: Final = 50
# Start and end of each of a line's texts.
N_SPANS: Final = 6
FIRST_INT: Final = len(PREFIX)

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


def fnv(text: bytes) -> int:
    """Return the 64-bit FNV-1a hash that the kernel computes of a key."""
    value = _FNV_OFFSET
    for byte in text:
        value = ((value ^ byte) * _FNV_PRIME) % 2**64
    return value
