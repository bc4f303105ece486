"""One line -> the formats; and one block of lines -> rows, with what its neighbours must know.

A record that was wrapped over several physical lines is joined again. Blocks are parsed on their
own, so a block hands over its first unclaimed lines (``orphans``: they may belong to the block
before) and its last claimed line per stream (``tails``: the block after may go on with it);
``stitch`` joins the two. The rows do not depend on where the blocks were cut.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ingest.records import Batch, Line, LineFormat

# A record is at most 1 + MAX_JOINS physical lines: terminals and collectors wrap long lines, and
# no more than a handful of pieces has been seen.
MAX_JOINS: Final = 4
# A wrapped tail follows within so many physical lines of its file, other streams' lines included.
MAX_GAP_LINES: Final = 64
# The lines before a block's end that a continuation may read again: a record that is still open
# spans at most MAX_JOINS gaps and began within one more.
RECENT_LINES: Final = (MAX_GAP_LINES + 1) * (MAX_JOINS + 1)
# What a defective parser may raise on hostile text.
PARSER_FAULTS: Final = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError,
                        RecursionError)
# Longest joined line in bytes.
MAX_JOINED_BYTES: Final = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Tail:
    """The last claimed line of a stream: its (joined) text, who claimed it, where it ends.

    ``rejected``: it gave a reject so far, so that more of it may make a record. ``other``: how
    many other lines its format counted for it.
    """

    line: Line
    format: str
    last_line_no: int
    joins: int = 0
    rejected: bool = False
    other: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of one line: the ``format`` that claimed it ('' for none), other lines."""

    byte_offset: int
    format: str
    other: int


@dataclass(slots=True)
class Parsed:
    """One block's rows and its edges.

    ``tails`` has a key for every stream in which the block's own lines decide what comes next;
    None there means that nothing can continue. ``recent``: the last lines, to tell what a
    continuation will read again.
    """

    batch: Batch = field(default_factory=Batch)
    tails: dict[str, Tail | None] = field(default_factory=dict)
    orphans: dict[str, list[Line]] = field(default_factory=dict)
    recent: deque[Seen] = field(default_factory=lambda: deque(maxlen=RECENT_LINES))


def claim(formats: Sequence[LineFormat], line: Line, batch: Batch) -> LineFormat | None:
    """Parse a line with the first format that knows it; None if none does."""
    for line_format in formats:
        if line_format.parse(line, batch):
            return line_format
    return None


def parse_lines(
    formats: Sequence[LineFormat], lines: Iterable[Line], parsed: Parsed | None = None
) -> Parsed:
    """Parse the lines of one block; counts go to ``parsed.batch``, physical lines excepted."""
    parsed = Parsed() if parsed is None else parsed
    batch, tails, recent = parsed.batch, parsed.tails, parsed.recent
    counts = batch.formats
    by_name = {line_format.name: line_format for line_format in formats}
    for line in lines:
        if b"\0" in line.raw:
            batch.reject(line, "", "NUL byte in line")
            tails[line.stream] = None
            continue
        rejects, other = len(batch.rejects), batch.other_lines
        try:
            line_format = claim(formats, line, batch)
        except PARSER_FAULTS as error:
            # Hostile text must not stop a run; the reject makes the defect visible.
            remove_rows(batch, line)
            batch.other_lines = other
            batch.reject(line, "", f"its parser failed ({type(error).__name__})")
            tails[line.stream] = None
            continue
        if line_format is not None:
            name = line_format.name
            counts[name] = counts.get(name, 0) + 1
            other = batch.other_lines - other
            tails[line.stream] = Tail(
                line, name, line.line_no, 0, len(batch.rejects) > rejects, other)
            recent.append(Seen(line.byte_offset, name, other))
        elif line.stream in tails:
            tail = tails[line.stream]
            joined = tail and join(by_name, tail, line)
            if tail and joined:
                remove_rows(batch, tail.line)
                batch.other_lines -= tail.other
                tails[line.stream] = joined[0]
                merge(batch, joined[1])
            else:
                tails[line.stream] = None
                batch.other_lines += 1
                recent.append(Seen(line.byte_offset, "", 1))
        else:
            waiting = parsed.orphans.setdefault(line.stream, [])
            if len(waiting) < MAX_JOINS:
                waiting.append(line)
            else:
                tails[line.stream] = None
                batch.other_lines += 1
                recent.append(Seen(line.byte_offset, "", 1))
    return parsed


def join(
    by_name: dict[str, LineFormat], tail: Tail, line: Line
) -> tuple[Tail, Batch] | None:
    """Try ``line`` as a wrapped part of ``tail``: the longer tail and its rows, or None."""
    if tail.joins >= MAX_JOINS or line.line_no - tail.last_line_no > MAX_GAP_LINES:
        return None
    if len(tail.line.raw) + len(line.raw) > MAX_JOINED_BYTES:
        return None
    line_format = by_name.get(tail.format)
    if line_format is None or not _continues(line_format, tail.line, line):
        return None
    first = tail.line
    whole = Line(first.raw + line.raw, first.line_no, first.byte_offset, first.stream,
                 first.outer_ns)
    scratch = Batch()
    try:
        known = line_format.parse(whole, scratch)
    except PARSER_FAULTS:
        return None
    # Rows that come into being only later cannot be taken back for a longer line.
    if not known or scratch.deferred:
        return None
    rejected = bool(scratch.rejects)
    if rejected and not tail.rejected:
        # A record is not given up for a longer text that is none.
        return None
    longer = Tail(whole, tail.format, line.line_no, tail.joins + 1, rejected, scratch.other_lines)
    return longer, scratch


def _continues(line_format: LineFormat, previous: Line, line: Line) -> bool:
    try:
        return line_format.continues(previous, line)
    except PARSER_FAULTS:
        return False


def stitch(
    formats: Sequence[LineFormat], carried: dict[str, Tail], parsed: Parsed, last_line_no: int
) -> list[tuple[Line, Batch]]:
    """Resolve a block's orphans against the tails ``carried`` from the blocks before it.

    Updates ``carried`` to the state after the block whose last physical line is ``last_line_no``
    and counts the orphans that belong to nothing. Returns (line, rows) for each earlier line
    whose rows have to be replaced; only the last one per line counts.
    """
    by_name = {line_format.name: line_format for line_format in formats}
    replaced: dict[str, tuple[Line, Batch]] = {}
    for stream, lines in parsed.orphans.items():
        tail = carried.get(stream)
        for line in lines:
            joined = tail and join(by_name, tail, line)
            if tail and joined:
                parsed.batch.other_lines += joined[0].other - tail.other
                tail = joined[0]
                replaced[stream] = (tail.line, joined[1])
            else:
                tail = None
                parsed.batch.other_lines += 1
                if len(parsed.recent) < RECENT_LINES:
                    parsed.recent.appendleft(Seen(line.byte_offset, "", 1))
        if tail is None:
            carried.pop(stream, None)
        else:
            carried[stream] = tail
    for stream, own in parsed.tails.items():
        if own is None:
            carried.pop(stream, None)
        else:
            carried[stream] = own
    for stream in [s for s, t in carried.items()
                   if last_line_no - t.last_line_no >= MAX_GAP_LINES]:
        del carried[stream]
    return list(replaced.values())


def merge(batch: Batch, other: Batch) -> None:
    """Append the rows, rejects, tables and other lines of ``other``."""
    batch.other_lines += other.other_lines
    for table, rows in other.rows.items():
        batch.rows.setdefault(table, []).extend(rows)
    batch.rejects.extend(other.rejects)
    batch.tables.extend(other.tables)


def remove_rows(batch: Batch, line: Line) -> None:
    """Take back the rows and rejects that one recent line has put into the batch."""
    # Rows after the line's own start at most this many lines before it: a record spans at most
    # MAX_JOINS gaps.
    horizon = line.line_no - MAX_GAP_LINES * (MAX_JOINS + 1)
    for rows in batch.rows.values():
        for position in range(len(rows) - 1, -1, -1):
            row = rows[position]
            if row["line_no"] < horizon:
                break
            if row["byte_offset"] == line.byte_offset and row["stream"] == line.stream:
                del rows[position]
    rejects = batch.rejects
    for position in range(len(rejects) - 1, -1, -1):
        reject = rejects[position]
        if reject.line_no < horizon:
            break
        if reject.byte_offset == line.byte_offset and reject.stream == line.stream:
            del rejects[position]
