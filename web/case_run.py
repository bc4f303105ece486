"""One whole analysis of a case: evidence in, verdicts, files in ``out/``. Order only, no logic."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forensics.analysis import analyse
from forensics.outputs import exposure_rows, response_rows, write_jsonl
from forensics.summary import Tally, summarise
from ingest.case import open_case
from ingest.excerpts import read_excerpts
from ingest.pipeline import IngestResult, ingest
from web.report import write_report
from web.terminal import Reporter


@dataclass(frozen=True, slots=True)
class Run:
    """What an analysis made."""

    summary: dict[str, Any]
    out: Path
    ingested: IngestResult


def run_analysis(
    evidence: Sequence[str], case_dir: Path, *, version: str, workers: int | None,
    copy_evidence: bool, reporter: Reporter,
) -> Run:
    """Ingest, analyse and write ``responses.jsonl``, ``exposures.jsonl``, ``summary.json`` and
    ``report.html`` into the case's ``out/``."""
    ingested = ingest(evidence, case_dir, copy_evidence=copy_evidence, workers=workers,
                      progress=reporter.ingest)
    case = open_case(case_dir, create=False)
    try:
        analysis = analyse(case.con, reporter.step)
        out = case_dir / "out"
        out.mkdir(mode=0o700, exist_ok=True)
        tally = Tally()
        write_jsonl(out / "responses.jsonl", response_rows(case.con), tally.add)
        write_jsonl(out / "exposures.jsonl", exposure_rows(case.con))
        summary = summarise(case.con, analysis, tally, version)
        _write(out / "summary.json", json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
        write_report(
            out / "report.html", summary, _read(out / "responses.jsonl"),
            _read(out / "exposures.jsonl"), lambda ids: read_excerpts(case.con, ids))
    finally:
        case.close()
    return Run(summary, out, ingested)


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(path.suffix + ".tmp")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    os.replace(temporary, path)
