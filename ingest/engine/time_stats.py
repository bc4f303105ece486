"""``ReqTimeStats(rid=..., bootstrap_room=..., input_len=..., ...)``: one line per finished request.

Printed by sglang/srt/managers/scheduler_output_processor_mixin.py and successors with
--enable-request-time-stats-logging. Up to 0.5.11 the spelling is ``Req Time Stats(rid=..., input
len=...)``; ``attempts=`` since 0.5.16.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ingest.records import MAX_ROOM
from ingest.stamps import epoch_text_ns

_HEAD = re.compile(rb"(ReqTimeStats|Req Time Stats)\((.*?), type=(\w+)\): ?(.*)", re.DOTALL)
_FIELD: Final = {
    b"bootstrap_room": "room", b"input_len": "input_len", b"input len": "input_len",
    b"cached_input_len": "cached_input_len", b"cached input len": "cached_input_len",
    b"output_len": "output_len", b"output len": "output_len", b"attempts": "attempts",
}
_DURATION: Final = {
    b"bootstrap_duration": "bootstrap_ms", b"bootstrap_queue_duration": "bootstrap_queue_ms",
    b"alloc_wait_duration": "alloc_wait_ms", b"prealloc_queue_duration": "prealloc_queue_ms",
    b"transfer_duration": "transfer_ms", b"queue_duration": "queue_ms",
    b"forward_duration": "forward_ms",
}
_ROLES: Final = frozenset({b"prefill", b"decode", b"unified"})


def parse(message: bytes) -> dict[str, Any] | str | None:
    """Parse a time-stats line: its columns, a reason why it is malformed, or None."""
    if not message.startswith((b"ReqTimeStats(", b"Req Time Stats(")):
        return None
    match = _HEAD.match(message)
    if match is None:
        return "the line is cut inside its parentheses"
    spelling, inside, role, durations = match.groups()
    if role not in _ROLES:
        return "the type is neither prefill, decode nor unified"
    values: dict[str, Any] = {"spelling": spelling.decode(), "role": role.decode()}
    error = _identity(inside, values) or _durations(durations, values)
    if error:
        return error
    if "input_len" not in values or "rid" not in values:
        return "rid or input length is missing"
    return values


def _identity(inside: bytes, values: dict[str, Any]) -> str | None:
    for part in inside.split(b", "):
        key, equals, text = part.partition(b"=")
        if not equals:
            return "a field without a value"
        if key == b"rid":
            values["rid"] = text.decode("utf-8", errors="replace")
            continue
        column = _FIELD.get(key)
        if column is None:
            continue
        if text == b"None":
            continue
        digits = text.lstrip(b"-") if column != "room" else text
        if not digits.isdigit() or len(digits) > 20:
            return f"{column} is not a number"
        number = int(text)
        if (column == "room" and number > MAX_ROOM) or (column != "room" and abs(number) > 2**62):
            return f"{column} is out of range"
        values[column] = number
    return None


def _durations(text: bytes, values: dict[str, Any]) -> str | None:
    for part in text.split(b", "):
        key, equals, value = part.strip().partition(b"=")
        if not equals:
            continue
        column = _DURATION.get(key)
        try:
            if column is not None:
                if not value.endswith(b"ms"):
                    return f"{column} has no unit"
                values[column] = float(value[:-2])
            elif key in (b"entry_time", b"bootstrap_done_time"):
                ns = epoch_text_ns(value)
                if ns is None:
                    return f"{key.decode()} is not an epoch time"
                values["entry_ns" if key == b"entry_time" else "bootstrap_done_ns"] = ns
            elif key == b"transfer_speed":
                values["transfer_speed_gb_s"] = float(value.removesuffix(b"GB/s").strip())
            elif key == b"transfer_total":
                values["transfer_total_mb"] = float(value.removesuffix(b"MB").strip())
        except ValueError:
            return f"{key.decode(errors='replace')} is not a number"
    return None
