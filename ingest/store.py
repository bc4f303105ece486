"""Writes to a case: evidence rows and fact rows, one transaction per batch of blocks.

A ``Pending`` collects what one transaction will hold; ``commit`` writes it whole or not at all.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from types import FrameType
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest import audit_log
from ingest.case import Case, restrict
from ingest.case_errors import case_errors
from ingest.records import TABLES
from ingest.schema import EVIDENCE

_VIEW: Final = "incoming"


@dataclass(slots=True)
class Evidence:
    """One row of table ``evidence``; the columns are described in ``ingest.schema``."""

    evidence_id: int
    name: str
    path: str
    member: str | None = None
    size_bytes: int | None = None
    compressed_bytes: int | None = None
    sha256: str | None = None
    digest_checkpoints: bytes | None = None
    head_sha256: str | None = None
    head_bytes: int | None = None
    format: str | None = None
    wrapper: str | None = None
    parser_version: str | None = None
    lines: int = 0
    records: int = 0
    rejects: int = 0
    other_lines: int = 0
    first_stamp_ns: int | None = None
    last_stamp_ns: int | None = None
    clock: str | None = None
    ingested_bytes: int = 0
    committed_offset: int = 0
    committed_line: int = 1
    committed_counts: str | None = None
    complete: bool = False
    current: bool = False
    duplicate_of: int | None = None
    version_of: int | None = None
    status: str = "ok"
    message: str = ""


_COLUMNS: Final = tuple(f.name for f in fields(Evidence))


@dataclass(slots=True)
class Pending:
    """What the next transaction writes.

    ``cuts``: evidence_id -> byte offset from which older rows go. ``amends``: single lines
    (evidence_id, stream, byte_offset) whose older rows go. ``notes``: (who, what, why) for the
    audit log.
    """

    cuts: dict[int, int] = field(default_factory=dict)
    amends: list[tuple[int, str, int]] = field(default_factory=list)
    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    evidence: dict[int, Evidence] = field(default_factory=dict)
    notes: list[tuple[str, str, str]] = field(default_factory=list)
    rows: int = 0

    def add(self, evidence_id: int, table: str, rows: pa.Table) -> None:
        """Append rows of one evidence file to a fact table."""
        ids = pa.array(np.full(rows.num_rows, evidence_id, dtype=np.int32))
        column = pa.field("evidence_id", pa.int32())
        self.tables.setdefault(table, []).append(rows.add_column(0, column, ids))
        self.rows += rows.num_rows

    def remove_line(self, evidence_id: int, stream: str, byte_offset: int) -> dict[str, int]:
        """Take back the rows of one line, here and in the case; returns rows taken per table.

        Rows that an earlier transaction holds are deleted by the next one and counted as 0 here.
        """
        taken: dict[str, int] = {}
        for name, parts in self.tables.items():
            for position, part in enumerate(parts):
                same = pc.and_(
                    pc.and_(pc.equal(part["evidence_id"], evidence_id),
                            pc.equal(part["byte_offset"], byte_offset)),
                    pc.equal(part["stream"], stream),
                )
                kept = part.filter(pc.invert(pc.fill_null(same, False)))
                gone = part.num_rows - kept.num_rows
                if gone:
                    parts[position] = kept
                    taken[name] = taken.get(name, 0) + gone
                    self.rows -= gone
        if not taken:
            self.amends.append((evidence_id, stream, byte_offset))
        return taken

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.cuts or self.amends or self.tables or self.evidence or self.notes)


def load_evidence(case: Case) -> list[Evidence]:
    """All evidence rows by id."""
    columns = ", ".join(f'"{name}"' for name in _COLUMNS)
    rows = case.con.execute(f"SELECT {columns} FROM evidence ORDER BY evidence_id").fetchall()
    return [Evidence(*row) for row in rows]


def commit(case: Case, pending: Pending) -> None:
    """Write ``pending`` in one transaction and empty it; on an error nothing is written.

    Raises DiskFull or another CaseError; ``pending`` is then unchanged and may be tried again.
    """
    if pending.empty:
        return
    con = case.con
    with interrupts_deferred(), case_errors(case.root):
        con.execute("BEGIN")
        try:
            _delete(case, pending)
            for name, parts in pending.tables.items():
                _insert(case, name, pa.concat_tables(parts))
            if pending.evidence:
                _write_evidence(case, list(pending.evidence.values()))
            audit_log.stage(case, pending.notes)
            con.execute("COMMIT")
        except BaseException:
            _rollback(case)
            raise
        pending.cuts, pending.amends, pending.tables = {}, [], {}
        pending.evidence, pending.notes, pending.rows = {}, [], 0
        audit_log.publish(case)
        restrict(case.root / f"{case.database.name}.wal")


def count_from(case: Case, evidence_id: int, offset: int) -> dict[str, int]:
    """Rows per fact table of one evidence file at or after a byte offset."""
    counts = {}
    for table in TABLES:
        row = case.con.execute(
            f'SELECT count(*) FROM "{table}" WHERE evidence_id = ? AND byte_offset >= ?',
            [evidence_id, offset],
        ).fetchone()
        if row and row[0]:
            counts[table] = int(row[0])
    return counts


def count_line(case: Case, evidence_id: int, stream: str, byte_offset: int) -> dict[str, int]:
    """Rows per fact table that one line of one evidence file has in the case."""
    counts = {}
    for table in TABLES:
        row = case.con.execute(
            f'SELECT count(*) FROM "{table}" WHERE evidence_id = ? AND byte_offset = ? '
            "AND stream = ?", [evidence_id, byte_offset, stream],
        ).fetchone()
        if row and row[0]:
            counts[table] = int(row[0])
    return counts


def is_contained(case: Case, inner: int, outer: int, before: int) -> bool:
    """Whether every row of ``inner`` before a byte offset stands at the same place in ``outer``.

    False when ``inner`` has no such rows: nothing would prove the likeness.
    """
    seen = 0
    for table in TABLES:
        row = case.con.execute(
            f'SELECT count(*), (SELECT count(*) FROM ('
            f'SELECT * EXCLUDE (evidence_id) FROM "{table}" '
            f"WHERE evidence_id = $inner AND byte_offset < $before "
            f'EXCEPT ALL SELECT * EXCLUDE (evidence_id) FROM "{table}" '
            f"WHERE evidence_id = $outer)) "
            f'FROM "{table}" WHERE evidence_id = $inner AND byte_offset < $before',
            {"inner": inner, "outer": outer, "before": before},
        ).fetchone()
        if row is None or row[1]:
            return False
        seen += row[0]
    return seen > 0


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Hold back Ctrl-C until the block is over, so that a commit is never half known."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.getsignal(signal.SIGINT)
    if isinstance(previous, _Deferred):
        yield
        return
    deferred = _Deferred()
    signal.signal(signal.SIGINT, deferred)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if deferred.caught:
        raise KeyboardInterrupt


@dataclass(slots=True)
class _Deferred:
    """A SIGINT handler that only remembers."""

    caught: bool = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        self.caught = True


def _delete(case: Case, pending: Pending) -> None:
    for evidence_id, offset in pending.cuts.items():
        for table in TABLES:
            case.con.execute(
                f'DELETE FROM "{table}" WHERE evidence_id = ? AND byte_offset >= ?',
                [evidence_id, offset],
            )
    for evidence_id, stream, offset in pending.amends:
        for table in TABLES:
            case.con.execute(
                f'DELETE FROM "{table}" WHERE evidence_id = ? AND byte_offset = ? '
                "AND stream = ?", [evidence_id, offset, stream],
            )


def _insert(case: Case, table: str, rows: pa.Table) -> None:
    case.con.register(_VIEW, rows)
    try:
        case.con.execute(f'INSERT INTO "{table}" BY NAME SELECT * FROM {_VIEW}')
    finally:
        case.con.unregister(_VIEW)


def _write_evidence(case: Case, changed: list[Evidence]) -> None:
    ids = [evidence.evidence_id for evidence in changed]
    case.con.execute("DELETE FROM evidence WHERE evidence_id IN (SELECT unnest(?::INTEGER[]))",
                     [ids])
    columns: list[Any] = [
        pa.array([getattr(evidence, name) for evidence in changed], type=EVIDENCE.field(name).type)
        for name in _COLUMNS
    ]
    _insert(case, "evidence", pa.Table.from_arrays(columns, schema=EVIDENCE))


def _rollback(case: Case) -> None:
    # The failed statement may already have ended the transaction, or invalidated the database.
    with suppress(duckdb.Error):
        case.con.execute("ROLLBACK")
