"""What is known of the engine's builds: mechanisms, gates, switches and quantities, as data.

``load_knowledge()`` reads and checks the TOML files once. See README.md for how to change them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from typing import Final

from forensics.knowledge import limits, schema
from forensics.knowledge.lookup import Buildish, Switches, as_range, assess, candidates
from forensics.knowledge.model import (
    BACKENDS,
    DEFERRED_RELEASE,
    MECHANISMS,
    STATE_TYPES,
    Assessment,
    Capacity,
    Family,
    Gate,
    Marker,
    Mechanism,
    Origin,
    Quantity,
    Release,
    Switch,
    SwitchValue,
)
from forensics.version_data import knowledge_bytes, knowledge_files
from forensics.versions import Version, VersionRange
from ingest.errors import KnowledgeError
from ingest.errors import Origin as Place

# Most answers that are kept; evidence may state any number of builds.
MAX_ANSWERS: Final = 4096


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The whole knowledge base. ``version`` is its number and a hash of its files."""

    version: str
    number: int
    as_of: date
    releases: tuple[Release, ...]
    markers: tuple[Marker, ...]
    mechanisms: Mapping[str, Mechanism]
    families: tuple[Family, ...]
    gates: Mapping[int, Gate]
    switches: Mapping[str, Switch]
    quantities: tuple[Quantity, ...]
    capacities: tuple[Capacity, ...]
    # Answers by question: one fleet asks the same few questions for every response.
    memo: dict[Hashable, Assessment] = field(default_factory=dict, compare=False, repr=False)

    @property
    def known(self) -> tuple[Version, ...]:
        """Every known release, ascending."""
        return tuple(release.version for release in self.releases)

    def lookup(
        self,
        mechanism: str,
        build: Buildish,
        backend: str | None = None,
        state_type: str | None = None,
        switches: Switches | None = None,
        *,
        origin: Origin = "source",
    ) -> Assessment:
        """Say whether a build is open to a mechanism: the worst over everything not stated.

        ``build`` is the worker that decides (``Mechanism.decides``); for 'both' the two roles
        run it alike, see ``lookup_late_write``. Raises KeyError for an unknown mechanism.
        """
        versions = as_range(build)
        return self._answer(mechanism, versions, versions, backend, state_type, switches or {},
                            origin, True)

    def lookup_late_write(
        self,
        decode: Buildish,
        prefill: Buildish,
        backend: str | None = None,
        deferred_switch: SwitchValue | None = None,
        *,
        origin: Origin = "source",
    ) -> Assessment:
        """Say how open a pair of builds is to late writes.

        ``deferred_switch``: decode's deferred release as stated, None if not known (worst of on
        and off); ``switch_default`` gives what the builds take when nobody sets it.
        """
        return self._answer("late_write", as_range(decode), as_range(prefill), backend, None,
                            {DEFERRED_RELEASE: deferred_switch}, origin, False)

    def _answer(
        self, mechanism: str, decode: VersionRange, prefill: VersionRange, backend: str | None,
        state_type: str | None, switches: Switches, origin: Origin, same: bool,
    ) -> Assessment:
        # Evidence states switches in any shape; what is neither says nothing.
        switches = {n: v for n, v in switches.items() if isinstance(v, bool | str)}
        question = (mechanism, decode, prefill, backend, state_type,
                    tuple(sorted(switches.items(), key=lambda item: item[0])), origin, same)
        answer = self.memo.get(question)
        if answer is None:
            if len(self.memo) >= MAX_ANSWERS:
                self.memo.clear()
            answer = self.memo[question] = assess(
                self.mechanisms[mechanism], self.known, self.gates, decode, prefill, backend,
                state_type, switches, origin, same=same)
        return answer

    def switch_default(
        self, name: str, build: Buildish, backend: str | None = None
    ) -> SwitchValue | None:
        """Return the default of a switch if all builds of the range agree on it, else None."""
        switch = self.switches[name]
        backends = [backend] if backend in BACKENDS else [b for b in BACKENDS if b != "fake"]
        found: set[SwitchValue | None] = set()
        for version in candidates(self.known, as_range(build)):
            for one in backends:
                found.add(next(
                    (d.value for d in switch.defaults
                     if version is not None and d.since <= version.base <= d.until
                     and one in d.backends), None))
        return found.pop() if len(found) == 1 else None

    def quantity(self, name: str, backend: str | None = None) -> Quantity:
        """Return a number; for an unknown backend the least assuring one. KeyError if none."""
        found = [q for q in self.quantities
                 if q.name == name and (backend is None or q.backend in (backend, "any"))]
        found = found or [q for q in self.quantities if q.name == name]
        if not found:
            raise KeyError(name)
        return max(found, key=lambda q: (not q.excludes_beyond, q.value))

    def reach_seconds(self, backend: str | None = None) -> float:
        """Return how long after the free a late write is planned for, in seconds.

        A planning bound (``late_write_r_max``): where its ``excludes_beyond`` is False, or a send
        failure was logged for the session, being beyond it refutes nothing.
        """
        return self.quantity("late_write_r_max", backend).value

    def max_req_input_len(
        self, max_total_num_tokens: int, context_len: int, build: Buildish, dcp: int = 1
    ) -> tuple[int, int]:
        """Return (lowest, highest) length, in tokens, from which a prompt is refused.

        ``min(context_len - 1, capacity - 1) - 5``, where the capacity is the printed pool, times
        ``dcp`` in some releases. A prompt of N >= limit tokens is refused. Not for hybrid SWA
        pools, whose capacity is not the printed one, nor for diffusion models, which subtract
        a block: take the limit that the refusal line or /server_info states.
        """
        reserve = int(self.quantity("input_reserve_tokens").value)
        return limits.input_limits(self.capacities, self.known, reserve, max_total_num_tokens,
                                   context_len, as_range(build), dcp)


@cache
def load_knowledge() -> Knowledge:
    """Read, check and return the knowledge base; KnowledgeError names the file and the key."""
    names = knowledge_files()
    schema.check_files(names)
    digest = hashlib.sha256()
    for name in names:
        content = knowledge_bytes(name)
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    number, as_of = schema.read_head()
    knowledge = Knowledge(
        f"{number}+{digest.hexdigest()[:12]}", number, as_of, schema.read_releases(),
        schema.read_markers(), {name: schema.read_mechanism(name) for name in MECHANISMS},
        schema.read_families(), {gate.number: gate for gate in schema.read_gates()},
        {switch.name: switch for switch in schema.read_switches()}, schema.read_quantities(),
        schema.read_capacities(),
    )
    _check_references(knowledge)
    return knowledge


def lookup(
    mechanism: str,
    build_or_range: Buildish,
    backend: str | None = None,
    state_type: str | None = None,
    switches: Switches | None = None,
    *,
    origin: Origin = "source",
) -> Assessment:
    """``Knowledge.lookup`` on the shipped knowledge base."""
    return load_knowledge().lookup(mechanism, build_or_range, backend, state_type, switches,
                                   origin=origin)


def lookup_late_write(
    decode_range: Buildish,
    prefill_range: Buildish,
    backend: str | None = None,
    deferred_switch: SwitchValue | None = None,
    *,
    origin: Origin = "source",
) -> Assessment:
    """``Knowledge.lookup_late_write`` on the shipped knowledge base."""
    return load_knowledge().lookup_late_write(decode_range, prefill_range, backend,
                                              deferred_switch, origin=origin)


def max_req_input_len(
    max_total_num_tokens: int, context_len: int, version_range: Buildish = None, dcp: int = 1
) -> tuple[int, int]:
    """``Knowledge.max_req_input_len`` on the shipped knowledge base."""
    return load_knowledge().max_req_input_len(max_total_num_tokens, context_len, version_range,
                                              dcp)


def _check_references(knowledge: Knowledge) -> None:
    """Refuse gates and switches that rules name but no file describes."""
    for name, mechanism in knowledge.mechanisms.items():
        rows = (*mechanism.rows, *(mixed.rule for mixed in mechanism.mixed))
        for number in {n for row in rows for n in row.gates} - set(knowledge.gates):
            raise KnowledgeError(f"gates: {number} is not described", origin=Place(f"{name}.toml"))
        for switch, values in mechanism.switch_values().items():
            if switch not in knowledge.switches:
                raise KnowledgeError(f"when: {switch} is not described",
                                     origin=Place(f"{name}.toml"))
            if set(values) - set(knowledge.switches[switch].values):
                raise KnowledgeError(f"when: {switch} has no such value",
                                     origin=Place(f"{name}.toml"))


__all__ = [
    "BACKENDS", "DEFERRED_RELEASE", "MECHANISMS", "STATE_TYPES", "Assessment", "Knowledge",
    "VersionRange", "load_knowledge", "lookup", "lookup_late_write", "max_req_input_len",
]
