"""The records of the knowledge base: rules, gates, switches, quantities, and what a lookup says."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from forensics.versions import Version

State = Literal["closed", "reduced", "unknown", "exposed"]
Origin = Literal["source", "advisory"]
SwitchValue = bool | str

# From safest to worst; a lookup over several possibilities answers the worst of them.
STATES: Final[tuple[State, ...]] = ("closed", "reduced", "unknown", "exposed")
# Late-write windows from narrowest to widest.
WINDOWS: Final = ("none", "timeout_release", "one_transfer_call", "posted_transfers",
                  "rest_of_prefill")
BACKENDS: Final = ("mooncake", "ascend", "nixl", "mori", "fake")
# An unstated backend is one of these: 'fake' moves no data and serves benchmarks only.
REAL_BACKENDS: Final = BACKENDS[:-1]
STATE_TYPES: Final = ("plain", "dsa", "swa", "mamba")
# Mechanisms with a per-response verdict, in the order of DESIGN.
MECHANISMS: Final = (
    "stale_handoff", "truncated_handoff", "late_write", "source_reuse", "metadata_collision",
    "fail_open", "offload_race", "room_reuse",
)
DEFERRED_RELEASE: Final = "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE"


@dataclass(frozen=True, slots=True)
class Release:
    """A release, the day of its wheel and the day the advisory gives (None: not recorded)."""

    version: Version
    date: datetime.date | None
    advisory_date: datetime.date | None


@dataclass(frozen=True, slots=True)
class Marker:
    """A dialect marker with the first and last release that show it."""

    name: str
    since: Version | None
    until: Version | None
    what: str
    source: str


@dataclass(frozen=True, slots=True)
class Gate:
    """A change that opens, reduces or closes a mechanism; ``date`` as precise as it is known."""

    number: int
    project: str
    url: str
    date: str
    effect: str
    fixed_in: Version | None
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One rule: which builds, backends, model state types and switch values have which state."""

    mechanism: str
    origin: Origin
    since: Version
    until: Version
    backends: tuple[str, ...]
    state_types: tuple[str, ...]
    when: tuple[tuple[str, SwitchValue], ...]
    state: State
    window: str | None
    residual: tuple[str, ...]
    gates: tuple[int, ...]
    references: tuple[str, ...]

    def covers(self, version: Version, backend: str, state_type: str) -> bool:
        """True if the rule speaks of this build (by its base release), backend and state type."""
        return (backend in self.backends and state_type in self.state_types
                and self.since <= version.base <= self.until)

    def holds(self, switches: Mapping[str, SwitchValue]) -> bool:
        """True if every switch condition of the rule is met."""
        return all(switches.get(name) == value for name, value in self.when)


@dataclass(frozen=True, slots=True)
class MixedRow:
    """What two different builds do together; ``rule`` holds the state, its range is decode's."""

    rule: Row
    prefill_since: Version
    prefill_until: Version


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A way in which one request's KV data reaches another response."""

    name: str
    letter: str
    title: str
    one_line: str
    recipient: str
    source: str
    decides: str
    closed_by: str
    rows: tuple[Row, ...]
    mixed: tuple[MixedRow, ...]

    def switch_values(self) -> dict[str, tuple[SwitchValue, ...]]:
        """Return the switches that its rules depend on, with every value that they tell apart."""
        values: dict[str, list[SwitchValue]] = {}
        for row in (*self.rows, *(m.rule for m in self.mixed)):
            for name, value in row.when:
                seen = values.setdefault(name, [])
                if value not in seen:
                    seen.append(value)
        return {name: tuple(sorted(seen, key=str)) for name, seen in sorted(values.items())}


@dataclass(frozen=True, slots=True)
class Family:
    """A family without a per-response verdict: a finding of the case."""

    letter: str
    name: str
    title: str
    one_line: str
    decided_by: str
    closed_by: str
    references: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SwitchDefault:
    """The value that a build takes when nobody sets the switch."""

    since: Version
    until: Version
    backends: tuple[str, ...]
    value: SwitchValue


@dataclass(frozen=True, slots=True)
class Switch:
    """A setting that changes a state: env variable, flag, or fact of the deployment."""

    name: str
    kind: str
    role: str
    effect: str
    evidence: str
    source: str
    values: tuple[SwitchValue, ...]
    defaults: tuple[SwitchDefault, ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that rules use. ``excludes_beyond``: a fact beyond it may refute a condition."""

    name: str
    backend: str
    value: float
    unit: str
    excludes_beyond: bool
    basis: str
    source: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """How KV capacity follows from the printed pool size: times dcp, or as printed."""

    since: Version
    until: Version
    times_dcp: bool
    source: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """One possibility that a lookup weighed: what was assumed, and its state and window."""

    assumption: str
    state: State
    window: str | None


@dataclass(frozen=True, slots=True)
class Assessment:
    """What is known of a build and one mechanism: the worst of all possibilities.

    ``why`` says which facts were missing or which range spans several states; ``alternatives``
    lists every distinct outcome, worst first. ``released_tree`` is False where patches on top of
    the build cannot be known.
    """

    mechanism: str
    state: State
    window: str | None
    residual: tuple[str, ...]
    gates: tuple[Gate, ...]
    references: tuple[str, ...]
    why: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    origin: Origin
    released_tree: bool
