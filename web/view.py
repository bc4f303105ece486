"""What the incident report shows, as plain values: no markup, no judgement of its own.

Built from ``summary.json``, the rows that one pass over the records kept, and the excerpts of the
evidence. Every text that comes from evidence is bounded and has its hidden characters visible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ingest.excerpts import Excerpt
from web.report_advice import Step, steps
from web.report_rows import CAPS, Rows
from web.report_text import Estimate, estimate, name, sentence
from web.view_fleet import WorkerView, workers
from web.view_glance import Answers, answers
from web.view_rows import (
    MAX_FINDING_LINES,
    Anchors,
    LineView,
    ResponseView,
    line_view,
    responses,
)
from web.view_tables import (
    AccountView,
    Cell,
    MechanismView,
    accounts,
    excluded_reasons,
    mechanisms,
)
from web.view_terms import DEFINITIONS, LABELS, LEVELS, TIERS, tier_anchor


@dataclass(frozen=True, slots=True)
class TierView:
    """One tier: how many responses, and those that are shown."""

    key: str
    label: str
    definition: str
    anchor: str
    total: int
    rows: tuple[ResponseView, ...]

    @property
    def left_out(self) -> int:
        """How many responses of the tier are not shown."""
        return self.total - len(self.rows)


@dataclass(frozen=True, slots=True)
class LevelView:
    """Share of the responses at one evidence level, in percent."""

    key: str
    text: str
    total: int
    percent: str


@dataclass(frozen=True, slots=True)
class GapView:
    """Something that is missing, why it matters, and the switch that would have recorded it."""

    what: str
    why: str
    switch: str
    total: int | None = None


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding of the case that is no verdict on one response, with its log lines."""

    code: str
    text: str
    lines: tuple[LineView, ...]


@dataclass(frozen=True, slots=True)
class FileView:
    """One file of the evidence."""

    number: int
    name: str
    format: str
    lines: int
    records: int
    rejects: int
    status: str
    span: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ReportView:
    """Everything on the page."""

    tool_version: str
    knowledge_version: str
    evidence_root: str
    total: int
    exposed: Estimate
    recipients: Estimate
    sources: Estimate
    accounts_known: bool
    answers: Answers
    steps: tuple[Step, ...]
    tiers: tuple[TierView, ...]
    tier_counts: tuple[Cell, ...]
    mechanisms: tuple[MechanismView, ...]
    accounts: tuple[AccountView, ...]
    accounts_left_out: int
    workers: tuple[WorkerView, ...]
    levels: tuple[LevelView, ...]
    gaps: tuple[GapView, ...]
    missing: tuple[GapView, ...]
    findings: tuple[FindingView, ...]
    excluded: int
    excluded_reasons: tuple[tuple[str, str, int], ...]
    files: tuple[FileView, ...]


def build_view(
    summary: Mapping[str, Any], rows: Rows, excerpts: Mapping[str, Excerpt]
) -> ReportView:
    """Turn the results into what is shown; the same inputs give the same view."""
    by_tier = summary["responses"]["by_tier"]
    anchors = Anchors.of(summary, rows)
    # The accounts come first: they decide which of them can be linked to.
    listed, left_out = accounts(rows, anchors)
    shown = responses(rows, anchors, excerpts)
    advice = tuple(steps(dict(summary)))
    return ReportView(
        tool_version=name(summary["tool"]["version"]),
        knowledge_version=name(summary["tool"]["knowledge_version"]),
        evidence_root=name(summary["tool"]["evidence_root"]),
        total=int(summary["responses"]["total"]),
        exposed=estimate(summary["exposed_responses"]),
        recipients=estimate(summary["accounts"]["as_recipient"]),
        sources=estimate(summary["accounts"]["as_source"]),
        accounts_known=bool(summary["accounts"]["known"]),
        answers=answers(summary, rows, anchors, advice),
        steps=advice,
        tiers=tuple(
            TierView(tier, LABELS[tier], DEFINITIONS[tier], tier_anchor(tier), int(by_tier[tier]),
                     shown[tier]) for tier in CAPS),
        tier_counts=tuple(
            Cell(tier, LABELS[tier], int(by_tier[tier]), tier_anchor(tier)) for tier in TIERS),
        mechanisms=mechanisms(summary, rows, anchors),
        accounts=listed, accounts_left_out=left_out,
        workers=workers(summary, rows, anchors),
        levels=_levels(summary),
        gaps=tuple(
            GapView(sentence(gap["text"]), name(gap["code"]), sentence(gap["switch"]),
                    int(gap["responses"])) for gap in summary["not_assessable"]),
        missing=tuple(
            GapView(sentence(gap["what"]), sentence(gap["why"]), sentence(gap["switch"]))
            for gap in summary["missing"]),
        findings=tuple(_finding(finding, excerpts) for finding in summary["findings"]),
        excluded=int(by_tier["excluded"]), excluded_reasons=excluded_reasons(rows),
        files=tuple(_file(row) for row in summary["evidence"]))


def _levels(summary: Mapping[str, Any]) -> tuple[LevelView, ...]:
    total = int(summary["responses"]["total"])
    found = []
    for level, text in LEVELS.items():
        value = summary["coverage"].get(level, 0)
        number = int(value["responses"] if isinstance(value, dict) else value)
        percent = f"{100 * number / total:.1f}" if total else "0"
        found.append(LevelView(level, text, number, percent))
    return tuple(found)


def _finding(finding: Mapping[str, Any], excerpts: Mapping[str, Excerpt]) -> FindingView:
    return FindingView(name(finding["code"]), sentence(finding["text"]), tuple(
        line_view(ref, excerpts) for ref in finding["evidence"][:MAX_FINDING_LINES]))


def _file(row: Mapping[str, Any]) -> FileView:
    first, last = row.get("first_at"), row.get("last_at")
    return FileView(
        int(row["id"]), name(row["name"]), name(row["format"] or "not recognised"),
        int(row["lines"] or 0), int(row["records"] or 0), int(row["rejects"] or 0),
        name(row["status"]), f"{name(first)} to {name(last)}" if first else "no time",
        name(row["sha256"] or "no hash"))
