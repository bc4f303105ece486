"""Each worker's clock: the zone of its naive stamps, and how far its steps widen an interval.

All stamps of one worker are placed on its own axis: epoch nanoseconds by that host's clock. Hosts
are not compared with each other here; what a verdict compares lies on one host.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import duckdb
import pyarrow as pa

import queries

# Zones are multiples of 15 minutes (tz database since 1972).
_QUARTER_NS: Final = 900 * 10**9
# An anchor may miss its multiple by the width of a stamp and by the age of a line, not by more.
_ANCHOR_SLACK_NS: Final = 300 * 10**9
# Half-width of the interval of a stamp whose zone is unknown: zones run from -12:00 to +14:00.
UNKNOWN_ZONE_NS: Final = 14 * 3600 * 10**9
# Lines of several processes of one worker are interleaved; steps back below this are that.
_INTERLEAVE_NS: Final = 2 * 10**9


@dataclass(frozen=True, slots=True)
class Clock:
    """``zone_ns`` is what a naive stamp is ahead of UTC; ``known`` False leaves it at 0."""

    worker_id: int
    zone_ns: int
    known: bool
    basis: str
    step_ns: int = 0


def build(con: duckdb.DuckDBPyConnection, stated_zones: dict[int, str]) -> dict[int, Clock]:
    """Create the table ``worker_clock`` and return it; needs ``current_row`` and ``clock_step``."""
    anchors: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in queries.rows(con, "zone_anchor"):
        anchors[row["worker_id"]][row["anchor"]] = row
    steps = {row["worker_id"]: row["back_ns"] for row in queries.rows(con, "clock_step")}
    clocks = {}
    for (worker_id,) in con.execute("SELECT worker_id FROM worker ORDER BY 1").fetchall():
        zone = _zone(anchors.get(worker_id, {}), stated_zones.get(worker_id))
        step = steps.get(worker_id, 0)
        clocks[worker_id] = Clock(
            worker_id, zone[0] or 0, zone[0] is not None, zone[1],
            step if step > _INTERLEAVE_NS else 0,
        )
    _borrow(con, clocks)
    _store(con, clocks)
    return clocks


def _zone(anchors: dict[str, dict[str, Any]], stated: str | None) -> tuple[int | None, str]:
    """Return (zone in ns or None, basis). Anchors outrank what the operator states."""
    for anchor in ("time_stats", "request_log", "collector"):
        row = anchors.get(anchor)
        if row is None:
            continue
        zone = round(row["mid_ns"] / _QUARTER_NS) * _QUARTER_NS
        if abs(row["mid_ns"] - zone) <= _ANCHOR_SLACK_NS and abs(zone) <= UNKNOWN_ZONE_NS:
            if row["high_ns"] - row["low_ns"] > _QUARTER_NS:
                return None, f"{row['n']} {anchor} anchors disagree by more than 15 minutes"
            return zone, f"{row['n']} lines with both a stamp and epoch time ({anchor})"
    if stated is not None and (zone_ns := parse_offset(stated)) is not None:
        return zone_ns, "stated in evidence.toml"
    return None, "no line carries epoch time"


def parse_offset(text: str) -> int | None:
    """Return the offset of ``UTC``, ``Z``, ``+08:00`` or ``-0330`` in ns; None for other text."""
    text = text.strip()
    if text.upper() in {"UTC", "Z", "GMT"}:
        return 0
    digits = text[1:].replace(":", "")
    if text[:1] not in "+-" or not digits.isdigit() or len(digits) not in (2, 4):
        return None
    minutes = int(digits[:2]) * 60 + int(digits[2:] or 0)
    return (1 if text[0] == "+" else -1) * minutes * 60 * 10**9


def _borrow(con: duckdb.DuckDBPyConnection, clocks: dict[int, Clock]) -> None:
    """Give a worker without anchors the zone that its joined rooms imply.

    The two roles receive a room within seconds; their naive stamps differ by the difference of
    the zones, to a quarter of an hour.
    """
    pairs = con.execute(
        "SELECT a.worker_id, b.worker_id, median(a.stamp_ns - b.stamp_ns)::BIGINT, count(*) "
        "FROM current_row AS a JOIN current_row AS b ON a.room = b.room "
        "AND a.worker_id <> b.worker_id AND a.role <> b.role "
        "WHERE a.source = 'received' AND b.source = 'received' AND coalesce(a.room, 0) <> 0 "
        "AND a.stamp_ns IS NOT NULL AND b.stamp_ns IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"
    ).fetchall()
    for _ in clocks:
        changed = False
        for left, right, diff, n in pairs:
            if clocks[left].known or not clocks[right].known:
                continue
            zone = round((diff + clocks[right].zone_ns) / _QUARTER_NS) * _QUARTER_NS
            if abs(diff + clocks[right].zone_ns - zone) > _ANCHOR_SLACK_NS:
                continue
            clocks[left] = Clock(
                left, zone, True, f"{n} rooms shared with a worker whose zone is known",
                clocks[left].step_ns,
            )
            changed = True
        if not changed:
            return


def _store(con: duckdb.DuckDBPyConnection, clocks: dict[int, Clock]) -> None:
    arrow = pa.Table.from_pylist(
        [
            {"worker_id": c.worker_id, "zone_ns": c.zone_ns, "known": c.known, "basis": c.basis,
             "step_ns": c.step_ns}
            for c in clocks.values()
        ],
        schema=pa.schema([
            ("worker_id", pa.int32()), ("zone_ns", pa.int64()), ("known", pa.bool_()),
            ("basis", pa.string()), ("step_ns", pa.int64())]),
    )
    con.register("_incoming", arrow)
    con.execute("CREATE OR REPLACE TABLE worker_clock AS SELECT * FROM _incoming")
    con.unregister("_incoming")


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def rfc3339(ns: int | None) -> str | None:
    """Render epoch nanoseconds as RFC 3339 UTC with nine decimals; None stays None."""
    if ns is None:
        return None
    seconds, rest = divmod(ns, 10**9)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
