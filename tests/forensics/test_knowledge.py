"""The knowledge base: its schema, the version and backend table, and that lookups stay sound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.knowledge import (
    BACKENDS,
    DEFERRED_RELEASE,
    MECHANISMS,
    STATE_TYPES,
    load_knowledge,
    lookup,
    lookup_late_write,
    max_req_input_len,
)
from forensics.knowledge.lookup import candidates, normalise
from forensics.knowledge.model import STATES, WINDOWS
from forensics.versions import Version, VersionRange, infer_range, parse_build

V = Version.parse
KNOWN = load_knowledge().known
READ = ["0.4.6", *(f"0.5.{n}" for n in range(9, 24))]
REAL = ["mooncake", "ascend", "nixl", "mori"]


def span(first: int, last: int) -> list[str]:
    return [f"0.5.{n}" for n in range(first, last + 1)]


# The version and backend table of the reference, written out. Late write: state and window with
# deferred release (off, on); equal entries where the switch does not exist or has no effect.
REST = ("exposed", "rest_of_prefill")
CALL = ("exposed", "one_transfer_call")
POSTED = ("exposed", "posted_transfers")
HELD = ("reduced", "timeout_release")
LATE_WRITE: list[tuple[list[str], list[str], tuple[str, str], tuple[str, str]]] = [
    (["0.4.6"], ["mooncake", "ascend", "nixl"], REST, REST),
    (span(9, 12), REAL, REST, REST),
    (span(13, 18), ["mooncake", "ascend"], CALL, CALL),
    (span(13, 15), ["nixl"], REST, REST),
    (span(16, 18), ["nixl"], POSTED, POSTED),
    (span(13, 18), ["mori"], REST, REST),
    (span(19, 20), ["mooncake", "ascend"], CALL, HELD),
    (span(19, 20), ["nixl", "mori"], POSTED, HELD),
    (["0.5.21"], ["mooncake", "ascend"], CALL, HELD),
    (["0.5.21"], ["nixl"], POSTED, HELD),
    (["0.5.21"], ["mori"], POSTED, POSTED),
    (span(22, 23), ["mooncake", "ascend"], CALL, HELD),
    (span(22, 23), ["nixl", "mori"], POSTED, HELD),
    (READ, ["fake"], ("closed", "none"), ("closed", "none")),
]
STALE_HANDOFF: list[tuple[list[str], list[str], str, str]] = [
    (["0.4.6"], REAL, "plain", "exposed"),
    (span(9, 19), REAL, "plain", "exposed"),
    (span(9, 19), ["mooncake", "ascend", "mori"], "dsa", "exposed"),
    (span(9, 19), ["mooncake", "ascend", "mori"], "swa", "exposed"),
    (span(9, 19), REAL, "mamba", "exposed"),
    (span(9, 19), ["nixl"], "dsa", "closed"),
    # Fails closed, except for a window that fits into one page.
    (span(9, 19), ["nixl"], "swa", "reduced"),
    *((span(20, 23), REAL, state_type, "closed") for state_type in STATE_TYPES),
]


def late_write_cells() -> Iterator[tuple[str, str, bool, tuple[str, str]]]:
    for builds, backends, off, on in LATE_WRITE:
        for build, backend in product(builds, backends):
            yield build, backend, False, off
            yield build, backend, True, on


def test_late_write_follows_the_table() -> None:
    seen = set()
    for build, backend, switch, expected in late_write_cells():
        found = lookup("late_write", build, backend, None, {DEFERRED_RELEASE: switch})
        assert (found.state, found.window) == expected, (build, backend, switch)
        pair = lookup_late_write(build, build, backend, switch)
        assert (pair.state, pair.window) == expected, (build, backend, switch)
        seen.add((build, backend, switch))
    missing = set(product(READ, BACKENDS, (False, True))) - seen
    assert missing == set(product(["0.4.6"], ["mori"], (False, True)))


def test_stale_handoff_follows_the_table() -> None:
    seen = set()
    for builds, backends, state_type, expected in STALE_HANDOFF:
        for build, backend in product(builds, backends):
            found = lookup("stale_handoff", build, backend, state_type)
            assert found.state == expected, (build, backend, state_type)
            seen.add((build, backend, state_type))
    missing = set(product(READ, REAL, STATE_TYPES)) - seen
    assert {build for build, _, _ in missing} == {"0.4.6"}


def test_a_backend_that_does_not_exist_in_a_build_is_not_known() -> None:
    assert lookup("late_write", "0.4.6", "mori").state == "unknown"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_cell_has_exactly_one_rule(mechanism: str) -> None:
    found = load_knowledge().mechanisms[mechanism]
    values = found.switch_values()
    for version, backend, state_type in product(KNOWN, BACKENDS, STATE_TYPES):
        for chosen in product(*values.values()):
            switches = dict(zip(values, chosen, strict=True))
            rows = [row for row in found.rows if row.origin == "source"
                    and row.covers(version, backend, state_type) and row.holds(switches)]
            assert len(rows) == 1, (mechanism, str(version), backend, state_type, switches)


def test_truncated_handoff_needs_the_flag_and_yields_to_the_checksum() -> None:
    def state(build: str, truncate: bool | None, checksum: bool | None) -> str:
        return lookup("truncated_handoff", build, "mooncake", "plain", {
            "allow_auto_truncate": truncate, "disaggregation_enable_kv_checksum": checksum}).state

    assert state("0.5.23", False, None) == "closed"
    assert state("0.5.23", True, True) == "reduced"
    assert state("0.5.23", True, None) == "exposed"
    assert state("0.5.23", None, None) == "exposed"
    assert state("0.5.20", True, True) == "exposed"


@pytest.mark.parametrize(("mechanism", "expected"), [
    ("source_reuse", {"0.5.19": "exposed", "0.5.20": "reduced", "0.5.23": "reduced"}),
    ("metadata_collision", {"0.5.8": "exposed", "0.5.9": "closed", "0.5.23": "closed"}),
    ("fail_open", {"0.5.8": "unknown", "0.5.9": "closed", "0.5.23": "closed"}),
    ("offload_race", {"0.5.9": "closed", "0.5.10": "exposed", "0.5.12": "exposed",
                      "0.5.13": "closed"}),
    ("room_reuse", {"0.5.21": "exposed", "0.5.22": "reduced"}),
])
def test_other_mechanisms(mechanism: str, expected: dict[str, str]) -> None:
    for build, state in expected.items():
        assert lookup(mechanism, build, "mooncake", "plain").state == state, build


def test_switches_close_what_they_close() -> None:
    assert lookup("offload_race", "0.5.11", "mooncake", None, {
        "disaggregation_decode_enable_offload_kvcache": False}).state == "closed"
    assert lookup("room_reuse", "0.5.11", None, None, {"gateway_mints_rooms": True}
                  ).state == "closed"


def test_mixed_builds_turn_every_abort_into_a_timeout_release() -> None:
    for build in span(13, 21):
        found = lookup_late_write("0.5.23", build, "mooncake", True)
        assert (found.state, found.window) == HELD, build
        assert "without a generation" in found.residual[0]
    old = lookup_late_write("0.5.22", "0.5.9", "mooncake", True)
    assert (old.state, old.window) == ("exposed", "timeout_release")
    assert lookup_late_write("0.5.23", "0.5.15", "nixl", True).state == "exposed"
    assert lookup_late_write("0.5.23", "0.5.16", "nixl", True).state == "reduced"
    # Decode frees at once: a newer prefill does not help.
    assert lookup_late_write("0.5.18", "0.5.23", "mooncake", True).state == "exposed"
    assert lookup_late_write("0.5.23", "0.5.18", "mooncake", False).state == "exposed"
    # Prefill not known: it can be one that does not stop on ABORT.
    assert lookup_late_write("0.5.23", None, "mooncake", True).state == "exposed"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("build", [None, "", "8673e85e", "lmsysorg/sglang:latest", "0.5.24",
                                   "0.6.0", "0.4.5", "nightly-dev-20261120-8673e85e"])
def test_an_unknown_build_is_never_closed(mechanism: str, build: str | None) -> None:
    found = lookup(mechanism, build, "mooncake", "plain", {
        "allow_auto_truncate": False, "gateway_mints_rooms": True,
        "disaggregation_decode_enable_offload_kvcache": False, DEFERRED_RELEASE: True})
    assert found.state in ("unknown", "exposed")


def test_a_contradictory_range_is_not_known() -> None:
    torn = infer_range(["time_stats:spaced", "time_stats:attempts"])
    assert lookup("stale_handoff", torn, "mooncake", "plain").state == "unknown"


def test_a_build_between_releases_behaves_like_the_worse_neighbour() -> None:
    assert lookup("stale_handoff", "0.5.20.dev5", "mooncake", "plain").state == "exposed"
    assert lookup("stale_handoff", "0.5.21.dev5", "mooncake", "plain").state == "closed"
    assert lookup("stale_handoff", "0.5.19.post1", "mooncake", "plain").state == "exposed"
    assert lookup("stale_handoff", "0.5.20.post1", "mooncake", "plain").state == "closed"
    nightly = parse_build("nightly-dev-20260910-8673e85e")
    found = lookup("stale_handoff", nightly, "mooncake", "plain")
    assert found.state == "exposed"
    assert not found.released_tree
    assert {(a.assumption, a.state) for a in found.alternatives} == {
        ("0.5.19", "exposed"), ("0.5.20", "closed")}


def test_a_range_over_a_fix_says_what_spans() -> None:
    found = lookup("stale_handoff", VersionRange(V("0.5.18"), V("0.5.21")), "mooncake", "plain")
    assert found.state == "exposed"
    assert any("outcomes are possible" in why for why in found.why)
    assert [gate.number for gate in found.gates] == [33507, 36988]


def test_advisory_and_source_both_stand() -> None:
    def both(mechanism: str, build: str, backend: str) -> tuple[str, str]:
        return (lookup(mechanism, build, backend, "plain", {DEFERRED_RELEASE: True}).state,
                lookup(mechanism, build, backend, "plain", origin="advisory").state)

    assert both("stale_handoff", "0.5.20", "mooncake") == ("closed", "exposed")
    assert both("stale_handoff", "0.5.21", "mooncake") == ("closed", "closed")
    assert both("late_write", "0.5.21", "mooncake") == ("reduced", "exposed")
    assert both("late_write", "0.5.22", "mori") == ("reduced", "exposed")
    assert both("late_write", "0.5.22", "nixl") == ("reduced", "reduced")
    assert lookup("source_reuse", "0.5.22", "nixl", origin="advisory").state == "unknown"


@pytest.mark.parametrize(("build", "backend", "expected"), [
    ("0.5.18", "mooncake", None), ("0.5.19", "mooncake", False), ("0.5.20", "mori", False),
    ("0.5.21", "mooncake", True), ("0.5.21", "nixl", True), ("0.5.21", "mori", None),
    ("0.5.21", None, None), ("0.5.22", "mori", True), ("0.5.23", None, True),
    ("0.5.23", "fake", None), (None, "mooncake", None),
])
def test_default_of_deferred_release(
    build: str | None, backend: str | None, expected: bool | None
) -> None:
    assert load_knowledge().switch_default(DEFERRED_RELEASE, build, backend) is expected


@pytest.mark.parametrize(("value", "expected"), [
    ("1", True), ("True", True), ("off", False), ("0", False), (True, True), (None, None),
    ("perhaps", None), ("", None),
])
def test_switches_are_read_as_processes_state_them(
    value: bool | str | None, expected: bool | None
) -> None:
    assert normalise(value, (False, True)) is expected


def test_a_switch_that_says_nothing_counts_as_the_worst() -> None:
    for value in ("perhaps", None):
        assert lookup_late_write("0.5.23", "0.5.23", "mooncake", value).state == "exposed"
    assert lookup("late_write", "0.5.23", "someday", None, {DEFERRED_RELEASE: True}
                  ).state == "unknown"


versions = st.sampled_from(KNOWN) | st.builds(
    Version, st.tuples(st.just(0), st.just(5), st.integers(0, 25)),
    st.sampled_from(["", "dev", "rc", "post"]), st.integers(0, 3))
bounds = st.none() | versions


def worse_or_equal(one: object, other: object) -> bool:
    return rank(one) >= rank(other)


def rank(found: object) -> tuple[int, int]:
    state, window = found.state, found.window  # type: ignore[attr-defined]
    return STATES.index(state), WINDOWS.index(window) if window else 0


@st.composite
def nested(draw: st.DrawFn) -> tuple[VersionRange, VersionRange]:
    """Draw a range and a wider one around it."""
    low, high = draw(bounds), draw(bounds)
    if low is not None and high is not None and high < low:
        low, high = high, low
    outer_low, outer_high = draw(bounds), draw(bounds)
    wider_low = None if low is None or outer_low is None else min(low, outer_low)
    wider_high = None if high is None or outer_high is None else max(high, outer_high)
    return VersionRange(low, high), VersionRange(wider_low, wider_high)


maybe_switch = st.sampled_from([None, True, False])


@given(nested(), st.sampled_from(MECHANISMS), st.sampled_from(["mooncake", "nixl", "mori"]),
       st.sampled_from(STATE_TYPES), maybe_switch, maybe_switch, st.booleans(), st.booleans())
def test_knowing_less_is_never_safer(
    pair: tuple[VersionRange, VersionRange], mechanism: str, backend: str, state_type: str,
    deferred: bool | None, truncate: bool | None, drop_backend: bool, drop_state: bool,
) -> None:
    narrow, wide = pair
    assert set(candidates(KNOWN, narrow)) <= set(candidates(KNOWN, wide))
    switches = {DEFERRED_RELEASE: deferred, "allow_auto_truncate": truncate}
    sure = lookup(mechanism, narrow, backend, state_type, switches)
    less = lookup(mechanism, wide, None if drop_backend else backend,
                  None if drop_state else state_type, switches)
    assert worse_or_equal(less, sure)
    assert worse_or_equal(lookup(mechanism, narrow, backend, state_type), sure)


@settings(max_examples=60, deadline=None)
@given(nested(), nested(), st.sampled_from(["mooncake", "nixl", "mori"]), maybe_switch)
def test_knowing_less_of_a_pair_is_never_safer(
    decode: tuple[VersionRange, VersionRange], prefill: tuple[VersionRange, VersionRange],
    backend: str, deferred: bool | None,
) -> None:
    sure = lookup_late_write(decode[0], prefill[0], backend, deferred)
    less = lookup_late_write(decode[1], prefill[1], backend, deferred)
    assert worse_or_equal(less, sure)
    assert worse_or_equal(lookup_late_write(decode[0], prefill[0], backend, None), sure)
    assert worse_or_equal(lookup_late_write(decode[0], prefill[0], None, deferred), sure)


@pytest.mark.parametrize(("pool", "context", "build", "dcp", "expected"), [
    (2048, 8192, "0.5.18", 1, (2042, 2042)),
    (16384, 8192, "0.5.18", 1, (8186, 8186)),
    (8192, 8192, "0.5.23", 1, (8186, 8186)),
    (681280, 1048576, None, 1, (681274, 681274)),
    (24576, 131072, "0.5.19", 1, (24570, 24570)),
    (2048, 8192, "0.5.18", 2, (4090, 4090)),
    (2048, 8192, "0.5.16", 2, (2042, 2042)),
    (2048, 8192, "0.5.21", 2, (2042, 2042)),
    (2048, 8192, VersionRange(V("0.5.18"), V("0.5.21")), 2, (2042, 4090)),
    (2048, 8192, "0.5.99", 2, (2042, 4090)),
])
def test_input_limit(
    pool: int, context: int, build: str | VersionRange | None, dcp: int, expected: tuple[int, int]
) -> None:
    assert max_req_input_len(pool, context, build, dcp) == expected


def test_quantities() -> None:
    knowledge = load_knowledge()
    values = {(q.name, q.backend): q.value for q in knowledge.quantities}
    assert values["deferred_release_timeout", "any"] == 30
    assert values["waiting_timeout", "any"] == values["bootstrap_timeout", "any"] == 300
    assert values["settle_timeout", "nixl"] == 5
    assert values["probable_threshold", "any"] == 0.5
    assert knowledge.quantity("late_write_r_max", "mooncake").excludes_beyond
    # Not known which backend: the one that proves nothing.
    assert not knowledge.quantity("late_write_r_max").excludes_beyond
    assert knowledge.reach_seconds("mooncake") == 60
    assert knowledge.reach_seconds("a new backend") == 60
    with pytest.raises(KeyError):
        knowledge.quantity("no such number")


def test_gates_and_markers_name_their_source() -> None:
    knowledge = load_knowledge()
    for gate in knowledge.gates.values():
        assert re.fullmatch(r"https://github\.com/(sgl-project/sglang|vllm-project/vllm)/"
                            rf"(pull|issues)/{gate.number}", gate.url)
        assert re.match(r"20\d\d", gate.date)
    used = {n for m in knowledge.mechanisms.values() for row in m.rows for n in row.gates}
    assert used <= set(knowledge.gates)
    assert all("engine-telemetry" in m.source or "leak-mechanisms" in m.source
               or "wheel" in m.source for m in knowledge.markers)
    assert [f.letter for f in knowledge.families] == ["F", "G", "H", "I", "L"]
