"""Evidence into a case: recognised, counted, rejected with a reason."""

from __future__ import annotations

import gzip
import hashlib
import random
from pathlib import Path

import pytest
from pipeline_runs import LOG, dump, evidence, facts, log, run, write
from toy_formats import TOYS

from ingest import workers as workers_module
from ingest.errors import NothingReadable, UsageError
from ingest.limits import Limits
from ingest.records import Batch, Line
from ingest.registry import Registry


def test_files_are_recognised_by_content_and_counted(tmp_path: Path) -> None:
    given = tmp_path / "in"
    write(given / "a.json", LOG)
    write(given / "b.log", "#toy\nrid1\nrid2\n")
    write(given / "c.log", "nothing\nto see\n")
    write(given / "d.log", "")
    result = run(tmp_path / "case", given)
    assert (result.files, result.new, result.unrecognised, result.recognised) == (4, 2, 2, 2)
    assert (result.records, result.rejects) == (7, 2)
    columns = "name, format, lines, records, rejects, other_lines, status, complete, current"
    assert [row[1:] for row in evidence(tmp_path / "case", columns)] == [
        ("event,access", 13, 5, 2, 4, "ok", True, True),
        ("toy_accounts", 3, 2, 0, 0, "ok", True, True),
        (None, 2, 0, 0, 0, "unrecognised", True, True),
        (None, 0, 0, 0, 0, "unrecognised", True, True),
    ]
    joined = [row for row in facts(tmp_path / "case") if "bc" in row]
    assert len(joined) == 1
    assert joined[0][2:4] == (3, LOG.index("[2]"))


def test_damaged_archive_keeps_what_could_be_read(tmp_path: Path) -> None:
    text = "".join(f"[{n}] {random.Random(n).randbytes(40).hex()} 1\n" for n in range(20_000))
    packed = gzip.compress(text.encode())
    (tmp_path / "a.log.gz").write_bytes(packed[:len(packed) // 2])
    result = run(tmp_path / "case", tmp_path / "a.log.gz")
    assert (result.damaged, result.new) == (1, 1)
    (status, message, records, packed_bytes), = evidence(
        tmp_path / "case", "status, message, records, compressed_bytes")
    assert status == "damaged"
    assert message
    assert 5_000 < records < 15_000
    assert packed_bytes == len(packed) // 2
    before = dump(tmp_path / "case")
    assert run(tmp_path / "case", tmp_path / "a.log.gz").unchanged == 1
    assert dump(tmp_path / "case") == before


def test_unreadable_file_is_listed_once_and_its_row_used_later(tmp_path: Path) -> None:
    other = write(tmp_path / "z.log", "[1] z 1\n")
    missing = tmp_path / "a.log"
    for _ in range(2):
        result = run(tmp_path / "case", missing, other)
        assert result.unreadable == 1
    assert [row[0] for row in evidence(tmp_path / "case", "status")] == ["unreadable", "ok"]
    write(missing, log(1, 5))
    run(tmp_path / "case", missing, other)
    assert evidence(tmp_path / "case", "evidence_id, status, records, message") == [
        (1, "ok", 5, ""), (2, "ok", 1, "")]


def test_nothing_given_and_nothing_found(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        run(tmp_path / "case")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NothingReadable, match="empty") as caught:
        run(tmp_path / "case", tmp_path / "empty")
    assert caught.value.exit_code == 3
    write(tmp_path / "junk" / "letter.txt", "dear all\n")
    with pytest.raises(NothingReadable, match=r"letter\.txt"):
        run(tmp_path / "case", tmp_path / "junk")
    assert [row[0] for row in evidence(tmp_path / "case", "status")][-1] == "unrecognised"


def test_copies_of_evidence(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(log(1, 50).encode()))
    run(tmp_path / "case", tmp_path / "a.log.gz", copy_evidence=True)
    (sha256,), = evidence(tmp_path / "case", "sha256")
    copy = tmp_path / "case" / "evidence" / "files" / sha256
    assert copy.read_text() == log(1, 50)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in copy.parent.iterdir()] == [sha256]


def test_parser_that_fails_costs_a_line_not_the_run(tmp_path: Path) -> None:
    class Fragile:
        name = "fragile"

        def parse(self, line: Line, batch: Batch) -> bool:
            if line.raw.startswith(b"crash"):
                raise KeyError("secret prompt")
            if line.raw.startswith(b"huge"):
                batch.add("access_line", line, status_code=2**40)
                return True
            return False

        def continues(self, previous: Line, line: Line) -> bool:
            raise ValueError("x")

    file = write(tmp_path / "a.log", "[1] a 5\ncrash secret prompt\nhuge\nother\n[2] b 6\n")
    run(tmp_path / "case", file, formats=Registry((Fragile(), *TOYS.lines), ()))
    rows = facts(tmp_path / "case")
    assert [row[-1] for row in rows if row[0] == "reject"] == [
        "its parser failed (KeyError)", "value out of range for access_line"]
    assert len(rows) == 4
    assert "secret" not in repr(rows)


def test_order_and_ids_do_not_depend_on_the_case_path(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write(tmp_path / "in" / f"{name}.log", log(1, 40, name))
    run(tmp_path / "one", tmp_path / "in")
    run(tmp_path / "two", tmp_path / "in")
    assert dump(tmp_path / "one") == dump(tmp_path / "two")
    assert [row[0] for row in evidence(tmp_path / "one", "name")] == [f"in/{n}.log" for n in "abc"]


def test_file_that_changes_between_hash_and_parse_is_parsed_as_hashed(tmp_path: Path) -> None:
    file = write(tmp_path / "a.log", "before\n" * 1000)
    data = file.read_bytes()
    where = workers_module.Slice(str(file), 0, len(data), workers_module.checksum(data))
    assert workers_module.read_slice(where) == data
    write(file, "beforf\n" + "before\n" * 999)
    assert workers_module.read_slice(where) is None
    write(file, "before\n" * 10)
    assert workers_module.read_slice(where) is None
    file.unlink()
    assert workers_module.read_slice(where) is None


def test_utf16_log_is_hashed_as_it_is_and_goes_on(tmp_path: Path) -> None:
    whole = LOG.replace("\0", "0").encode("utf-16")
    (tmp_path / "a.log").write_bytes(whole[:82])
    run(tmp_path / "case", tmp_path / "a.log")
    (tmp_path / "a.log").write_bytes(whole)
    run(tmp_path / "case", tmp_path / "a.log")
    (tmp_path / "once.log").write_bytes(whole)
    run(tmp_path / "once", tmp_path / "once.log")
    columns = "size_bytes, sha256, format, lines, records, rejects, other_lines"
    assert evidence(tmp_path / "case", columns) == evidence(tmp_path / "once", columns)
    assert facts(tmp_path / "case") == facts(tmp_path / "once")
    assert evidence(tmp_path / "case", "size_bytes, sha256") == [
        (len(whole), hashlib.sha256(whole).hexdigest())]


@pytest.mark.parametrize("cut", [200, 330, 400, 480])
def test_collector_pieces_are_joined_across_a_continuation(tmp_path: Path, cut: int) -> None:
    stamp = "2025-09-29T08:00:00.5Z stdout"
    text = "".join([
        f"{stamp} F [1] a 1\n", f"{stamp} F [2] b 2\n" * 6, f"{stamp} P [3] c\n" * 2,
        f"{stamp} F  5\n", f"{stamp} P [4] d\n", f"{stamp} F  6\n", f"{stamp} F [5] e 7\n"])
    assert len(text) > cut
    file = write(tmp_path / "in" / "a.log", text[:cut])
    run(tmp_path / "case", tmp_path / "in")
    write(file, text)
    run(tmp_path / "case", tmp_path / "in")
    run(tmp_path / "once", tmp_path / "in")
    columns = ("sha256, format, wrapper, lines, records, rejects, other_lines, committed_offset, "
               "committed_line, committed_counts")
    assert evidence(tmp_path / "case", columns) == evidence(tmp_path / "once", columns)
    assert facts(tmp_path / "case") == facts(tmp_path / "once")
    assert evidence(tmp_path / "once", "wrapper") != [("plain",)]


def test_line_that_is_too_long_is_a_reject_with_its_place(tmp_path: Path) -> None:
    long = "[7] " + "y" * 5000
    text = f"[1] a 5\n{long}\n[2] b 6\n" + log(3, 3000) + long
    limits = Limits(block_bytes=4096, max_line_bytes=3000)
    file = write(tmp_path / "a.log", text)
    run(tmp_path / "case", file, limits=limits)
    rejects = [row for row in facts(tmp_path / "case") if row[0] == "reject"]
    assert [(row[2], row[3], row[5]) for row in rejects] == [
        (2, 8, "line too long"), (3004, text.rindex("[7]"), "line too long")]
    assert len(facts(tmp_path / "case")) == 3004
    write(file, text + "z\n[8] c 7\n")
    run(tmp_path / "case", file, limits=limits)
    run(tmp_path / "once", file, limits=limits)
    assert facts(tmp_path / "case") == facts(tmp_path / "once")
    columns = "lines, records, rejects, other_lines"
    assert evidence(tmp_path / "case", columns) == evidence(tmp_path / "once", columns)
