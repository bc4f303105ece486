"""Transactions of the store: all or nothing, deletions before inserts, what one file contains."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from ingest import audit_log, store
from ingest.case import Case, open_case
from ingest.errors import CaseError
from ingest.records import MAX_ROOM, rows_to_arrow
from ingest.store import Evidence, Pending, commit, count_from, count_line, is_contained


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with open_case(tmp_path / "case") as opened:
        yield opened


def _add(pending: Pending, evidence_id: int, *places: tuple[str, int], room: int = 1) -> None:
    rows = [{"stream": stream, "line_no": offset + 1, "byte_offset": offset, "kind": "ready",
             "room": room} for stream, offset in places]
    pending.add(evidence_id, "engine_event", rows_to_arrow("engine_event", rows))


def _offsets(case: Case) -> list[tuple[int, str, int]]:
    return case.con.execute(
        "SELECT evidence_id, stream, byte_offset FROM engine_event").fetchall()


def test_rows_evidence_and_notes_arrive_together(case: Case) -> None:
    pending = Pending()
    _add(pending, 1, ("", 0), ("pod", 10), room=MAX_ROOM)
    pending.evidence[1] = Evidence(1, "a.log", "/a.log", digest_checkpoints=b"\0\xff")
    pending.notes.append(("ada", "ingest", "test"))
    commit(case, pending)
    assert pending.empty
    assert _offsets(case) == [(1, "", 0), (1, "pod", 10)]
    assert case.con.execute("SELECT DISTINCT room FROM engine_event").fetchall() == [(MAX_ROOM,)]
    assert store.load_evidence(case) == [
        Evidence(1, "a.log", "/a.log", digest_checkpoints=b"\0\xff")]
    assert audit_log.verify(case) == []
    assert len(case.audit_file.read_text().splitlines()) == 1


def test_failed_commit_writes_nothing_and_may_be_repeated(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = Pending()
    _add(pending, 1, ("", 0))
    pending.evidence[1] = Evidence(1, "a.log", "/a.log")
    pending.notes.append(("ada", "ingest", "test"))
    with monkeypatch.context() as patch:
        def fail(*_: object) -> None:
            raise duckdb.IOException("IO Error: Could not write file: Input/output error")

        patch.setattr(store, "_write_evidence", fail)
        with pytest.raises(CaseError):
            commit(case, pending)
    assert _offsets(case) == []
    assert not case.audit_file.exists()
    commit(case, pending)
    assert _offsets(case) == [(1, "", 0)]
    assert audit_log.verify(case) == []


def test_older_rows_go_before_new_ones_come(case: Case) -> None:
    pending = Pending()
    _add(pending, 1, ("", 0), ("", 10), ("", 20))
    _add(pending, 2, ("", 10))
    commit(case, pending)
    assert count_from(case, 1, 10) == {"engine_event": 2}
    pending.cuts[1] = 10
    _add(pending, 1, ("", 10), ("", 15))
    commit(case, pending)
    assert sorted(_offsets(case)) == [(1, "", 0), (1, "", 10), (1, "", 15), (2, "", 10)]


def test_one_line_is_taken_back_wherever_its_rows_are(case: Case) -> None:
    pending = Pending()
    _add(pending, 1, ("a", 0), ("b", 0), ("a", 5))
    assert pending.remove_line(1, "a", 0) == {"engine_event": 1}
    commit(case, pending)
    assert count_line(case, 1, "b", 0) == {"engine_event": 1}
    assert pending.remove_line(1, "b", 0) == {}
    _add(pending, 1, ("b", 0))
    commit(case, pending)
    assert sorted(_offsets(case)) == [(1, "a", 5), (1, "b", 0)]


def test_containment_looks_at_every_column_and_count(case: Case) -> None:
    pending = Pending()
    _add(pending, 1, ("", 0), ("", 10), ("", 10))
    _add(pending, 2, ("", 0), ("", 99))
    _add(pending, 3, ("", 0), room=2)
    _add(pending, 4, ("", 10), ("", 10), ("", 10))
    _add(pending, 5, ("", 10))
    commit(case, pending)
    assert is_contained(case, 2, 1, before=99)
    assert not is_contained(case, 2, 1, before=100)
    assert not is_contained(case, 3, 1, before=100)
    assert not is_contained(case, 4, 1, before=100)
    assert is_contained(case, 5, 1, before=100)
    assert not is_contained(case, 5, 1, before=10)
    assert not is_contained(case, 6, 1, before=100)


def test_interrupt_waits_for_the_end_of_the_block() -> None:
    done = []

    @store.interrupts_deferred()
    def work() -> None:
        with store.interrupts_deferred():
            signal.raise_signal(signal.SIGINT)
            done.append("inner")
        done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_deferral_outside_the_main_thread_is_no_error() -> None:
    entered = []

    def work() -> None:
        with store.interrupts_deferred():
            entered.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert entered == [True]


def test_write_ahead_log_is_private(case: Case) -> None:
    pending = Pending()
    _add(pending, 1, ("", 0))
    commit(case, pending)
    wal = case.root / "case.duckdb.wal"
    assert wal.stat().st_mode & 0o777 == 0o600
