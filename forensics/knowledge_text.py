"""Renders what is known of a build, for ``palimpsest knowledge``: plain text, or a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any, Final

from forensics.knowledge import BACKENDS, Knowledge, load_knowledge
from forensics.knowledge.lookup import as_range, candidates
from forensics.knowledge.model import (
    Assessment,
    Gate,
    Mechanism,
    Row,
    Switch,
    SwitchValue,
)
from forensics.versions import VersionRange
from ingest.errors import UsageError

WIDTH: Final = 96


def render_knowledge(version: str | None = None, backend: str | None = None) -> str:
    """Say in plain text what is known of a build, or of all builds if none is named.

    Raises UsageError for a transfer backend that nobody described.
    """
    knowledge, name = load_knowledge(), _backend(backend)
    lines = [f"Knowledge base {knowledge.version}, complete to {knowledge.as_of.isoformat()}"]
    if version is None:
        lines += [*_overview(knowledge, name)]
    else:
        lines += [*_build(knowledge, as_range(version), version, name)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def knowledge_as_dict(version: str | None = None, backend: str | None = None) -> dict[str, Any]:
    """Return the same as plain JSON types; raises UsageError as ``render_knowledge`` does."""
    knowledge, name = load_knowledge(), _backend(backend)
    result: dict[str, Any] = {
        "schema": "palimpsest/knowledge/1",
        "version": knowledge.version,
        "as_of": knowledge.as_of.isoformat(),
        "backend": name,
        "releases": [
            {"version": str(r.version), "date": r.date.isoformat() if r.date else None,
             "advisory_date": r.advisory_date.isoformat() if r.advisory_date else None}
            for r in knowledge.releases],
        "gates": [_gate_dict(gate) for gate in knowledge.gates.values()],
        "quantities": [
            {"name": q.name, "backend": q.backend, "value": q.value, "unit": q.unit,
             "excludes_beyond": q.excludes_beyond, "basis": q.basis, "source": q.source}
            for q in knowledge.quantities],
        "families": [
            {"letter": f.letter, "name": f.name, "title": f.title, "one_line": f.one_line,
             "decided_by": f.decided_by, "closed_by": f.closed_by,
             "references": list(f.references)}
            for f in knowledge.families],
        "switches": [_switch_dict(knowledge, switch, version, name)
                     for switch in knowledge.switches.values()],
        "mechanisms": [
            _mechanism_dict(knowledge, m, version, name) for m in knowledge.mechanisms.values()],
    }
    if version is not None:
        versions = as_range(version)
        result["build"] = {"text": version, "range": str(versions), "exact": versions.exact,
                           "why": list(versions.why), "not_read": not _read(knowledge, versions)}
    return result


def _backend(backend: str | None) -> str | None:
    if backend is None or backend == "any":
        return None
    name = backend.strip().lower()
    if name not in BACKENDS:
        raise UsageError(f"unknown transfer backend {backend!r}",
                         way_out=f"Known backends: {', '.join(BACKENDS)}")
    return name


def _read(knowledge: Knowledge, versions: VersionRange) -> bool:
    return None not in candidates(knowledge.known, versions)


def _overview(knowledge: Knowledge, backend: str | None) -> Iterator[str]:
    yield from _wrapped(
        f"All builds, transfer backend {backend or 'any'}. Newest release known: "
        f"{knowledge.known[-1]}. A build that no rule covers is unknown, never closed.", 0)
    for mechanism in knowledge.mechanisms.values():
        yield ""
        yield from _heading(mechanism)
        for row in mechanism.rows:
            if backend is None or backend in row.backends:
                yield from _row(row)
    yield ""
    yield "Findings without a per-response verdict"
    for family in knowledge.families:
        yield from _wrapped(f"{family.letter:3} {family.name}: {family.one_line}", 2, 6)
        yield from _wrapped(f"decided by: {family.decided_by}", 6)
    yield from _tail(knowledge, backend, tuple(knowledge.gates.values()), None)


def _build(
    knowledge: Knowledge, versions: VersionRange, text: str, backend: str | None
) -> Iterator[str]:
    yield from _wrapped(f"Build {text}: {versions}, transfer backend "
                        f"{backend or 'not stated (worst of all)'}", 0)
    for release in knowledge.releases:
        if versions.low == versions.high and versions.low and release.version == versions.low.base:
            dates = [f"wheel {release.date.isoformat()}" if release.date else "wheel date unknown"]
            if release.advisory_date:
                dates.append(f"advisory {release.advisory_date.isoformat()}")
            yield f"Release {release.version}: {', '.join(dates)}"
    for why in versions.why:
        yield from _wrapped(why, 2)
    if not _read(knowledge, versions):
        yield from _wrapped(f"Nothing was read about some or all of these builds (known: "
                            f"{knowledge.known[0]} to {knowledge.known[-1]}): not closed.", 2)
    gates: dict[int, Gate] = {}
    references: dict[str, None] = {}
    for mechanism in knowledge.mechanisms.values():
        yield ""
        yield from _heading(mechanism)
        source = knowledge.lookup(mechanism.name, versions, backend)
        yield from _assessment(source, "source")
        if len(source.alternatives) > 1:
            usual = knowledge.lookup(mechanism.name, versions, backend, None,
                                     _defaults(knowledge, mechanism, versions, backend))
            window = f", window {usual.window}" if usual.window else ""
            yield f"    with every switch at its default: {usual.state}{window}"
        gates.update({gate.number: gate for gate in source.gates})
        references.update(dict.fromkeys(source.references))
        if any(row.origin == "advisory" for row in mechanism.rows):
            advisory = knowledge.lookup(mechanism.name, versions, backend, origin="advisory")
            differs = (source.state, source.window) != (advisory.state, advisory.window)
            yield from _assessment(advisory, "advisory (differs)" if differs else "advisory")
            references.update(dict.fromkeys(advisory.references))
    yield from _tail(knowledge, backend, tuple(gates.values()), versions)
    yield ""
    yield "References"
    for reference in references:
        yield from _wrapped(reference, 2, 4)


def _defaults(
    knowledge: Knowledge, mechanism: Mechanism, versions: VersionRange, backend: str | None
) -> dict[str, SwitchValue | None]:
    return {name: knowledge.switch_default(name, versions, backend)
            for name in mechanism.switch_values()}


def _heading(mechanism: Mechanism) -> Iterator[str]:
    who = {"both": "both workers decide"}.get(mechanism.decides,
                                              f"the {mechanism.decides} worker decides")
    yield f"{mechanism.letter}  {mechanism.name} ({mechanism.title}); {who}"
    yield from _wrapped(mechanism.one_line, 2)


def _assessment(found: Assessment, label: str) -> Iterator[str]:
    window = f", window {found.window}" if found.window else ""
    yield f"  {label}: {found.state.upper()}{window}"
    for text in found.residual:
        yield from _wrapped(f"- {text}", 4, 6)
    if len(found.alternatives) > 1:
        for other in found.alternatives:
            tail = f" ({other.window})" if other.window else ""
            yield from _wrapped(f"if {other.assumption}: {other.state}{tail}", 4, 6)
    if not found.residual:
        yield from _wrapped(f"- {found.why[-1]}", 4, 6)


def _row(row: Row) -> Iterator[str]:
    span = str(row.since) if row.since == row.until else f"{row.since} to {row.until}"
    backends = "any" if row.backends == BACKENDS else ", ".join(row.backends)
    conditions = [f"{name}={str(value).lower()}" for name, value in row.when]
    if len(row.state_types) < 4:
        conditions.append(f"state {'/'.join(row.state_types)}")
    window = f", {row.window}" if row.window else ""
    note = " [advisory]" if row.origin == "advisory" else ""
    yield from _wrapped(f"{span}{note}  {backends}: {row.state.upper()}{window}"
                        + (f"; with {', '.join(conditions)}" if conditions else ""), 2, 6)
    for text in row.residual:
        yield from _wrapped(f"- {text}", 6, 8)


def _tail(
    knowledge: Knowledge, backend: str | None, gates: tuple[Gate, ...],
    versions: VersionRange | None,
) -> Iterator[str]:
    yield ""
    yield "Switches"
    for switch in knowledge.switches.values():
        default = ""
        if versions is not None:
            value = knowledge.switch_default(switch.name, versions, backend)
            default = (" default not known or not the same everywhere;" if value is None
                       else f" default {str(value).lower()};")
        yield from _wrapped(f"{switch.name} ({switch.kind}, {switch.role}):{default} "
                            f"{switch.effect}", 2, 6)
    yield ""
    yield "Quantities"
    for one in knowledge.quantities:
        if backend is None or one.backend in (backend, "any"):
            yield from _wrapped(f"{one.name} [{one.backend}] = {one.value:g} {one.unit}: "
                                f"{one.basis}", 2, 6)
    yield ""
    yield "Gates"
    for gate in gates:
        fixed = f", first in {gate.fixed_in}" if gate.fixed_in else ""
        yield from _wrapped(f"{gate.project} #{gate.number} ({gate.date}{fixed}): {gate.effect}; "
                            f"{gate.url}", 2, 6)


def _wrapped(text: str, indent: int, hanging: int | None = None) -> list[str]:
    return wrap(text, WIDTH, initial_indent=" " * indent,
                subsequent_indent=" " * (indent if hanging is None else hanging),
                break_long_words=False, break_on_hyphens=False)


def _assessment_dict(found: Assessment) -> dict[str, Any]:
    return {
        "state": found.state, "window": found.window, "origin": found.origin,
        "residual": list(found.residual), "why": list(found.why),
        "gates": [gate.number for gate in found.gates], "references": list(found.references),
        "released_tree": found.released_tree,
        "alternatives": [{"assumption": a.assumption, "state": a.state, "window": a.window}
                         for a in found.alternatives],
    }


def _row_dict(row: Row) -> dict[str, Any]:
    return {
        "origin": row.origin, "since": str(row.since), "until": str(row.until),
        "backends": list(row.backends), "state_types": list(row.state_types),
        "when": dict(row.when), "state": row.state, "window": row.window,
        "residual": list(row.residual), "gates": list(row.gates),
        "references": list(row.references),
    }


def _mechanism_dict(
    knowledge: Knowledge, mechanism: Mechanism, version: str | None, backend: str | None
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "name": mechanism.name, "letter": mechanism.letter, "title": mechanism.title,
        "one_line": mechanism.one_line, "recipient": mechanism.recipient,
        "source": mechanism.source, "decides": mechanism.decides,
        "closed_by": mechanism.closed_by,
        "rules": [_row_dict(row) for row in mechanism.rows
                  if backend is None or backend in row.backends],
    }
    if version is not None:
        result["assessment"] = _assessment_dict(
            knowledge.lookup(mechanism.name, version, backend))
        if any(row.origin == "advisory" for row in mechanism.rows):
            result["advisory"] = _assessment_dict(
                knowledge.lookup(mechanism.name, version, backend, origin="advisory"))
    return result


def _switch_dict(
    knowledge: Knowledge, switch: Switch, version: str | None, backend: str | None
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "name": switch.name, "kind": switch.kind, "role": switch.role, "effect": switch.effect,
        "evidence": switch.evidence, "source": switch.source,
        "defaults": [{"since": str(d.since), "until": str(d.until),
                      "backends": list(d.backends), "value": d.value} for d in switch.defaults],
    }
    if version is not None:
        result["default"] = knowledge.switch_default(switch.name, version, backend)
    return result


def _gate_dict(gate: Gate) -> dict[str, Any]:
    return {"number": gate.number, "project": gate.project, "url": gate.url, "date": gate.date,
            "effect": gate.effect, "fixed_in": str(gate.fixed_in) if gate.fixed_in else None,
            "mechanisms": list(gate.mechanisms)}
