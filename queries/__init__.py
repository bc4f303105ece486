"""Named queries: one question per ``.sql`` file, found by its stem, run with bound parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from ingest.errors import QueryError

_DIRECTORY = Path(__file__).parent
_PARAMETER = re.compile(r"\$([a-z_][a-z0-9_]*)")
HEADER_KEYS = ("question", "inputs", "grain", "columns", "assumes", "misses")


def names() -> list[str]:
    """Return the stems of all named queries, sorted."""
    return sorted(path.stem for path in _DIRECTORY.glob("*.sql"))


@cache
def text(name: str) -> str:
    """Return the SQL text of a named query.

    Raises:
        QueryError: there is no such query.
    """
    if name not in names():
        raise QueryError(f"no query is called {name!r}")
    return (_DIRECTORY / f"{name}.sql").read_text(encoding="utf-8")


def body(name: str) -> str:
    """Return the statement of a named query without its header comment."""
    return "\n".join(
        line for line in text(name).splitlines() if not line.lstrip().startswith("--")
    ).strip().rstrip(";")


def run(con: duckdb.DuckDBPyConnection, name: str, **parameters: Any) -> None:
    """Store the answer of a named query as the table of the same name, replacing an older one.

    Raises:
        QueryError: the query does not exist or DuckDB refuses it.
    """
    _execute(con, name, f"CREATE OR REPLACE TABLE {name} AS {body(name)}", parameters)


def rows(
    con: duckdb.DuckDBPyConnection, name: str, **parameters: Any
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a named query as dictionaries, without storing them."""
    result = _execute(con, name, body(name), parameters)
    columns = [item[0] for item in result.description or []]
    while chunk := result.fetchmany(4096):
        for row in chunk:
            yield dict(zip(columns, row, strict=True))


def _execute(
    con: duckdb.DuckDBPyConnection, name: str, sql: str, parameters: dict[str, Any]
) -> duckdb.DuckDBPyConnection:
    used = set(_PARAMETER.findall(sql))
    try:
        return con.execute(sql, {key: value for key, value in parameters.items() if key in used})
    except duckdb.Error as error:
        raise QueryError(f"query {name} failed: {error}") from error
