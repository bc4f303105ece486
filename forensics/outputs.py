"""``responses.jsonl`` and ``exposures.jsonl`` from the tables of the case (DESIGN, section 5)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import duckdb

import queries
from forensics.clocks import UNKNOWN_ZONE_NS, rfc3339
from forensics.exposures import SourceRole, source_roles
from forensics.reasons import REASONS
from forensics.tiers import Tier

RESPONSE_SCHEMA: Final = "palimpsest/response/1"
EXPOSURE_SCHEMA: Final = "palimpsest/exposure/1"
# An interval wider than this is given with both ends.
_WIDE_NS: Final = 1_000_000



def response_rows(con: duckdb.DuckDBPyConnection) -> Iterator[dict[str, Any]]:
    """Yield the objects of ``responses.jsonl``, by room and attempt."""
    roles = source_roles(con)
    open_pools = _unassessed_pools(con)
    for row in queries.rows(con, "response_record"):
        yield _response(row, roles, open_pools)


def _unassessed_pools(con: duckdb.DuckDBPyConnection) -> set[int | None]:
    """Return the decode workers on which some response could not be assessed as a recipient."""
    return {w for (w,) in con.execute(
        "SELECT DISTINCT r.decode_worker_id FROM response AS r JOIN verdict AS v "
        "USING (response_id) WHERE v.tier = 'not_assessable' ORDER BY 1").fetchall()}


def _response(
    row: dict[str, Any], roles: dict[int, SourceRole], open_pools: set[int | None]
) -> dict[str, Any]:
    role = roles.get(row["use_id"]) if row["use_id"] is not None else None
    if role is None:
        # Nobody is known to have read its data; that is an exclusion only if everybody who shared
        # its pool could be assessed.
        blind = row["decode_worker_id"] is None or row["decode_worker_id"] in open_pools or (
            None in open_pools)
        role = SourceRole(Tier.NOT_ASSESSABLE, None) if blind else SourceRole(Tier.EXCLUDED, 0.0)
    zone_known = row["decode_zone_known"] if row["decode_worker_id"] is not None else (
        row["prefill_zone_known"])
    record: dict[str, Any] = {
        "schema": RESPONSE_SCHEMA,
        "room": str(row["room"]),
        "attempt": row["attempt"],
        "rid": row["rid"] or None,
        "prefill_rid": row["p_rid"] or None,
        "request_id": row["request_id"],
        "account": row["account"],
        "model": row["served_model"],
        "prefill_worker": row["prefill_worker"],
        "decode_worker": row["decode_worker"],
        "dp_rank": row["dp_rank"],
    }
    _interval(record, "received_at", row["received_lo"], row["received_hi"], zone_known)
    _interval(record, "finished_at", row["ended_lo"], row["ended_hi"], zone_known)
    record |= {
        "prompt_tokens": row["prompt_high"],
        "prefill_prompt_tokens": row["p_prompt_high"],
        "completion_tokens": row["output_high"],
        "http_status": row["http_status"] if row["http_status"] is not None
        else row["status_code"],
        "finish_reason": row["finish_type"],
        "evidence_level": row["level"],
        "recipient_tier": row["tier"],
        "recipient_probability": row["probability"],
        "recipient_probability_low": row["low"],
        "recipient_probability_high": row["high"],
        "source_tier": role.tier.value,
        "source_probability": None if role.probability is None else round(role.probability, 9),
        "mechanisms": json.loads(row["mechanisms"]),
        "reasons": json.loads(row["reasons"]),
        "retry_of": str(row["retry_of"]) if row["retry_of"] is not None else None,
    }
    return record


def _interval(
    record: dict[str, Any], name: str, low: int | None, high: int | None, zone_known: bool | None
) -> None:
    """Set a time: its lower bound, and the upper one where the interval is wider than 1 ms."""
    if low is not None and not zone_known:
        low, high = low - UNKNOWN_ZONE_NS, (high if high is not None else low) + UNKNOWN_ZONE_NS
    record[name] = rfc3339(low)
    if low is not None and high is not None and high - low > _WIDE_NS:
        record[f"{name}_hi"] = rfc3339(high)


def exposure_rows(con: duckdb.DuckDBPyConnection) -> Iterator[dict[str, Any]]:
    """Yield the objects of ``exposures.jsonl``, by recipient, mechanism and weight."""
    for row in queries.rows(con, "exposure_record"):
        shift = 0 if row["zone_known"] else UNKNOWN_ZONE_NS
        first, last = row["first_ns"], row["last_ns"]
        text = REASONS[row["code"]].format(n=row["n_others"], pages=row["pages"])
        yield {
            "schema": EXPOSURE_SCHEMA,
            "recipient_room": str(row["recipient_room"]),
            "recipient_attempt": row["recipient_attempt"],
            "recipient_account": row["recipient_account"],
            "source_room": str(row["source_room"]) if row["source_room"] is not None else None,
            "source_attempt": row["source_attempt"],
            "source_account": row["source_account"],
            "mechanism": row["mechanism"],
            "tier": row["tier"],
            "probability": None if row["probability"] is None else round(row["probability"], 9),
            "pages": row["pages"],
            "tokens": row["tokens"],
            "worker": row["worker"],
            "dp_rank": row["dp_rank"],
            "page_extents": json.loads(row["extents"]) if row["extents"] else None,
            "first_at": rfc3339(first - shift) if first is not None else None,
            "last_at": rfc3339(last + shift) if last is not None else None,
            "reasons": [{"code": row["code"], "text": row["note"] or text, "evidence": []}],
        }


def write_jsonl(path: Path, records: Iterable[dict[str, Any]],
                each: Callable[[dict[str, Any]], None] | None = None) -> int:
    """Write objects one per line, atomically; return their number."""
    temporary = path.with_suffix(path.suffix + ".tmp")
    count = 0
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
            count += 1
            if each:
                each(record)
    os.replace(temporary, path)
    return count
