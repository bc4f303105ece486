"""The workers of the fleet: build, pools, switches, and what the knowledge base says of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from web.report_rows import Rows
from web.report_text import count, name, sentence
from web.view_rows import Anchors, Chip
from web.view_tables import Cell
from web.view_terms import LABELS, STATES, TIERS, mechanism_title

MAX_CHIPS: Final = 200


@dataclass(frozen=True, slots=True)
class KnownView:
    """What the knowledge base says of one build and one mechanism."""

    title: str
    state: str
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One worker at its last start in the evidence."""

    anchor: str
    name: str
    role: str
    version: str
    basis: str
    contradictory: bool
    facts: tuple[tuple[str, str], ...]
    pools: tuple[str, ...]
    switches: tuple[tuple[str, str], ...]
    known: tuple[KnownView, ...]
    cells: tuple[Cell, ...]
    chips: tuple[Chip, ...]


def workers(summary: Mapping[str, Any], rows: Rows, anchors: Anchors) -> tuple[WorkerView, ...]:
    """Return the workers in the order of the summary."""
    chips: dict[str, dict[str, Chip]] = {}
    for kept in rows.shown.values():
        for record in kept:
            for side in ("prefill_worker", "decode_worker"):
                if record.get(side) is not None:
                    chip = anchors.chip(record)
                    chips.setdefault(record[side], {})[chip.anchor] = chip
    return tuple(_worker(worker, number, rows, chips.get(worker["worker"], {}))
                 for number, worker in enumerate(summary["fleet"], 1))


def version_text(version: Mapping[str, Any]) -> str:
    """Return a build as far as it is known."""
    low, high = version.get("low"), version.get("high")
    if version.get("text"):
        return name(version["text"])
    if low is None and high is None:
        return "build not known"
    if low == high:
        return name(low)
    return f"{name(low or 'any')} to {name(high or 'any')}"


def _worker(
    worker: Mapping[str, Any], number: int, rows: Rows, chips: Mapping[str, Chip]
) -> WorkerView:
    anchor = f"worker-{number}"
    counts: Mapping[str, int] = rows.workers.get(worker["worker"], {})
    return WorkerView(
        anchor=anchor, name=name(worker["worker"]), role=name(worker["role"]),
        version=version_text(worker["version"]), basis=sentence(worker["version"]["basis"]),
        contradictory=bool(worker["version"].get("contradictory")),
        facts=tuple(_facts(worker)),
        pools=tuple(_pool(pool) for pool in worker["pools"]),
        switches=tuple((name(key), name(value)) for key, value in sorted(worker["switches"].items())
                       if value is not None),
        known=tuple(
            KnownView(mechanism_title(key), known["state"],
                      STATES.get(known["state"], name(known["state"])), sentence(known["why"]))
            for key, known in worker["knowledge"].items()),
        cells=tuple(Cell(tier, LABELS[tier], int(counts.get(tier, 0)),
                         ("excluded" if tier == "excluded" else f"{anchor}-responses")
                         if counts.get(tier) else None) for tier in TIERS),
        chips=tuple(chips.values())[:MAX_CHIPS])


def _facts(worker: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "role known from", sentence(worker["role_basis"])
    yield "host", name(worker["host"] or "not known")
    yield "transfer backend", name(worker["backend"] or "not known")
    if worker.get("model_state"):
        yield "model state", name(worker["model_state"])
    yield "starts in the evidence", str(worker["boots"])
    clock = worker.get("clock")
    if clock:
        zone = clock.get("zone_offset_s")
        known = "not known: its times are bounds, 14 h wide each way" if zone is None else (
            f"UTC{int(zone) // 3600:+03d}:{abs(int(zone)) // 60 % 60:02d}")
        yield "clock zone", f"{known} ({sentence(clock['basis'])})"
    log = worker.get("log")
    if log:
        start = "with its start" if log.get("has_start") else "without its start"
        yield "process log", f"{name(log['first_at'])} to {name(log['last_at'])}, {start}"


def _pool(pool: Mapping[str, Any]) -> str:
    parts = [f"DP rank {pool['dp']}"] if pool.get("dp") is not None else []
    for key, text in (("tokens", "pool of {} tokens"), ("page_size", "page size {}"),
                      ("max_req_input_len", "refuses prompts from {} tokens on"),
                      ("context_len", "context length {}")):
        if pool.get(key) is not None:
            parts.append(text.format(count(pool[key])))
    return ", ".join(parts) or "pool not known"
