"""Runs that are stopped, killed or lose a worker: nothing is lost and nothing counts twice."""

from __future__ import annotations

import errno
import gzip
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from pipeline_runs import LOG, REPOSITORY, dump, evidence, facts, log, run, write

from ingest import audit_log
from ingest import session as session_module
from ingest import workers as workers_module
from ingest.case import open_case
from ingest.errors import DiskFull
from ingest.limits import Limits
from ingest.pipeline import Progress, ingest


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
