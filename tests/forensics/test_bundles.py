"""Two simulated incidents with truth, whole and damaged: nothing exposed is ever excluded."""

from __future__ import annotations

import csv
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from tests import damage

FIXTURES = Path(__file__).parents[1] / "fixtures"


def truth(name: str) -> dict[str, dict[str, str]]:
    with (FIXTURES / f"{name}.truth.csv").open(encoding="utf-8") as file:
        return {row["room"]: row for row in csv.DictReader(file)}


def unpack(name: str, folder: Path) -> Path:
    with tarfile.open(FIXTURES / f"{name}.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    return folder / name


def table(judged, facts) -> Counter:
    """Responses by (A, B or -, tier); several uses of a room count each."""
    counts: Counter = Counter()
    for record in judged.responses:
        row = facts[record["room"]]
        kind = "A" if row["exposed_A"] == "1" else "B" if row["exposed_B"] == "1" else "-"
        counts[kind, record["recipient_tier"]] += 1
    return counts


def assert_sound(judged, facts) -> Counter:
    counts = table(judged, facts)
    assert counts["A", "excluded"] == 0, counts
    assert counts["B", "excluded"] == 0, counts
    return counts


def clean_share(counts: Counter) -> float:
    clean = sum(n for (kind, _), n in counts.items() if kind == "-")
    return counts["-", "excluded"] / clean


def test_stale_handoff_with_time_stats(judge):
    """Read straight from the archive: every recipient confirmed, every clean response excluded."""
    facts = truth("a-l2")
    judged = judge(FIXTURES / "a-l2.tar.xz")
    counts = assert_sound(judged, facts)
    assert counts == {("A", "confirmed"): 7, ("-", "excluded"): 693}
    for record in judged.responses:
        assert record["decode_worker"] == facts[record["room"]]["decode_host"]
        assert record["prefill_worker"] == facts[record["room"]]["prefill_host"]
    assert all(r["account"] for r in judged.responses)
    assert judged.summary["exposed_responses"] == {
        "low": 7, "expected": 7.0, "high": 7, "not_assessable": 0}


def test_page_traces_name_recipients_and_sources(judge):
    facts = truth("ab-l4")
    judged = judge(FIXTURES / "ab-l4.tar.xz")
    counts = assert_sound(judged, facts)
    assert counts["A", "confirmed"] == 7
    assert counts["B", "confirmed"] + counts["B", "probable"] == 22
    assert counts["-", "confirmed"] == 0
    assert clean_share(counts) >= 0.85
    with (FIXTURES / "ab-l4.edges.csv").open(encoding="utf-8") as file:
        edges = list(csv.DictReader(file))
    named = {(x["recipient_room"], x["source_room"], x["mechanism"]) for x in judged.exposures}
    for edge in edges:
        # Residue in partly filled pages (`*_tail`) is below the grain of a page.
        if not edge["via"].endswith("_tail"):
            assert (edge["recipient_room"], edge["source_room"], edge["mechanism"]) in named, edge
    stale = [x for x in judged.exposures if x["mechanism"] == "stale_handoff"]
    assert len(stale) <= 1.15 * sum(e["mechanism"] == "stale_handoff" for e in edges)


def test_without_traces_late_writes_are_at_least_possible(judge, tmp_path):
    folder = unpack("ab-l4", tmp_path)
    damage.remove(folder, "kv-page-trace*")
    counts = assert_sound(judge(folder), truth("ab-l4"))
    assert counts["A", "confirmed"] == 7
    assert counts["B", "possible"] == 22


DAMAGE = {
    "cri": lambda f: damage.wrap_cri(f, "sglang.log"),
    "docker": lambda f: damage.wrap_docker(f, "*.log"),
    "zones": lambda f: (damage.shift_zone(f / "node-c5", "*.log", 8),
                        damage.shift_zone(f / "node-h1", "*.log", -3.5)),
    "no server_info": lambda f: damage.remove(f, "server_info.json"),
    "no request logs": lambda f: damage.remove(f, "requests.log"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_wrapping_zones_and_redundant_files_change_nothing(judge, tmp_path, name):
    folder = unpack("a-l2", tmp_path)
    DAMAGE[name](folder)
    counts = assert_sound(judge(folder), truth("a-l2"))
    assert counts["A", "confirmed"] == 7
    assert clean_share(counts) >= 0.98


def test_one_interleaved_stream_of_all_workers(judge, tmp_path):
    folder = unpack("a-l2", tmp_path)
    damage.compose_into_one(folder)
    judged = judge(folder)
    counts = assert_sound(judged, truth("a-l2"))
    assert counts["A", "confirmed"] == 7
    assert {w["worker"]: w["role"] for w in judged.summary["fleet"]} == {
        "node-c5": "decode", "node-c6": "prefill", "node-h1": "prefill", "node-h7": "decode"}


LOSSES = {
    "one prefill gone": lambda f: damage.remove(f / "node-c6", "*"),
    "all prefills gone": lambda f: (damage.remove(f / "node-c6", "*"),
                                    damage.remove(f / "node-h1", "*")),
    "one decode gone": lambda f: damage.remove(f / "node-h7", "*"),
    "no engine logs": lambda f: damage.remove(f, "sglang.log"),
    "decode engine logs gone": lambda f: (damage.remove(f / "node-c5", "sglang.log"),
                                          damage.remove(f / "node-h7", "sglang.log")),
    "five percent of lines": lambda f: damage.lose_lines(f, 0.05, 1),
    "half of the lines": lambda f: damage.lose_lines(f, 0.5, 2),
    "heads cut": lambda f: damage.cut(f, "sglang.log", 0.4, 1.0),
    "tails cut": lambda f: damage.cut(f, "*.log", 0.0, 0.6),
    "prefill head cut": lambda f: damage.cut(f / "node-c6", "*.log", 0.5, 1.0),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("bundle", ["a-l2", "ab-l4"])
def test_lost_evidence_never_makes_an_exposed_response_safe(judge, tmp_path, bundle, name):
    folder = unpack(bundle, tmp_path)
    damage.remove(folder, "kv-page-trace*")
    if bundle == "ab-l4":
        for ours, theirs in (("node-c6", "node-a6"), ("node-h1", "node-c3"),
                             ("node-c5", "node-f6"), ("node-h7", "node-g6")):
            (folder / theirs).rename(folder / ours)
    LOSSES[name](folder)
    assert_sound(judge(folder), truth(bundle))
