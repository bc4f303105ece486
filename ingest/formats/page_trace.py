"""Page traces ``kv-page-trace/1`` -> ``page_event``: who owned and who wrote which KV page, when.

One JSON Lines file per rank, written by an operator's recorder (DESIGN.md, section 6):

    {"schema":"kv-page-trace/1","host":"n1","role":"decode","dp_rank":0,"page_size":64}
    {"t":1791237600506579954,"ev":"alloc","room":9065936072733175441,"pages":[[1,78]]}

A header starts a boot; the events behind it carry its host, role, rank and session. Events without
a header are kept, with a reject: such a trace cannot be taken as complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from ingest.formats._page_columns import (
    FAULTS,
    SCHEMA,
    Event,
    Header,
    event_problem,
    event_table,
    header_problem,
)
from ingest.records import Batch, DocumentFormat, Line, Match, to_json

# Lines per Arrow batch: some 10 MB of Python objects at a time.
CHUNK_LINES: Final = 20_000
# Rejects that are listed one by one; a file of garbage needs no more.
MAX_REJECTS: Final = 10_000
NO_HEADER: Final = "no header: the trace cannot be taken as complete"

_HEADER: Final = re.compile(rb'\s{0,64}\{[^{}\[\]]{0,2000}?"schema"\s?:\s?"kv-page-trace/\d')
_EVENT: Final = re.compile(
    rb'\s{0,64}\{"t"\s?:\s?\d{1,20}\s?,\s?"ev"\s?:\s?'
    rb'"(?:alloc|free|hold|advertise|send_begin|send_end|commit|finish|abort|step|merge)"'
)
_PATH: Final = re.compile(r"`\$([\w.\[\]]{0,60})`$")

_DECODER: Final = msgspec.json.Decoder(Event)
_HEADER_DECODER: Final = msgspec.json.Decoder(Header)


class PageTrace:
    """Traces of one rank's pages."""

    name = "page_trace"

    def sniff(self, head: bytes, name: str) -> Match | None:
        """Recognise a header, or events that lost theirs."""
        first, _, rest = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
        if _HEADER.match(first):
            return Match(0.98, SCHEMA)
        # A trace that lost its beginning may start in the middle of a line.
        if any(pattern.match(part) for pattern in (_EVENT, _HEADER) for part in (first, rest)):
            return Match(0.9, SCHEMA)
        return None

    def parse(self, lines: Iterator[Line], name: str) -> Iterator[Batch]:
        """Yield one batch of Arrow columns per CHUNK_LINES lines."""
        reader = _Reader()
        chunk: list[Line] = []
        for line in lines:
            chunk.append(line)
            if len(chunk) >= CHUNK_LINES:
                yield reader.read(chunk)
                chunk = []
        yield reader.read(chunk)


class _Reader:
    """Turns lines into batches; keeps the header in force and counts events and rejects."""

    def __init__(self) -> None:
        self._header: Header | None = None
        self._next_event = 0
        self._rejects = 0
        self._headless = False

    def read(self, lines: list[Line]) -> Batch:
        """One batch, its events in the order of the lines."""
        batch = Batch(lines=len(lines))
        lines, events = self._decode(lines, batch)
        begin = 0
        for position, event in enumerate(events):
            if event.schema is not None:
                self._add(lines[begin:position], events[begin:position], batch)
                self._start(lines[position], batch)
                begin = position + 1
        self._add(lines[begin:], events[begin:], batch)
        return batch

    def _decode(self, lines: list[Line], batch: Batch) -> tuple[list[Line], list[Event]]:
        try:
            # All at once: several times faster than line by line.
            events = _DECODER.decode_lines(b"\n".join([line.raw for line in lines]))
        except (ValueError, RecursionError):
            events = []
        if len(events) == len(lines):
            return lines, events
        kept, events = [], []
        for line in lines:
            if not line.raw.strip():
                batch.other_lines += 1
                continue
            try:
                events.append(_DECODER.decode(line.raw))
                kept.append(line)
            except (ValueError, RecursionError) as error:
                self._reject(batch, line, _reason(error))
        return kept, events

    def _start(self, line: Line, batch: Batch) -> None:
        """Begin a boot; a header that cannot be used gives a row that names nobody."""
        attrs: str | None = None
        try:
            self._header = _HEADER_DECODER.decode(line.raw)
            attrs = to_json(msgspec.json.decode(line.raw))
            problem = header_problem(self._header, attrs)
        except (ValueError, RecursionError) as error:
            problem = f"header: {_reason(error)}"
        if problem:
            self._header = attrs = None
            self._reject(batch, line, problem)
        self._add([line], [Event(ev="header")], batch, attrs)

    def _add(
        self, lines: list[Line], events: list[Event], batch: Batch, attrs: str | None = None
    ) -> None:
        if not events:
            return
        if self._header is None and not self._headless:
            self._headless = True
            self._reject(batch, lines[0], NO_HEADER)
        header = self._header or Header()
        try:
            table = event_table(lines, events, header, self._next_event, attrs)
        except FAULTS:
            sound = []
            for line, event in zip(lines, events, strict=True):
                problem = event_problem(event)
                if problem:
                    self._reject(batch, line, problem)
                else:
                    sound.append((line, event))
            lines, events = [line for line, _ in sound], [event for _, event in sound]
            table = event_table(lines, events, header, self._next_event, attrs)
        self._next_event += len(events)
        if table.num_rows:
            batch.tables.append(("page_event", table))

    def _reject(self, batch: Batch, line: Line, reason: str) -> None:
        self._rejects += 1
        if self._rejects < MAX_REJECTS:
            batch.reject(line, PageTrace.name, reason)
        elif self._rejects == MAX_REJECTS:
            batch.reject(line, PageTrace.name, "too many bad lines; the rest is not listed")
        else:
            batch.other_lines += 1


def _reason(error: Exception) -> str:
    """A reason that names the field and quotes nothing of the line."""
    if isinstance(error, msgspec.ValidationError):
        path = _PATH.search(str(error))
        return f"a field has the wrong type: {path.group(1).lstrip('.') if path else 'the line'}"
    return "malformed JSON"


DOCUMENT_FORMATS: Final[tuple[DocumentFormat, ...]] = (PageTrace(),)
