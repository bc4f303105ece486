"""Page traces that lost events, lines or files: never a wrong "safe", never a false certainty."""

from __future__ import annotations

import pytest

from tests import damage
from tests.forensics.test_bundles import FIXTURES, assert_sound, truth, unpack

TRACE = "kv-page-trace*"


def keep_header_lose_lines(folder, share):
    """Lose a share of the events of every trace; its first line stays."""
    for path in sorted(folder.rglob(TRACE)):
        header, _, rest = path.read_text(encoding="utf-8").partition("\n")
        path.write_text(rest, encoding="utf-8")
        damage.lose_lines(path.parent, share, 1, path.name)
        path.write_text(header + "\n" + path.read_text(encoding="utf-8"), encoding="utf-8")


LOSSES = {
    "one event in a thousand": lambda f: keep_header_lose_lines(f, 0.001),
    "one event in twenty": lambda f: keep_header_lose_lines(f, 0.05),
    "half of the events": lambda f: keep_header_lose_lines(f, 0.5),
    "prefill head": lambda f: damage.cut(f / "node-a6", TRACE, 0.4, 1.0),
    "prefill tail": lambda f: damage.cut(f / "node-a6", TRACE, 0.0, 0.6),
    "decode head": lambda f: damage.cut(f / "node-f6", TRACE, 0.4, 1.0),
    "decode tail": lambda f: damage.cut(f / "node-f6", TRACE, 0.0, 0.6),
    "one prefill": lambda f: damage.remove(f / "node-a6", TRACE),
    "one prefill with its logs": lambda f: damage.remove(f / "node-a6", "*"),
    "all prefills": lambda f: (damage.remove(f / "node-a6", TRACE),
                               damage.remove(f / "node-c3", TRACE)),
    "all decodes": lambda f: (damage.remove(f / "node-f6", TRACE),
                              damage.remove(f / "node-g6", TRACE)),
}


@pytest.mark.parametrize("name", LOSSES)
def test_lost_traces_neither_clear_nor_convict(judge, tmp_path, name):
    folder = unpack("ab-l4", tmp_path)
    LOSSES[name](folder)
    counts = assert_sound(judge(folder), truth("ab-l4"))
    assert counts["-", "confirmed"] == 0
    assert counts["-", "probable"] <= 0.1 * counts.total()


def test_traces_that_contradict_the_counts_are_not_certain(judge):
    """Whole traces agree with the logs: the contradiction has no case there."""
    codes = {reason["code"] for record in judge(FIXTURES / "ab-l4.tar.xz").responses
             for reason in record["reasons"]}
    assert "page_stale" in codes
    assert "page_contradicted" not in codes
