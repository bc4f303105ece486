"""Answers what is known of a build and a mechanism: always the worst of all possibilities.

A missing fact (version, backend, model state type, switch) is replaced by every value that it can
have. So an answer can only get worse when less is known, and an unknown build is never closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from forensics.knowledge.model import (
    BACKENDS,
    REAL_BACKENDS,
    STATE_TYPES,
    STATES,
    WINDOWS,
    Alternative,
    Assessment,
    Gate,
    Mechanism,
    Origin,
    Row,
    State,
    SwitchValue,
)
from forensics.versions import Build, Version, VersionRange, parse_build

Buildish = Build | VersionRange | Version | str | None
Switches = Mapping[str, "SwitchValue | None"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One possibility: a release (None: outside what is known), backend, state type, switches."""

    decode: Version | None
    prefill: Version | None
    backend: str
    state_type: str
    switches: tuple[tuple[str, SwitchValue], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the rules say of one cell; ``rows`` is empty where no rule speaks of it."""

    state: State
    window: str | None
    rows: tuple[Row, ...]

    @property
    def rank(self) -> tuple[int, int]:
        """Order of outcomes, worse is larger."""
        window = WINDOWS.index(self.window) if self.window else len(WINDOWS)
        return STATES.index(self.state), window


def as_range(build: Buildish) -> VersionRange:
    """Turn anything that names a build into the versions it can be."""
    if isinstance(build, VersionRange):
        return build
    if isinstance(build, Version):
        return VersionRange(build, build, build.is_release, (f"stated as {build}",))
    if isinstance(build, Build):
        return build.range()
    return parse_build(build).range()


def candidates(known: Sequence[Version], versions: VersionRange) -> tuple[Version | None, ...]:
    """Return the known releases that a range can behave like; None stands for 'not known'.

    A build between two releases (development, nightly) may behave like either neighbour. A range
    that reaches below the first or above the last known release can be something nobody read.
    """
    if versions.empty or not known:
        return (None,)
    low, high = versions.low, versions.high
    below = low is None or low.base < known[0] or low < known[0]
    above = high is None or high.base > known[-1]
    first = _at_or_below(known, low) if low is not None else None
    last = _at_or_above(known, high) if high is not None else None
    found: list[Version | None] = [
        v for v in known
        if (first is None or v >= first) and (last is None or v <= last)
    ]
    if low is not None and low.base > known[-1]:
        found = []
    if high is not None and high.base < known[0]:
        found = []
    if below or above:
        found.append(None)
    return tuple(found)


def assess(
    mechanism: Mechanism,
    known: Sequence[Version],
    gates: Mapping[int, Gate],
    decode: VersionRange,
    prefill: VersionRange,
    backend: str | None,
    state_type: str | None,
    switches: Switches,
    origin: Origin,
    *,
    same: bool,
) -> Assessment:
    """Weigh every possibility of the given facts and return the worst, with all of them listed.

    ``same``: both roles run one build (then ``prefill`` repeats ``decode``).
    """
    pairs = (
        [(v, v) for v in candidates(known, decode)] if same
        else list(product(candidates(known, decode), candidates(known, prefill)))
    )
    depends = any(row.state_types != STATE_TYPES for row in mechanism.rows)
    values = mechanism.switch_values()
    stated = {name: normalise(value, values[name]) for name, value in switches.items()
              if name in values}
    missing = [name for name in values if stated.get(name) is None]
    choices = [[(name, value) for value in ([stated[name]] if name not in missing else allowed)]
               for name, allowed in values.items()]
    outcomes: dict[Outcome, list[Cell]] = {}
    memo: dict[Cell, Outcome] = {}
    for (d, p), b, s, sw in product(
        pairs, _options(backend, BACKENDS, REAL_BACKENDS),
        _options(state_type, STATE_TYPES, STATE_TYPES if depends else STATE_TYPES[:1]),
        product(*choices),
    ):
        cell = Cell(d, p, b, s, tuple((n, v) for n, v in sw if v is not None))
        outcomes.setdefault(_outcome(mechanism, cell, origin, memo), []).append(cell)
    ranked = sorted(outcomes, key=lambda o: (o.rank, len(outcomes[o])), reverse=True)
    worst = ranked[0]
    rows = [row for outcome in ranked if outcome.rank == worst.rank for row in outcome.rows]
    return Assessment(
        mechanism.name, worst.state, worst.window,
        _unique(text for row in rows for text in row.residual),
        tuple({n: gates[n] for row in rows for n in row.gates}.values()),
        _unique(text for row in rows for text in row.references),
        _why(decode, prefill, backend, state_type if depends else "plain", missing, ranked, same),
        _alternatives(ranked, outcomes, pairs, backend, state_type if depends else "plain",
                      missing),
        origin, decode.exact and prefill.exact,
    )


def normalise(value: SwitchValue | None, allowed: Sequence[SwitchValue]) -> SwitchValue | None:
    """Read a switch as a process may state it ('1', 'True', 'off'); None if it says nothing."""
    if value is None or value in allowed:
        return value
    text = str(value).strip().lower()
    if bool not in {type(v) for v in allowed}:
        return text if text in allowed else None
    if text in ("1", "true", "yes", "on", "y"):
        return True
    return False if text in ("0", "false", "no", "off", "n") else None


def _outcome(
    mechanism: Mechanism, cell: Cell, origin: Origin, memo: dict[Cell, Outcome]
) -> Outcome:
    """Weigh a cell: its mixed rule if there is one, else the worse of the two builds."""
    if cell.decode is cell.prefill:
        if cell not in memo:
            memo[cell] = _alone(mechanism, cell, origin)
        return memo[cell]
    if origin == "source" and cell.decode is not None and cell.prefill is not None:
        prefill, switches = cell.prefill.base, dict(cell.switches)
        for mixed in mechanism.mixed:
            if (cell.backend in mixed.rule.backends and mixed.rule.holds(switches)
                    and mixed.prefill_since <= prefill <= mixed.prefill_until
                    and mixed.rule.covers(cell.decode, cell.backend, cell.state_type)):
                return Outcome(mixed.rule.state, mixed.rule.window, (mixed.rule,))
    sides = [_outcome(mechanism, replace(cell, decode=v, prefill=v), origin, memo)
             for v in (cell.decode, cell.prefill)]
    return max(sides, key=lambda outcome: outcome.rank)


def _alone(mechanism: Mechanism, cell: Cell, origin: Origin) -> Outcome:
    """Weigh one build on both roles."""
    switches = dict(cell.switches)
    for row in mechanism.rows:
        if (cell.decode is not None and row.origin == origin and row.holds(switches)
                and row.covers(cell.decode, cell.backend, cell.state_type)):
            return Outcome(row.state, row.window, (row,))
    return Outcome("unknown", WINDOWS[-1] if mechanism.name == "late_write" else None, ())


def _alternatives(
    ranked: Sequence[Outcome],
    outcomes: Mapping[Outcome, Sequence[Cell]],
    pairs: Sequence[tuple[Version | None, Version | None]],
    backend: str | None,
    state_type: str | None,
    missing: Sequence[str],
) -> tuple[Alternative, ...]:
    result = []
    for outcome in ranked:
        cells = outcomes[outcome]
        parts = []
        if len(pairs) > 1:
            parts.append(_versions({(c.decode, c.prefill) for c in cells}))
        if backend is None:
            parts.append("backend " + "/".join(_unique(c.backend for c in cells)))
        if state_type is None and len({c.state_type for c in cells}) < len(STATE_TYPES):
            parts.append("state " + "/".join(_unique(c.state_type for c in cells)))
        for name in missing:
            seen = {str(dict(c.switches)[name]).lower() for c in cells}
            if len(seen) == 1:
                parts.append(f"{name}={seen.pop()}")
        result.append(Alternative("; ".join(parts) or "as stated", outcome.state, outcome.window))
    return tuple(result)


def _versions(pairs: set[tuple[Version | None, Version | None]]) -> str:
    mixed = any(d != p for d, p in pairs)
    decode = sorted({d for d, _ in pairs if d is not None})
    text = f"{decode[0]} to {decode[-1]}" if len(decode) > 1 else "".join(map(str, decode))
    if any(d is None or p is None for d, p in pairs):
        text = f"{text} or a build that was not read" if text else "a build that was not read"
    if mixed:
        prefill = sorted({p for _, p in pairs if p is not None})
        text = f"decode {text}, prefill {prefill[0]} to {prefill[-1]}" if prefill else text
    return text


def _why(
    decode: VersionRange,
    prefill: VersionRange,
    backend: str | None,
    state_type: str | None,
    missing: Sequence[str],
    ranked: Sequence[Outcome],
    same: bool,
) -> tuple[str, ...]:
    why = [f"build: {decode}"] if same else [f"decode build: {decode}", f"prefill build: {prefill}"]
    why += list(decode.why + prefill.why)
    if len(ranked) > 1:
        if backend is None:
            why.append("transfer backend not known: worst of all")
        if state_type is None:
            why.append("model state type not known: worst of all")
        why += [f"{name} not known: worst of its values" for name in missing]
        why.append(f"{len(ranked)} outcomes are possible; the worst one counts")
    if not ranked[0].rows:
        why.append("no rule speaks of this build: not known, and therefore not closed")
    return _unique(why)


def _options(value: str | None, allowed: Sequence[str], unstated: Sequence[str]) -> Sequence[str]:
    if value is None or value == "any":
        return unstated
    name = value.strip().lower()
    # A backend or state type that nobody described: no rule matches it, the state is unknown.
    return (name,) if name in allowed else ("(not described)",)


def _at_or_below(known: Sequence[Version], version: Version) -> Version | None:
    return max((v for v in known if v <= version), default=None)


def _at_or_above(known: Sequence[Version], version: Version) -> Version | None:
    # A post-release behaves like its release.
    if version.is_release and version.base in known:
        return version.base
    return min((v for v in known if v >= version), default=None)


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))

