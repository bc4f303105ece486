"""Blocks parsed in order by threads, by a pool of processes, or at once when there is little to do.

Blocks that the compiled scan takes go to threads: the interpreter is hardly needed, and nothing has
to be started or sent. Request records are mostly the work of a compiled decoder and of the
database: processes for them pay where there are more than a few cores. All others need processes
to be parsed side by side.

Tasks are queued up to a bound and their results come back in the order of submission, so that
memory does not grow with the input and results do not depend on who was faster.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final

import numpy as np
import pyarrow as pa

from ingest.block_rows import BlockRows, holds_requests, is_scanned, parse_block, parse_peeled
from ingest.blocks import Block
from ingest.records import Line
from ingest.registry import Registry, registry

# Tasks queued per worker: one in work, one waiting.
_DEPTH: Final = 2
# A task below these is done sooner than sent, let alone than a process is started for it: most
# files end in a block of one line.
_SENT_BYTES: Final = 16 << 10
_SENT_LINES: Final = 100
# Up to so many cores, processes for request records cost a third more CPU time and save no wall
# time worth it: what is not parsing (reading, hashing, writing rows) keeps a core busy.
_FEW_CORES: Final = 2


@dataclass(frozen=True, slots=True)
class Slice:
    """Where a worker finds a block's bytes again in a plain file, and a sum to know them by."""

    path: str
    offset: int
    length: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Task:
    """One block to parse; ``lines`` holds its lines if they are already out of their wrapper."""

    block: Block
    lines: tuple[Line, ...] | None = None


@dataclass(frozen=True, slots=True)
class Sealed:
    """A ``BlockRows`` on its way between processes: the tables as Arrow IPC streams."""

    rows: BlockRows
    names: tuple[str, ...]
    streams: tuple[bytes, ...]


def run_task(formats: Registry, task: Task) -> BlockRows:
    """Parse one task in this process."""
    if task.lines is None:
        return parse_block(formats.lines, task.block)
    return parse_peeled(formats.lines, task.lines, task.block)


def checksum(data: bytes) -> int:
    """A fast sum of a block's bytes that a concurrent change of the file would not keep."""
    whole = len(data) // 8 * 8
    total = 0
    if whole:
        total = int(np.frombuffer(data, np.uint64, whole // 8).sum(dtype=np.uint64))
    return (total + int.from_bytes(data[whole:], "little") + len(data)) % 2**64


@dataclass(frozen=True, slots=True)
class _Queued:
    """A task and its future (None: this thread does it), or a call between tasks."""

    deliver: Callable[[BlockRows], None] | None
    task: Task | None = None
    future: Future[Sealed | None] | None = None
    scanned: Future[BlockRows] | None = None
    call: Callable[[], None] | None = None


@dataclass(slots=True)
class Lane:
    """A queue of tasks whose results are handed to ``deliver`` in order of submission.

    Without threads and processes each task is parsed when it is submitted.
    """

    formats: Registry
    processes: int = 0
    threads: int = 0
    pool: ProcessPoolExecutor | None = None
    scanners: ThreadPoolExecutor | None = None
    waiting: deque[_Queued] = field(default_factory=deque)

    def __enter__(self) -> Lane:
        if self.processes > 0:
            self.pool = ProcessPoolExecutor(
                self.processes, mp_context=multiprocessing.get_context("spawn"),
                initializer=_ignore_interrupts,
            )
        if self.threads > 0:
            self.scanners = ThreadPoolExecutor(self.threads, thread_name_prefix="scan")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for executor in (self.scanners, self.pool):
            if executor is not None:
                executor.shutdown(wait=True, cancel_futures=True)

    def submit(
        self, task: Task, deliver: Callable[[BlockRows], None], path: str | None = None
    ) -> None:
        """Queue a task; ``path`` names the plain file in which the block's bytes stand.

        May deliver results of earlier tasks, to stay within the bound.
        """
        if self.scanners is not None and self._suits_threads(task):
            self._make_room(self.threads)
            rows = self.scanners.submit(run_task, self.formats, task)
            self.waiting.append(_Queued(deliver, scanned=rows))
        elif self.pool is None:
            self.drain()
            deliver(run_task(self.formats, task))
        else:
            self._make_room(self.processes)
            future = None if _is_small(task) else self._send(task, path)
            self.waiting.append(_Queued(deliver, task, future))

    def call(self, deliver: Callable[[], None]) -> None:
        """Run ``deliver`` after the results of all tasks submitted so far."""
        if not self.waiting:
            deliver()
            return
        self.waiting.append(_Queued(None, call=deliver))

    def drain(self) -> None:
        """Deliver everything that is queued."""
        while self.waiting:
            self._deliver_first()

    def _suits_threads(self, task: Task) -> bool:
        if task.lines is not None:
            return False
        if holds_requests(task.block):
            return self.processes <= _FEW_CORES
        return is_scanned(task.block)

    def _make_room(self, workers: int) -> None:
        while len(self.waiting) >= workers * _DEPTH:
            self._deliver_first()

    def _send(self, task: Task, path: str | None) -> Future[Sealed | None] | None:
        assert self.pool is not None
        try:
            if path is None:
                return self.pool.submit(_work, task, None)
            # The worker reads the bytes again: cheaper than sending them through a pipe.
            data = task.block.data
            where = Slice(path, task.block.byte_offset, len(data), checksum(data))
            light = replace(task, block=replace(task.block, data=b""))
            return self.pool.submit(_work, light, where)
        except (BrokenProcessPool, RuntimeError):
            return None

    def _deliver_first(self) -> None:
        queued = self.waiting.popleft()
        if queued.call is not None:
            queued.call()
        if queued.scanned is not None and queued.deliver is not None:
            queued.deliver(queued.scanned.result())
        if queued.task is None or queued.deliver is None:
            return
        sealed: Sealed | None = None
        if queued.future is not None:
            # A worker that was killed or could not start: this process does the work.
            with suppress(BrokenProcessPool):
                sealed = queued.future.result()
        queued.deliver(
            run_task(self.formats, queued.task) if sealed is None else _open(sealed))


def _is_small(task: Task) -> bool:
    if task.lines is None:
        return len(task.block.data) < _SENT_BYTES
    return len(task.lines) < _SENT_LINES


def _work(task: Task, where: Slice | None) -> Sealed | None:
    """Runs in a worker; None if the file no longer holds the bytes that were hashed."""
    if where is not None:
        data = read_slice(where)
        if data is None:
            return None
        task = replace(task, block=replace(task.block, data=data))
    rows = run_task(registry(), task)
    names, streams = [], []
    for name, table in rows.tables:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        names.append(name)
        streams.append(sink.getvalue().to_pybytes())
    return Sealed(replace(rows, tables=[]), tuple(names), tuple(streams))


def read_slice(where: Slice) -> bytes | None:
    """The bytes of a slice; None if the file no longer holds them."""
    try:
        fd = os.open(where.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(fd, where.length, where.offset)
        finally:
            os.close(fd)
    except OSError:
        return None
    same = len(data) == where.length and checksum(data) == where.checksum
    return data if same else None


def _open(sealed: Sealed) -> BlockRows:
    tables = [
        (name, pa.ipc.open_stream(stream).read_all())
        for name, stream in zip(sealed.names, sealed.streams, strict=True)
    ]
    return replace(sealed.rows, tables=tables)


def _ignore_interrupts() -> None:
    """Ctrl-C is for the main process, which commits what is whole."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
