"""Whose data a stale hand-off may have shown, without page ids: a weighed set, never one name.

Fallback model of leak-mechanisms.md, section 9 (A-source model, step 4): a page that request R gave
back is still R's when the recipient takes it with probability (1 - 1/F)^k, F pages in the pool, k
pages handed out since; of R's r remaining pages at least one is among the N that were taken with
probability 1 - (1 - N/F)^r. Requests that were certainly alive at the allocation, or ended after
it, are no candidates. Replay (a later step) narrows the set to epochs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa

import queries

# Candidates that are listed per recipient; the rest is one row with the remaining weight.
LISTED: Final = 50


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate source of one stale hand-off; ``source_use_id`` None is the remainder."""

    response_id: int
    source_use_id: int | None
    n_others: int
    weight: float
    pages: int | None


def candidates(
    con: duckdb.DuckDBPyConnection, recipients: list[dict[str, Any]]
) -> Iterator[Candidate]:
    """Yield the candidates of each stale recipient, heaviest first, then the remainder.

    ``recipients``: response_id, use_id, n_pages (of the pool), page_size.
    """
    if not recipients:
        return
    con.register("_incoming", pa.Table.from_pylist(recipients, schema=pa.schema([
        ("response_id", pa.int64()), ("use_id", pa.int64()), ("pool_pages", pa.int64()),
        ("page_size", pa.int64())])))
    con.execute("CREATE OR REPLACE TEMP TABLE stale_recipient AS SELECT * FROM _incoming")
    con.unregister("_incoming")
    for row in queries.rows(con, "stale_candidate", listed=LISTED):
        yield Candidate(row["response_id"], row["source_use_id"], row["n_others"],
                        row["weight"], row["pages"])
