"""Who may have been exposed to whom: the table ``exposure``, and each response's role as source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa

from forensics import sources
from forensics.fleet import Fleet
from forensics.tiers import LATE_WRITE, STALE_HANDOFF, TRUNCATED_HANDOFF, Tier, highest

_SCHEMA: Final = pa.schema([
    ("response_id", pa.int64()), ("source_use_id", pa.int64()), ("mechanism", pa.string()),
    ("tier", pa.string()), ("probability", pa.float64()), ("pages", pa.int64()),
    ("tokens", pa.int64()), ("extents", pa.string()), ("code", pa.string()),
    ("note", pa.string()), ("n_others", pa.int64())])
# Triggers that are listed per recipient; the others are one row with the remaining mass.
_LISTED: Final = 50


@dataclass(frozen=True, slots=True)
class SourceRole:
    """What a response's own data may have suffered as a source."""

    tier: Tier
    probability: float | None


def build(
    con: duckdb.DuckDBPyConnection, fleet: Fleet, exposed: list[dict[str, Any]],
    traced: Iterable[dict[str, Any]] = (),
) -> None:
    """Fill the table ``exposure`` for every exposed response.

    ``exposed``: response_id, use_id, worker_id, epoch, mechanism, tier, probability of each
    non-excluded mechanism; ``traced``: rows that page traces name outright.
    """
    rows = [*traced]
    named = {(row["response_id"], row["mechanism"]) for row in rows}
    open_rows = [e for e in exposed if (e["response_id"], e["mechanism"]) not in named]
    rows.extend(_stale(con, fleet, open_rows))
    rows.extend(_late(con, open_rows))
    con.register("_incoming", pa.Table.from_pylist(rows, schema=_SCHEMA))
    con.execute("CREATE OR REPLACE TABLE exposure AS SELECT * FROM _incoming")
    con.unregister("_incoming")


def _stale(
    con: duckdb.DuckDBPyConnection, fleet: Fleet, exposed: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    stale = [e for e in exposed if e["mechanism"] in (STALE_HANDOFF, TRUNCATED_HANDOFF)]
    by_response = {e["response_id"]: e for e in stale}
    recipients = []
    for entry in by_response.values():
        epoch = fleet.of(entry["worker_id"], entry["epoch"])
        tokens = min((p.tokens for p in epoch.pools if p.tokens), default=None) if epoch else None
        if entry["use_id"] is not None and epoch and epoch.page_size and tokens:
            recipients.append({
                "response_id": entry["response_id"], "use_id": entry["use_id"],
                "pool_pages": tokens // epoch.page_size, "page_size": epoch.page_size})
    listed = set()
    for found in sources.candidates(con, recipients):
        entry = by_response[found.response_id]
        listed.add(found.response_id)
        yield {
            "response_id": found.response_id, "source_use_id": found.source_use_id,
            "mechanism": entry["mechanism"], "tier": Tier.POSSIBLE.value,
            "probability": (entry["probability"] or 0.0) * found.weight, "pages": found.pages,
            "tokens": None, "extents": None,
            "code": "source_in_pool" if found.source_use_id is not None else "source_remainder",
            "note": None, "n_others": found.n_others}
    for response_id, entry in by_response.items():
        if response_id not in listed:
            yield {
                "response_id": response_id, "source_use_id": None,
                "mechanism": entry["mechanism"], "tier": Tier.POSSIBLE.value,
                "probability": entry["probability"], "pages": None, "tokens": None,
                "extents": None, "code": "source_unlisted", "note": None, "n_others": None}


def _late(
    con: duckdb.DuckDBPyConnection, exposed: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    late = {e["use_id"]: e for e in exposed
            if e["mechanism"] == LATE_WRITE and e["use_id"] is not None}
    if not late:
        return
    con.register("_incoming", pa.table({"use_id": pa.array(sorted(late), pa.int64())}))
    result = con.execute(
        "SELECT c.use_id, c.trigger_id, c.beyond_bound, count(*) OVER u AS n, "
        "row_number() OVER (PARTITION BY c.use_id ORDER BY c.beyond_bound, "
        "abs(coalesce(c.write_gap_ns, 0)), c.trigger_id) AS place "
        "FROM late_candidate AS c JOIN _incoming USING (use_id) "
        "WINDOW u AS (PARTITION BY c.use_id) ORDER BY c.use_id, place")
    while chunk := result.fetchmany(4096):
        for use_id, trigger_id, beyond, n, place in chunk:
            entry = late[use_id]
            if place > _LISTED + 1:
                continue
            remainder = place == _LISTED + 1
            yield {
                "response_id": entry["response_id"],
                "source_use_id": None if remainder else trigger_id,
                "mechanism": LATE_WRITE, "tier": Tier.POSSIBLE.value,
                "probability": (
                    (entry["probability"] or 0.0) / n * (n - _LISTED if remainder else 1)),
                "pages": None, "tokens": None, "extents": None,
                "code": "source_remainder" if remainder
                else "source_trigger_unbounded" if beyond else "source_trigger",
                "note": None, "n_others": n - _LISTED if remainder else 1}
    con.unregister("_incoming")


def source_roles(con: duckdb.DuckDBPyConnection) -> dict[int, SourceRole]:
    """Return, by use_id, the highest tier and the combined probability as a source."""
    roles: dict[int, SourceRole] = {}
    result = con.execute(
        "SELECT source_use_id, list(DISTINCT tier ORDER BY tier), "
        "1 - exp(sum(ln(greatest(1 - least(probability, 1), 1e-12)))) FROM exposure "
        "WHERE source_use_id IS NOT NULL GROUP BY 1 ORDER BY 1")
    for use_id, tiers, probability in result.fetchall():
        roles[use_id] = SourceRole(highest(Tier(t) for t in tiers), probability)
    return roles
