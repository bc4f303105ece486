"""Page-level evidence (L4): what page traces show of each response. Empty without traces."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb

import queries
from forensics.fleet import Fleet
from forensics.knowledge import load_knowledge
from forensics.reasons import reason
from forensics.response import Response
from forensics.tiers import LATE_WRITE, STALE_HANDOFF, Tier, Weighing, excluded

Key = tuple[int, str]
# Page extents that one exposure lists, and references that one reason lists.
_EXTENTS: Final = 200
_REFS: Final = 6
# Share of failed sends that land late on a page anyway: the tail weight of a fleet that logged no
# failure (leak-mechanisms.md, section 4); a failed send gives no frequency of its own.
OPEN_SHARE: Final = 0.01
_QUERIES: Final = ("page_suspect", "page_stale", "page_late_write", "page_use", "page_source",
                   "page_hit")


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
            known = ids.get(source, (stubs.get(source), None))
            yield {
                "response_id": recipient[1], "source_use_id": known[0],
                **{name: pair[name] for name in (
                    "mechanism", "tier", "probability", "pages", "tokens", "extents", "code",
                    "note", "n_others")}}


def read_page_evidence(con: duckdb.DuckDBPyConnection, fleet: Fleet) -> PageEvidence:
    """Ask the page traces of the case about every use that attended pages."""
    if not con.execute(
        "SELECT count(*) FROM (FROM page_event LIMIT 1)").fetchall()[0][0]:
        return PageEvidence()
    for name in ("page_stretch", "page_ownership", "page_request", "page_extent", "page_write"):
        queries.run(con, name)
    slack_ns = next(queries.rows(con, "page_slack"))["slack_ns"]
    for name in _QUERIES:
        queries.run(con, name, slack_ns=slack_ns)
    limits = next(queries.rows(con, "page_blind"))
    blind = limits["blind"] or not _all_prefills_traced(con, fleet)
    hits: dict[int, list[_Hit]] = defaultdict(list)
    for row in _rows(con, "page_hit"):
        hits[row["owner_id"]].append(_Hit.of(row, slack_ns, limits["lossy"]))
    by_use: dict[Key, dict[str, Weighing]] = {}
    keys: dict[int, Key] = {}
    for row in _rows(con, "page_use"):
        # Room 0 is shared by all requests that no prefill served.
        if row["room"]:
            keys[row["owner_id"]] = row["room"], row["rid"]
            if found := _weigh(row, hits.get(row["owner_id"], []), blind):
                by_use[row["room"], row["rid"]] = found
    pairs = [_stale_pair(keys[row["owner_id"]], row)
             for row in _rows(con, "page_source") if row["owner_id"] in keys]
    for owner, found_hits in sorted(hits.items()):
        if owner in keys:
            pairs.extend(_late_pairs(keys[owner], found_hits))
    return PageEvidence(by_use, tuple(pairs))


def _rows(con: duckdb.DuckDBPyConnection, table: str) -> Iterator[dict[str, Any]]:
    result = con.execute(f"SELECT * FROM {table} ORDER BY ALL")
    columns = [item[0] for item in result.description or []]
    return (dict(zip(columns, row, strict=True)) for row in result.fetchall())


def _all_prefills_traced(con: duckdb.DuckDBPyConnection, fleet: Fleet) -> bool:
    traced = {worker for (worker,) in con.execute(
        "SELECT DISTINCT s.worker_id FROM page_stretch AS p "
        "JOIN worker_stream AS s USING (evidence_id, stream) ORDER BY 1").fetchall()}
    known = {w for w, worker in fleet.workers.items() if worker.role == "prefill"}
    return bool(known) and known <= traced


@dataclass(frozen=True, slots=True)
class _Hit:
    """A send that may have landed on pages of another use after that use's own write."""

    source: Key | None
    pages: list[int]
    definite: bool
    is_open: bool
    likely: float
    ref: str

    @classmethod
    def of(cls, row: dict[str, Any], slack_ns: int, lossy: bool) -> _Hit:
        known = row["source_owner_id"] is not None
        source = (row["source_room"], row["source_rid"] or "") if known else None
        # Pages of one chunk land together or nearly so: the likeliest page decides.
        # A send for a use that the trace does not hold: its allocation was lost, most likely.
        likely = max(_harm(row["t_start"], row["t_end"], slack_ns, harm["lo"], harm["hi"])
                     for harm in row["harms"]) if known else OPEN_SHARE
        # Among lost events may be the recipient's own write: nothing is certain then.
        definite = row["definite"] and not lossy
        return cls(source, row["page_list"], definite, row["t_end"] is None,
                   1.0 if definite else likely, row["ref"])


def _harm(
    start: int | None, end: int | None, slack_ns: int, harm_lo: int, harm_hi: int | None
) -> float:
    """Return the probability that a send lands while a landing harms; times in ns.

    A page of a chunk lands at some time between the chunk's begin and its end. Half the weight is
    spread evenly over that span, half sits at its end: a send that ends late does so because its
    last writes landed late.
    """
    if end is None or start is None:
        return OPEN_SHARE
    until = harm_hi if harm_hi is not None else end + slack_ns + 1
    low, high = start - slack_ns, end + slack_ns
    part = max(0, min(high, until) - max(low, harm_lo))
    at_end = 1.0 if harm_lo < end < until else 0.0
    # Below certainty: that is what ``definite`` says.
    return min(max(0.5 * at_end + 0.5 * part / max(high - low, 1), OPEN_SHARE), 0.999)


def _tier(likely: float) -> Tier:
    if likely >= 1.0:
        return Tier.CONFIRMED
    threshold = load_knowledge().quantity("probable_threshold").value
    return Tier.PROBABLE if likely >= threshold else Tier.POSSIBLE


def _any(hits: list[_Hit]) -> float:
    """Return the probability that at least one of the sends harmed."""
    miss = 1.0
    for hit in hits:
        miss *= 1.0 - hit.likely
    return 1.0 - miss


def _weigh(use: dict[str, Any], hits: list[_Hit], blind: bool) -> dict[str, Weighing]:
    refs = tuple(use["refs"][:_REFS])
    found: dict[str, Weighing] = {}
    if use["is_stale"]:
        found[STALE_HANDOFF] = Weighing(
            STALE_HANDOFF, Tier.CONFIRMED, 1.0, 1.0, 1.0,
            (reason("page_stale", refs, n=use["stale_pages"]),))
    elif use["is_stale"] is False:
        found[STALE_HANDOFF] = excluded(STALE_HANDOFF, reason("page_all_written", refs))
    if hits:
        found[LATE_WRITE] = _late_weighing(hits, refs)
    elif not blind and use["t_free"] is not None:
        found[LATE_WRITE] = excluded(LATE_WRITE, reason("page_no_late_write", refs))
    return found


def _late_weighing(hits: list[_Hit], refs: tuple[str, ...]) -> Weighing:
    sends = tuple(hit.ref for hit in hits[:_REFS])
    certain = [hit for hit in hits if hit.definite]
    pages = len({page for hit in certain or hits for page in hit.pages})
    if certain:
        return Weighing(LATE_WRITE, Tier.CONFIRMED, 1.0, 1.0, 1.0, (
            reason("page_late_write", sends + refs, n=pages),))
    likely = _any(hits)
    code = "page_late_write_open" if all(hit.is_open for hit in hits) else "page_late_write_span"
    return Weighing(LATE_WRITE, _tier(min(likely, 0.999)), likely, 0.0, 1.0, (
        reason(code, sends + refs, n=pages),))


def _extents(pages: list[int]) -> str:
    runs: list[list[int]] = []
    for page in pages:
        if runs and page == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([page, 1])
    return json.dumps(runs[:_EXTENTS], separators=(",", ":"))


def _stale_pair(recipient: Key, row: dict[str, Any]) -> dict[str, Any]:
    likely = 1.0 if row["definite"] else min(row["share"], 0.999)
    return {
        "recipient": recipient, "source": (row["source_room"], row["source_rid"]),
        "mechanism": STALE_HANDOFF, "tier": _tier(likely).value, "probability": likely,
        "pages": row["pages"], "tokens": row["tokens"],
        # Pages of a stub are prefill's: they are not pages that decode attended.
        "extents": None if row["is_stub"] else _extents(row["page_list"]),
        "code": "source_stub" if row["is_stub"] else "source_page", "note": None, "n_others": 1}


def _late_pairs(recipient: Key, hits: list[_Hit]) -> Iterator[dict[str, Any]]:
    by_source: dict[Key, list[_Hit]] = defaultdict(list)
    for hit in hits:
        if hit.source is not None:
            by_source[hit.source].append(hit)
    for source, own in sorted(by_source.items()):
        likely = 1.0 if any(hit.definite for hit in own) else min(_any(own), 0.999)
        pages = sorted({page for hit in own for page in hit.pages})
        yield {
            "recipient": recipient, "source": source, "mechanism": LATE_WRITE,
            "tier": _tier(likely).value, "probability": likely, "pages": len(pages),
            "tokens": None, "extents": _extents(pages), "code": "source_page_late",
            "note": None, "n_others": 1}
