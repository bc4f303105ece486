"""Reads the knowledge files into records and refuses what does not follow the schema.

Every complaint is a KnowledgeError that names the file and the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Final

from forensics.knowledge.model import (
    BACKENDS,
    MECHANISMS,
    STATE_TYPES,
    STATES,
    WINDOWS,
    Capacity,
    Family,
    Gate,
    Marker,
    Mechanism,
    MixedRow,
    Quantity,
    Release,
    Row,
    Switch,
    SwitchDefault,
    SwitchValue,
)
from forensics.version_data import read_toml, release_dates
from forensics.versions import Version
from ingest.errors import KnowledgeError
from ingest.errors import Origin as Place

# A day, a month, or 'first/last' month or year: as precise as the change's date is known.
_DATE: Final = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?(/\d{4}(-\d{2})?)?")
_URL: Final = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/(pull|issues)/\d+")


class Table:
    """One TOML table with typed getters; keys that nobody asked for are refused by ``done``."""

    __slots__ = ("_data", "_left", "where")

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self._data = data
        self._left = set(data)
        self.where = where

    def fail(self, key: str, problem: str) -> KnowledgeError:
        """Return the error for ``key``."""
        return KnowledgeError(f"{key}: {problem}", origin=Place(self.where))

    def get(self, key: str, kind: type[Any], default: Any = None) -> Any:
        """Return a value of ``kind``; without a default the key is required."""
        self._left.discard(key)
        value = self._data.get(key, default)
        if value is None:
            raise self.fail(key, "missing")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.fail(key, f"not of type {kind.__name__}")
        if kind is str and not value.strip() and default is None:
            raise self.fail(key, "empty")
        return value

    def maybe(self, key: str, kind: type[Any]) -> Any:
        """Return a value of ``kind`` or None."""
        return self.get(key, kind) if key in self._data else None

    def text(self, key: str) -> str:
        """Return a required, non-empty string."""
        return str(self.get(key, str))

    def texts(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """Return a list of non-empty strings."""
        values = self.get(key, list, None if required else [])
        if not all(isinstance(v, str) and v.strip() for v in values) or (required and not values):
            raise self.fail(key, "not a list of texts")
        return tuple(values)

    def choice(self, key: str, allowed: tuple[str, ...]) -> Any:
        """Return a string out of ``allowed``."""
        value = self.text(key)
        if value not in allowed:
            raise self.fail(key, f"not one of {', '.join(allowed)}")
        return value

    def choices(self, key: str, allowed: tuple[str, ...], *, required: bool) -> tuple[str, ...]:
        """Return a list out of ``allowed``; 'any' stands for all of them."""
        values = self.texts(key, required=required)
        if not values or values == ("any",):
            return allowed
        if len(set(values)) != len(values) or not set(values) <= set(allowed):
            raise self.fail(key, f"not out of {', '.join(allowed)}")
        return values

    def release(self, key: str) -> Version:
        """Return a plain release version."""
        try:
            version = Version.parse(self.text(key))
        except ValueError as exc:
            raise self.fail(key, "not a version") from exc
        if version != version.base:
            raise self.fail(key, "not a plain release")
        return version

    def span(self, since: str = "since", until: str = "until") -> tuple[Version, Version]:
        """Return two releases in order, inside what the knowledge base covers."""
        low, high = self.release(since), self.release(until)
        first, last = (Version(release_dates()[i][0]) for i in (0, -1))
        if not first <= low <= high <= last:
            raise self.fail(since, f"range {low} to {high} is not inside {first} to {last}")
        return low, high

    def done(self) -> None:
        """Refuse keys that were never read."""
        if self._left:
            raise self.fail(min(self._left), "unknown key")


TOP_LEVEL: Final[Mapping[str, frozenset[str]]] = {
    "releases.toml": frozenset({"knowledge", "release"}),
    "dialect.toml": frozenset({"marker"}),
    "gates.toml": frozenset({"gate"}),
    "findings.toml": frozenset({"family"}),
    "switches.toml": frozenset({"switch"}),
    "quantities.toml": frozenset({"quantity", "capacity"}),
    **{f"{name}.toml": frozenset({"mechanism", "row", "mixed"}) for name in MECHANISMS},
}


def check_files(names: tuple[str, ...]) -> None:
    """Refuse missing and unknown files, and unknown tables in them."""
    for name in sorted(set(names) ^ set(TOP_LEVEL)):
        problem = "missing" if name in TOP_LEVEL else "not a file of the knowledge base"
        raise KnowledgeError(problem, origin=Place(name))
    for name, allowed in TOP_LEVEL.items():
        for key in sorted(set(read_toml(name)) - allowed):
            raise KnowledgeError(f"{key}: unknown table", origin=Place(name))


def tables(name: str, key: str) -> Iterator[Table]:
    """Yield the [[key]] tables of one file."""
    rows = read_toml(name).get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise KnowledgeError(f"{key}: not a list of tables", origin=Place(name))
    for number, row in enumerate(rows):
        yield Table(row, f"{name} [[{key}]] {number}")


def read_mechanism(name: str) -> Mechanism:
    """Read the file of one mechanism."""
    file = f"{name}.toml"
    head = Table(read_toml(file).get("mechanism") or {}, file)
    if head.text("name") != name:
        raise head.fail("name", f"not {name}")
    mechanism = Mechanism(
        name, head.text("letter"), head.text("title"), head.text("one_line"),
        head.text("recipient"), head.text("source"),
        head.choice("decides", ("prefill", "decode", "both")), head.text("closed_by"),
        tuple(_row(t, name, *t.span()) for t in tables(file, "row")),
        tuple(_mixed(t, name) for t in tables(file, "mixed")),
    )
    head.done()
    _refuse_overlaps(mechanism, file)
    return mechanism


def read_gates() -> tuple[Gate, ...]:
    """Read gates.toml."""
    gates = []
    for table in tables("gates.toml", "gate"):
        gate = Gate(
            table.get("number", int), table.choice("project", ("sglang", "vllm")),
            table.text("url"), table.text("date"), table.text("effect"),
            table.release("fixed_in") if table.maybe("fixed_in", str) else None,
            table.choices("mechanisms", MECHANISMS, required=True),
        )
        if not _URL.fullmatch(gate.url) or not gate.url.endswith(f"/{gate.number}"):
            raise table.fail("url", "not the address of this change")
        if not _DATE.fullmatch(gate.date):
            raise table.fail("date", "not a day, month or period")
        table.done()
        gates.append(gate)
    return tuple(gates)


def read_releases() -> tuple[Release, ...]:
    """Read releases.toml; releases are in ascending order."""
    releases = []
    for table in tables("releases.toml", "release"):
        releases.append(Release(table.release("version"), table.maybe("date", date),
                                table.maybe("advisory_date", date)))
        table.done()
        if len(releases) > 1 and releases[-2].version >= releases[-1].version:
            raise table.fail("version", "not in ascending order")
    return tuple(releases)


def read_head() -> tuple[int, date]:
    """Return the number of the knowledge base and the day up to which it is complete."""
    table = Table(read_toml("releases.toml").get("knowledge") or {}, "releases.toml [knowledge]")
    head = table.get("number", int), table.get("as_of", date)
    table.text("date_source")
    table.done()
    return head


def read_markers() -> tuple[Marker, ...]:
    """Read dialect.toml."""
    markers: dict[str, Marker] = {}
    for table in tables("dialect.toml", "marker"):
        marker = Marker(
            table.text("name"), table.release("since") if table.maybe("since", str) else None,
            table.release("until") if table.maybe("until", str) else None,
            table.text("what"), table.text("source"),
        )
        table.done()
        if marker.name in markers:
            raise table.fail("name", "given twice")
        if marker.since is None and marker.until is None:
            raise table.fail("since", "neither since nor until")
        markers[marker.name] = marker
    return tuple(markers.values())


def read_families() -> tuple[Family, ...]:
    """Read findings.toml."""
    families = []
    for table in tables("findings.toml", "family"):
        families.append(Family(
            table.text("letter"), table.text("name"), table.text("title"),
            table.text("one_line"), table.text("decided_by"), table.text("closed_by"),
            table.texts("references", required=True),
        ))
        table.done()
    return tuple(families)


def read_switches() -> tuple[Switch, ...]:
    """Read switches.toml."""
    switches = []
    for table in tables("switches.toml", "switch"):
        defaults = []
        for entry in table.get("default", list):
            one = Table(entry, f"{table.where} default")
            defaults.append(SwitchDefault(*one.span(), one.choices("backends", BACKENDS,
                                          required=True), _switch_value(one, "value")))
            one.done()
        switches.append(Switch(
            table.text("name"), table.choice("kind", ("env", "flag", "deployment")),
            table.choice("role", ("prefill", "decode", "both", "router")), table.text("effect"),
            table.text("evidence"), table.text("source"), table.texts("values") or (False, True),
            tuple(defaults),
        ))
        table.done()
    return tuple(switches)


def read_quantities() -> tuple[Quantity, ...]:
    """Read the numbers of quantities.toml."""
    quantities = []
    for table in tables("quantities.toml", "quantity"):
        value = table.get("value", object)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise table.fail("value", "not a number of at least 0")
        quantities.append(Quantity(
            table.text("name"), table.choice("backend", (*BACKENDS, "any")), float(value),
            table.text("unit"), table.get("excludes_beyond", bool), table.text("basis"),
            table.text("source"),
        ))
        table.done()
    return tuple(quantities)


def read_capacities() -> tuple[Capacity, ...]:
    """Read how the KV capacity follows from the printed pool size, by version."""
    capacities = []
    for table in tables("quantities.toml", "capacity"):
        capacities.append(Capacity(*table.span(), table.get("times_dcp", bool),
                                   table.text("source")))
        table.done()
    return tuple(capacities)


def _row(table: Table, mechanism: str, since: Version, until: Version) -> Row:
    when = table.get("when", dict, {})
    for name, value in when.items():
        if not isinstance(value, bool | str):
            raise table.fail("when", f"{name} is neither a bool nor a text")
    window = table.choice("window", WINDOWS) if mechanism == "late_write" else None
    gates = table.get("gates", list, [])
    if not all(isinstance(number, int) for number in gates):
        raise table.fail("gates", "not a list of numbers")
    row = Row(
        mechanism,
        table.choice("origin", ("source", "advisory")) if table.maybe("origin", str) else "source",
        since, until, table.choices("backends", BACKENDS, required=True),
        table.choices("state_types", STATE_TYPES, required=False),
        tuple(sorted(when.items())),
        table.choice("state", STATES), window, table.texts("residual", required=True),
        tuple(gates), table.texts("references", required=True),
    )
    table.done()
    return row


def _mixed(table: Table, mechanism: str) -> MixedRow:
    decode = table.span("decode_since", "decode_until")
    prefill = table.span("prefill_since", "prefill_until")
    return MixedRow(_row(table, mechanism, *decode), *prefill)


def _switch_value(table: Table, key: str) -> SwitchValue:
    value = table.get(key, object)
    if not isinstance(value, bool | str):
        raise table.fail(key, "neither a bool nor a text")
    return value


def _refuse_overlaps(mechanism: Mechanism, file: str) -> None:
    """Refuse two rules that can speak of the same cell."""
    for number, row in enumerate(mechanism.rows):
        for other in mechanism.rows[:number]:
            if (row.origin == other.origin and row.since <= other.until
                    and other.since <= row.until
                    and set(row.backends) & set(other.backends)
                    and set(row.state_types) & set(other.state_types)
                    and all(dict(other.when).get(k, v) == v for k, v in row.when)):
                raise KnowledgeError(
                    f"row: {row.since} to {row.until} overlaps {other.since} to {other.until}",
                    origin=Place(file))
