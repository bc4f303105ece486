"""Versions, builds and the ranges that evidence proves."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.version_data import dialect_markers, release_dates
from forensics.versions import (
    Version,
    VersionRange,
    infer_range,
    parse_build,
    released_by,
)

V = Version.parse

ASCENDING = [
    "0.4.6", "0.5.9", "0.5.10rc0", "0.5.10", "0.5.10.post1", "0.5.12.dev3+g1234", "0.5.12rc1",
    "0.5.12", "0.5.12.post1", "0.5.12.post2", "0.5.13.dev0", "0.5.13", "0.5.23", "0.6.0", "1.0",
]

versions = st.builds(
    Version,
    st.tuples(st.just(0), st.integers(4, 6), st.integers(0, 25)),
    st.sampled_from(["", "dev", "rc", "post"]),
    st.integers(0, 3),
)
bounds = st.none() | versions
ranges = st.builds(VersionRange, bounds, bounds)


def test_order_is_total_over_stages_and_posts() -> None:
    parsed = [V(text) for text in ASCENDING]
    assert sorted(parsed, reverse=True) == parsed[::-1]
    assert all(a < b for a, b in pairwise(parsed))
    assert len(set(parsed)) == len(parsed)


@pytest.mark.parametrize("text", ASCENDING)
def test_text_survives_parsing(text: str) -> None:
    assert str(V(text)) == text


def test_local_version_and_leading_v_do_not_change_the_order() -> None:
    assert V("v0.5.9") == V("0.5.9")
    assert V("0.5.12.dev3+g1234") == V("0.5.12.dev3")
    assert V("0.5") == V("0.5.0")
    assert V("0.5.10.post1").post == 1
    assert V("0.5.10").post is None


@pytest.mark.parametrize("text", ["", "latest", "5", "0.5.x", "0.5.10.post", "1.2.3.4.5",
                                  "0." + "9" * 400])
def test_what_is_not_a_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        V(text)


# text, kind, version, day, commit, released tree
BUILDS = [
    ("0.5.18", "release", "0.5.18", None, None, True),
    ("v0.5.9", "release", "0.5.9", None, None, True),
    ("sglang==0.5.22", "release", "0.5.22", None, None, True),
    ("0.5.10.post1", "post", "0.5.10.post1", None, None, True),
    ("0.5.12.dev3+g1234abc", "dev", "0.5.12.dev3+g1234abc", None, "1234abc", False),
    ("0.5.21.dev20261003", "dev", "0.5.21.dev20261003", None, None, False),
    ("0.5.10rc0", "dev", "0.5.10rc0", None, None, False),
    ("0.5.18+g1234abc", "release", "0.5.18+g1234abc", None, "1234abc", False),
    ("0.5.18+cu126", "release", "0.5.18+cu126", None, None, True),
    ("lmsysorg/sglang:v0.5.18-cu126", "image", "0.5.18", None, None, True),
    ("sglang:v0.5.12.post1-rocm700-mi30x", "image", "0.5.12.post1", None, None, True),
    ("registry.example:5000/x/sglang:v0.5.20-ourpatch", "image", "0.5.20", None, None, False),
    ("nightly-dev-20260706-8673e85e", "nightly", None, date(2026, 7, 6), "8673e85e", False),
    ("lmsysorg/sglang:nightly-dev-20260706-8673e85e", "nightly", None, date(2026, 7, 6),
     "8673e85e", False),
    ("rocm/sgl-dev:v0.5.9-rocm700-mi30x-20260301", "nightly", None, date(2026, 3, 1), None, False),
    ("nightly-dev-20261345-8673e85e", "nightly", None, None, "8673e85e", False),
    ("8673e85e", "commit", None, None, "8673e85e", False),
    ("8673E85E" * 5, "commit", None, None, "8673e85e" * 5, False),
    ("lmsysorg/sglang:latest", "image", None, None, None, False),
    ("lmsysorg/sglang@sha256:" + "ab" * 32, "image", None, None, None, False),
    # Another product's numbers are not this engine's.
    ("vllm/vllm-openai:v0.5.21", "unknown", None, None, None, False),
    ("", "unknown", None, None, None, False),
    (None, "unknown", None, None, None, False),
    ("0.5.18 and more text", "unknown", None, None, None, False),
    ("x" * 5000, "unknown", None, None, None, False),
]


@pytest.mark.parametrize(("text", "kind", "version", "day", "commit", "tree"), BUILDS)
def test_builds(
    text: str | None, kind: str, version: str | None, day: date | None, commit: str | None,
    tree: bool,
) -> None:
    build = parse_build(text)
    assert (build.kind, build.day, build.commit, build.released_tree) == (kind, day, commit, tree)
    assert (str(build.version) if build.version else None) == version


def test_a_stated_release_is_exact_and_a_patched_one_is_not() -> None:
    assert parse_build("0.5.18").range() == VersionRange(
        V("0.5.18"), V("0.5.18"), True, ("stated as 0.5.18",))
    patched = parse_build("sglang:v0.5.18-fix").range()
    assert (patched.low, patched.high, patched.exact) == (V("0.5.18"), V("0.5.18"), False)


@pytest.mark.parametrize(("day", "low", "high"), [
    ("20260706", "0.5.14", "0.5.15"),
    # Built on the day of a wheel: before or after it.
    ("20260918", "0.5.19", "0.5.20"),
    ("20260101", "None", "0.5.9"),
    ("20261120", "0.5.23", "None"),
])
def test_a_nightly_lies_between_releases_by_date(day: str, low: str, high: str) -> None:
    found = parse_build(f"nightly-dev-{day}-8673e85e").range()
    assert (str(found.low), str(found.high), found.exact) == (low, high, False)
    assert "not a released tree" in " ".join(found.why)


def test_ranges_answer_only_what_is_certain() -> None:
    some = VersionRange(V("0.5.16"), V("0.5.18"))
    assert some.certainly_below(V("0.5.19"))
    assert not some.certainly_below(V("0.5.18"))
    assert some.certainly_at_least(V("0.5.16"))
    assert not some.certainly_at_least(V("0.5.17"))
    nothing = VersionRange()
    assert not nothing.certainly_below(V("9.9"))
    assert not nothing.certainly_at_least(V("0.1"))


def test_a_contradiction_is_flagged_and_certain_of_nothing() -> None:
    both = parse_build("0.5.11").range().intersect(parse_build("0.5.20").range())
    assert both.empty
    assert not both.exact
    assert "contradictory" in both.why[-1]
    assert not both.certainly_below(V("0.5.20"))
    assert not both.certainly_at_least(V("0.5.9"))
    assert not any(both.contains(V(text)) for text in ASCENDING)


@given(ranges, ranges, versions)
def test_an_intersection_holds_exactly_what_both_hold(
    left: VersionRange, right: VersionRange, version: Version
) -> None:
    both = left.intersect(right)
    assert both.contains(version) == (left.contains(version) and right.contains(version))


@given(ranges, versions, versions)
def test_certainty_is_sound(some: VersionRange, inside: Version, limit: Version) -> None:
    if some.contains(inside):
        assert not (some.certainly_below(limit) and inside >= limit)
        assert not (some.certainly_at_least(limit) and inside < limit)


@pytest.mark.parametrize(("marker", "since", "until"), [
    ("time_stats:spaced", None, "0.5.11"),
    ("time_stats:compact", "0.5.12", None),
    ("time_stats:attempts", "0.5.16", None),
    ("server_args:dataclass", None, "0.5.18"),
    ("server_args:dict", "0.5.19", None),
    ("server_args.key:kv_canary", "0.5.13", None),
    ("server_args.key:disaggregation_enable_kv_checksum", "0.5.21", None),
    ("server_args.key:disaggregation_decode_allocation_policy", "0.5.22", None),
    ("batch:pending-token", "0.5.11", None),
    ("batch:bootstrap-req", "0.5.12", None),
    ("batch:optimistic-req", "0.5.16", None),
    ("batch:host-receive-req", "0.5.21", None),
    ("batch:prealloc-req", None, "0.5.11"),
    ("request_json:bare", None, "0.5.11"),
    ("request_json:prefixed", "0.5.12", None),
    ("request_log:received_openai", "0.5.10", None),
    ("event:deferred_timeout", "0.5.19", None),
    ("event:generationless_ack", "0.5.22", None),
    ("event:checksum_skipped", "0.5.23", None),
    ("event:pool_short", "0.5.23", None),
    ("metric:sglang:decode_deferred_kv_release_total", "0.5.22", None),
    ("metric:sglang:prealloc_full_token_usage", "0.5.23", None),
])
def test_a_marker_bounds_releases_and_admits_development_builds(
    marker: str, since: str | None, until: str | None
) -> None:
    found = infer_range([marker])
    releases = [Version(release) for release, _ in release_dates()]
    for release in releases:
        expected = (since is None or release >= V(since)) and (until is None or release <= V(until))
        assert found.contains(release) == expected
    if since:
        assert found.contains(V(f"{since}.dev3"))
        assert not found.certainly_at_least(V(since))
    if until:
        assert found.contains(V(f"{until}.post1"))
        following = releases[releases.index(V(until)) + 1]
        assert found.contains(V(f"{following}.dev9"))


# The markers of real recordings (their version is known), reduced to names.
COMMON_0518 = [
    "server_args:dataclass", "server_args.key:kv_canary", "time_stats:compact",
    "time_stats:attempts", "request_json:prefixed",
    "server_args.key:disaggregation_decode_retraction_backup",
]
COMMON_0523 = [
    "server_args:dict", "server_args.key:kv_canary", "time_stats:compact", "time_stats:attempts",
    "server_args.key:disaggregation_enable_kv_checksum",
    "server_args.key:disaggregation_decode_allocation_policy",
    "metric:sglang:decode_deferred_kv_release_total",
    "server_args.key:disaggregation_decode_retraction_backup",
]


@pytest.mark.parametrize(("markers", "version", "low", "high"), [
    ([*COMMON_0518, "batch:pending-token", "batch:bootstrap-req", "batch:optimistic-req",
      "request_log:received_openai"], "0.5.18", "0.5.18.dev0", "before 0.5.19"),
    (COMMON_0518, "0.5.18", "0.5.18.dev0", "before 0.5.19"),
    ([*COMMON_0523, "event:pool_short", "metric:sglang:prealloc_full_token_usage"],
     "0.5.23", "0.5.23.dev0", "None"),
    (COMMON_0523, "0.5.23", "0.5.22.dev0", "None"),
])
def test_real_recordings_are_contained(
    markers: list[str], version: str, low: str, high: str
) -> None:
    found = infer_range(markers)
    assert found.contains(V(version))
    assert (str(found.low), str(found.high)) == (low, high)
    assert not found.intersect(parse_build(version).range()).empty


def test_markers_of_two_builds_contradict_and_unknown_names_say_nothing() -> None:
    assert infer_range(["time_stats:spaced", "time_stats:attempts"]).empty
    assert infer_range(["server_args.key:some_new_key", "no such marker"]) == VersionRange()
    assert infer_range([]).unknown


@given(st.sets(st.sampled_from(sorted(dialect_markers()))),
       st.sets(st.sampled_from(sorted(dialect_markers()))))
def test_more_markers_never_widen(first: set[str], second: set[str]) -> None:
    few, many = infer_range(first), infer_range(first | second)
    for release, _ in release_dates():
        assert few.contains(Version(release)) or not many.contains(Version(release))


@given(st.sampled_from([r for r, _ in release_dates()]))
def test_every_release_is_inside_the_range_of_its_markers(release: tuple[int, ...]) -> None:
    shown = [name for name, (since, until, _) in dialect_markers().items()
             if (since is None or since <= release) and (until is None or release <= until)]
    assert infer_range(shown).contains(Version(release))


@pytest.mark.parametrize(("day", "text"), [
    (date(2026, 10, 5), "before 0.5.22"),
    (date(2026, 10, 15), "before 0.5.23"),
    (date(2026, 12, 1), "0.5.23 with its post-releases"),
])
def test_a_build_cannot_be_newer_than_the_day_it_ran(day: date, text: str) -> None:
    assert str(released_by(day)) == text


@pytest.mark.parametrize(("found", "text"), [
    (VersionRange(), "unknown"),
    (infer_range(["time_stats:attempts"]), "0.5.16 (or a development build of it) or later"),
    (infer_range(["time_stats:spaced"]), "before 0.5.12"),
    (infer_range(["time_stats:attempts", "server_args:dataclass"]),
     "0.5.16 (or a development build of it) to before 0.5.19"),
    (VersionRange(V("0.5.9"), V("0.5.11")), "0.5.9 to 0.5.11"),
    (VersionRange(None, V("0.5.11")), "0.5.11 or earlier"),
    (VersionRange(V("0.5.12"), V("0.5.11")), "contradictory"),
])
def test_ranges_read_as_sentences(found: VersionRange, text: str) -> None:
    assert str(found) == text
