"""The tables of a case as DuckDB DDL: the raw fact tables, ``evidence``, ``case_meta``, audit.

Every raw fact table is the schema of ``records.TABLES`` behind a leading ``evidence_id``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from ingest.records import TABLES

# Raised whenever a table of an existing case would look different.
SCHEMA_VERSION: Final = 1
APPLICATION: Final = "palimpsest"
# Version of the program that writes the case; results carry it, never a wall clock.
PROGRAM_VERSION: Final = "0.1.0"

_DUCKDB_TYPES: Final = {
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.int64(): "BIGINT",
    pa.int32(): "INTEGER",
    pa.int16(): "SMALLINT",
    pa.uint64(): "UBIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
}

# One row per file that was given, and one per earlier version of a file.
#   path              as given on the command line; archive members carry ``member``
#   size_bytes        decompressed size seen so far; compressed_bytes is NULL for plain files
#   sha256            of the first ``ingested_bytes`` decompressed bytes
#   digest_checkpoints  digests of growing prefixes, see ``ingest.blocks``
#   head_sha256       of the first ``head_bytes`` (at most 256): finds files of one beginning
#   committed_offset  where a continuation parses from: start of the last line that later bytes
#                     could still change; committed_line is its 1-based number
#   committed_counts  JSON: lines per format, other lines and reading rejects before that offset
#   current           facts use only rows of current evidence
#   duplicate_of      evidence that holds the same bytes (or these bytes and more)
#   version_of        evidence that the same path held before
#   status            'ok' | 'unrecognised' | 'unreadable' | 'damaged' | 'duplicate' |
#                     'truncated' | 'superseded' | 'interrupted'
EVIDENCE: Final = pa.schema([
    ("evidence_id", pa.int32()),
    ("name", pa.string()),
    ("path", pa.string()),
    ("member", pa.string()),
    ("size_bytes", pa.int64()),
    ("compressed_bytes", pa.int64()),
    ("sha256", pa.string()),
    ("digest_checkpoints", pa.binary()),
    ("head_sha256", pa.string()),
    ("head_bytes", pa.int32()),
    ("format", pa.string()),
    ("wrapper", pa.string()),
    ("parser_version", pa.string()),
    ("lines", pa.int64()),
    ("records", pa.int64()),
    ("rejects", pa.int64()),
    ("other_lines", pa.int64()),
    ("first_stamp_ns", pa.int64()),
    ("last_stamp_ns", pa.int64()),
    ("clock", pa.string()),
    ("ingested_bytes", pa.int64()),
    ("committed_offset", pa.int64()),
    ("committed_line", pa.int64()),
    ("committed_counts", pa.string()),
    ("complete", pa.bool_()),
    ("current", pa.bool_()),
    ("duplicate_of", pa.int32()),
    ("version_of", pa.int32()),
    ("status", pa.string()),
    ("message", pa.string()),
])

AUDIT: Final = pa.schema([
    ("seq", pa.int64()),
    ("at", pa.string()),
    ("who", pa.string()),
    ("what", pa.string()),
    ("why", pa.string()),
    ("prev", pa.string()),
    ("hash", pa.string()),
])

# Clocks of the manifest: zone of a file's stamps. A collector's own stamps are named only where
# the lines behind them carry none.
LOCAL_CLOCK: Final = "local, zone unknown"
UTC_CLOCK: Final = "utc"
EPOCH_CLOCK: Final = "epoch"
COLLECTOR_CLOCK: Final = "collector, utc"
ZONED_CLOCKS: Final = frozenset({UTC_CLOCK, EPOCH_CLOCK, COLLECTOR_CLOCK})
# Between the clocks of a file that has several.
CLOCK_SEPARATOR: Final = "; "

# Tables whose stamps say UTC, and tables whose time is epoch nanoseconds; the stamps of all
# others are local time of a zone that the source does not print.
UTC_TABLES: Final = frozenset({"router_event"})
EPOCH_TABLES: Final = frozenset({"metric", "page_event"})
# Tables that carry no time of their own worth a file's first and last.
TIMELESS_TABLES: Final = frozenset({"account_key", "config_entry", "reject"})


def stored_schema(table: str) -> pa.Schema:
    """Schema of a raw fact table as stored: ``evidence_id`` and the columns of the contract."""
    return TABLES[table].insert(0, pa.field("evidence_id", pa.int32()))


def create_statements() -> Iterator[str]:
    """Yield the statements that create every table of an empty case."""
    for table in TABLES:
        yield _create(table, stored_schema(table))
    yield _create("evidence", EVIDENCE)
    yield _create("audit_log", AUDIT)
    yield "CREATE TABLE case_meta (key VARCHAR NOT NULL, value VARCHAR NOT NULL)"


def _create(table: str, schema: pa.Schema) -> str:
    columns = ", ".join(f'"{f.name}" {_DUCKDB_TYPES[f.type]}' for f in schema)
    return f'CREATE TABLE "{table}" ({columns})'
