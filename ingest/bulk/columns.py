"""From the kernel's matrices to Arrow tables in the schemas of ``ingest.records``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.bulk import layout
from ingest.records import TABLES

_DIALECTS: Final = pa.array([
    ",".join(name for bit, name in enumerate(layout.DIALECT) if mask >> bit & 1)
    for mask in range(2 ** len(layout.DIALECT))])
_KINDS: Final = pa.array(["", "decode", "prefill"])
_ROLES: Final = pa.array(layout.ROLES)
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
        return "uvicorn_access" if kind == layout.ACCESS else "engine_log"


@dataclass(frozen=True, slots=True)
class _Scan:
    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ints: npt.NDArray[np.int64]
    floats: npt.NDArray[np.float64]
    spans: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    byte_offset: int
    first_line_no: int
    stream: str


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
    ints = np.empty((count, layout.N_INTS), dtype=np.int64)
    floats = np.empty((count, layout.N_FLOATS), dtype=np.float64)
    spans = np.empty((count, 6), dtype=np.int64)
    codes = np.zeros(count, dtype=np.int64)
    kernel.scan_lines(view, ends, kinds, ints, floats, spans, codes)
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1] + 1))[:count]
    found = _Scan(view, starts, ints, floats, spans, codes, byte_offset, first_line_no, stream)
    tables: list[tuple[str, pa.Table]] = []
    taken: dict[str, int] = {}
    batch = np.flatnonzero((kinds == layout.DECODE) | (kinds == layout.PREFILL))
    stats = np.flatnonzero(kinds == layout.STATS)
    access = np.flatnonzero(kinds == layout.ACCESS)
    if len(batch):
        tables.append(("batch_line", _batch(found, batch, kinds)))
    if len(stats):
        tables.append(("time_stats", _stats(found, stats)))
    if len(batch) + len(stats):
        taken["engine_log"] = len(batch) + len(stats)
    if len(access):
        tables.append(("access_line", _access(found, access)))
        taken["uvicorn_access"] = len(access)
    others = np.flatnonzero(kinds == layout.REST)
    rest = np.stack((starts[others], ends[others], others + first_line_no), axis=1)
    return BulkResult(tables, rest, count, taken, starts, kinds)


def _integers(values: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    missing = values == layout.NULL
    absent = int(np.count_nonzero(missing))
    if absent == len(values):
        return pa.nulls(len(values), kind)
    cast = values.astype(_NUMPY[kind], copy=False)
    return pa.array(cast, kind, mask=missing) if absent else pa.array(cast, kind)


def _decimals(values: npt.NDArray[np.float64]) -> pa.Array:
    missing = np.isnan(values)
    absent = int(np.count_nonzero(missing))
    if absent == len(values):
        return pa.nulls(len(values), pa.float64())
    return pa.array(values, mask=missing) if absent else pa.array(values)


def _gather(
    found: _Scan, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the rows' integers and floats, one contiguous line of memory per column."""
    return (np.ascontiguousarray(found.ints.take(rows, axis=0).T),
            np.ascontiguousarray(found.floats.take(rows, axis=0).T))


def _texts(found: _Scan, rows: npt.NDArray[np.int64], column: int) -> pa.Array:
    from ingest.bulk import kernel

    sizes = found.spans[rows, 2 * column + 1] - found.spans[rows, 2 * column]
    offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    out = np.empty(int(sizes.sum()), dtype=np.uint8)
    kernel.copy_texts(found.data, rows, found.spans, column, offsets, out)
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(out))


def _common(
    found: _Scan, rows: npt.NDArray[np.int64], ints: npt.NDArray[np.int64]
) -> dict[str, pa.Array]:
    n = len(rows)
    columns: dict[str, pa.Array] = {
        "stream": pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(n, dtype=np.int32)), pa.array([found.stream])
        ).dictionary_decode(),
        "line_no": pa.array(rows + found.first_line_no),
        "byte_offset": pa.array(found.starts[rows] + found.byte_offset),
        "outer_ns": pa.nulls(n, pa.int64()),
    }
    for slot, name in enumerate(layout.PREFIX):
        kind = pa.int64() if slot < 2 else pa.int16()
        columns[name] = _integers(ints[slot], kind)
    return columns


def _table(name: str, columns: dict[str, Any], n: int) -> pa.Table:
    schema = TABLES[name]
    return pa.Table.from_arrays(
        [columns.get(field.name, None) if field.name in columns else pa.nulls(n, field.type)
         for field in schema], schema=schema)


def _batch(
    found: _Scan, rows: npt.NDArray[np.int64], kinds: npt.NDArray[np.int8]
) -> pa.Table:
    ints, floats = _gather(found, rows)
    columns = _common(found, rows, ints)
    schema = TABLES["batch_line"]
    for slot, name in enumerate(layout.BATCH_INTS):
        columns[name] = _integers(ints[layout.FIRST_INT + slot], schema.field(name).type)
    for slot, name in enumerate(layout.BATCH_FLOATS):
        columns[name] = _decimals(floats[slot])
    columns["kind"] = _KINDS.take(pa.array(kinds[rows].astype(np.int32)))
    columns["dialect"] = _DIALECTS.take(pa.array(found.codes[rows]))
    return _table("batch_line", columns, len(rows))


def _stats(found: _Scan, rows: npt.NDArray[np.int64]) -> pa.Table:
    ints, floats = _gather(found, rows)
    columns = _common(found, rows, ints)
    schema = TABLES["time_stats"]
    for slot, name in enumerate(layout.STATS_INTS):
        columns[name] = _integers(ints[layout.FIRST_INT + slot], schema.field(name).type)
    for slot, name in enumerate(layout.STATS_FLOATS):
        columns[name] = _decimals(floats[slot])
    columns["rid"] = _texts(found, rows, 0)
    columns["role"] = _ROLES.take(pa.array(found.codes[rows]))
    columns["spelling"] = pa.array(["ReqTimeStats"]).take(
        pa.array(np.zeros(len(rows), dtype=np.int32)))
    return _table("time_stats", columns, len(rows))


def _access(found: _Scan, rows: npt.NDArray[np.int64]) -> pa.Table:
    ints, _ = _gather(found, rows)
    columns = _common(found, rows, ints)
    for name in ("client_addr", "method", "path"):
        columns[name] = _texts(found, rows, ("client_addr", "method", "path").index(name))
    columns["client_port"] = _integers(ints[layout.FIRST_INT], pa.int32())
    columns["status_code"] = _integers(ints[layout.FIRST_INT + 1], pa.int32())
    return _table("access_line", columns, len(rows))
