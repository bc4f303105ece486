"""Which streams one worker wrote: the grouping rules, strongest first. Draws on profiles only."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from forensics.streams import Stream, path_parts

Key = tuple[int, str]
# disaggregation_mode in server_args -> role.
MODES: Final = {"prefill": "prefill", "decode": "decode", "null": "unified", "None": "unified"}


@dataclass(slots=True)
class Worker:
    """One engine process group in one role, as the evidence tells it apart."""

    streams: list[Stream] = field(default_factory=list)
    name: str = ""
    host: str | None = None
    role: str = "unknown"
    role_basis: str = "no line tells the role"
    worker_id: int = -1
    stated: dict[str, Any] = field(default_factory=dict)

    @property
    def engines(self) -> list[Stream]:
        return [stream for stream in self.streams if stream.is_engine]


def _evident_role(stream: Stream) -> str | None:
    modes = {boot.mode for boot in stream.boots if boot.mode}
    if len(modes) == 1:
        return MODES.get(modes.pop())
    if modes:
        return None
    if stream.prefill_rows and not stream.decode_rows:
        return "prefill"
    if stream.decode_rows and not stream.prefill_rows:
        return "decode"
    return None


def _compatible(left: Iterable[Stream], right: Iterable[Stream]) -> bool:
    roles = {_evident_role(stream) for stream in (*left, *right)} - {None}
    return len(roles) <= 1


def group(
    streams: list[Stream],
    shared: dict[tuple[Key, Key], int],
    stated: list[tuple[str, dict[str, Any]]],
    snapshots: dict[Key, dict[str, str]],
) -> list[Worker]:
    """Group streams into workers by the rules of the module docstring."""
    by_key = {stream.key: stream for stream in streams}
    owner: dict[Key, Worker] = {}
    workers: list[Worker] = []

    def place(stream: Stream, worker: Worker) -> None:
        worker.streams.append(stream)
        owner[stream.key] = worker

    def found(stream: Stream) -> None:
        worker = Worker()
        workers.append(worker)
        place(stream, worker)

    for folder, entry in stated:
        worker = Worker(stated=entry)
        for stream in streams:
            if stream.key not in owner and _listed(stream, folder, entry):
                place(stream, worker)
        if worker.streams:
            workers.append(worker)

    for stream in streams:
        if stream.key in owner or not stream.is_engine:
            continue
        home = _by_request(stream, shared, owner) or next(
            (
                worker
                for worker in workers
                if any(_same_file_family(stream, other) for other in worker.engines)
                and _compatible(worker.streams, [stream])
            ),
            None,
        )
        if home and _compatible(home.streams, [stream]):
            place(stream, home)
        else:
            found(stream)

    loose = [stream for stream in streams if stream.key not in owner and not stream.router_rows]
    for stream in loose:
        home = (
            _by_request(stream, shared, owner)
            or _by_snapshot(stream, snapshots, workers)
            or _by_folder(stream, workers)
            or _by_name(stream, workers)
        )
        if home:
            place(by_key[stream.key], home)
    for stream in loose:
        if stream.key not in owner and (stream.request_rows or stream.trace_rows):
            home = _by_folder(stream, workers)
            if home and _compatible(home.streams, [stream]):
                place(stream, home)
            else:
                found(stream)
    return workers


def _listed(stream: Stream, folder: str, entry: dict[str, Any]) -> bool:
    patterns = entry.get("files") or []
    relative = stream.name
    if folder and relative.startswith(folder + "/"):
        relative = relative[len(folder) + 1 :]
    return any(
        fnmatch.fnmatchcase(relative, pattern)
        or (stream.stream and fnmatch.fnmatchcase(f"{relative}#{stream.stream}", pattern))
        for pattern in patterns
    )


def _by_request(
    stream: Stream, shared: dict[tuple[Key, Key], int], owner: dict[Key, Worker]
) -> Worker | None:
    """Return the worker that shares most requests with the stream, if it is one."""
    totals: dict[int, tuple[int, Worker]] = {}
    for (left, right), count in shared.items():
        other = right if left == stream.key else left if right == stream.key else None
        worker = owner.get(other) if other else None
        if worker and _compatible(worker.streams, [stream]):
            before = totals.get(id(worker), (0, worker))[0]
            totals[id(worker)] = (before + count, worker)
    ranked = sorted(totals.values(), key=lambda item: -item[0])
    if not ranked or (len(ranked) > 1 and ranked[0][0] < 2 * ranked[1][0]):
        return None
    return ranked[0][1]


def _same_file_family(left: Stream, right: Stream) -> bool:
    if left.stream or right.stream:
        return bool(left.stream) and left.stream == right.stream and (
            left.evidence_id != right.evidence_id
        )
    return left.directory == right.directory and left.stem == right.stem


def _by_folder(stream: Stream, workers: list[Worker]) -> Worker | None:
    """Return the only engine worker of the stream's folder, or of the nearest folder above."""
    parts = path_parts(stream.directory)
    for depth in range(len(parts), 0, -1):
        folder = "/".join(parts[:depth])
        inside = [
            worker
            for worker in workers
            if any(
                other.directory == folder or other.directory.startswith(folder + "/")
                for other in worker.engines
            )
        ]
        if len(inside) == 1:
            return inside[0]
        if inside:
            return None
    return None


def _by_snapshot(
    stream: Stream, snapshots: dict[Key, dict[str, str]], workers: list[Worker]
) -> Worker | None:
    facts = snapshots.get(stream.key)
    if not facts or not (facts.get("port") and facts.get("mode")):
        return None
    equal = [
        worker
        for worker in workers
        if any(
            boot.mode == facts["mode"] and boot.port == facts["port"]
            for other in worker.engines
            for boot in other.boots
        )
    ]
    near = [worker for worker in equal if any(
        stream.directory == other.directory for other in worker.engines)]
    chosen = near or equal
    return chosen[0] if len(chosen) == 1 else None


def _by_name(stream: Stream, workers: list[Worker]) -> Worker | None:
    """Return the worker whose file stem is a whole token of the stream's file or folder name."""
    tokens: set[str] = set()
    for text in (stream.stem, *path_parts(stream.directory)[-1:]):
        tokens.update(part for part in text.replace("-", "_").replace(".", "_").split("_") if part)
    named = [
        worker
        for worker in workers
        if any(
            other.stem in tokens and stream.directory.startswith(other.directory)
            for other in worker.engines
        )
    ]
    return named[0] if len(named) == 1 else None
