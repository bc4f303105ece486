"""From the kernel's matrices to Arrow tables in the schemas of ``ingest.records``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.bulk import layout
from ingest.records import TABLES

_DIALECTS: Final = pa.array([
    ",".join(name for bit, name in enumerate(layout.DIALECT) if mask >> bit & 1)
    for mask in range(2 ** len(layout.DIALECT))])
_BATCH_KINDS: Final = pa.array(["decode", "prefill"])
_ROLES: Final = pa.array(layout.ROLES)
_EVENT_KINDS: Final = pa.array([kind for kind, _ in layout.EVENTS])
_EVENT_ROLES: Final = pa.array([role for _, role in layout.EVENTS])
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
    """The lines of one group: per column, one value per line, in one piece of memory."""

    data: npt.NDArray[np.uint8]
    rows: npt.NDArray[np.int64]
    ints: npt.NDArray[np.int64]
    floats: npt.NDArray[np.float64]
    spans: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]

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
    rows, ints, floats, spans, codes = _SCRATCH.arrays(len(data) // layout.MIN_LINE_BYTES + 1)
    kernel.scan_lines(view, ends, kinds, rows, counts, ints, floats, spans, codes)
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1] + 1))[:count]
    tables: list[tuple[str, pa.Table]] = []
    taken: dict[str, int] = {}
    for number, (table, columns_of, format_name) in enumerate(_GROUPS):
        if not (size := int(counts[number])):
            continue
        group = _Group(view, rows[number, :size], ints[number, :, :size], floats[number, :, :size],
                       spans[number, :, :size], codes[number, :size])
        columns = {
            "stream": pa.repeat(pa.scalar(stream), size),
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
    _decimal_columns(columns, group, layout.BATCH_FLOATS)
    columns["kind"] = _BATCH_KINDS.take(pa.array(group.codes & 1))
    columns["dialect"] = _DIALECTS.take(pa.array(group.codes >> 1))


def _stats(columns: dict[str, pa.Array], group: _Group) -> None:
    _integer_columns(columns, "time_stats", group, layout.FIRST_INT, layout.STATS_INTS)
    _decimal_columns(columns, group, layout.STATS_FLOATS)
    columns["rid"] = _texts(group, 0)
    columns["role"] = _ROLES.take(pa.array(group.codes))
    columns["spelling"] = pa.repeat(pa.scalar("ReqTimeStats"), group.size)


def _access(columns: dict[str, pa.Array], group: _Group) -> None:
    _integer_columns(columns, "access_line", group, layout.FIRST_INT, layout.ACCESS_INTS)
    for number, name in enumerate(("client_addr", "method", "path")):
        columns[name] = _texts(group, number)


def _event(columns: dict[str, pa.Array], group: _Group) -> None:
    _integer_columns(columns, "engine_event", group, layout.FIRST_INT, layout.EVENT_INTS)
    columns["kind"] = _EVENT_KINDS.take(pa.array(group.codes))
    columns["role_hint"] = _EVENT_ROLES.take(pa.array(group.codes))
    columns["rid"] = _texts(group, 0)
    rank = _texts(group, 1, absent=pa.array(group.spans[2] == group.spans[3]))
    columns["attrs"] = pc.binary_join_element_wise('{"rank":"', rank, '"}', "")
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
        if name in schema.names:
            columns[name] = _integers(group.ints[slot], schema.field(name).type)


def _integers(values: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    missing = values == layout.NULL
    if missing.all():
        return pa.nulls(len(values), kind)
    # A copy in every case: one column must not keep the memory of all.
    own = values.astype(_NUMPY[kind])
    return pa.array(own, kind, mask=missing) if missing.any() else pa.array(own, kind)


def _decimal_columns(
    columns: dict[str, pa.Array], group: _Group, names: tuple[str, ...]
) -> None:
    for slot, name in enumerate(names):
        values = group.floats[slot]
        missing = np.isnan(values)
        if not missing.all():
            own = values.copy()
            columns[name] = pa.array(own, mask=missing) if missing.any() else pa.array(own)


def _texts(group: _Group, column: int, absent: pa.Array | None = None) -> pa.Array:
    from ingest.bulk import kernel

    starts, ends = group.spans[2 * column], group.spans[2 * column + 1]
    offsets = np.zeros(group.size + 1, dtype=np.int32)
    out = np.empty(int((ends - starts).sum()), dtype=np.uint8)
    kernel.copy_texts(group.data, starts, ends, offsets, out)
    texts = pa.StringArray.from_buffers(group.size, pa.py_buffer(offsets), pa.py_buffer(out))
    return texts if absent is None else pc.if_else(absent, None, texts)


def _table(name: str, columns: dict[str, pa.Array], n: int) -> pa.Table:
    schema = TABLES[name]
    return pa.Table.from_arrays(
        [columns[field.name] if field.name in columns else pa.nulls(n, field.type)
         for field in schema], schema=schema)
