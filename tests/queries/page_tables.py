"""Page traces from Python dictionaries through the real parser into the tables of the queries."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import duckdb
import pyarrow as pa

import queries
from ingest.formats.page_trace import DOCUMENT_FORMATS
from ingest.records import Line
from ingest.schema import stored_schema

# Each reads the ones before it.
ORDER = ("page_stretch", "page_ownership", "page_request", "page_extent", "page_write",
         "page_suspect", "page_stale", "page_late_write")


def header(role: str, **more: Any) -> dict[str, Any]:
    """The first line of a trace; decode listens at session 'd', prefill at 'p'."""
    return {"schema": "kv-page-trace/1", "host": role, "role": role, "dp_rank": 0, "tp_rank": 0,
            "page_size": 1, "num_pages": 64, "session": role[0], "start_ts_ns": 1, **more}


def load(*traces: Iterable[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    """A database with the raw tables; each trace is one file, the first with id 1."""
    con = duckdb.connect()
    con.execute('CREATE TABLE evidence (evidence_id INTEGER, "current" BOOLEAN)')
    tables: dict[str, list[pa.Table]] = {"page_event": [], "reject": []}
    for number, trace in enumerate(traces, 1):
        con.execute("INSERT INTO evidence VALUES (?, true)", [number])
        lines, offset = [], 0
        for line_no, event in enumerate(trace, 1):
            raw = json.dumps(event, separators=(",", ":")).encode()
            lines.append(Line(raw, line_no, offset))
            offset += len(raw) + 1
        for batch in DOCUMENT_FORMATS[0].parse(iter(lines), "trace"):
            for name, table in batch.arrow():
                ids = pa.array([number] * table.num_rows, pa.int32())
                tables[name].append(table.add_column(0, "evidence_id", ids))
    for name, parts in tables.items():
        schema = stored_schema(name)
        con.register("incoming", pa.concat_tables(parts) if parts else schema.empty_table())
        con.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        con.unregister("incoming")
    return con


def answer(*traces: Iterable[dict[str, Any]], slack_ns: int = 0) -> duckdb.DuckDBPyConnection:
    """The raw tables and the answers of all page queries."""
    con = load(*traces)
    for name in ORDER:
        queries.run(con, name, slack_ns=slack_ns)
    return con


def fetch(con: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    """All rows of a query, sorted."""
    return sorted(con.execute(sql).fetchall(), key=repr)
