"""The systemd journal: JSON export and the text of ``journalctl`` and syslog.

    {"MESSAGE":"[2026-01-02 03:04:05] ...","__REALTIME_TIMESTAMP":"1767323045123456", ...}
    2026-01-02T03:04:05+0000 node-a python3[812]: [2026-01-02 03:04:05] ...
    Jan 02 03:04:05 node-a python3[812]: [2026-01-02 03:04:05] ...

Format: systemd ``src/shared/logs-show.c``. MESSAGE is an array of byte numbers when it is not
printable, null when it was too long for the export; a line over 48 KiB is cut by the journal
(``_LINE_BREAK=line-max``). Known gap: the short text form has neither year nor zone, so it gives
no outer time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ingest.records import Line
from ingest.wrapping.instant import STAMP, epoch_ns, in_range
from ingest.wrapping.jsontext import decode_object, text_bytes
from ingest.wrapping.layer import (
    LineLayer,
    Peeled,
    fits,
    joined_stream,
    stream_name,
)

_MONTH: Final = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_SHORT: Final = re.compile(
    rb"(%s|%s [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?)"
    rb" (?!(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR) )([^\s:\[\]{}|]{1,253})"
    rb" ([^\s:\[\]{}|]{1,64})(?:\[\d{1,10}\])?:(?: |\Z)" % (STAMP, _MONTH)
)


class _Entry(msgspec.Struct):
    realtime: Any = msgspec.field(name="__REALTIME_TIMESTAMP")
    message: Any = msgspec.field(name="MESSAGE")
    host: Any = msgspec.field(name="_HOSTNAME", default=None)
    unit: Any = msgspec.field(name="_SYSTEMD_UNIT", default=None)
    container: Any = msgspec.field(name="CONTAINER_NAME", default=None)
    program: Any = msgspec.field(name="SYSLOG_IDENTIFIER", default=None)
    line_break: Any = msgspec.field(name="_LINE_BREAK", default=None)
    partial: Any = msgspec.field(name="CONTAINER_PARTIAL_MESSAGE", default=None)
    partial_id: Any = msgspec.field(name="CONTAINER_PARTIAL_ID", default=None)
    stream_id: Any = msgspec.field(name="_STREAM_ID", default=None)


_ENTRY: Final = msgspec.json.Decoder(_Entry)


def peel_entry(raw: bytes) -> Peeled | None:
    """One entry of ``journalctl -o json``; one whose message was left out has nothing to peel."""
    if not raw.startswith(b"{") or b'"__REALTIME_TIMESTAMP"' not in raw:
        return None
    entry = decode_object(_ENTRY, raw)
    if entry is None:
        return None
    payload = _message(entry.message)
    if payload is None:
        return None
    names = (entry.host, entry.container or entry.unit or entry.program)
    stream = stream_name("/".join(name for name in names if isinstance(name, str) and name))
    cut = entry.partial == "true" or entry.line_break == "line-max"
    channel = entry.partial_id or entry.stream_id
    return Peeled(payload, stream, _micros(entry.realtime), cut,
                  stream_name(channel) if isinstance(channel, str) else "")


def peel_short(raw: bytes) -> Peeled | None:
    """Stamp, host and program of journalctl text or a syslog file."""
    match = _SHORT.match(raw)
    if match is None:
        return None
    stamp, host, program = match.groups()
    return Peeled(raw[match.end():], stream_name(host + b"/" + program), epoch_ns(stamp))


def detect_entries(raws: Sequence[bytes]) -> LineLayer | None:
    """JSON export of the journal."""
    return LineLayer("journal-json", peel_entry) if fits(peel_entry, raws, share=0.2) else None


def detect_short(raws: Sequence[bytes]) -> JournalText | None:
    """Journal or syslog text on most lines that are no continuation."""
    first = [raw for raw in raws if not raw.startswith((b"  ", b"-- "))]
    return JournalText() if fits(peel_short, first, share=0.5) else None


@dataclass(slots=True)
class JournalText:
    """Journal text; lines after a newline in a message are indented by the prefix's width."""

    name: str = "journal-text"
    sure: bool = True
    width: int = 0
    stream: str = ""
    outer_ns: int | None = None
    start: tuple[int, int] | None = None

    def feed(self, line: Line) -> Iterable[Line]:
        """The line without its prefix or its indent."""
        raw = line.raw
        peeled = peel_short(raw)
        if peeled is None or peeled.payload is None:
            if self.width and raw.startswith(b" " * self.width):
                return (Line(raw[self.width:], line.line_no, line.byte_offset,
                             joined_stream(line.stream, self.stream), self.outer_ns),)
            self.width = 0
            return (line,)
        self.width = len(raw) - len(peeled.payload)
        self.stream, self.outer_ns = peeled.stream, peeled.outer_ns
        self.start = (line.byte_offset, line.line_no)
        return (Line(peeled.payload, line.line_no, line.byte_offset,
                     joined_stream(line.stream, peeled.stream),
                     line.outer_ns if peeled.outer_ns is None else peeled.outer_ns),)

    def flush(self) -> Iterable[Line]:
        """Nothing is held back."""
        return ()

    def pending(self) -> tuple[int, int] | None:
        """The last prefix: an indented line may follow."""
        return self.start if self.width else None


def _message(value: Any) -> bytes | None:
    if isinstance(value, str):
        return text_bytes(value)
    if not isinstance(value, list) or not value:
        return None
    if all(type(item) is int and 0 <= item <= 255 for item in value):
        return bytes(value)
    # A field that was given several times.
    parts = [_message(item) for item in value]
    return b"\n".join(part for part in parts if part is not None) if any(parts) else None


def _micros(value: Any) -> int | None:
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else None
    return in_range(value * 1000) if type(value) is int else None
