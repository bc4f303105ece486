"""Evidence into a case: counted once, continued, superseded, resumed - whatever happens."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest
from toy_formats import TOYS

from ingest import audit_log, source_run
from ingest import session as session_module
from ingest import workers as workers_module
from ingest.case import open_case
from ingest.errors import DiskFull, NothingReadable, UsageError
from ingest.limits import Limits
from ingest.pipeline import IngestResult, Progress, ingest
from ingest.records import TABLES, Batch, Line
from ingest.registry import Registry

REPOSITORY = Path(source_run.__file__).parents[1]
LOG = (
    "noise\n[1] a 5\n[2] b \n  c 7\nGET /x 200\n[bad\n  tail\n\n[3] d 1\n  lost\nx\0y\n"
    "  after nul\n[4] e 9\n"
)


def run(case: Path, *given: Path, formats: Registry = TOYS, **options: Any) -> IngestResult:
    return ingest([str(path) for path in given], case, formats=formats, workers=1, **options)


def facts(case: Path, *, current: bool = True) -> list[tuple[Any, ...]]:
    """Every fact row of the case, without ids, in a fixed order."""
    rows: list[tuple[Any, ...]] = []
    where = "WHERE e.current" if current else ""
    with open_case(case, read_only=True) as opened:
        for table in TABLES:
            found = opened.con.execute(
                f"SELECT t.* EXCLUDE (evidence_id) FROM {table} t "
                f"JOIN evidence e USING (evidence_id) {where}").fetchall()
            rows += [(table, *row) for row in found]
    return sorted(rows, key=repr)


def evidence(case: Path, columns: str) -> list[tuple[Any, ...]]:
    with open_case(case, read_only=True) as opened:
        return opened.con.execute(
            f"SELECT {columns} FROM evidence ORDER BY evidence_id").fetchall()


def dump(case: Path) -> list[Any]:
    """Everything but the audit log, in stored order."""
    with open_case(case, read_only=True) as opened:
        return [opened.con.execute(f"SELECT * FROM {table}").fetchall()
                for table in (*TABLES, "case_meta")] + [
            opened.con.execute("SELECT * FROM evidence ORDER BY evidence_id").fetchall()]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def log(start: int, count: int, rid: str = "r") -> str:
    return "".join(f"[{n}] {rid}{n} {n * 3}\n" for n in range(start, start + count))


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


def test_same_bytes_plain_and_compressed_are_one(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.log", log(1, 50))
    (tmp_path / "in" / "b.log.gz").write_bytes(gzip.compress(log(1, 50).encode()))
    result = run(tmp_path / "case", tmp_path / "in")
    assert (result.new, result.duplicates, result.records) == (1, 1, 50)


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


def test_full_disk_is_named_and_the_run_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "a.log", log(1, 50))

    def no_space(*args: object) -> None:
        raise duckdb.IOException(
            'IO Error: Could not write file "case.duckdb.wal": No space left on device')

    with monkeypatch.context() as patch:
        patch.setattr("ingest.store._insert", no_space)
        with pytest.raises(DiskFull, match="full"):
            run(tmp_path / "case", file)
    with monkeypatch.context() as patch:
        def no_room(*args: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr("ingest.audit_log.os.fsync", no_room)
        with pytest.raises(DiskFull):
            run(tmp_path / "case", file)
    run(tmp_path / "case", file)
    assert len(facts(tmp_path / "case", current=False)) == 50


def test_copies_of_evidence(tmp_path: Path) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(log(1, 50).encode()))
    run(tmp_path / "case", tmp_path / "a.log.gz", copy_evidence=True)
    (sha256,), = evidence(tmp_path / "case", "sha256")
    copy = tmp_path / "case" / "evidence" / "files" / sha256
    assert copy.read_text() == log(1, 50)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in copy.parent.iterdir()] == [sha256]


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


def test_interrupted_run_keeps_what_is_whole_and_goes_on(
    tmp_path: Path, small_batches: None
) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / "in" / f"{name}.log", log(1, 3000, name))
    run(tmp_path / "once", tmp_path / "in")
    for calls in range(1, 7):
        count = 0

        def interrupt(_progress: Progress, limit: int = calls) -> None:
            nonlocal count
            count += 1
            if count == limit:
                signal.raise_signal(signal.SIGINT)

        with pytest.raises(KeyboardInterrupt, match="continues"):
            run(tmp_path / "case", tmp_path / "in", progress=interrupt)
        with open_case(tmp_path / "case") as case:
            assert audit_log.verify(case) == []
    run(tmp_path / "case", tmp_path / "in")
    assert dump(tmp_path / "case") == dump(tmp_path / "once")


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and transactions of a few KiB, and a report after every block."""
    monkeypatch.setattr(session_module, "_BATCH_BYTES", 20_000)
    monkeypatch.setattr(session_module, "_REPORT_EVERY_S", -1.0)
    monkeypatch.setattr("ingest.pipeline.Limits", lambda: Limits(block_bytes=4096))


def test_progress_tells_bytes_and_rate(tmp_path: Path, small_batches: None) -> None:
    reports: list[Progress] = []
    write(tmp_path / "a.log", log(1, 3000))
    run(tmp_path / "case", tmp_path / "a.log", progress=reports.append)
    size = (tmp_path / "a.log").stat().st_size
    assert len(reports) > 5
    assert [r.bytes_done for r in reports] == sorted(r.bytes_done for r in reports)
    assert (reports[-1].bytes_done, reports[-1].bytes_total) == (size, size)
    assert reports[-1].bytes_per_s > 0


_KILLED = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
from ingest import session
from ingest.limits import Limits
from toy_formats import TOYS
from ingest.pipeline import ingest
session._BATCH_BYTES = 100_000
print("go", flush=True)
ingest(sys.argv[3:], Path(sys.argv[2]), formats=TOYS, workers=1,
       limits=Limits(block_bytes=30_000))
"""


def test_kill_at_any_moment_loses_and_doubles_nothing(tmp_path: Path) -> None:
    texts = {"a": log(1, 30_000, "a"), "b": LOG * 500, "c": "#toy\n" + "x\n" * 20_000,
             "d": log(1, 30_000, "a"), "e": log(1, 8_000, "e")}
    for name, text in texts.items():
        write(tmp_path / "in" / name, text)
    run(tmp_path / "once", tmp_path / "in")
    command = [sys.executable, "-c", _KILLED, str(Path(__file__).parent),
               str(tmp_path / "case"), str(tmp_path / "in")]
    chance = random.Random(7)
    kills = 0
    for _ in range(16):
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.5))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        process.stdout.close()
        if (tmp_path / "case" / "case.duckdb").exists():
            with open_case(tmp_path / "case", create=False) as case:
                ids = case.con.execute("SELECT count(*), count(DISTINCT evidence_id) "
                                       "FROM evidence").fetchone()
                assert ids is not None
                assert ids[0] == ids[1]
    assert kills > 3
    run(tmp_path / "case", tmp_path / "in")
    assert facts(tmp_path / "case", current=False) == facts(tmp_path / "once", current=False)
    columns = "* EXCLUDE (digest_checkpoints)"
    assert evidence(tmp_path / "case", columns) == evidence(tmp_path / "once", columns)


def test_order_and_ids_do_not_depend_on_the_case_path(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        write(tmp_path / "in" / f"{name}.log", log(1, 40, name))
    run(tmp_path / "one", tmp_path / "in")
    run(tmp_path / "two", tmp_path / "in")
    assert dump(tmp_path / "one") == dump(tmp_path / "two")
    assert [row[0] for row in evidence(tmp_path / "one", "name")] == [f"in/{n}.log" for n in "abc"]



def _engine_text(lines: int) -> str:
    kinds = (
        '[2025-09-29 08:{m:02d}:{s:02d}] INFO:     10.2.0.7:{n} - "GET /health HTTP/1.1" 200 OK\n',
        "[2025-09-29 08:{m:02d}:{s:02d} TP0] The server is fired up and ready to roll!\n",
        "some other text {n}\n",
    )
    return "".join(kinds[n % 3].format(n=n % 60_000, m=n // 60 % 60, s=n % 60)
                   for n in range(lines))


def test_workers_give_the_rows_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in" / "a.log", _engine_text(9_000))
    (tmp_path / "in" / "b.log.gz").write_bytes(gzip.compress(_engine_text(5_000).encode()))
    write(tmp_path / "in" / "c.log", "\x1b[32m" + _engine_text(700) + "x" * 70_000 + "\n")
    cri = "".join(f"2025-09-29T08:00:00.5Z stderr F {line}\n"
                  for line in _engine_text(4_000).splitlines())
    write(tmp_path / "in" / "d.log", cri)
    limits = Limits(block_bytes=32_768, max_line_bytes=65_536)
    given = [str(tmp_path / "in")]
    one = ingest(given, tmp_path / "one", workers=1, limits=limits)
    monkeypatch.setattr("ingest.pipeline._POOL_BYTES", 0)
    two = ingest(given, tmp_path / "two", workers=2, limits=limits)
    assert one == two
    assert one.records > 10_000
    assert dump(tmp_path / "one") == dump(tmp_path / "two")


def test_worker_that_dies_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "a.log", _engine_text(9_000))
    limits = Limits(block_bytes=32_768)
    ingest([str(file)], tmp_path / "one", workers=1, limits=limits)
    monkeypatch.setattr("ingest.pipeline._POOL_BYTES", 0)
    monkeypatch.setattr(workers_module, "_work", _die)
    ingest([str(file)], tmp_path / "two", workers=2, limits=limits)
    assert dump(tmp_path / "one") == dump(tmp_path / "two")


def _die(*_: object) -> None:
    os._exit(9)


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
