"""From the kernel's matrices to Arrow tables in the schemas of ``ingest.records``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.bulk import layout
from ingest.records import TABLES

_DIALECTS: Final = tuple(
    ",".join(name for bit, name in enumerate(layout.DIALECT) if mask >> bit & 1)
    for mask in range(2 ** len(layout.DIALECT)))
_BATCH_KINDS: Final = ("decode", "prefill")
_EVENT_KINDS: Final = tuple(kind for kind, _ in layout.EVENTS)
_EVENT_ROLES: Final = tuple(role for _, role in layout.EVENTS)
# Made once: for each one made of text, pyarrow looks for a package that is not there.
_RANK_HEAD, _RANK_TAIL, _NOTHING = pa.scalar('{"rank":"'), pa.scalar('"}'), pa.scalar("")
_NO_TEXT: Final = pa.scalar(None, pa.string())
_ENGINE: Final = "engine_log"
_ACCESS: Final = "uvicorn_access"
_NUMPY: Final = {pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64,
                 pa.uint64(): np.uint64}


@dataclass(frozen=True, slots=True)
class BulkResult:
    """Rows of the lines that were taken, and where the others are.

    ``rest``: one row (start, end, line_no) per line that was not taken; start and end are positions
    in the block, without the line end. ``taken``: lines taken, per format.
    """

    tables: list[tuple[str, pa.Table]]
    rest: npt.NDArray[np.int64]
    lines: int
    taken: dict[str, int]
    starts: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int8]

    def format_of(self, row: int) -> str:
        """Return the format that a line was taken under, '' for one that was not."""
        kind = int(self.kinds[row])
        if kind == layout.REST:
            return ""
        return _ACCESS if kind == layout.ACCESS else _ENGINE


@dataclass(frozen=True, slots=True)
class _Group:
    """The lines of one group: per column, one value per line, in one piece of memory.

    ``absent``: how many lines have no value, per integer column, then per decimal column.
    """

    data: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.int64]
    ints: npt.NDArray[np.int64]
    floats: npt.NDArray[np.float64]
    spans: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    absent: npt.NDArray[np.int64]

    @property
    def size(self) -> int:
        return len(self.rows)


class _Scratch(threading.local):
    """The kernel's outputs, one set per thread: fresh memory costs a quarter of a scan.

    Pages that no line reaches are never touched. Every column copies what it keeps.
    """

    def __init__(self) -> None:
        self._capacity = 0
        self._arrays: tuple[npt.NDArray[Any], ...] = ()

    def arrays(self, capacity: int) -> tuple[npt.NDArray[Any], ...]:
        """Return (rows, ints, floats, spans, codes) for so many lines of each group."""
        if capacity > self._capacity:
            groups = layout.N_GROUPS
            # The next block may have a few lines more.
            capacity += capacity // 4
            self._capacity = capacity
            self._arrays = (
                np.empty((groups, capacity), dtype=np.int64),
                np.empty((groups, layout.N_INTS, capacity), dtype=np.int64),
                np.empty((groups, layout.N_FLOATS, capacity), dtype=np.float64),
                np.empty((groups, layout.N_SPANS, capacity), dtype=np.int64),
                np.empty((groups, capacity), dtype=np.int64),
            )
        return self._arrays


_SCRATCH: Final = _Scratch()


def scan(data: bytes, byte_offset: int, first_line_no: int, stream: str = "") -> BulkResult:
    """Scan a block of whole, unwrapped lines without colour codes.

    The first call of a process loads (or compiles, and keeps) the kernel.
    """
    from ingest.bulk import kernel

    view = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(view == 10)
    if len(data) and data[-1] != 10:
        ends = np.append(ends, len(data))
    count = len(ends)
    kinds = np.zeros(count, dtype=np.int8)
    counts = np.zeros(layout.N_GROUPS, dtype=np.int64)
    absent = np.zeros((layout.N_GROUPS, layout.N_INTS + layout.N_FLOATS), dtype=np.int64)
    # Lines too short to be taken need no room.
    room = min(count, len(data) // layout.MIN_LINE_BYTES + 1)
    rows, ints, floats, spans, codes = _SCRATCH.arrays(room)
    kernel.scan_lines(view, ends, kinds, rows, counts, absent, ints, floats, spans, codes)
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1] + 1))[:count]
    tables: list[tuple[str, pa.Table]] = []
    taken: dict[str, int] = {}
    for number, (table, columns_of, format_name) in enumerate(_GROUPS):
        if not (size := int(counts[number])):
            continue
        group = _Group(view, rows[number, :size], ints[number, :, :size], floats[number, :, :size],
                       spans[number, :, :size], codes[number, :size], absent[number])
        columns = {
            "stream": _same(stream, size),
            "line_no": pa.array(group.rows + first_line_no),
            "byte_offset": pa.array(starts[group.rows] + byte_offset),
        }
        _integer_columns(columns, table, group, 0, layout.PREFIX)
        columns_of(columns, group)
        tables.append((table, _table(table, columns, size)))
        taken[format_name] = taken.get(format_name, 0) + size
    others = np.flatnonzero(kinds == layout.REST)
    rest = np.stack((starts[others], ends[others], others + first_line_no), axis=1)
    return BulkResult(tables, rest, count, taken, starts, kinds)


def _batch(columns: dict[str, pa.Array], group: _Group) -> None:
    _integer_columns(columns, "batch_line", group, layout.FIRST_INT, layout.BATCH_INTS)
    _decimal_columns(columns, group, layout.GROUP_BATCH, layout.BATCH_FLOATS)
    columns["kind"] = _chosen(_BATCH_KINDS, group.codes & 1)
    columns["dialect"] = _chosen(_DIALECTS, group.codes >> 1)


def _stats(columns: dict[str, pa.Array], group: _Group) -> None:
    _integer_columns(columns, "time_stats", group, layout.FIRST_INT, layout.STATS_INTS)
    _decimal_columns(columns, group, layout.GROUP_STATS, layout.STATS_FLOATS)
    columns["rid"] = _texts(group, 0)
    columns["role"] = _chosen(layout.ROLES, group.codes >> 1)
    columns["spelling"] = _chosen(layout.SPELLINGS, group.codes & 1)


def _access(columns: dict[str, pa.Array], group: _Group) -> None:
    _integer_columns(columns, "access_line", group, layout.FIRST_INT, layout.ACCESS_INTS)
    for number, name in enumerate(("client_addr", "method", "path")):
        columns[name] = _texts(group, number)


def _event(columns: dict[str, pa.Array], group: _Group) -> None:
    _integer_columns(columns, "engine_event", group, layout.FIRST_INT, layout.EVENT_INTS)
    columns["kind"] = _chosen(_EVENT_KINDS, group.codes)
    columns["role_hint"] = _chosen(_EVENT_ROLES, group.codes)
    columns["rid"] = _texts(group, 0)
    rank = _texts(group, 1, absent=pa.array(group.spans[2] == group.spans[3]))
    columns["attrs"] = pc.binary_join_element_wise(_RANK_HEAD, rank, _RANK_TAIL, _NOTHING)
    columns["reason"] = _texts(group, 2, absent=pa.array(group.spans[4] == group.spans[5]))


# By group number: the table, what fills its columns, and the format that the lines belong to.
_GROUPS: Final[tuple[tuple[str, Callable[[dict[str, pa.Array], _Group], None], str], ...]] = (
    ("batch_line", _batch, _ENGINE),
    ("time_stats", _stats, _ENGINE),
    ("access_line", _access, _ACCESS),
    ("engine_event", _event, _ENGINE),
)


def _integer_columns(
    columns: dict[str, pa.Array], table: str, group: _Group, first: int, names: tuple[str, ...]
) -> None:
    schema = TABLES[table]
    for slot, name in enumerate(names, first):
        absent = int(group.absent[slot])
        if absent < group.size and name in schema.names:
            kind = schema.field(name).type
            # A copy in every case: one column must not keep the memory of all.
            own = group.ints[slot].astype(_NUMPY[kind])
            mask = group.ints[slot] == layout.NULL if absent else None
            columns[name] = pa.array(own, kind, mask=mask)


def _decimal_columns(
    columns: dict[str, pa.Array], group: _Group, number: int, names: tuple[str, ...]
) -> None:
    first = layout.WIDTHS[number][0]
    for slot, name in enumerate(names):
        absent = int(group.absent[first + slot])
        if absent < group.size:
            own = group.floats[slot].copy()
            columns[name] = pa.array(own, mask=np.isnan(own) if absent else None)


def _same(text: str, size: int) -> pa.Array:
    """An array of one text over and over."""
    raw = text.encode()
    offsets = np.arange(size + 1, dtype=np.int32) * np.int32(len(raw))
    return pa.StringArray.from_buffers(size, pa.py_buffer(offsets), pa.py_buffer(raw * size))


def _chosen(texts: tuple[str | None, ...], codes: npt.NDArray[np.int64]) -> pa.Array:
    """The text of each code; mostly they are all the same."""
    text = texts[int(codes[0])]
    if text is not None and (codes == codes[0]).all():
        return _same(text, len(codes))
    return pa.array(texts, pa.string()).take(pa.array(codes))


def _texts(group: _Group, column: int, absent: pa.Array | None = None) -> pa.Array:
    from ingest.bulk import kernel

    starts, ends = group.spans[2 * column], group.spans[2 * column + 1]
    offsets = np.zeros(group.size + 1, dtype=np.int32)
    size = int((ends - starts).sum())
    out = np.empty(size + layout.WORD_BYTES, dtype=np.uint8)
    kernel.copy_texts(group.data, starts, ends, offsets, out)
    texts = pa.StringArray.from_buffers(group.size, pa.py_buffer(offsets), pa.py_buffer(out[:size]))
    return texts if absent is None else pc.if_else(absent, _NO_TEXT, texts)


def _table(name: str, columns: dict[str, pa.Array], size: int) -> pa.Table:
    schema = TABLES[name]
    return pa.Table.from_arrays(
        [columns[field.name] if field.name in columns else _nulls(field.type, size)
         for field in schema], schema=schema)


def _nulls(kind: pa.DataType, size: int) -> pa.Array:
    """An array without a value; those of one type share their memory."""
    return _shared_nulls(kind, 1 << (size - 1).bit_length()).slice(0, size)


@lru_cache(maxsize=16)
def _shared_nulls(kind: pa.DataType, capacity: int) -> pa.Array:
    return pa.nulls(capacity, kind)
