"""One block of a line file -> Arrow rows and the edges its neighbours need; runs in any process.

Lines in the engine's own spelling go through ``ingest.bulk``; all others, and everything in small
or wrapped files, through the line formats.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.blocks import Block, count_lines
from ingest.dispatch import Parsed, Seen, parse_lines
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
# A block of request records shows one in its first bytes.
REQUEST_LOG_HEAD: Final = b'{"timestamp": "'
# Formats whose plain spelling the compiled scan knows.
ENGINE_FORMATS: Final = frozenset({"engine_log", "uvicorn_access"})
# Bytes that are taken out of a line before a format sees it, or that make it a reject.
UNCLEAN: Final = (b"\x1b", b"\r", b"\0")
# Smaller blocks are not worth loading the compiled scan for.
BULK_BYTES: Final = 4 << 20
# The same where it is loaded already.
LOADED_BULK_BYTES: Final = 64 << 10
KERNEL: Final = "ingest.bulk.kernel"
# A block's nature is told by this much of it, and it is the scan's if so many lines are.
_SAMPLE_BYTES: Final = 64 << 10
_SCANNED_SHARE: Final = 0.9


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
    parsed = None
    if holds_requests(block):
        parsed = parse_request_block(formats, block)
    if parsed is None and not block.skipped and _is_worth_a_scan(block):
        parsed = parse_engine_block(formats, block)
    if parsed is None:
        parsed = parse_lines(formats, kept_lines(detect_wrapper(b"").peel(block), block))
    reject_skipped(parsed.batch, block)
    return finish_rows(parsed)


def holds_requests(block: Block) -> bool:
    """Whether a block looks like JSON request records from its first line on."""
    return not block.skipped and REQUEST_LOG_HEAD in block.data[:64]


def is_scanned(block: Block) -> bool:
    """Whether the compiled scan takes nearly all of a block's lines, by a sample from its middle.

    Such a block hardly needs the interpreter: threads can share the work.
    """
    if block.skipped or holds_requests(block) or not _is_worth_a_scan(block):
        return False
    from ingest import bulk

    middle = max(0, (len(block.data) - _SAMPLE_BYTES) // 2)
    sample = block.data[middle : middle + _SAMPLE_BYTES]
    sample = sample[sample.find(b"\n") + 1 : sample.rfind(b"\n") + 1]
    found = bulk.scan(sample, 0, 1)
    return found.lines > 0 and len(found.rest) <= (1 - _SCANNED_SHARE) * found.lines


def parse_peeled(formats: Sequence[LineFormat], lines: Iterable[Line], block: Block) -> BlockRows:
    """Rows of lines that are already out of their wrapper; ``block`` tells what was skipped."""
    parsed = parse_lines(formats, kept_lines(lines, block))
    reject_skipped(parsed.batch, block)
    return finish_rows(parsed)


def parse_request_block(formats: Sequence[LineFormat], block: Block) -> Parsed | None:
    """Rows of a block that holds nothing but JSON request records; None if it does not."""
    line_format = next((f for f in formats if f.name == REQUEST_LOG), None)
    if line_format is None or b"\x1b" in block.data or b"\0" in block.data:
        return None
    # Nothing goes on with a request record.
    parsed = Parsed(tails={"": None})
    others = request_block.parse_block(
        line_format, block.data, block.first_line_no, block.byte_offset, parsed.batch)
    if others is None:
        return None
    lines = count_lines(block.data) + (not block.data.endswith(b"\n"))
    parsed.batch.formats[REQUEST_LOG] = lines - len(others)
    last = block.byte_offset + block.data.rfind(b"\n", 0, len(block.data) - 1) + 1
    if not others or others[-1].byte_offset != last:
        parsed.recent.append(Seen(last, REQUEST_LOG, 0))
    return parse_lines(formats, others, parsed)


def parse_engine_block(formats: Sequence[LineFormat], block: Block) -> Parsed | None:
    """Rows of a block by the compiled scan, and by the formats for what it leaves.

    None if the scan has taken a line that would be cleaned first. Engine and access lines are
    never continued, so a line that the scan takes only ends what stands before it.
    """
    if not ENGINE_FORMATS.issubset(f.name for f in formats):
        return None
    # The kernel is loaded by those who need it: it costs half a second.
    from ingest import bulk

    found = bulk.scan(block.data, block.byte_offset, block.first_line_no)
    if any(_takes_byte(block.data, found, code) for code in UNCLEAN):
        return None
    parsed = Parsed()
    parsed.batch.tables.extend(found.tables)
    parsed.batch.formats.update(found.taken)
    wrapper = detect_wrapper(b"")
    for first, last in _runs(found.rest[:, 2]):
        start, line_no = int(found.rest[first, 0]), int(found.rest[first, 2])
        if line_no > block.first_line_no:
            parsed.tails[""] = None
        # With the line end, so that the run's lines are split and cleaned like any others.
        text = block.data[start : int(found.rest[last, 1]) + 1]
        parse_lines(
            formats, wrapper.peel(Block(text, block.byte_offset + start, line_no)), parsed)
    if found.lines and (name := found.format_of(found.lines - 1)):
        parsed.tails[""] = None
        parsed.recent.append(Seen(block.byte_offset + int(found.starts[-1]), name, 0))
    return parsed


def _is_worth_a_scan(block: Block) -> bool:
    """Whether the scan is faster, its start-up included; the rows are the same either way."""
    least = BULK_BYTES if KERNEL not in sys.modules else LOADED_BULK_BYTES
    return len(block.data) >= least


def _takes_byte(data: bytes, found: BulkResult, code: bytes) -> bool:
    """Whether a line that holds this byte was taken as it stands."""
    if code not in data:
        return False
    places = np.flatnonzero(np.frombuffer(data, np.uint8) == code[0])
    rows = np.searchsorted(found.starts, places, side="right") - 1
    return bool(found.kinds[rows].any())


def _runs(numbers: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """First and last index of each run of consecutive numbers."""
    if len(numbers):
        breaks = np.flatnonzero(np.diff(numbers) != 1)
        firsts = np.concatenate(([0], breaks + 1)).tolist()
        lasts = np.concatenate((breaks, [len(numbers) - 1])).tolist()
        yield from zip(firsts, lasts, strict=True)


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
    return _in_line_order([(name, table) for name, table in tables if table.num_rows],
                          [(name, table) for name, table in rest if table.num_rows])


def _in_line_order(
    ready: list[tuple[str, pa.Table]], built: list[tuple[str, pa.Table]]
) -> list[tuple[str, pa.Table]]:
    """Both lists as one; a table that is in both has its rows in the order of lines.

    Where a block was cut, or which of its lines were parsed at once, must not show in the rows.
    """
    both = {name for name, _ in ready} & {name for name, _ in built}
    joined = [(name, table) for name, table in ready + built if name not in both]
    for name in sorted(both):
        whole = pa.concat_tables([table for own, table in ready + built if own == name])
        order = pc.sort_indices(whole, sort_keys=[("line_no", "ascending")])
        joined.append((name, whole.take(order)))
    return joined


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
