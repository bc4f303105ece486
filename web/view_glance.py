"""The first screen: the six questions of an incident commander, answered from the summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from web.report_advice import OPEN, Step, exposed, open_workers
from web.report_rows import Rows
from web.report_text import Moment, count, duration, joined, moment, name, plural, sentence
from web.view_fleet import version_text
from web.view_rows import Anchors
from web.view_terms import LEVELS, mechanism_line, mechanism_title

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
class Answers:
    """``tone``: 'found' (something is exposed), 'open' (cannot be told), 'none' (none found)."""

    tone: str
    headline: str
    happened: tuple[str, ...]
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


def _headline(summary: Mapping[str, Any]) -> tuple[str, str]:
    tiers, total = summary["responses"]["by_tier"], int(summary["responses"]["total"])
    if not total:
        return "open", ("No response was found in this evidence: nothing is assessable. "
                        "This is not an all-clear.")
    shown = [tiers["confirmed"], tiers["probable"], tiers["possible"]]
    blind = tiers["not_assessable"]
    if sum(shown):
        return "found", (
            f"{count(sum(shown))} of {plural(total, 'response')} may contain another request's "
            f"data: {count(shown[0])} confirmed, {count(shown[1])} probable, {count(shown[2])} "
            "possible" + (f"; {count(blind)} more cannot be assessed." if blind else "."))
    if blind:
        return "open", (f"No exposure was found, but {count(blind)} of {plural(total, 'response')} "
                        "cannot be assessed: this is not an all-clear.")
    return "none", (f"No exposure was found: recorded facts exclude {plural(total, 'response')}, "
                    "which is every response in this evidence. It says nothing of any other.")


def _happened(summary: Mapping[str, Any]) -> Iterator[str]:
    for key in summary["mechanisms"]:
        number = exposed(dict(summary), key)
        if number:
            line = mechanism_line(key)
            yield f"{mechanism_title(key).capitalize()} ({count(number)}): {line}."


def _going_on(summary: Mapping[str, Any], last: Moment | None) -> tuple[str, str, str]:
    end = moment(summary["observed"]["last"])
    seen = f"The evidence ends at {end.text} UTC" if end else "The evidence has no end time"
    if not summary["responses"]["total"]:
        return "Cannot be told", "open", "No response is in the evidence. " + seen + "."
    active = [key for key in summary["mechanisms"] if exposed(dict(summary), key)]
    still = _still_open(summary, active or list(summary["mechanisms"]))
    if not active:
        if still:
            return "None found; builds are open", "open", (
                f"No response was found exposed, but {still}. {seen}; later traffic is not "
                "covered.")
        return "None found", "none", (
            "No response was found exposed, and no worker is known to run a build that leaves a "
            f"weighed mechanism open. {seen}; later traffic is not covered.")
    gap = f", {duration(end.ns - last.ns)} before its end" if end and last else ""
    latest = (f"The last response that may be exposed ended at {last.text} UTC{gap}"
              if last else "The times of the exposed responses are not known")
    if still or not summary["fleet"]:
        why = still or "no worker's build is known"
        return "Assume yes", "found", f"At the last evidence, {why}. {latest}. {seen}."
    return "Not seen at the end", "open", (
        f"{latest}. Every worker's last start in the evidence runs a build that closes it. {seen}; "
        "later traffic is not covered.")


def _still_open(summary: Mapping[str, Any], mechanisms: Sequence[str]) -> str:
    parts = []
    for key in mechanisms:
        try:
            workers = open_workers(dict(summary), key)
        except KeyError:
            continue
        if workers:
            names = joined(
                [f"{name(w['worker'])} ({version_text(w['version'])})" for w in workers], 3)
            verb = "run builds" if len(workers) > 1 else "runs a build"
            parts.append(f"{names} {verb} open to {mechanism_title(key)}")
    return "; ".join(parts)


def _unknown_zones(summary: Mapping[str, Any]) -> Iterator[str]:
    for worker in summary["fleet"]:
        clock = worker.get("clock")
        if clock and clock.get("zone_offset_s") is None:
            yield name(worker["worker"])


def _places(summary: Mapping[str, Any], anchors: Anchors) -> Iterator[Place]:
    for number, worker in enumerate(summary["fleet"], 1):
        opened = [mechanism_title(key) for key, known in worker["knowledge"].items()
                  if known["state"] in OPEN]
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
