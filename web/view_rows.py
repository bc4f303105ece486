"""The responses that the report shows: facts, reasons with their log lines, candidate sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ingest.excerpts import Excerpt
from web.report_rows import Record, Rows, key_of
from web.report_text import Moment, count, joined, moment, name, probability, sentence
from web.view_terms import LABELS, mechanism_title

# Log lines shown of one reason; its other evidence ids stand in responses.jsonl.
MAX_LINES: Final = 4
# Log lines shown of one finding of the case.
MAX_FINDING_LINES: Final = 5
# Runs of pages shown of one source.
MAX_EXTENTS: Final = 6
_ROOM: Final = re.compile(r"\d{1,20}")


@dataclass(frozen=True, slots=True)
class Chip:
    """A link to one response."""

    anchor: str
    label: str


@dataclass(frozen=True, slots=True)
class LineView:
    """A log line with where it stands; ``text`` is '' where ``note`` says why."""

    where: str
    sha256: str
    text: str
    note: str


@dataclass(frozen=True, slots=True)
class ReasonView:
    """A reason, the numbers of its log lines below, and how many lines are not shown."""

    code: str
    text: str
    lines: tuple[int, ...]
    more: int


@dataclass(frozen=True, slots=True)
class WeighedView:
    """One mechanism as it was weighed for a response."""

    title: str
    tier: str
    label: str
    probability: str
    codes: str


@dataclass(frozen=True, slots=True)
class SourceView:
    """One candidate source; ``room`` is '' for the row that carries the remaining mass.

    ``extents`` are the pages it is about, as far as a page trace names them.
    """

    room: str
    account: str
    mechanism: str
    tier: str
    label: str
    probability: str
    pages: str
    extents: str
    why: str


@dataclass(frozen=True, slots=True)
class ResponseView:
    """One response, folded to a line and unfolded to its reasons."""

    anchor: str
    room: str
    attempt: int
    tier: str
    label: str
    probability: str
    bounds: str
    account: str
    account_anchor: str | None
    received: Moment | None
    times: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...]
    workers: tuple[tuple[str, str, str | None], ...]
    prompt: str
    mechanisms: tuple[WeighedView, ...]
    titles: str
    reasons: tuple[ReasonView, ...]
    lines: tuple[LineView, ...]
    sources: tuple[SourceView, ...]
    sources_weighted: bool
    sources_left_out: int


@dataclass(slots=True)
class Anchors:
    """Names of the places that the page links to."""

    responses: dict[int, str] = field(default_factory=dict)
    by_key: dict[tuple[str, int], str] = field(default_factory=dict)
    workers: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(summary: Mapping[str, Any], rows: Rows) -> Anchors:
        """Name every shown response, every worker and every account that is concerned."""
        anchors = Anchors()
        taken: set[str] = set()
        for kept in rows.shown.values():
            for record in kept:
                room, attempt = key_of(record)
                base = f"r-{room if _ROOM.fullmatch(room) else 'x'}-{attempt}"
                anchor, again = base, 1
                while anchor in taken:
                    again += 1
                    anchor = f"{base}-{again}"
                taken.add(anchor)
                anchors.responses[id(record)] = anchor
                anchors.by_key.setdefault((room, attempt), anchor)
        for number, worker in enumerate(summary["fleet"], 1):
            anchors.workers.setdefault(worker["worker"], f"worker-{number}")
        concerned = sorted(n for n, tally in rows.accounts.items() if tally.concerned)
        anchors.accounts = {n: f"account-{number}" for number, n in enumerate(concerned, 1)}
        return anchors

    def chip(self, record: Record) -> Chip:
        """Return a link to a shown response."""
        room, attempt = key_of(record)
        return Chip(self.responses[id(record)], f"{name(room)}.{attempt}")


def wanted_lines(summary: Mapping[str, Any], rows: Rows) -> set[str]:
    """Return the evidence ids of all lines that the page shows."""
    ids = {ref for finding in summary["findings"]
           for ref in finding["evidence"][:MAX_FINDING_LINES]}
    for kept in rows.shown.values():
        for record in kept:
            for reason in record["reasons"]:
                ids.update(reason["evidence"][:MAX_LINES])
    return ids


def line_view(evidence_id: str, excerpts: Mapping[str, Excerpt]) -> LineView:
    """Return what is shown of one line of evidence."""
    excerpt = excerpts.get(evidence_id)
    if excerpt is None:
        return LineView(f"evidence {name(evidence_id)}", "", "", "The line was not read again.")
    line = f"line {count(excerpt.line_no)}, " if excerpt.line_no else ""
    file = name(excerpt.name) if excerpt.name else f"evidence {name(evidence_id)}"
    return LineView(f"{file}, {line}byte {excerpt.byte_offset}", name(excerpt.sha256 or ""),
                    sentence(excerpt.text), sentence(excerpt.note))


def responses(
    rows: Rows, anchors: Anchors, excerpts: Mapping[str, Excerpt]
) -> dict[str, tuple[ResponseView, ...]]:
    """Return the shown responses by tier."""
    return {tier: tuple(_response(record, rows, anchors, excerpts) for record in kept)
            for tier, kept in rows.shown.items()}


def _response(
    record: Record, rows: Rows, anchors: Anchors, excerpts: Mapping[str, Excerpt]
) -> ResponseView:
    room, attempt = key_of(record)
    tier = record["recipient_tier"]
    account = record.get("account")
    refs: dict[str, int] = {}
    reasons = tuple(_reason(reason, refs) for reason in record["reasons"])
    weighed = tuple(_weighed(item) for item in record["mechanisms"])
    low, high = record.get("recipient_probability_low"), record.get("recipient_probability_high")
    key = (room, attempt)
    return ResponseView(
        anchor=anchors.responses[id(record)], room=name(room), attempt=attempt, tier=tier,
        label=LABELS[tier], probability=probability(record.get("recipient_probability")),
        bounds="" if low is None or high is None or low == high
        else f"{probability(low)} to {probability(high)}",
        account=name(account) if account is not None else "account not known",
        account_anchor=anchors.accounts.get(account) if account is not None else None,
        received=moment(record.get("received_at") or record.get("finished_at")),
        times=tuple(_times(record)), facts=tuple(_facts(record)),
        workers=tuple(_workers(record, anchors)),
        prompt="prompt length not known" if record.get("prompt_tokens") is None
        else f"{count(record['prompt_tokens'])} prompt tokens",
        mechanisms=weighed,
        titles=", ".join(item.title for item in weighed if item.tier == tier) or "–",
        reasons=reasons, lines=tuple(line_view(ref, excerpts) for ref in refs),
        sources=tuple(_source(item) for item in rows.sources.get(key, ())),
        # Replay from logs gives candidates; only a page trace names pages and their writers.
        sources_weighted=any(item["tier"] == "possible" and not item.get("page_extents")
                             for item in rows.sources.get(key, ())),
        sources_left_out=rows.unlisted[key],
    )


def _reason(reason: Mapping[str, Any], refs: dict[str, int]) -> ReasonView:
    listed = reason["evidence"][:MAX_LINES]
    for ref in listed:
        refs.setdefault(ref, len(refs) + 1)
    return ReasonView(name(reason["code"]), sentence(reason["text"]),
                      tuple(refs[ref] for ref in listed), len(reason["evidence"]) - len(listed))


def _weighed(item: Mapping[str, Any]) -> WeighedView:
    tier = item["tier"]
    return WeighedView(
        mechanism_title(item["mechanism"]), tier, LABELS.get(tier, name(tier)),
        probability(item.get("probability")), ", ".join(name(code) for code in item["reasons"]))


def _times(record: Record) -> Iterator[tuple[str, str]]:
    for title, key in (("received", "received_at"), ("finished", "finished_at")):
        low, high = record.get(key), record.get(f"{key}_hi")
        if low is not None:
            until = f", at the latest {name(high)}" if high is not None else ""
            yield title, f"{name(low)}{until}"


def _facts(record: Record) -> Iterator[tuple[str, str]]:
    for title, key in (
        ("decode rid", "rid"), ("prefill rid", "prefill_rid"), ("request id", "request_id"),
        ("retry of room", "retry_of"), ("model", "model"), ("DP rank", "dp_rank"),
        ("prompt tokens, decode", "prompt_tokens"),
        ("prompt tokens, prefill", "prefill_prompt_tokens"),
        ("answer tokens", "completion_tokens"), ("HTTP status (proves nothing)", "http_status"),
        ("finish reason (proves nothing)", "finish_reason"), ("evidence level", "evidence_level"),
    ):
        value = record.get(key)
        if value is not None:
            yield title, count(value) if key.endswith("tokens") else name(value)
    source = record.get("source_tier")
    if source is not None:
        yield "as a source", LABELS.get(source, name(source))


def _workers(record: Record, anchors: Anchors) -> Iterator[tuple[str, str, str | None]]:
    for role in ("prefill", "decode"):
        worker = record.get(f"{role}_worker")
        if worker is not None:
            yield role, name(worker), anchors.workers.get(worker)


def _source(item: Mapping[str, Any]) -> SourceView:
    room = item.get("source_room")
    account = item.get("source_account")
    pages = item.get("pages")
    return SourceView(
        "" if room is None else f"{name(room)}.{item.get('source_attempt') or 0}",
        name(account) if account is not None else "not known", mechanism_title(item["mechanism"]),
        item["tier"], LABELS.get(item["tier"], name(item["tier"])),
        probability(item.get("probability")), "–" if pages is None else count(pages),
        _extents(item.get("page_extents") or ()),
        " ".join(sentence(reason["text"]) for reason in item["reasons"]))


def _extents(extents: Sequence[Sequence[int]]) -> str:
    """Return runs of pages as '193, 720–723'."""
    runs = [str(first) if number == 1 else f"{first}–{first + number - 1}"
            for first, number in extents]
    return joined(runs, MAX_EXTENTS)
