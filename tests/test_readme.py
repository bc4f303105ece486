"""The README is true: its excerpt is what the demo prints, its commands exist and run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def run(*arguments: str, cwd: Path = ROOT, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "palimpsest", *arguments], cwd=cwd, text=True, capture_output=True,
        check=check, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "COLUMNS": "100"})


def test_the_excerpt_is_what_the_demo_prints(tmp_path):
    printed = run("analyze", str(ROOT / "sample_logs"), cwd=tmp_path).stdout
    excerpt = README.split("```text\n")[1].split("\n```")[0]
    assert printed.startswith(excerpt)
    for name in ("responses.jsonl", "exposures.jsonl", "summary.json", "report.html"):
        assert (tmp_path / "palimpsest-case" / "out" / name).stat().st_size > 0


def test_the_same_evidence_gives_the_same_bytes(tmp_path):
    outputs = []
    for name in ("one", "two"):
        run("analyze", str(ROOT / "sample_logs"), "--case", name, "-q", cwd=tmp_path)
        outputs.append({p.name: p.read_bytes() for p in (tmp_path / name / "out").iterdir()})
    assert outputs[0] == outputs[1]


def test_a_second_run_on_the_same_case_changes_nothing(tmp_path):
    run("analyze", str(ROOT / "sample_logs"), "--case", "c", "-q", cwd=tmp_path)
    first = {p.name: p.read_bytes() for p in (tmp_path / "c" / "out").iterdir()}
    run("analyze", str(ROOT / "sample_logs"), "--case", "c", "-q", cwd=tmp_path)
    assert {p.name: p.read_bytes() for p in (tmp_path / "c" / "out").iterdir()} == first


@pytest.mark.parametrize("command", ["analyze", "ingest", "knowledge"])
def test_every_command_has_help_with_examples_and_stands_in_the_readme(command):
    text = run(command, "--help").stdout
    assert "Example" in text
    assert command in README


def test_commands_of_the_run_script_are_documented():
    script = (ROOT / "run").read_text(encoding="utf-8")
    for name in re.findall(r"^(\w+)\)$", script, re.MULTILINE):
        assert f"./run {name}" in README


def test_exit_codes(tmp_path):
    sample = str(ROOT / "sample_logs" / "stale-handoff")
    assert run("analyze", sample, "--case", "a", "-q", "--fail-on", "confirmed", cwd=tmp_path,
               check=False).returncode == 1
    wrong = run("analyze", sample, "--fail-on", "certain", cwd=tmp_path, check=False)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert run("analyze", cwd=tmp_path, check=False).returncode == 2
    (tmp_path / "empty").mkdir()
    nothing = run("analyze", "empty", cwd=tmp_path, check=False)
    assert nothing.returncode == 3
    assert "Traceback" not in nothing.stderr
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)) * 40)
    assert run("analyze", "noise.bin", cwd=tmp_path, check=False).returncode == 3


def test_json_prints_the_summary_alone(tmp_path):
    import json

    sample = str(ROOT / "sample_logs" / "stale-handoff")
    printed = json.loads(run("analyze", sample, "--case", "a", "--json", cwd=tmp_path).stdout)
    assert printed == json.loads((tmp_path / "a" / "out" / "summary.json").read_text())
    assert printed["schema"] == "palimpsest/summary/1"


def test_readable_evidence_without_traffic_is_not_clean(tmp_path):
    (tmp_path / "quiet.log").write_text(
        "[2026-10-05 21:59:08] The server is fired up and ready to roll!\n")
    printed = run("analyze", "quiet.log", "--case", "a", cwd=tmp_path).stdout
    assert "not an all-clear" in printed
