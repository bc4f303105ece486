"""One line file on its way into the case: block results in order, edges joined, progress kept.

The progress that is committed with the rows is enough to go on after a kill or when the file has
grown: where to parse from, and what had been counted before that place.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from ingest.block_rows import BlockRows, Period, period_of
from ingest.case import Case
from ingest.dispatch import RECENT_LINES, Seen, Tail, stitch
from ingest.records import LineFormat, to_json
from ingest.schema import CLOCK_SEPARATOR
from ingest.store import Evidence, Pending, count_from, count_line


@dataclass(frozen=True, slots=True)
class BlockEnd:
    """The state of reading after a block.

    ``hashed_bytes`` and ``sha256`` belong together and may lie beyond the block.
    ``safe_offset`` / ``safe_line``: end of the last line that is complete in itself.
    """

    last_line_no: int
    safe_offset: int
    safe_line: int
    hashed_bytes: int
    sha256: str
    checkpoints: bytes


@dataclass(slots=True)
class FileRun:
    """Rows and counts of one line file; ``evidence`` is brought up to date by ``checkpoint``."""

    case: Case
    pending: Pending
    evidence: Evidence
    formats: tuple[LineFormat, ...]
    counts: Counter[str] = field(default_factory=Counter)
    other: int = 0
    period: Period = field(default_factory=Period)
    carried: dict[str, Tail] = field(default_factory=dict)
    recent: deque[Seen] = field(default_factory=lambda: deque(maxlen=RECENT_LINES))
    end: BlockEnd | None = None

    def restart(self, *, from_zero: bool) -> None:
        """Go on where the evidence was committed, or anew; what lies behind that is taken back."""
        row = self.evidence
        if from_zero:
            row.committed_offset, row.committed_line, row.committed_counts = 0, 1, None
            row.first_stamp_ns = row.last_stamp_ns = row.clock = None
        gone = count_from(self.case, row.evidence_id, row.committed_offset)
        if gone:
            self.pending.cuts[row.evidence_id] = row.committed_offset
        row.rejects -= gone.pop("reject", 0)
        row.records -= sum(gone.values())
        before = json.loads(row.committed_counts) if row.committed_counts else {}
        self.counts = Counter(before.get("formats", {}))
        self.other = before.get("other", 0)
        if row.clock and row.first_stamp_ns is not None and row.last_stamp_ns is not None:
            for clock in row.clock.split(CLOCK_SEPARATOR):
                self.period.include(clock, row.first_stamp_ns, row.last_stamp_ns)
        row.complete = False

    def deliver(self, rows: BlockRows, end: BlockEnd) -> None:
        """Take the next block's result."""
        parsed = rows.parsed
        for line, replacement in stitch(self.formats, self.carried, parsed, end.last_line_no):
            self._take_back(line.stream, line.byte_offset)
            self.add(replacement.arrow())
        self.add(rows.tables)
        self.counts.update(parsed.batch.formats)
        self.other += parsed.batch.other_lines
        self.recent.extend(parsed.recent)
        self.end = end

    def add(self, tables: Iterable[tuple[str, pa.Table]]) -> None:
        """Append rows and count them."""
        tables = list(tables)
        for name, table in tables:
            self.pending.add(self.evidence.evidence_id, name, table)
            if name == "reject":
                self.evidence.rejects += table.num_rows
            else:
                self.evidence.records += table.num_rows
        self.period.add(period_of(tables))

    def checkpoint(self) -> None:
        """Write counts and progress into the evidence row, for the next transaction."""
        row, end = self.evidence, self.end
        self.pending.evidence[row.evidence_id] = row
        row.other_lines = self.other
        row.format = ",".join(
            name for name, _ in sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        ) or None
        row.clock = self.period.clock
        row.first_stamp_ns, row.last_stamp_ns = self.period.bounds
        if end is None:
            return
        row.lines = end.last_line_no
        row.ingested_bytes = row.size_bytes = end.hashed_bytes
        row.sha256, row.digest_checkpoints = end.sha256, end.checkpoints
        row.committed_offset, row.committed_line = min(
            [(end.safe_offset, end.safe_line)]
            + [(tail.line.byte_offset, tail.line.line_no) for tail in self.carried.values()]
        )
        before, other = Counter(self.counts), self.other
        for seen in self.recent:
            if seen.byte_offset >= row.committed_offset:
                before[seen.format] -= 1
                other -= seen.other
        if row.committed_offset == 0:
            row.committed_counts = None
        else:
            row.committed_counts = to_json({"formats": +before, "other": other})

    def _take_back(self, stream: str, byte_offset: int) -> None:
        row = self.evidence
        taken = self.pending.remove_line(row.evidence_id, stream, byte_offset)
        taken = taken or count_line(self.case, row.evidence_id, stream, byte_offset)
        row.rejects -= taken.pop("reject", 0)
        row.records -= sum(taken.values())
