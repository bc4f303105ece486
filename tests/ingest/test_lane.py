"""The lane: blocks go where they are parsed best, and results come back in the order of blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingest import bulk, workers
from ingest.block_rows import LOADED_BULK_BYTES, BlockRows, is_scanned
from ingest.blocks import Block
from ingest.case import open_case
from ingest.limits import Limits
from ingest.pipeline import ingest
from ingest.records import TABLES
from ingest.registry import registry
from ingest.workers import Lane, Task

STATS = ("[2026-10-05 22:00:09 TP0] ReqTimeStats(rid={n:032x}, bootstrap_room={n}, input_len=5, "
         "cached_input_len=0, output_len=3, type=decode): forward_duration=1.50ms\n")
EVENT = "[2026-10-05 22:00:09 TP0] Session host-{n} failed.\n"
REQUEST = ('{{"timestamp": "2026-10-05T22:00:09.000001", "event": "request.received", '
           '"rid": "r{n}", "obj": {{"bootstrap_room": {n}}}}}\n')


def block(template: str, first: int = 0, size: int = 2 * LOADED_BULK_BYTES) -> Block:
    """A block of lines, numbered from ``first``."""
    lines = size // len(template.format(n=0))
    return Block("".join(template.format(n=n) for n in range(first, first + lines)).encode(), 0, 1)


@pytest.fixture(autouse=True)
def loaded() -> None:
    """Small blocks are scanned once the scan is loaded."""
    bulk.scan(b"\n", 0, 1)


def test_what_the_scan_takes_is_told_by_a_sample() -> None:
    assert is_scanned(block(STATS))
    assert not is_scanned(block(EVENT))
    assert not is_scanned(block(REQUEST))
    assert not is_scanned(block(STATS, size=1000))
    assert not is_scanned(Block(block(STATS).data, 0, 1, skipped=((1, 0, 9),)))


def test_results_come_in_the_order_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(
        Lane, "_send", lambda _lane, task, _path: sent.append(task.block.first_line_no))
    order: list[Any] = []
    templates = (STATS, EVENT, STATS, REQUEST, STATS, STATS, EVENT)
    with Lane(registry(), processes=2, threads=2) as lane:
        for number, template in enumerate(templates):
            def deliver(rows: BlockRows, number: int = number) -> None:
                order.append((number, rows.tables[0][0]))

            data = block(template, first=number).data
            lane.submit(Task(Block(data, 0, number)), deliver)
            lane.call(lambda number=number: order.append(number))  # type: ignore[misc]
        lane.drain()
    tables = {STATS: "time_stats", EVENT: "engine_event", REQUEST: "request_log"}
    assert order == [
        item for number, template in enumerate(templates)
        for item in ((number, tables[template]), number)]
    # Only what needs the interpreter goes to processes; what cannot be sent is done here.
    assert sent == [1, 6]


def test_small_blocks_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_work", None)
    rows: list[BlockRows] = []
    with Lane(registry(), processes=2, threads=1) as lane:
        lane.submit(Task(block(EVENT, size=1000)), rows.append)
        lane.drain()
        assert lane.pool is not None
        assert not lane.pool._processes
    assert len(rows) == 1


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> BlockRows:
        raise MemoryError

    monkeypatch.setattr(workers, "run_task", fail)
    with Lane(registry(), threads=1) as lane:
        lane.submit(Task(block(STATS)), lambda _rows: None)
        with pytest.raises(MemoryError):
            lane.drain()


def test_threads_give_the_rows_of_one(tmp_path: Path) -> None:
    mixed = b"".join(block(t, first=n).data for n, t in enumerate((STATS, EVENT, STATS) * 3))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "engine.log").write_bytes(mixed)
    (tmp_path / "in" / "requests.log").write_bytes(block(REQUEST).data * 3)
    limits = Limits(block_bytes=LOADED_BULK_BYTES + 999)
    cases = []
    for cores in (1, 3):
        ingest([str(tmp_path / "in")], tmp_path / str(cores), workers=cores, limits=limits)
        with open_case(tmp_path / str(cores), read_only=True) as case:
            cases.append({name: case.con.execute(f'SELECT * FROM "{name}"').fetchall()
                          for name in TABLES})
    assert cases[0] == cases[1]
    assert len(cases[0]["time_stats"]) > 1000
    assert len(cases[0]["engine_event"]) > 1000
    assert len(cases[0]["request_log"]) > 1000
