"""The state of one ingest run: what is pending, what was counted, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ingest.case import Case
from ingest.file_run import FileRun
from ingest.limits import Limits
from ingest.lineage import Lineage
from ingest.registry import Registry
from ingest.sources import Source
from ingest.store import Pending, commit
from ingest.workers import Lane

# One transaction holds about this much text, or this many small files or rows. DuckDB stores rows
# in groups of 122,880 and writes a group that a transaction leaves unfilled twice: per row, this
# costs a quarter less than transactions of 64 MiB, at some 150 MB of rows in memory.
_BATCH_BYTES: Final = 192 * 2**20
_BATCH_FILES: Final = 500
_BATCH_ROWS: Final = 900_000
# Progress is reported at most this often, in seconds.
_REPORT_EVERY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: bytes of the given files as they lie on disk, and bytes per second."""

    name: str
    bytes_done: int
    bytes_total: int
    bytes_per_s: float
    records: int


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What one run did. ``files`` is the number of files met; each is counted under one outcome.

    ``records``, ``rejects``: rows added; ``bytes``: decompressed bytes read.
    ``recognised``: files whose content is of a known format, whether new or on record.
    """

    files: int = 0
    new: int = 0
    continued: int = 0
    unchanged: int = 0
    duplicates: int = 0
    unreadable: int = 0
    unrecognised: int = 0
    damaged: int = 0
    recognised: int = 0
    records: int = 0
    rejects: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Tally:
    """Counts of a run while it goes on; the fields of ``IngestResult``."""

    files: int = 0
    new: int = 0
    continued: int = 0
    unchanged: int = 0
    duplicates: int = 0
    unreadable: int = 0
    unrecognised: int = 0
    damaged: int = 0
    recognised: int = 0
    records: int = 0
    rejects: int = 0
    bytes: int = 0

    def result(self) -> IngestResult:
        """The counts, frozen."""
        return IngestResult(**{name: getattr(self, name) for name in self.__slots__})


@dataclass(slots=True)
class Meter:
    """Calls the progress callback, not too often."""

    total: int
    report: Callable[[Progress], None] | None
    done: int = 0
    started: float = field(default_factory=time.monotonic)
    reported: float = 0.0
    # The file on disk that was counted last, and how much of it.
    path: str = ""
    counted: int = 0

    def finish(self, name: str, source: Source, records: int) -> None:
        """Note that a file, or the next member of an archive, is done."""
        path = str(source.path)
        left = source.size - self.counted if path == self.path else source.size
        self.path, self.counted = path, source.size
        self._advance(name, max(left, 0), records)

    def read(self, name: str, source: Source, count: int, records: int) -> None:
        """Note ``count`` more bytes read of a plain file."""
        path = str(source.path)
        if path != self.path:
            self.path, self.counted = path, 0
        count = min(count, max(source.size - self.counted, 0))
        self.counted += count
        self._advance(name, count, records)

    def _advance(self, name: str, count: int, records: int) -> None:
        self.done += count
        if self.report is None:
            return
        now = time.monotonic()
        if now - self.reported >= _REPORT_EVERY_S:
            self.reported = now
            rate = self.done / max(now - self.started, 1e-6)
            self.report(Progress(name, self.done, max(self.total, self.done), rate, records))


@dataclass(slots=True)
class Session:
    """One run of ``pipeline.ingest``."""

    case: Case
    limits: Limits
    formats: Registry
    lane: Lane
    pending: Pending
    lineage: Lineage
    actor: str
    copy_evidence: bool
    meter: Meter
    tally: Tally = field(default_factory=Tally)
    looked_at: list[str] = field(default_factory=list)
    # The file whose rows were delivered last and that is not finished.
    active: FileRun | None = None
    batch_bytes: int = 0
    batch_files: int = 0

    def note(self, what: str, why: str = "") -> None:
        """Add an entry to the audit log with the next transaction."""
        self.pending.notes.append((self.actor, what, why))

    def flush(self) -> None:
        """Commit what is pending, the active file's progress included."""
        if self.active is not None:
            self.active.checkpoint()
            row = self.active.evidence
            self.note(f"ingest part of evidence {row.evidence_id}",
                      f"{row.name}: up to byte {row.committed_offset}")
        commit(self.case, self.pending)
        self.batch_bytes = self.batch_files = 0

    def flush_if_full(self) -> None:
        """Commit when a batch is whole."""
        if (self.batch_bytes >= _BATCH_BYTES or self.batch_files >= _BATCH_FILES
                or self.pending.rows >= _BATCH_ROWS):
            self.flush()

    def interrupt(self) -> None:
        """Commit what is whole and mark the file that is not."""
        self.lane.waiting.clear()
        if self.active is not None:
            self.active.evidence.status = "interrupted"
        self.flush()
