"""``Decode batch`` and ``Prefill batch`` lines: scheduler statistics, no request ids.

Printed by sglang/srt/managers/scheduler_components/metrics_reporter.py (0.5.23) and its
predecessors. Keys come and go between versions, so they are read by name, never by position.
``#new-token: 1`` says nothing about a stub: these lines carry no ids.
"""

from __future__ import annotations

import re
from typing import Any, Final

_HEAD = re.compile(rb"(Decode|Prefill) batch(?: ?\[\d+\])?[,.]\s*")
_INTEGERS: Final = {
    b"#running-req": "running_reqs", b"#queue-req": "queue_reqs", b"#new-seq": "new_seqs",
    b"#new-token": "new_tokens", b"#cached-token": "cached_tokens", b"#token": "used_tokens",
    b"#full token": "used_tokens", b"#swa token": "swa_tokens", b"#prealloc-req": "prealloc_reqs",
    b"#transfer-req": "transfer_reqs", b"#transferring-req": "transfer_reqs",
    b"#retracted-req": "retracted_reqs", b"#bootstrap-req": "bootstrap_reqs",
    b"#unbootstrapped-req": "bootstrap_reqs", b"#inflight-req": "inflight_reqs",
}
_DECIMALS: Final = {
    b"token usage": "token_usage", b"full token usage": "token_usage",
    b"swa token usage": "swa_usage", b"pre-allocated usage": "prealloc_usage",
    b"gen throughput (token/s)": "throughput_tokens_s",
    b"input throughput (token/s)": "throughput_tokens_s",
}
# Keys whose presence bounds the version (engine-telemetry.md, section 15).
DIALECT_KEYS: Final = {
    b"#pending-token": "pending-token", b"#bootstrap-req": "bootstrap-req",
    b"#prealloc-req": "prealloc-req", b"#optimistic-req": "optimistic-req",
    b"#host-receive-req": "host-receive-req",
}
# On a decode line #prealloc-req exists in every version and bounds nothing.
_ONLY_PREFILL: Final = frozenset({"prealloc-req"})
_MAX = 2**63 - 1


def parse(message: bytes) -> dict[str, Any] | str | None:
    """Parse a batch line: its columns, a reason why it is malformed, or None for other lines."""
    head = _HEAD.match(message)
    if head is None:
        return None
    kind = "decode" if head.group(1) == b"Decode" else "prefill"
    values: dict[str, Any] = {"kind": kind}
    dialect = []
    for part in message[head.end() :].split(b", "):
        key, colon, text = part.rpartition(b": ")
        if not colon:
            continue
        key = key.strip()
        if key in DIALECT_KEYS:
            name = DIALECT_KEYS[key]
            if kind == "prefill" or name not in _ONLY_PREFILL:
                dialect.append(name)
        column = _INTEGERS.get(key)
        if column is not None:
            number = text.strip().rstrip(b",")
            if not number.isdigit() or len(number) > 18:
                return f"{column} is not a number"
            values[column] = int(number)
            continue
        column = _DECIMALS.get(key)
        if column is not None:
            try:
                values[column] = float(text.strip().rstrip(b","))
            except ValueError:
                return f"{column} is not a number"
    if "running_reqs" not in values:
        return "the line is cut before #running-req"
    values["dialect"] = ",".join(sorted(set(dialect)))
    return values
