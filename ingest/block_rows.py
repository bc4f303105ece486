"""One block of a line file -> Arrow rows and the edges its neighbours need; runs in any process.

Lines in the engine's own spelling go through ``ingest.bulk``; all others, and everything in small
or wrapped files, through the line formats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ingest.blocks import Block
from ingest.dispatch import RECENT_LINES, Parsed, Seen, parse_lines
from ingest.records import Batch, Line, LineFormat, Reject, rows_to_arrow
from ingest.requests import block as request_block
from ingest.schema import (
    CLOCK_SEPARATOR,
    COLLECTOR_CLOCK,
    EPOCH_CLOCK,
    EPOCH_TABLES,
    LOCAL_CLOCK,
    TIMELESS_TABLES,
    UTC_CLOCK,
    UTC_TABLES,
)
from ingest.wrappers import detect_wrapper

if TYPE_CHECKING:
    from ingest.bulk import BulkResult

# Name of the line format that reads JSON request logs.
REQUEST_LOG: Final = "request_log_json"
# Formats that the compiled scan knows, and those that may stand beside them: none of these is ever
# continued on a next line.
ENGINE_FORMATS: Final = frozenset({"engine_log", "uvicorn_access"})
BULK_NEIGHBOURS: Final = ENGINE_FORMATS | {
    "glog", "request_log_json", "request_log_text", "metrics_export", "scheduler_status"}
# Smaller blocks are not worth loading the compiled scan for.
BULK_BYTES: Final = 4 << 20


@dataclass(slots=True)
class Period:
    """First and last time per clock, in ns; a collector's stamps count where no other is known."""

    spans: dict[str, tuple[int, int]] = field(default_factory=dict)

    def include(self, clock: str, first: int, last: int) -> None:
        """Widen the clock's span."""
        known = self.spans.get(clock)
        self.spans[clock] = (first, last) if known is None else (
            min(known[0], first), max(known[1], last))

    def add(self, other: Period) -> None:
        """Widen by everything another period covers."""
        for clock, (first, last) in other.spans.items():
            self.include(clock, first, last)

    @property
    def clock(self) -> str | None:
        """The clocks of the file's own stamps, joined; the collector's if it has none."""
        own = sorted(self.spans.keys() - {COLLECTOR_CLOCK})
        if own:
            return CLOCK_SEPARATOR.join(own)
        return COLLECTOR_CLOCK if self.spans else None

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """First and last time on the clocks that ``clock`` names."""
        spans = [s for clock, s in self.spans.items() if clock != COLLECTOR_CLOCK]
        spans = spans or list(self.spans.values())
        if not spans:
            return None, None
        return min(first for first, _ in spans), max(last for _, last in spans)


@dataclass(slots=True)
class BlockRows:
    """What one block gives: ``parsed`` with an empty batch but its counts, and the tables."""

    parsed: Parsed
    tables: list[tuple[str, pa.Table]]
    period: Period


def parse_block(formats: Sequence[LineFormat], block: Block) -> BlockRows:
    """Rows of an unwrapped block."""
    clean = not block.skipped and b"\x1b" not in block.data and b"\0" not in block.data
    parsed = parse_request_block(formats, block) if clean else None
    if parsed is None and clean and len(block.data) >= BULK_BYTES:
        parsed = parse_engine_block(formats, block)
    if parsed is None:
        parsed = parse_lines(formats, kept_lines(detect_wrapper(b"").peel(block), block))
    reject_skipped(parsed.batch, block)
    return finish_rows(parsed)


def parse_peeled(formats: Sequence[LineFormat], lines: Iterable[Line], block: Block) -> BlockRows:
    """Rows of lines that are already out of their wrapper; ``block`` tells what was skipped."""
    parsed = parse_lines(formats, kept_lines(lines, block))
    reject_skipped(parsed.batch, block)
    return finish_rows(parsed)


def parse_request_block(formats: Sequence[LineFormat], block: Block) -> Parsed | None:
    """Rows of a block that holds nothing but JSON request records; None if it does not."""
    line_format = next((f for f in formats if f.name == REQUEST_LOG), None)
    if line_format is None or not block.data:
        return None
    # Nothing goes on with a request record.
    parsed = Parsed(tails={"": None})
    others = request_block.parse_block(
        line_format, block.data, block.first_line_no, block.byte_offset, parsed.batch)
    if others is None:
        return None
    lines = block.data.count(b"\n") + (not block.data.endswith(b"\n"))
    parsed.batch.formats[REQUEST_LOG] = lines - len(others)
    last = block.byte_offset + block.data.rfind(b"\n", 0, len(block.data) - 1) + 1
    if not others or others[-1].byte_offset != last:
        parsed.recent.append(Seen(last, REQUEST_LOG, 0))
    return parse_lines(formats, others, parsed)


def parse_engine_block(formats: Sequence[LineFormat], block: Block) -> Parsed | None:
    """Rows of a block that is mostly an engine log in plain spelling; None if it is not.

    Engine and access lines are never continued, so what the compiled scan takes decides only that.
    """
    if b"\r" in block.data or not ENGINE_FORMATS <= {f.name for f in formats}:
        return None
    # The kernel is loaded by those who need it: it costs half a second.
    from ingest import bulk

    found = bulk.scan(block.data, block.byte_offset, block.first_line_no)
    if len(found.rest) * 2 > found.lines:
        return None
    data = block.data
    rest = [
        Line(data[start:end], line_no, block.byte_offset + start)
        for start, end, line_no in found.rest.tolist()
    ]
    parsed = Parsed()
    if found.lines and found.format_of(0):
        parsed.tails[""] = None
    parsed = parse_lines(formats, rest, parsed)
    if parsed.batch.formats.keys() - BULK_NEIGHBOURS:
        # Lines of formats that may be continued: the grammar has to see every line in order.
        return None
    parsed.batch.tables.extend(found.tables)
    for name, count in found.taken.items():
        parsed.batch.formats[name] = parsed.batch.formats.get(name, 0) + count
    _restore_order(parsed, found, block)
    return parsed


def _restore_order(parsed: Parsed, found: BulkResult, block: Block) -> None:
    """Put the lines that the scan took back among the block's last lines."""
    if found.lines and found.format_of(found.lines - 1):
        parsed.tails[""] = None
    first = max(0, found.lines - RECENT_LINES)
    seen = {entry.byte_offset: entry for entry in parsed.recent}
    for row in range(first, found.lines):
        if name := found.format_of(row):
            offset = block.byte_offset + int(found.starts[row])
            seen[offset] = Seen(offset, name, 0)
    parsed.recent.clear()
    parsed.recent.extend(seen[offset] for offset in sorted(seen))


def kept_lines(lines: Iterable[Line], block: Block) -> Iterable[Line]:
    """The lines without the blanks that stand for lines that were too long."""
    if not block.skipped:
        return lines
    blanks = {offset for _, offset, _ in block.skipped}
    return (line for line in lines if line.byte_offset not in blanks)


def reject_skipped(batch: Batch, block: Block) -> None:
    """Count the lines that were too long to be read."""
    for line_no, offset, _ in block.skipped:
        batch.rejects.append(Reject(line_no, offset, "", "line too long"))


def finish_rows(parsed: Parsed) -> BlockRows:
    """Turn collected rows into Arrow tables, leaving the counts in ``parsed``."""
    batch = parsed.batch
    tables = arrow_tables(batch)
    parsed.batch = Batch(formats=batch.formats, other_lines=batch.other_lines, lines=batch.lines)
    return BlockRows(parsed, tables, period_of(tables))


def arrow_tables(batch: Batch) -> list[tuple[str, pa.Table]]:
    """The batch's non-empty tables; a row with a value out of its column's range is a reject."""
    tables = list(batch.tables)
    for records in batch.deferred.values():
        tables.extend(records.tables(batch))
    batch.tables, batch.deferred = [], {}
    try:
        rest = list(batch.arrow())
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        for name, rows in batch.rows.items():
            batch.rows[name] = [row for row in rows if _fits(name, row, batch)]
        rest = list(batch.arrow())
    return [(name, table) for name, table in tables + rest if table.num_rows]


def _fits(table: str, row: dict[str, Any], batch: Batch) -> bool:
    try:
        rows_to_arrow(table, [row])
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        batch.rejects.append(Reject(row["line_no"], row["byte_offset"], "",
                                    f"value out of range for {table}", row["stream"]))
        return False
    return True


def claims_any(formats: Sequence[LineFormat], lines: Iterable[Line]) -> bool:
    """Whether a format knows at least one of the lines."""
    return any(parse_lines(formats, [line]).batch.formats for line in lines)


def period_of(tables: Iterable[tuple[str, pa.Table]]) -> Period:
    """The times that the rows carry, by clock."""
    period = Period()
    for name, table in tables:
        if name in TIMELESS_TABLES:
            continue
        own = LOCAL_CLOCK
        if name in UTC_TABLES:
            own = UTC_CLOCK
        elif name in EPOCH_TABLES:
            own = EPOCH_CLOCK
        columns = [("stamp_ns", own), ("outer_ns", COLLECTOR_CLOCK)]
        if name in EPOCH_TABLES:
            columns.append(("t_ns", EPOCH_CLOCK))
        for column, clock in columns:
            span = pc.min_max(table[column]).as_py()
            if span["min"] is not None:
                period.include(clock, span["min"], span["max"])
    return period
