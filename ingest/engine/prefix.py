"""The prefix of an engine line: ``[2025-09-29 08:12:31.417 DP1 TP5 EP5] message``.

Printed by sglang/srt/utils/common.py ``configure_logger``, unchanged 0.5.9 to 0.5.23: local time,
milliseconds only with SGLANG_LOG_MS=1, ranks in the order DP PP ATTN_CP MOE_DP TP EP where they
exist. Pasted logs lose the date or the first bracket.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from ingest.stamps import parse_stamp

_PREFIX = re.compile(
    rb"\[?(?P<stamp>(?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)"
    rb"(?P<ranks>(?: (?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d{1,4})*)"
    rb"(?: encode_\w{1,20}(?:\[\d{1,4}\])?)?\] (?P<message>.*)", re.DOTALL)
_RANK = re.compile(rb"(DP|PP|ATTN_CP|MOE_DP|TP|EP)(\d{1,4})")
_RANK_COLUMN: Final = {b"DP": "dp", b"PP": "pp", b"TP": "tp", b"ATTN_CP": "attn_cp",
                       b"MOE_DP": "moe_dp", b"EP": "ep"}
_RANK_CACHE: dict[bytes, dict[str, int]] = {b"": {}}


class Prefixed(NamedTuple):
    """A line split into what its prefix says and the message. Stamp fields are None if absent."""

    values: dict[str, Any]
    message: bytes
    bad_stamp: bool


def split(raw: bytes) -> Prefixed | None:
    """Split an engine line; None if it has no engine prefix."""
    match = _PREFIX.match(raw)
    if match is None:
        return None
    stamp, ranks, message = match.group("stamp", "ranks", "message")
    values: dict[str, Any] = dict(_ranks(ranks))
    bad = False
    if b"-" in stamp:
        parsed = parse_stamp(stamp)
        if parsed is None:
            bad = True
        else:
            values["stamp_ns"], values["stamp_res_ns"] = parsed[0], parsed[1]
    return Prefixed(values, message, bad)


def _ranks(text: bytes) -> dict[str, int]:
    known = _RANK_CACHE.get(text)
    if known is None:
        known = {_RANK_COLUMN[name]: int(number) for name, number in _RANK.findall(text)}
        if len(_RANK_CACHE) < 4096:
            _RANK_CACHE[text] = known
    return known
