"""Zones from anchors, and RFC 3339 with nanoseconds."""

from __future__ import annotations

import pytest

from forensics.clocks import _zone, parse_offset, rfc3339

HOUR = 3600 * 10**9


def anchor(mid_s: float, low_s: float | None = None, high_s: float | None = None) -> dict:
    return {"n": 12, "mid_ns": int(mid_s * 1e9),
            "low_ns": int((mid_s if low_s is None else low_s) * 1e9),
            "high_ns": int((mid_s if high_s is None else high_s) * 1e9)}


@pytest.mark.parametrize(("mid_s", "zone_s"), [
    (-0.4, 0), (0.9, 0), (28799.5, 28800), (-12600.2, -12600), (20700.0, 20700)])
def test_anchors_give_a_zone_to_a_quarter_hour(mid_s, zone_s):
    assert _zone({"time_stats": anchor(mid_s)}, None)[0] == zone_s * 10**9


def test_anchors_that_disagree_or_miss_give_none():
    assert _zone({"time_stats": anchor(0, -4000, 10)}, None)[0] is None
    assert _zone({"time_stats": anchor(450)}, None)[0] is None
    assert _zone({}, None) == (None, "no line carries epoch time")


def test_anchors_outrank_what_is_stated():
    assert _zone({"collector": anchor(28800)}, "UTC")[0] == 8 * HOUR
    assert _zone({}, "+08:00") == (8 * HOUR, "stated in evidence.toml")


@pytest.mark.parametrize(("text", "ns"), [
    ("UTC", 0), ("z", 0), ("+05:45", 20700 * 10**9), ("-0330", -12600 * 10**9), ("+08", 8 * HOUR),
    ("Europe/Berlin", None), ("", None), ("+8", None)])
def test_offsets(text, ns):
    assert parse_offset(text) == ns


def test_rfc3339_keeps_nanoseconds():
    assert rfc3339(1791237603680_000_001) == "2026-10-05T22:00:03.680000001Z"
    assert rfc3339(0) == "1970-01-01T00:00:00.000000000Z"
    assert rfc3339(-1) == "1969-12-31T23:59:59.999999999Z"
    assert rfc3339(None) is None
    assert rfc3339(2**63 * 1000) is None
