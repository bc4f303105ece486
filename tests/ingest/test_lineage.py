"""The same evidence again: a copy, a grown file, another version; each fact counts once."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pipeline_runs import LOG, dump, evidence, facts, log, run, write


def test_second_run_adds_nothing(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.log", LOG)
    write(tmp_path / "in" / "b.log", "#toy\nrid1\n")
    write(tmp_path / "in" / "junk", "junk")
    run(tmp_path / "case", tmp_path / "in")
    before = dump(tmp_path / "case")
    audit = (tmp_path / "case" / "audit.jsonl").read_bytes()
    result = run(tmp_path / "case", tmp_path / "in")
    assert (result.files, result.unchanged, result.records) == (3, 3, 0)
    assert dump(tmp_path / "case") == before
    assert (tmp_path / "case" / "audit.jsonl").read_bytes() == audit


@pytest.mark.parametrize("cut", range(1, len(LOG), 4))
def test_grown_file_gives_what_one_reading_gives(tmp_path: Path, cut: int) -> None:
    # A second file, so that a first part without any record is no error.
    write(tmp_path / "in" / "z.log", "[9] z 9\n")
    write(tmp_path / "in" / "a.log", LOG[:cut])
    run(tmp_path / "case", tmp_path / "in")
    write(tmp_path / "in" / "a.log", LOG)
    run(tmp_path / "once", tmp_path / "in")
    run(tmp_path / "case", tmp_path / "in")
    columns = ("evidence_id, name, size_bytes, sha256, format, lines, records, rejects, "
               "other_lines, first_stamp_ns, last_stamp_ns, clock, ingested_bytes, "
               "committed_offset, committed_line, committed_counts, complete, current, status")
    assert evidence(tmp_path / "case", columns) == evidence(tmp_path / "once", columns)
    assert facts(tmp_path / "case") == facts(tmp_path / "once")


def test_grown_document_keeps_its_id(tmp_path: Path) -> None:
    file = write(tmp_path / "accounts", "#toy\na\nb\n")
    run(tmp_path / "case", file)
    write(file, "#toy\na\nb\nc\n")
    result = run(tmp_path / "case", file)
    assert (result.continued, result.records) == (1, 1)
    assert evidence(tmp_path / "case", "evidence_id, lines, records, current") == [(1, 4, 3, True)]
    assert len(facts(tmp_path / "case", current=False)) == 3


def test_changed_document_is_superseded(tmp_path: Path) -> None:
    file = write(tmp_path / "accounts", "#toy\na\nb\n")
    run(tmp_path / "case", file)
    write(file, "#toy\nA\nb\nc\n")
    run(tmp_path / "case", file)
    assert evidence(tmp_path / "case", "evidence_id, status, current, version_of") == [
        (1, "superseded", False, None), (2, "ok", True, 1)]
    assert len(facts(tmp_path / "case")) == 3


def test_identical_bytes_are_counted_once(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.log", log(1, 50))
    write(tmp_path / "in" / "copy" / "a.log", log(1, 50))
    result = run(tmp_path / "case", tmp_path / "in", tmp_path / "in" / "a.log")
    assert result.new == 1
    assert result.duplicates >= 1
    assert len(facts(tmp_path / "case", current=False)) == 50
    before = dump(tmp_path / "case")
    assert run(tmp_path / "case", tmp_path / "in").records == 0
    assert dump(tmp_path / "case") == before
    # Both grow.
    write(tmp_path / "in" / "a.log", log(1, 60))
    write(tmp_path / "in" / "copy" / "a.log", log(1, 60))
    result = run(tmp_path / "case", tmp_path / "in")
    assert (result.continued, result.duplicates, result.records) == (1, 1, 10)
    assert len(facts(tmp_path / "case", current=False)) == 60


def test_copy_that_changes_is_no_copy_any_more(tmp_path: Path) -> None:
    original = write(tmp_path / "in" / "a" / "info", "#toy\nx\n")
    copy = write(tmp_path / "in" / "b" / "info", "#toy\nx\n")
    columns = "evidence_id, current, duplicate_of, version_of, status"
    run(tmp_path / "case", tmp_path / "in")
    assert evidence(tmp_path / "case", columns) == [
        (1, True, None, None, "ok"), (2, False, 1, None, "duplicate")]
    write(copy, "#toy\ny\n")
    run(tmp_path / "case", tmp_path / "in")
    changed = [(1, True, None, None, "ok"), (2, False, None, None, "superseded"),
               (3, True, None, 2, "ok")]
    assert evidence(tmp_path / "case", columns) == changed
    run(tmp_path / "case", tmp_path / "in")
    assert evidence(tmp_path / "case", columns) == changed
    write(copy, "#toy\nx\n")
    for _ in range(2):
        run(tmp_path / "case", copy)
        run(tmp_path / "case", original)
        assert evidence(tmp_path / "case", columns) == [
            (1, True, None, None, "ok"), (2, False, 1, 3, "duplicate"),
            (3, False, None, 2, "superseded")]
    assert len(facts(tmp_path / "case")) == 1


def test_later_copy_that_has_grown_stands_for_the_earlier_one(tmp_path: Path) -> None:
    write(tmp_path / "in" / "1" / "a.log", log(1, 50))
    write(tmp_path / "in" / "2" / "a.log", log(1, 60))
    run(tmp_path / "case", tmp_path / "in")
    assert evidence(tmp_path / "case", "evidence_id, current, duplicate_of, status") == [
        (1, False, 2, "duplicate"), (2, True, None, "ok")]
    assert len(facts(tmp_path / "case")) == 60
    before = dump(tmp_path / "case")
    run(tmp_path / "case", tmp_path / "in")
    assert dump(tmp_path / "case") == before


def test_earlier_copy_given_later_adds_nothing(tmp_path: Path) -> None:
    run(tmp_path / "case", write(tmp_path / "new" / "a.log", log(1, 60)))
    run(tmp_path / "case", write(tmp_path / "old" / "a.log", log(1, 50)))
    assert len(facts(tmp_path / "case")) == 60
    before = dump(tmp_path / "case")
    assert run(tmp_path / "case", tmp_path / "old").records == 0
    assert dump(tmp_path / "case") == before


def test_renamed_file_is_known_by_its_bytes(tmp_path: Path) -> None:
    file = write(tmp_path / "a.log", log(1, 50))
    run(tmp_path / "case", file)
    file.rename(tmp_path / "b.log")
    assert run(tmp_path / "case", tmp_path / "b.log").unchanged == 1
    assert evidence(tmp_path / "case", "evidence_id, name, current") == [(1, "b.log", True)]


def test_rotated_log_keeps_both_parts(tmp_path: Path) -> None:
    file = write(tmp_path / "in" / "a.log", log(1, 50))
    run(tmp_path / "case", tmp_path / "in")
    # The last lines arrive before the rotation.
    write(file, log(1, 55))
    file.rename(tmp_path / "in" / "a.log.1")
    write(file, log(56, 20))
    run(tmp_path / "case", tmp_path / "in")
    write(tmp_path / "whole" / "a.log", log(1, 55))
    write(tmp_path / "whole" / "b.log", log(56, 20))
    assert len(facts(tmp_path / "case")) == 75
    assert evidence(tmp_path / "case", "evidence_id, name, records, current") == [
        (1, "in/a.log.1", 55, True), (2, "in/a.log", 20, True)]
    before = dump(tmp_path / "case")
    run(tmp_path / "case", tmp_path / "in")
    assert dump(tmp_path / "case") == before


def test_log_cut_to_zero_and_written_anew_keeps_the_lost_part(tmp_path: Path) -> None:
    file = write(tmp_path / "a.log", log(1, 50))
    other = write(tmp_path / "z.log", "[1] z 1\n")
    run(tmp_path / "case", file, other)
    write(file, "")
    run(tmp_path / "case", file, other)
    assert len(facts(tmp_path / "case")) == 51
    write(file, log(51, 40))
    run(tmp_path / "case", file, other)
    assert len(facts(tmp_path / "case")) == 91
    assert [row[0] for row in evidence(tmp_path / "case", "current")] == [True] * 3


def test_truncated_file_takes_nothing_away(tmp_path: Path) -> None:
    file = write(tmp_path / "a.log", log(1, 50))
    run(tmp_path / "case", file)
    write(file, log(1, 30) + "[31] r3")
    run(tmp_path / "case", file)
    assert evidence(tmp_path / "case", "evidence_id, current, duplicate_of, status") == [
        (1, True, None, "ok"), (2, False, 1, "truncated")]
    assert len(facts(tmp_path / "case")) == 50
    before = dump(tmp_path / "case")
    assert run(tmp_path / "case", file).records == 0
    assert dump(tmp_path / "case") == before


def test_edited_file_is_a_new_version_and_the_old_stays_on_record(tmp_path: Path) -> None:
    file = write(tmp_path / "a.log", log(1, 50))
    run(tmp_path / "case", file)
    write(file, log(1, 50).replace("r20 60", "rX 60"))
    run(tmp_path / "case", file)
    assert evidence(tmp_path / "case", "evidence_id, current, version_of, status") == [
        (1, False, None, "superseded"), (2, True, 1, "ok")]
    assert len(facts(tmp_path / "case")) == 50
    assert len(facts(tmp_path / "case", current=False)) == 100
    assert any("rX" in row for row in facts(tmp_path / "case"))
    # And back again: the first version is on record already.
    write(file, log(1, 50))
    assert run(tmp_path / "case", file).records == 0
    assert evidence(tmp_path / "case", "evidence_id, current") == [(1, True), (2, False)]


def test_version_without_records_does_not_displace_facts(tmp_path: Path) -> None:
    file = write(tmp_path / "a.log", log(1, 50))
    other = write(tmp_path / "z.log", "[1] z 1\n")
    run(tmp_path / "case", file, other)
    write(file, "this file was moved elsewhere\n")
    run(tmp_path / "case", file, other)
    assert len(facts(tmp_path / "case")) == 51


def test_same_bytes_plain_and_compressed_are_one(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.log", log(1, 50))
    (tmp_path / "in" / "b.log.gz").write_bytes(gzip.compress(log(1, 50).encode()))
    result = run(tmp_path / "case", tmp_path / "in")
    assert (result.new, result.duplicates, result.records) == (1, 1, 50)


def test_newer_parsers_read_the_same_bytes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "a.log", LOG)
    run(tmp_path / "case", file)
    before = facts(tmp_path / "case")
    monkeypatch.setattr("ingest.pipeline.PARSER_VERSION", "2")
    assert run(tmp_path / "case", file).continued == 1
    assert facts(tmp_path / "case", current=False) == before
    assert evidence(tmp_path / "case", "evidence_id, parser_version, records") == [(1, "2", 5)]
