"""The first screen: the six questions of an incident commander, answered from the summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from web.report_advice import OPEN, Step, exposed, open_workers
from web.report_rows import EXPOSED, Rows
from web.report_text import (
    Moment,
    count,
    duration,
    joined,
    moment,
    name,
    plural,
    sentence,
    slug,
    upper_first,
)
from web.view_fleet import version_text
from web.view_rows import Anchors
from web.view_terms import LABELS, LEVELS, mechanism_line, mechanism_title, tier_anchor

MAX_WORKERS: Final = 6


@dataclass(frozen=True, slots=True)
class Place:
    """A worker on the first screen, with the mechanisms that its build leaves open."""

    anchor: str
    name: str
    role: str
    version: str
    open: str


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a sentence; a number leads to what is behind it."""

    text: str
    anchor: str | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """``tone``: 'found' (something is exposed), 'open' (cannot be told), 'none' (none found)."""

    tone: str
    headline: tuple[Part, ...]
    happened: tuple[tuple[Part, ...], ...]
    going_on: str
    going_on_tone: str
    going_on_text: str
    stops: tuple[str, ...]
    first: Moment | None
    first_anchor: str | None
    last: Moment | None
    last_anchor: str | None
    lasted: str
    observed_first: Moment | None
    observed_last: Moment | None
    zones: tuple[str, ...]
    models: str
    places: tuple[Place, ...]
    places_left_out: int
    sure: tuple[str, ...]
    missing: tuple[str, ...]


def answers(
    summary: Mapping[str, Any], rows: Rows, anchors: Anchors, steps: Sequence[Step]
) -> Answers:
    """Answer: what happened, is it going on, what stops it, since when, where, how sure."""
    tone, headline = _headline(summary)
    first, last = moment(summary["window"]["first"]), moment(summary["window"]["last"])
    label, going_on_tone, text = _going_on(summary, last)
    stops = [step.brief for step in steps if step.phase == "stop" and step.brief]
    return Answers(
        tone=tone, headline=headline, happened=tuple(_happened(summary)),
        going_on=label, going_on_tone=going_on_tone, going_on_text=text, stops=tuple(stops[:3]),
        first=first, first_anchor=anchors.responses.get(id(rows.first)) if rows.first else None,
        last=last, last_anchor=anchors.responses.get(id(rows.last)) if rows.last else None,
        lasted=duration(last.ns - first.ns) if first and last else "",
        observed_first=moment(summary["observed"]["first"]),
        observed_last=moment(summary["observed"]["last"]),
        zones=tuple(_unknown_zones(summary)),
        models=joined([name(model) for model, _ in sorted(
            rows.models.items(), key=lambda item: (-item[1], item[0]))]),
        places=tuple(_places(summary, anchors))[:MAX_WORKERS],
        places_left_out=max(0, len(summary["fleet"]) - MAX_WORKERS),
        sure=tuple(_sure(summary)),
        missing=tuple(sentence(gap["what"]) for gap in summary["missing"][:2]))


def _headline(summary: Mapping[str, Any]) -> tuple[str, tuple[Part, ...]]:
    tiers, total = summary["responses"]["by_tier"], int(summary["responses"]["total"])
    if not total:
        return "open", (Part("No response was found in this evidence: nothing is assessable. "
                             "This is not an all-clear."),)
    whole = plural(total, "response")
    shown = sum(tiers[tier] for tier in EXPOSED)
    blind = Part(count(tiers["not_assessable"]), tier_anchor("not_assessable"))
    if shown:
        parts = [Part(f"{count(shown)} of {whole} may contain another request's data: ")]
        for tier in EXPOSED:
            anchor = tier_anchor(tier) if tiers[tier] else None
            parts += [Part(count(tiers[tier]), anchor), Part(f" {LABELS[tier]}, ")]
        parts[-1] = Part(f" {LABELS[EXPOSED[-1]]}")
        if tiers["not_assessable"]:
            parts += [Part("; "), blind, Part(" more cannot be assessed")]
        return "found", (*parts, Part("."))
    if tiers["not_assessable"]:
        return "open", (Part("No exposure was found, but "), blind,
                        Part(f" of {whole} cannot be assessed: this is not an all-clear."))
    return "none", (Part("No exposure was found: recorded facts exclude all "),
                    Part(whole, tier_anchor("excluded")),
                    Part(" in this evidence. That says nothing of any other response."))


def _happened(summary: Mapping[str, Any]) -> Iterator[tuple[Part, ...]]:
    for key in summary["mechanisms"]:
        number = exposed(dict(summary), key)
        if number:
            yield (Part(f"{upper_first(mechanism_title(key))} ("),
                   Part(count(number), f"m-{slug(key)}"), Part(f"): {mechanism_line(key)}."))


def _going_on(summary: Mapping[str, Any], last: Moment | None) -> tuple[str, str, str]:
    end = moment(summary["observed"]["last"])
    seen = f"The evidence ends at {end.text} UTC" if end else "The evidence has no end time"
    if not summary["responses"]["total"]:
        return "Cannot be told", "open", "No response is in the evidence. " + seen + "."
    active = [key for key in summary["mechanisms"] if exposed(dict(summary), key)]
    still = _still_open(summary, active or list(summary["mechanisms"]), OPEN)
    blind = int(summary["responses"]["by_tier"]["not_assessable"])
    end_of_it = f"{seen}; later traffic is not covered."
    if not active:
        but = f" At the last evidence, {still}." if still else ""
        if blind:
            return "Cannot be told", "open", (
                f"No response was found exposed, but {count(blind)} cannot be assessed.{but} "
                + end_of_it)
        if _still_open(summary, list(summary["mechanisms"]), OPEN[:2]) or not summary["fleet"]:
            but = but or " No worker's build is known."
            return "None found; builds are open", "open", (
                f"No response was found exposed.{but} {end_of_it}")
        return "None found", "none", (
            f"No response was found exposed.{but or ' No build leaves a weighed mechanism open.'} "
            + end_of_it)
    gap = f", {duration(end.ns - last.ns)} before its end" if end and last else ""
    latest = (f"The last response that may be exposed ended at {last.text} UTC{gap}"
              if last else "The times of the exposed responses are not known")
    if still or not summary["fleet"]:
        why = still or "no worker's build is known"
        return "Assume yes", "found", f"At the last evidence, {why}. {latest}. {seen}."
    return "Not seen at the end", "open", (
        f"{latest}. The builds at the end of the evidence close it, by the knowledge base. "
        + end_of_it)


def _still_open(
    summary: Mapping[str, Any], mechanisms: Sequence[str], states: Sequence[str]
) -> str:
    """Say which workers end in a build that leaves a mechanism in one of the states."""
    parts = []
    for key in mechanisms:
        try:
            workers = open_workers(dict(summary), key)
        except KeyError:  # a mechanism that the knowledge base does not name
            continue
        found = {worker["knowledge"][key]["state"] for worker in workers}
        if found & set(states):
            names = joined([name(worker["worker"]) for worker in workers], 3)
            verb = "run builds" if len(workers) > 1 else "runs a build"
            reduced = " (reduced)" if found == {"reduced"} else ""
            parts.append(f"{names} {verb} open to {mechanism_title(key)}{reduced}")
    return "; ".join(parts)


def _unknown_zones(summary: Mapping[str, Any]) -> Iterator[str]:
    for worker in summary["fleet"]:
        clock = worker.get("clock")
        if clock and clock.get("zone_offset_s") is None:
            yield name(worker["worker"])


def _places(summary: Mapping[str, Any], anchors: Anchors) -> Iterator[Place]:
    for number, worker in enumerate(summary["fleet"], 1):
        opened = [
            mechanism_title(key) + (" (reduced)" if known["state"] == "reduced" else "")
            for key, known in worker["knowledge"].items() if known["state"] in OPEN]
        yield Place(f"worker-{number}", name(worker["worker"]), name(worker["role"]),
                    version_text(worker["version"]), ", ".join(opened))


def _sure(summary: Mapping[str, Any]) -> Iterator[str]:
    total = int(summary["responses"]["total"])
    for level in reversed(LEVELS):
        value = summary["coverage"].get(level, 0)
        number = int(value["responses"] if isinstance(value, dict) else value)
        if number:
            yield f"{count(number)} of {plural(total, 'response')}: {LEVELS[level]} ({level})"
    for worker in summary["fleet"]:
        if worker["version"].get("contradictory"):
            yield f"The build of {name(worker['worker'])} is contradictory; the wider range counts"
    rejects = sum(int(row["rejects"] or 0) for row in summary["evidence"])
    if rejects:
        yield f"{plural(rejects, 'line')} of a known format could not be parsed"
    unread = sum(row["status"] in ("unreadable", "damaged", "unrecognised")
                 for row in summary["evidence"])
    if unread:
        yield f"{plural(unread, 'file')} could not be read whole or recognised"
