"""The audit chain: what is appended, what a crash leaves, and which tampering is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ingest import audit_log
from ingest.case import Case, open_case


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with open_case(tmp_path / "case") as opened:
        for number in range(4):
            audit_log.append(opened, who="ada", what=f"note {number}", why="test")
        yield opened


def _lines(case: Case) -> list[str]:
    return case.audit_file.read_text().splitlines(keepends=True)


def test_entry_is_chained_as_documented(case: Case) -> None:
    first, second = (json.loads(line) for line in _lines(case)[:2])
    assert list(first) == sorted(["seq", "at", "who", "what", "why", "prev", "hash"])
    assert (first["seq"], first["prev"], second["prev"]) == (1, "0" * 64, first["hash"])
    body = {key: first[key] for key in ("at", "seq", "what", "who", "why")}
    text = first["prev"] + json.dumps(body, sort_keys=True, separators=(",", ":"))
    assert first["hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert audit_log.verify(case) == []
    assert case.audit_file.stat().st_mode & 0o777 == 0o600


def _edit(lines: list[str]) -> list[str]:
    return [*lines[:2], lines[2].replace("note 2", "nope 2"), *lines[3:]]


def _recompute(lines: list[str]) -> list[str]:
    """An editor who also repairs the edited entry's own hash."""
    entry = json.loads(lines[2])
    entry["what"] = "nope"
    body = {key: entry[key] for key in ("at", "seq", "what", "who", "why")}
    text = entry["prev"] + json.dumps(body, sort_keys=True, separators=(",", ":"))
    entry["hash"] = hashlib.sha256(text.encode()).hexdigest()
    return [*lines[:2], json.dumps(entry) + "\n", *lines[3:]]


@pytest.mark.parametrize(
    ("tamper", "seq"),
    [
        (_edit, 3),
        (_recompute, 3),
        (lambda lines: [*lines[:1], *lines[2:]], 2),
        (lambda lines: lines[:-1], 4),
        (lambda lines: lines[1:], 1),
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], 2),
        (lambda lines: [*lines, "{}\n"], 5),
        (lambda lines: [*lines[:3], lines[2], lines[3]], 3),
    ],
    ids=["edit", "edit-and-rehash", "delete", "cut-tail", "cut-head", "reorder", "foreign", "copy"],
)
def test_verify_finds_tampering_in_the_file(
    case: Case, tamper: Callable[[list[str]], list[str]], seq: int
) -> None:
    case.audit_file.write_text("".join(tamper(_lines(case))))
    problems = audit_log.verify(case)
    assert {p.copy for p in problems} == {"file"}
    assert seq in {p.seq for p in problems}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_log SET who = 'eve' WHERE seq = 2",
        "DELETE FROM audit_log WHERE seq = 2",
        "DELETE FROM audit_log WHERE seq = 4",
        "UPDATE audit_log SET seq = 5 - seq",
    ],
)
def test_verify_finds_tampering_in_the_table(case: Case, statement: str) -> None:
    case.con.execute(statement)
    assert any(p.copy == "table" for p in audit_log.verify(case))


def test_crash_between_commit_and_append_is_healed_and_recorded(case: Case) -> None:
    lines = _lines(case)
    case.audit_file.write_text("".join(lines[:-1]) + lines[-1][:20])
    case.close()
    with open_case(case.root) as again:
        assert audit_log.verify(again) == []
        assert _lines(again)[:4] == lines
        assert json.loads(_lines(again)[4])["what"] == "restore 1 entries of audit.jsonl"


def test_nothing_is_added_behind_an_edited_end(case: Case) -> None:
    case.audit_file.write_text("".join(_lines(case)[:-1]) + "{}\n")
    before = case.audit_file.read_bytes()
    case.close()
    with open_case(case.root) as again:
        audit_log.append(again, who="ada", what="later")
        assert case.audit_file.read_bytes() == before
        assert audit_log.verify(again) != []


def test_write_that_fails_leaves_no_entry(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, con: object) -> None:
            self.con = con

        def execute(self, sql: str, *args: object) -> object:
            if sql == "COMMIT":
                raise RuntimeError("power cut")
            return self.con.execute(sql, *args)  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> object:
            return getattr(self.con, name)

    con = case.con
    case.con = Broken(con)  # type: ignore[assignment]
    with pytest.raises(RuntimeError):
        audit_log.append(case, who="ada", what="lost")
    case.con = con
    assert audit_log.verify(case) == []
    assert len(_lines(case)) == 4
