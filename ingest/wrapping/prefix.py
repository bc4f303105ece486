"""Prefixes of programs that merge or search logs: Ray, grep, Dynamo and bare outer stamps.

    (Engine pid=812, ip=10.0.0.7) [2026-01-02 03:04:05] ...
    node-a/sglang.log:123:[2026-01-02 03:04:05] ...        node-a/sglang.log-124-  a context line
    2026-01-02T03:04:05.123456Z  INFO engine.main: ...     2026-01-02T03:04:05.123456Z [2026-...

Formats: ray ``_private/ray_logging``, GNU grep ``-H -n -C``, ai-dynamo ``lib/runtime`` logging,
``kubectl logs --timestamps``. Known gap: what grep prints without file names has no prefix.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ingest.wrapping.instant import STAMP, epoch_ns
from ingest.wrapping.layer import LineLayer, Peeled, fits, stream_name

_RAY: Final = re.compile(
    rb"\(((?:[A-Za-z_][\w.:#<>-]{0,127}(?:\([^()]{0,200}\))? )?pid=\d{1,10}"
    rb"(?:, ip=[^\s()]{1,64})?|raylet|autoscaler(?: \+[\dhms.]{1,16})?)\)(?: |\Z)"
)
_RAY_FIELDS: Final = re.compile(rb"[, ]+")
# A file name with an extension of logs; grep separates with ':' on hits and '-' on context.
_FILE: Final = (
    rb"(?:[\w@%+=,.-]{1,255}/){0,32}[\w@%+=,.-]{0,255}?"
    rb"\.(?:logs?|txt|out|err|json|jsonl|stdout|stderr|glog|INFO|WARNING|ERROR)"
    rb"(?:\.[\w-]{1,64}){0,3}?"
)
_HIT: Final = re.compile(rb"(%s):" % _FILE)
_NUMBER: Final = re.compile(rb"\d{1,12}([:-])")
_CONTEXT: Final = re.compile(rb"(%s)-\d{1,12}-" % _FILE)
_MAX_FILES: Final = 4096
_STAMPED: Final = re.compile(rb"(%s) ( ?)" % STAMP)
# Rust tracing as Dynamo prints it; the gateway's own log has the same shape and is no wrapper.
_TRACING: Final = re.compile(
    rb" {0,2}(?:TRACE|DEBUG|INFO|WARN|ERROR) {1,2}(?:[\w.:<>-]{1,200}: )?"
)
_GATEWAY: Final = re.compile(
    rb" {0,2}(?:TRACE|DEBUG|INFO|WARN|ERROR) {1,2}(?:smg|sgl_|sglang_router|sglang-router|"
    rb"http_request|router)"
)


def peel_ray(raw: bytes) -> Peeled | None:
    """Ray's driver output: class, pid and address of the worker that printed the line."""
    if not raw.startswith(b"("):
        return None
    match = _RAY.match(raw)
    return match and Peeled(raw[match.end():], stream_name(_RAY_FIELDS.sub(b" ", match[1])))


def peel_stamp(raw: bytes) -> Peeled | None:
    """A stamp with its zone; of a Dynamo line also level and target."""
    match = _STAMPED.match(raw)
    if match is None or _GATEWAY.match(raw, match.end()) is not None:
        return None
    tracing = _TRACING.match(raw, match.end())
    end = tracing.end() if tracing is not None else match.start(2)
    return Peeled(raw[end:], "", epoch_ns(match[1]))


@dataclass(slots=True)
class _Grep:
    """File names in front of lines; ``files`` are those that hits have named."""

    numbered: bool
    files: dict[bytes, None]

    def __call__(self, raw: bytes) -> Peeled | None:
        match = _HIT.match(raw)
        if match is not None:
            name, end = match[1], match.end()
            if len(self.files) < _MAX_FILES:
                self.files[name] = None
            if self.numbered and (number := _NUMBER.match(raw, end)) and number[1] == b":":
                end = number.end()
            return Peeled(raw[end:], stream_name(name))
        if raw == b"--":
            return Peeled(None)
        if self.numbered:
            match = _CONTEXT.match(raw)
            return match and Peeled(raw[match.end():], stream_name(match[1]))
        for name in self.files:
            if raw.startswith(name + b"-"):
                return Peeled(raw[len(name) + 1:], stream_name(name))
        return None


def detect_ray(raws: Sequence[bytes]) -> LineLayer | None:
    """Ray prefixes on at least a few of the lines: the driver's own lines have none."""
    return LineLayer("ray", peel_ray) if fits(peel_ray, raws, share=0.05) else None


def detect_grep(raws: Sequence[bytes]) -> LineLayer | None:
    """File names on most lines."""
    hits = [(match, raw) for raw in raws if (match := _HIT.match(raw)) is not None]
    numbers = [n for match, raw in hits if (n := _NUMBER.match(raw, match.end())) is not None]
    numbered = bool(hits) and sum(n[1] == b":" for n in numbers) >= 0.9 * len(hits)
    names = dict.fromkeys(match[1] for match, _ in hits[:_MAX_FILES])
    # The names are known from the start, for context lines that come before the first hit.
    peel = _Grep(numbered, names)
    return LineLayer("grep", peel, sure=False) if fits(peel, raws, share=0.7) else None


def detect_stamp(raws: Sequence[bytes]) -> LineLayer | None:
    """Outer stamps; with a Dynamo level behind them there is no doubt."""
    if not fits(peel_stamp, raws, share=0.2):
        return None
    stamped = [(m, raw) for raw in raws if (m := _STAMPED.match(raw)) is not None]
    tracing = sum(_TRACING.match(raw, m.end()) is not None for m, raw in stamped)
    return LineLayer("stamp", peel_stamp, sure=tracing >= 0.1 * len(stamped))
