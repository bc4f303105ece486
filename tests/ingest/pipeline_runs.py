"""Runs of the pipeline on toy formats, and what they leave in the case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toy_formats import TOYS

from ingest import source_run
from ingest.case import open_case
from ingest.pipeline import IngestResult, ingest
from ingest.records import TABLES
from ingest.registry import Registry

REPOSITORY = Path(source_run.__file__).parents[1]
LOG = (
    "noise\n[1] a 5\n[2] b \n  c 7\nGET /x 200\n[bad\n  tail\n\n[3] d 1\n  lost\nx\0y\n"
    "  after nul\n[4] e 9\n"
)


def run(case: Path, *given: Path, formats: Registry = TOYS, **options: Any) -> IngestResult:
    return ingest([str(path) for path in given], case, formats=formats, workers=1, **options)


def facts(case: Path, *, current: bool = True) -> list[tuple[Any, ...]]:
    """Every fact row of the case, without ids, in a fixed order."""
    rows: list[tuple[Any, ...]] = []
    where = "WHERE e.current" if current else ""
    with open_case(case, read_only=True) as opened:
        for table in TABLES:
            found = opened.con.execute(
                f"SELECT t.* EXCLUDE (evidence_id) FROM {table} t "
                f"JOIN evidence e USING (evidence_id) {where}").fetchall()
            rows += [(table, *row) for row in found]
    return sorted(rows, key=repr)


def evidence(case: Path, columns: str) -> list[tuple[Any, ...]]:
    with open_case(case, read_only=True) as opened:
        return opened.con.execute(
            f"SELECT {columns} FROM evidence ORDER BY evidence_id").fetchall()


def dump(case: Path) -> list[Any]:
    """Everything but the audit log, in stored order."""
    with open_case(case, read_only=True) as opened:
        return [opened.con.execute(f"SELECT * FROM {table}").fetchall()
                for table in (*TABLES, "case_meta")] + [
            opened.con.execute("SELECT * FROM evidence ORDER BY evidence_id").fetchall()]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def log(start: int, count: int, rid: str = "r") -> str:
    return "".join(f"[{n}] {rid}{n} {n * 3}\n" for n in range(start, start + count))
