"""Events of a page trace as Arrow columns, and what keeps a single event from being a row."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.records import MAX_ROOM, TABLES, Line, to_json

MAX_TEXT_CHARS: Final = 512
MAX_HEADER_CHARS: Final = 64 * 1024
MAX_GROWTH_ROOMS: Final = 100_000
# Largest page id plus one; a pool has some 10,000 pages.
MAX_PAGE: Final = 2**40
SCHEMA: Final = "kv-page-trace/1"
# What ``event_table`` raises on a value that does not fit its column.
FAULTS: Final = (pa.ArrowException, ValueError, TypeError, OverflowError)
# Stands for the pages of an event that names none, so that it gives one row.
_NO_EXTENT: Final = [(0, 0)]


class Event(msgspec.Struct, gc=False):
    """One line: an event, or a header (``schema`` is set). Unknown keys are ignored."""

    t: int | None = None
    ev: str | None = None
    room: int | str | None = None
    rid: str | None = None
    pages: list[tuple[int, int]] | None = None
    n_pages: int | None = None
    tokens: int | None = None
    why: str | None = None
    chunk: int | None = None
    dst_session: str | None = None
    ok: bool | None = None
    bs: int | None = None
    growth: list[int | str] | None = None
    free: int | None = None
    schema: str | None = None


class Header(msgspec.Struct, gc=False):
    """The header's fields that events carry; the whole header is kept as JSON."""

    host: str | None = None
    role: str | None = None
    dp_rank: int | None = None
    session: str | None = None
    tp_rank: int | None = None
    page_size: int | None = None
    num_pages: int | None = None
    engine_version: str | None = None
    start_ts_ns: int | None = None
    schema: str | None = None


def event_table(
    lines: list[Line], run: list[Event], header: Header, first_event: int, attrs: str | None
) -> pa.Table:
    """Columns of events under one header; raises one of FAULTS on a value out of range."""
    extents = [event.pages or _NO_EXTENT for event in run]
    n_extents = np.fromiter(map(len, extents), dtype=np.int64, count=len(run))
    flat = list(chain.from_iterable(extents))
    has_pages = np.repeat(
        np.fromiter((bool(event.pages) for event in run), dtype=bool, count=len(run)), n_extents)
    starts = np.fromiter((start for start, _ in flat), dtype=np.int64, count=len(flat))
    counts = np.fromiter((count for _, count in flat), dtype=np.int64, count=len(flat))
    if not (
        (starts[has_pages] >= 0) & (counts[has_pages] > 0)
        & (starts[has_pages] < MAX_PAGE) & (counts[has_pages] < MAX_PAGE)
    ).all():
        raise ValueError("a page extent is out of range")
    if any(event.ev is None for event in run):
        raise ValueError("an event has no name")
    row_of = np.repeat(np.arange(len(run)), n_extents)
    extent_no = np.arange(len(flat)) - np.repeat(np.cumsum(n_extents) - n_extents, n_extents)
    totals = pa.array(
        [0 if event.pages == [] else event.n_pages for event in run], pa.int64()).take(row_of)
    schema = TABLES["page_event"]

    def text(values: list[str | None]) -> pa.Array:
        column = pa.array(values, pa.string())
        if (pc.max(pc.binary_length(column)).as_py() or 0) > MAX_TEXT_CHARS:
            raise ValueError("a text is too long")
        return column.take(row_of)

    def constant(name: str, value: Any) -> pa.Array:
        return pa.repeat(pa.scalar(value, schema.field(name).type), len(flat))

    def whole(name: str, values: list[Any]) -> pa.Array:
        return pa.array(values, schema.field(name).type).take(row_of)

    columns: dict[str, pa.Array] = {
        "stream": whole("stream", [line.stream for line in lines]),
        "line_no": whole("line_no", [line.line_no for line in lines]),
        "byte_offset": whole("byte_offset", [line.byte_offset for line in lines]),
        "stamp_ns": constant("stamp_ns", None),
        "stamp_res_ns": constant("stamp_res_ns", None),
        "outer_ns": whole("outer_ns", [line.outer_ns for line in lines]),
        "host": constant("host", header.host),
        "role": constant("role", header.role),
        "dp_rank": constant("dp_rank", header.dp_rank),
        "session": constant("session", header.session),
        "event_no": pa.array(row_of + first_event, pa.int64()),
        "t_ns": whole("t_ns", [event.t for event in run]),
        "ev": text([event.ev for event in run]),
        "room": whole("room", [event.room for event in run]),
        "rid": text([event.rid for event in run]),
        "extent_no": pa.array(extent_no, pa.int32()),
        "start_page": pa.array(starts, pa.int64(), mask=~has_pages),
        "n_pages": pc.if_else(pa.array(has_pages), pa.array(counts, pa.int64()), totals),
        "tokens": whole("tokens", [event.tokens for event in run]),
        "why": text([event.why for event in run]),
        "chunk": whole("chunk", [event.chunk for event in run]),
        "dst_session": text([event.dst_session for event in run]),
        "ok": whole("ok", [event.ok for event in run]),
        "attrs": whole("attrs", [_attrs(event) for event in run] if attrs is None else [attrs]),
    }
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _attrs(event: Event) -> str | None:
    """What only ``step`` and ``merge`` events of count-only traces say."""
    if event.bs is None and event.growth is None and event.free is None:
        return None
    if event.growth is not None and len(event.growth) > MAX_GROWTH_ROOMS:
        raise ValueError("too many growth rooms")
    fields = {"bs": event.bs, "free": event.free, "growth": event.growth}
    return to_json({key: value for key, value in fields.items() if value is not None})


def header_problem(header: Header, attrs: str) -> str:
    """What keeps a header from being used, '' if nothing does."""
    if header.schema != SCHEMA:
        return "a header of another schema or version"
    if header.dp_rank is not None and not 0 <= header.dp_rank < 2**15:
        return "header: dp_rank is out of range"
    texts = (header.host, header.role, header.session, header.engine_version)
    if any(text is not None and len(text.encode()) > MAX_TEXT_CHARS for text in texts):
        return "header: a text is too long"
    return "header: too long" if len(attrs) > MAX_HEADER_CHARS else ""


def event_problem(event: Event) -> str:
    """What keeps one event from being a row; turns rooms written as text into numbers."""
    if event.ev is None:
        return "no event name"
    if isinstance(event.room, str):
        if not (event.room.isascii() and event.room.isdigit() and len(event.room) <= 40):
            return "room is not a whole number"
        event.room = int(event.room)
    if event.room is not None and not 0 <= event.room <= MAX_ROOM:
        return "room does not fit 64 bits"
    numbers = (event.t, event.tokens, event.n_pages, event.bs, event.free)
    if any(number is not None and not -(2**63) <= number < 2**63 for number in numbers):
        return "a number does not fit 64 bits"
    if event.chunk is not None and not -(2**31) <= event.chunk < 2**31:
        return "chunk does not fit 32 bits"
    for start, count in event.pages or ():
        if not (0 <= start < MAX_PAGE and 0 < count < MAX_PAGE):
            return "a page extent is out of range"
    if event.growth is not None and len(event.growth) > MAX_GROWTH_ROOMS:
        return "too many growth rooms"
    for value in (event.ev, event.rid, event.why, event.dst_session):
        if value is not None and len(value.encode()) > MAX_TEXT_CHARS:
            return "a text is too long"
    return ""
