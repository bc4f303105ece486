"""From raw facts to verdicts: the steps in order, each leaving a table in the case."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import duckdb
import pyarrow as pa

import queries
from forensics import clocks, exposures, identity, late_write
from forensics.clocks import Clock
from forensics.fleet import Fleet
from forensics.page_evidence import PageEvidence, read_page_evidence
from forensics.response import Response, from_row
from forensics.tiers import EXPOSED
from forensics.verdicts import Judge, Verdict
from forensics.worker_facts import read_fleet

Progress = Callable[[str, int, int], None]
_CHUNK: Final = 20_000
_VERDICT: Final = pa.schema([
    ("response_id", pa.int64()), ("tier", pa.string()), ("probability", pa.float64()),
    ("low", pa.float64()), ("high", pa.float64()), ("level", pa.string()),
    ("mechanisms", pa.string()), ("reasons", pa.string()), ("codes", pa.list_(pa.string()))])


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the steps made besides the tables of the case."""

    fleet: Fleet
    clocks: dict[int, Clock]
    pages: PageEvidence


def analyse(con: duckdb.DuckDBPyConnection, progress: Progress | None = None) -> Analysis:
    """Correlate and judge everything in the case.

    Leaves the tables worker, segment, worker_clock, use, response, verdict and exposure (and the
    intermediate ones). The same rows give the same tables.
    """
    tell = progress or (lambda step, done, total: None)
    tell("who wrote what", 0, 0)
    workers = identity.assign(con)
    queries.run(con, "current_row")
    queries.run(con, "clock_step")
    stated = {w.worker_id: str(w.stated["timezone"]) for w in workers if "timezone" in w.stated}
    known_clocks = clocks.build(con, stated)
    tell("requests and hand-offs", 0, 0)
    for name in ("use", "decode_use", "prefill_use", "handoff", "bootstrap_worker",
                 "router_request", "http_refusal", "response", "response_account",
                 "worker_setting"):
        queries.run(con, name)
    tell("builds, pools and limits", 0, 0)
    known_fleet = read_fleet(con, workers)
    known_fleet.orphans = [t for (t,) in con.execute(
        "SELECT first_ns FROM response WHERE decode_worker_id IS NULL AND first_ns IS NOT NULL "
        "ORDER BY 1").fetchall()]
    known_fleet.records_ends = frozenset(w for (w,) in con.execute(
        "SELECT DISTINCT worker_id FROM prefill_use WHERE has_end").fetchall())
    known_fleet.unlinked_refusals = frozenset(
        row["worker_id"] for row in queries.rows(con, "unlinked_refusal"))
    known_fleet.lost_failures = [
        (row["lo"], row["hi"]) for row in queries.rows(
            con, "lost_failure", longest_wait=late_write.LONGEST_WAIT_NS)]
    tell("late writes", 0, 0)
    policies = late_write.policies(con, known_fleet)
    overlaps = late_write.overlaps(con, policies)
    pages = read_page_evidence(con, known_fleet)
    judge = Judge(known_fleet, policies, overlaps, pages)
    exposed = _judge_all(con, judge, tell)
    tell("sources", 0, 0)
    exposures.build(con, known_fleet, exposed, pages.exposures(con))
    return Analysis(known_fleet, known_clocks, pages)


def _judge_all(
    con: duckdb.DuckDBPyConnection, judge: Judge, tell: Progress
) -> list[dict[str, Any]]:
    """Fill the table ``verdict``; return the exposed (response, mechanism) pairs."""
    con.execute("CREATE OR REPLACE TABLE verdict (response_id BIGINT, tier VARCHAR, "
                "probability DOUBLE, low DOUBLE, high DOUBLE, level VARCHAR, mechanisms VARCHAR, "
                "reasons VARCHAR, codes VARCHAR[])")
    total = int(con.execute("SELECT count(*) FROM response").fetchall()[0][0])
    exposed: list[dict[str, Any]] = []
    done = 0
    source = responses(con)
    while chunk := list(islice(source, _CHUNK)):
        rows = []
        for response in chunk:
            verdict = judge.judge(response)
            rows.append(_verdict_row(verdict))
            exposed.extend(_exposed(response, verdict))
        con.register("_incoming", pa.Table.from_pylist(rows, schema=_VERDICT))
        con.execute("INSERT INTO verdict SELECT * FROM _incoming")
        con.unregister("_incoming")
        done += len(chunk)
        tell("verdicts", done, total)
    return exposed


def responses(con: duckdb.DuckDBPyConnection) -> Iterator[Response]:
    """Yield all responses in the order of their ids."""
    cursor = con.cursor()
    result = cursor.execute("SELECT * FROM response ORDER BY response_id")
    columns = [item[0] for item in result.description or []]
    while chunk := result.fetchmany(4096):
        for row in chunk:
            yield from_row(dict(zip(columns, row, strict=True)))
    cursor.close()


def _exposed(response: Response, verdict: Verdict) -> Iterator[dict[str, Any]]:
    for weighing in verdict.weighings:
        if weighing.tier in EXPOSED:
            yield {
                "response_id": response.response_id, "use_id": response.use_id,
                "worker_id": response.decode_worker_id, "epoch": response.epoch,
                "mechanism": weighing.mechanism, "tier": weighing.tier.value,
                "probability": weighing.probability}


def _verdict_row(verdict: Verdict) -> dict[str, Any]:
    mechanisms = [
        {"mechanism": w.mechanism, "tier": w.tier.value, "probability": _round(w.probability),
         "reasons": [r.code for r in w.reasons]}
        for w in verdict.weighings
    ]
    reasons = [
        {"code": r.code, "text": r.text, "evidence": sorted(set(r.evidence), key=evidence_order)}
        for r in _unique(verdict)
    ]
    return {
        "response_id": verdict.response_id, "tier": verdict.tier.value,
        "probability": _round(verdict.probability), "low": _round(verdict.low),
        "high": _round(verdict.high), "level": verdict.level,
        "mechanisms": json.dumps(mechanisms, separators=(",", ":")),
        "reasons": json.dumps(reasons, separators=(",", ":"), ensure_ascii=False),
        "codes": [r["code"] for r in reasons]}


def _unique(verdict: Verdict) -> list[Any]:
    """Return the deciding reasons first, then the others, each (code, text) once."""
    others = (r for w in verdict.weighings for r in w.reasons)
    seen, kept = set(), []
    for step in (*verdict.reasons, *others):
        if (step.code, step.text) not in seen:
            seen.add((step.code, step.text))
            kept.append(step)
    return kept


def evidence_order(ref: str) -> tuple[int, int]:
    """Order evidence ids 'FILE:OFFSET' by file, then offset."""
    file, _, offset = ref.partition(":")
    return int(file), int(offset)


def _round(value: float | None) -> float | None:
    """Probabilities carry nine decimals: enough to sum, few enough to be the same everywhere."""
    return None if value is None else round(value, 9)
