"""Prometheus text: scrapes of engine and router, recorders' files, times, damage."""

from __future__ import annotations

import json
import math

import pytest
from document_rows import read
from hypothesis import given
from hypothesis import strategies as st
from request_dialects import FIXTURES

from ingest.formats.prometheus_text import DOCUMENT_FORMATS, scrape_ns
from ingest.records import Match

FORMAT = DOCUMENT_FORMATS[0]


def test_engine_scrape() -> None:
    data = (FIXTURES / "prometheus_text.0.5.23.prom").read_bytes()
    assert FORMAT.sniff(data, "x") == Match(0.9, "typed")
    rows, rejects, other = read(FORMAT, data, "metric", "metrics/decode_1796098351.prom")
    assert rejects == []
    lines = data.splitlines()
    assert len(rows) + other == len(lines)
    assert len(rows) == sum(not line.startswith(b"#") and b"_bucket{" not in line for line in lines)
    assert {row["t_ns"] for row in rows} == {1_796_098_351 * 10**9}
    row = next(row for row in rows if row["name"] == "sglang:page_size")
    place = next(n for n, line in enumerate(lines) if line.startswith(b"sglang:page_size{"))
    assert row == {
        "stream": "", "line_no": place + 1, "byte_offset": sum(len(x) + 1 for x in lines[:place]),
        "stamp_ns": None, "stamp_res_ns": None, "outer_ns": None, "t_ns": 1_796_098_351 * 10**9,
        "name": "sglang:page_size", "value": 16.0, "labels":
            '{"engine_type":"decode","model_name":"m","moe_ep_rank":"0","pp_rank":"0",'
            '"tp_rank":"0"}'}


def test_router_scrape_without_time() -> None:
    data = (FIXTURES / "prometheus_text.router.prom").read_bytes()
    assert FORMAT.sniff(data, "x") is not None
    rows, rejects, _ = read(FORMAT, data, "metric", "router_final.prom")
    assert rejects == []
    assert {row["t_ns"] for row in rows} == {None}
    assert all(row["name"].startswith("smg_") and row["name"].endswith("_total") for row in rows)


def test_recorder_repeats_series_with_own_times() -> None:
    data = (FIXTURES / "prometheus_text.recorder.prom").read_bytes()
    assert FORMAT.sniff(data, "x") == Match(0.9, "bare")
    rows, rejects, _ = read(FORMAT, data, "metric", "metrics_1796098351.prom")
    assert rejects == []
    assert len(rows) == 22
    running = [row for row in rows if row["name"] == "sglang:num_running_reqs"]
    assert [(row["t_ns"], row["value"]) for row in running] == [
        (1_791_237_614_880_000_000, 4.0), (1_791_237_644_880_000_000, 3.0)]
    assert running[0]["labels"] == running[1]["labels"]


def test_values_exemplars_and_left_out_samples() -> None:
    data = b"""# TYPE x counter
x_total{a="1"} 7 # {trace="q"} 0.5 1791237614.880
x_total{a="1 # {"} NaN
x_created{a="1"} 1.7e9
h_bucket{le="+Inf"} 4
queue_bucket 3
x -Inf
y +Inf 1791237614.880123
# EOF
"""
    rows, rejects, other = read(FORMAT, data, "metric")
    assert rejects == []
    assert other == 4
    assert [(row["name"], json.loads(row["labels"]), row["t_ns"]) for row in rows] == [
        ("x_total", {"a": "1"}, None), ("x_total", {"a": "1 # {"}, None),
        ("queue_bucket", {}, None), ("x", {}, None), ("y", {}, 1_791_237_614_880_123_000)]
    assert math.isnan(rows[1]["value"])
    assert (rows[3]["value"], rows[4]["value"]) == (-math.inf, math.inf)


def test_malformed_lines_are_rejects_and_the_rest_goes_on() -> None:
    data = b"""x{a="b"} 1
x{a="b} 1
x{a="b"}
x one
x 1 2 three
x 1 17
2x 1
\xff 1
<html>
y 2
"""
    rows, rejects, _ = read(FORMAT, data, "metric")
    assert [row["name"] for row in rows] == ["x", "y"]
    assert rejects == ["malformed sample"] * 3 + [
        "malformed sample", "the timestamp is no epoch time"] + ["malformed sample"] * 3


def test_labels_are_bounded_and_kept() -> None:
    many = ",".join(f'l{n}="v"' for n in range(40))
    rows, rejects, _ = read(
        FORMAT, f'x{{{many},long="{"z" * 2000}"}} 1\nx{{{many},{many}}} 1\n'.encode(), "metric")
    labels = json.loads(rows[0]["labels"])
    assert len(labels) == 41
    assert labels["long"] == "z" * 512
    assert len(rejects) == 1


@pytest.mark.parametrize(("name", "seconds"), [
    ("a/metrics/decode_1796098162.prom", 1_796_098_162), ("decode_1796098162.prom.gz",
     1_796_098_162), ("router_1796098162.txt", 1_796_098_162), ("decode_final.prom", None),
    ("decode_1.prom", None), ("1796098162/decode.prom", None), ("decode_17960981620.prom", None),
    ("m-2026-12-01T04:09:22Z.prom", 1_796_098_162), ("m.20261201T040922Z.prom", 1_796_098_162),
    ("m_2026-12-01T12-09-22+08:00.prom", 1_796_098_162), ("m-2026-12-01T04:09:22.prom", None),
    ("m-2026-13-01T04:09:22Z.prom", None), ("m_99990101T000000Z.prom", None),
    ("m_00010101T000000Z.prom", None), ("m-2026-12-01T04:09:22+99:99.prom", None),
    ("m-2026-12-01T03:39:22-00:30.prom", 1_796_098_162),
])
def test_scrape_time_from_the_name(name: str, seconds: int | None) -> None:
    assert scrape_ns(name) == (None if seconds is None else seconds * 10**9)


@pytest.mark.parametrize("head", [
    b"", b"# a comment\n", b"#!/bin/sh\necho 1\n", b"hello world\nfoo bar\n", b"a 1\nb 2\n",
    b"rid,account\nx,1\n", b'{"a": 1}\n', b"[2026-01-02 03:04:05] x\n",
    b"2026-12-01 03:44:33 NIXL INFO x\n" * 9 + b"# TYPE a counter\na 1\n",
])
def test_other_files(head: bytes) -> None:
    assert FORMAT.sniff(head, "metrics_1796098162.prom") is None


_PIECES = st.sampled_from(["x", "{", "}", '"', "\\", "=", ",", " ", "1", "NaN", "# ", "# {",
                           "# TYPE x counter", "# TYPE", "\n", "le=", "_bucket", "1791237614880"])


@given(st.lists(st.one_of(_PIECES, st.text(max_size=4)), max_size=30).map("".join))
def test_never_raises(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    FORMAT.sniff(data, "x")
    read(FORMAT, data, "metric")


@given(st.binary(max_size=300))
def test_never_raises_on_bytes(data: bytes) -> None:
    FORMAT.sniff(data, "x")
    read(FORMAT, data, "metric", data.decode("latin-1"))
