"""Page-level evidence (L4): what page traces show of each response. Empty without traces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import duckdb

import queries
from forensics.fleet import Fleet
from forensics.knowledge import load_knowledge
from forensics.page_replay import Late, PoolResult, Stale, Step, Trace, replay
from forensics.reasons import reason
from forensics.response import Response
from forensics.tiers import LATE_WRITE, STALE_HANDOFF, Tier, Weighing, excluded

Key = tuple[int, str]
# Page extents that one exposure lists.
_EXTENTS: Final = 200


@dataclass(frozen=True, slots=True)
class PageEvidence:
    """Weighings that page traces support, and the pairs they name, by (room, rid)."""

    by_use: dict[Key, dict[str, Weighing]] = field(default_factory=dict)
    pairs: tuple[dict[str, Any], ...] = ()

    def weigh(self, response: Response) -> dict[str, Weighing]:
        """Return the traced weighings of a response, by mechanism; empty if it was not traced."""
        return self.by_use.get((response.room, response.rid or ""), {})

    def exposures(self, con: duckdb.DuckDBPyConnection) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table ``exposure`` that the traces name outright."""
        if not self.pairs:
            return
        ids = {(room, rid): (use_id, response_id) for room, rid, use_id, response_id in con.execute(
            "SELECT room, rid, use_id, response_id FROM response WHERE use_id IS NOT NULL "
            "ORDER BY response_id").fetchall()}
        stubs = {(room, rid): use_id for room, rid, use_id in con.execute(
            "SELECT p.room, p.rid, d.use_id FROM prefill_use AS p "
            "JOIN decode_use AS d USING (room) ORDER BY d.use_id").fetchall()}
        exposed = {r for (r,) in con.execute(
            "SELECT response_id FROM verdict WHERE tier IN ('confirmed', 'probable', 'possible') "
            "ORDER BY 1").fetchall()}
        for pair in self.pairs:
            recipient = ids.get(pair["recipient"])
            if recipient is None or recipient[1] not in exposed:
                continue
            source = pair["source"]
            known = ids.get(source, (stubs.get(source), None)) if source else (None, None)
            yield {
                "response_id": recipient[1], "source_use_id": known[0],
                **{name: pair[name] for name in (
                    "mechanism", "tier", "probability", "pages", "tokens", "extents", "code",
                    "note", "n_others")}}


def read_page_evidence(con: duckdb.DuckDBPyConnection, fleet: Fleet) -> PageEvidence:
    """Replay the page traces of the case, pool by pool."""
    traces = _traces(con)
    prefills = [trace for trace in traces if trace.role == "prefill"]
    all_traced = _all_prefills_traced(fleet, prefills)
    by_use: dict[Key, dict[str, Weighing]] = {}
    pairs: list[dict[str, Any]] = []
    for trace in traces:
        if trace.role != "decode":
            continue
        result = replay(trace, prefills)
        _weigh(result, all_traced, by_use)
        stubs = _stub_writers(result, prefills)
        for stale in result.stale:
            pairs.extend(_stale_pairs(stale, trace.page_size, stubs))
        for late in result.late:
            pairs.append(_late_pair(late))
    return PageEvidence(by_use, tuple(pairs))


def _traces(con: duckdb.DuckDBPyConnection) -> list[Trace]:
    headers = list(queries.rows(con, "trace_header"))
    if not headers:
        return []
    starts: dict[int, list[tuple[int, Trace]]] = {}
    for row in headers:
        if row["num_pages"] is None or row["page_size"] is None:
            continue
        starts.setdefault(row["evidence_id"], []).append((row["event_no"], Trace(
            row["worker_id"], row["role"], row["dp"], row["session"], row["num_pages"],
            row["page_size"])))
    for evidence_id, rows in groupby(
        queries.rows(con, "trace_step"), key=lambda row: row["evidence_id"]
    ):
        runs = starts.get(evidence_id, [])
        at = -1
        for row in rows:
            while at + 1 < len(runs) and runs[at + 1][0] <= row["event_no"]:
                at += 1
            if at < 0 or row["t_ns"] is None:
                continue
            runs[at][1].steps.append(Step(
                row["t_ns"], row["ev"], row["room"] or 0, row["rid"] or "", row["why"],
                row["chunk"], row["session"], row["ok"], row["tokens"],
                tuple((e["start"], e["n"]) for e in row["extents"]),
                f"{evidence_id}:{row['byte_offset']}"))
    return [trace for runs in starts.values() for _, trace in runs]


def _all_prefills_traced(fleet: Fleet, prefills: list[Trace]) -> bool:
    traced = {trace.worker_id for trace in prefills}
    known = {w for w, worker in fleet.workers.items() if worker.role == "prefill"}
    return bool(known) and known <= traced


def _weigh(result: PoolResult, all_traced: bool, by_use: dict[Key, dict[str, Weighing]]) -> None:
    stale = {entry.use.number: entry for entry in result.stale}
    late: dict[int, list[Late]] = {}
    for hit in result.late:
        late.setdefault(hit.recipient.number, []).append(hit)
    for use in result.uses:
        if use.room == 0 or use.commit_ns is None:
            continue
        found: dict[str, Weighing] = {}
        refs = tuple(use.refs)
        if use.number in stale:
            found[STALE_HANDOFF] = Weighing(
                STALE_HANDOFF, Tier.CONFIRMED, 1.0, 1.0, 1.0,
                (reason("page_stale", refs, n=stale[use.number].n_pages),))
        elif use.number in result.written:
            found[STALE_HANDOFF] = excluded(STALE_HANDOFF, reason("page_all_written", refs))
        if use.number in late:
            found[LATE_WRITE] = _late_weighing(late[use.number], refs)
        elif all_traced and use.free_ns is not None:
            found[LATE_WRITE] = excluded(LATE_WRITE, reason("page_no_late_write", refs))
        if not all_traced and use.number in stale:
            # The sends of an untraced prefill would look like pages that nobody wrote.
            del found[STALE_HANDOFF]
        if found:
            by_use[use.room, use.rid] = found


def _late_weighing(hits: list[Late], refs: tuple[str, ...]) -> Weighing:
    sends = tuple(hit.ref for hit in hits)
    certain = [hit for hit in hits if hit.certain]
    if certain:
        n = len({page for hit in certain for page in hit.pages})
        return Weighing(LATE_WRITE, Tier.CONFIRMED, 1.0, 1.0, 1.0, (
            reason("page_late_write", sends + refs, n=n),))
    n = len({page for hit in hits for page in hit.pages})
    miss = 1.0
    for hit in hits:
        miss *= hit.miss
    likely = 1.0 - miss
    code = "page_late_write_open" if all(hit.open_end for hit in hits) else "page_late_write_span"
    threshold = load_knowledge().quantity("probable_threshold").value
    tier = Tier.PROBABLE if likely >= threshold else Tier.POSSIBLE
    return Weighing(LATE_WRITE, tier, likely, 0.0, 1.0, (reason(code, sends + refs, n=n),))


def _stub_writers(result: PoolResult, prefills: list[Trace]) -> dict[int, Key | None]:
    """Return, for each stale room, who owned the prefill page of its stub before (last writer)."""
    wanted = {entry.use.room for entry in result.stale}
    found: dict[int, Key | None] = {}
    for prefill in prefills:
        writer: dict[int, Key] = {}
        for step in prefill.steps:
            if step.ev != "alloc" or not step.extents:
                continue
            if step.room in wanted and step.room not in found:
                found[step.room] = writer.get(step.extents[0][0])
            for start, n in step.extents:
                for page in range(start, start + n):
                    writer[page] = step.room, step.rid
    return found


def _extents(pages: list[int]) -> str:
    runs: list[list[int]] = []
    for page in sorted(pages):
        if runs and page == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([page, 1])
    return json.dumps(runs[:_EXTENTS], separators=(",", ":"))


def _stale_pairs(
    stale: Stale, page_size: int, stubs: dict[int, Key | None]
) -> Iterator[dict[str, Any]]:
    recipient = stale.use.room, stale.use.rid
    common: dict[str, Any] = {
        "recipient": recipient, "mechanism": STALE_HANDOFF, "tier": Tier.CONFIRMED.value,
        "probability": 1.0, "note": None, "n_others": 1}
    last_page = stale.use.prompt[-1][0] + stale.use.prompt[-1][1] - 1 if stale.use.prompt else None
    unused = -(stale.use.tokens or 0) % page_size
    for source, pages in sorted(stale.by_writer.items()):
        tokens = len(pages) * page_size - (unused if last_page in pages else 0)
        yield common | {"source": source, "pages": len(pages), "tokens": tokens,
                        "extents": _extents(pages), "code": "source_page"}
    if (stub := stubs.get(stale.use.room)) is not None:
        yield common | {"source": stub, "pages": 1, "tokens": page_size - 1, "extents": None,
                        "code": "source_stub"}


def _late_pair(late: Late) -> dict[str, Any]:
    likely = 1.0 if late.certain else late.probability
    tier = Tier.CONFIRMED if late.certain else (
        Tier.PROBABLE if likely >= load_knowledge().quantity("probable_threshold").value
        else Tier.POSSIBLE)
    pages = sorted(set(late.pages))
    return {
        "recipient": (late.recipient.room, late.recipient.rid),
        "source": (late.source.room, late.source.rid), "mechanism": LATE_WRITE,
        "tier": tier.value, "probability": likely, "pages": len(pages), "tokens": None,
        "extents": _extents(pages), "code": "source_page_late", "note": None, "n_others": 1}
