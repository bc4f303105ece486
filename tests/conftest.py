"""Fixtures that several suites share: the sample case, read and judged once per run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import settings

from forensics.analysis import Analysis, analyse
from forensics.outputs import exposure_rows, response_rows
from forensics.summary import Tally, summarise
from ingest.case import open_case
from ingest.pipeline import ingest

# The same examples on every run: a check that is red once is red again.
settings.register_profile("project", derandomize=True, deadline=None)
settings.load_profile("project")

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "sample_logs" / "stale-handoff"


@dataclass(frozen=True, slots=True)
class Judged:
    """A case that was ingested and analysed, still open."""

    con: duckdb.DuckDBPyConnection
    analysis: Analysis
    responses: list[dict[str, Any]]
    exposures: list[dict[str, Any]]
    summary: dict[str, Any]

    def room(self, room: int | str, attempt: int = 0) -> dict[str, Any]:
        """The one response of a room and attempt."""
        found = [r for r in self.responses
                 if r["room"] == str(room) and r["attempt"] == attempt]
        assert len(found) == 1, (room, len(found))
        return found[0]

    def tiers(self) -> dict[str, int]:
        """Responses by tier, without the tiers that have none."""
        return {t: n for t, n in self.summary["responses"]["by_tier"].items() if n}


def judge_evidence(evidence: list[Path], case_dir: Path) -> Iterator[Judged]:
    """Ingest and analyse evidence; yields the open case."""
    ingest([str(path) for path in evidence], case_dir, workers=1)
    case = open_case(case_dir, create=False)
    try:
        analysis = analyse(case.con)
        tally = Tally()
        responses = []
        for record in response_rows(case.con):
            tally.add(record)
            responses.append(record)
        exposures = list(exposure_rows(case.con))
        summary = summarise(case.con, analysis, tally, "test")
        json.dumps(summary)
        yield Judged(case.con, analysis, responses, exposures, summary)
    finally:
        case.close()


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    """The case in sample_logs/."""
    yield from judge_evidence([SAMPLE], tmp_path_factory.mktemp("sample") / "case")


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Any]:
    """A function that judges evidence of a test: ``judge(path, ...) -> Judged``."""
    running: list[Iterator[Judged]] = []

    def run(*evidence: Path) -> Judged:
        one = judge_evidence(list(evidence), tmp_path / f"case-{len(running)}")
        running.append(one)
        return next(one)

    yield run
    for one in running:
        next(one, None)
