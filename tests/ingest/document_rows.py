"""Runs a document format over bytes: its rows of one table, its rejects, its counts."""

from __future__ import annotations

from typing import Any

from request_dialects import lines_of

from ingest.records import DocumentFormat


def read(
    document: DocumentFormat, data: bytes, table: str, name: str = "file"
) -> tuple[list[dict[str, Any]], list[str], int]:
    """Return (rows of the table, reject reasons, other lines); no other table may appear."""
    rows: list[dict[str, Any]] = []
    rejects: list[str] = []
    other = 0
    for batch in document.parse(iter(lines_of(data)), name):
        for found, arrow in batch.arrow():
            assert found in (table, "reject")
            rows += arrow.to_pylist() if found == table else []
        rejects += [reject.reason for reject in batch.rejects]
        other += batch.other_lines
    return rows, rejects, other
