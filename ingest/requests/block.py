"""A whole block of JSON request log lines at once: the same rows as line by line, at less cost.

For files that the request logger alone writes. The lines become the items of one JSON array, so
the decoder is called once per chunk and no object is made per line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ingest.records import Batch, Line, LineFormat
from ingest.requests.column import UNFIT, request_table
from ingest.requests.payload import decode_usual_array

# Events as the engine prints them -> ``request_log.event``.
EVENTS: Final = {
    "request.received": "received",
    "request.finished": "finished",
    "request.received.openai": "received_openai",
}
_OBJECT: Final = b'{"timestamp": "'
_PREFIX_BYTES: Final = len(b"[2026-01-02 03:04:05] ")
# Lines per array: large enough to be cheap, small enough that one odd line costs little.
_CHUNK_LINES: Final = 512

_Offsets = npt.NDArray[np.int64]


def parse_block(
    line_format: LineFormat,
    data: bytes,
    line_no: int,
    byte_offset: int,
    batch: Batch,
    stream: str = "",
) -> list[Line] | None:
    """Add the rows of a block that holds nothing but request records, and return the other lines.

    ``data`` starts at line ``line_no`` and ``byte_offset``, has no wrapper and no ANSI codes.
    Lines with unusual records go through ``line_format``; those that it does not know are
    returned. None, and nothing added, if the block has lines of another shape. Counts neither
    lines nor formats.
    """
    starts, ends = _line_spans(data)
    prefix = _common_prefix(data, starts, ends)
    if prefix is None:
        return None

    def line_at(index: int) -> Line:
        start, end = int(starts[index]), int(ends[index])
        raw = data[start:end].removesuffix(b"\r")
        return Line(raw, line_no + index, byte_offset + start, stream)

    # An array instead of lines: commas for line ends, spaces for prefixes.
    array = np.frombuffer(data, np.uint8).copy()
    array[ends[ends < len(data)]] = ord(",")
    for column in range(prefix):
        array[starts + column] = ord(" ")
    payloads: dict[str, list[Any]] = {event: [] for event in EVENTS}
    places: dict[str, list[int]] = {event: [] for event in EVENTS}
    odd: list[int] = []
    for first in range(0, len(starts), _CHUNK_LINES):
        last = min(first + _CHUNK_LINES, len(starts))
        chunk = array[starts[first] : ends[last - 1]].tobytes()
        records = decode_usual_array(b"[%b]" % chunk, last - first)
        if records is None:
            odd.extend(range(first, last))
            continue
        for event in EVENTS:
            found = [index for index, record in enumerate(records, first) if record.event == event]
            places[event].extend(found)
            payloads[event].extend(records[index - first] for index in found)
    for event, records in payloads.items():
        if not records:
            continue
        indexes = np.array(places[event], np.int64)
        place = {
            "stream": stream,
            "line_no": indexes + line_no,
            "byte_offset": starts[indexes] + byte_offset,
            "prefixed": np.full(len(indexes), prefix > 0),
        }
        raws = _Raws(line_at, places[event])
        try:
            table = request_table(EVENTS[event], records, place, raws)
        except UNFIT:
            odd.extend(places[event])
        else:
            batch.tables.append(("request_log", table))
    lines = [line_at(index) for index in sorted(odd)]
    return [line for line in lines if not line_format.parse(line, batch)]


@dataclass(frozen=True, slots=True)
class _Raws:
    """The raw lines of one event's records, by their number among them."""

    line_at: Callable[[int], Line]
    numbers: list[int]

    def __call__(self, index: int) -> bytes:
        return self.line_at(self.numbers[index]).raw


def _line_spans(data: bytes) -> tuple[_Offsets, _Offsets]:
    """Return where the lines start and end (line ends excluded)."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 0x0A)
    if not data.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate(([0], ends[:-1] + 1)).astype(np.int64)
    return starts, ends.astype(np.int64)


def _common_prefix(data: bytes, starts: _Offsets, ends: _Offsets) -> int | None:
    """Return the length of the prefix before every line's object, None if they differ."""
    if not data or int((ends - starts).min()) < _PREFIX_BYTES + len(_OBJECT):
        return None
    values = np.frombuffer(data, np.uint8)
    prefix = _PREFIX_BYTES if data.startswith(b"[") else 0
    expected = {prefix + at: char for at, char in enumerate(_OBJECT)}
    if prefix:
        expected |= {0: ord("["), prefix - 2: ord("]"), prefix - 1: ord(" ")}
    for at, char in expected.items():
        if not bool((values[starts + at] == char).all()):
            return None
    return prefix
