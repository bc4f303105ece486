"""The benchmark runs and prints every figure of the budget table with its peer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).parent / "run.py"
ROWS = (
    ("DuckDB reads the engine log as lines", False),
    ("ingest engine log", True),
    ("ingest engine log, one process", True),
    ("ingest a quarter of it (memory flat?)", False),
    ("DuckDB read_json of the same columns", False),
    ("ingest JSON request log", True),
)
# CPU seconds, CPU seconds per GB, wall seconds, peak MB, and the ratio where there is a peer.
_FIGURES = re.compile(r"\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+\d+\s*(?P<ratio>[\d.]*)\s*")


def test_benchmark_prints_its_table() -> None:
    done = subprocess.run(
        [sys.executable, str(RUN), "--size", "5"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["what", "CPU", "s", "CPU", "s/GB", "wall", "s", "peak", "MB", "ratio"]
    assert len(lines) == len(ROWS)
    for line, (name, has_peer) in zip(lines, ROWS, strict=True):
        assert line.startswith(name)
        figures = _FIGURES.fullmatch(line.removeprefix(name))
        assert figures is not None, line
        assert bool(figures["ratio"]) == has_peer
