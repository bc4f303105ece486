"""Which worker wrote which stream, in which role and boot epoch. Says 'unknown' where it is so.

Engine logs carry no host and no role. Rules, strongest first: an ``evidence.toml`` beside the
files; the same (rid, room) pairs in two streams; the same folder and stem (rotation, stdout and
stderr); the only worker of the folder; equal port and mode of a snapshot; a file name that starts
with a worker's name. The role comes from ``server_args=`` or a snapshot, else from lines that only
one role prints.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

import queries
from forensics.grouping import MODES, Key, Worker, group
from forensics.streams import Boot, Stream, folder_label, path_parts


def assign(con: duckdb.DuckDBPyConnection) -> list[Worker]:
    """Create the tables ``worker``, ``worker_stream`` and ``segment``; return the workers."""
    streams = _read_streams(con)
    stated = _stated_workers(con)
    workers = group(streams, _shared(con), stated, _snapshots(con))
    for worker in workers:
        _decide_role(worker)
    split = [part for worker in workers for part in _split_roles(worker)]
    _name(split)
    split.sort(key=lambda worker: worker.name)
    for number, worker in enumerate(split):
        worker.worker_id = number
    _store(con, split)
    return split


def _read_streams(con: duckdb.DuckDBPyConnection) -> list[Stream]:
    boots: dict[Key, list[Boot]] = defaultdict(list)
    for row in queries.rows(con, "boot"):
        boots[row["evidence_id"], row["stream"]].append(
            Boot(row["byte_offset"], row["stamp_ns"], row["mode"], row["port"])
        )
    streams = []
    for row in queries.rows(con, "stream_profile"):
        row.pop("last_stamp_ns")
        key = row["evidence_id"], row["stream"]
        streams.append(Stream(**row, boots=tuple(boots.get(key, ()))))
    return streams


def _shared(con: duckdb.DuckDBPyConnection) -> dict[tuple[Key, Key], int]:
    return {
        (
            (row["left_evidence"], row["left_stream"]),
            (row["right_evidence"], row["right_stream"]),
        ): row["shared"]
        for row in queries.rows(con, "shared_request")
    }


def _stated_workers(con: duckdb.DuckDBPyConnection) -> list[tuple[str, dict[str, Any]]]:
    """Return (folder of the evidence.toml, its worker) for every stated worker."""
    found: dict[tuple[int, int], tuple[str, dict[str, Any]]] = {}
    for evidence_id, name, snapshot, key, value in con.execute(
        "SELECT c.evidence_id, e.name, c.snapshot, c.key, c.value FROM config_entry AS c "
        "JOIN evidence AS e USING (evidence_id) "
        "WHERE e.current AND c.source = 'evidence_toml' ORDER BY ALL"
    ).fetchall():
        folder = "/".join(path_parts(name)[:-1])
        entry = found.setdefault((evidence_id, snapshot), (folder, {}))
        entry[1][key] = json.loads(value)
    return list(found.values())


def _snapshots(con: duckdb.DuckDBPyConnection) -> dict[Key, dict[str, str]]:
    """Return mode and port of every server_info-like snapshot, by stream."""
    found: dict[Key, dict[str, str]] = defaultdict(dict)
    for evidence_id, stream, key, value in con.execute(
        "SELECT e.evidence_id, c.stream, c.key, max(c.value) FROM config_entry AS c "
        "JOIN evidence AS e ON coalesce(e.duplicate_of, e.evidence_id) = c.evidence_id "
        "WHERE (e.current OR e.duplicate_of IS NOT NULL) "
        "AND c.source IN ('server_info', 'loads', 'model_info') "
        "AND c.key IN ('disaggregation_mode', 'disaggregation.mode', 'port') GROUP BY ALL "
        "ORDER BY ALL"
    ).fetchall():
        name = "port" if key == "port" else "mode"
        found[evidence_id, stream][name] = value.strip('"')
    return found


def _decide_role(worker: Worker) -> None:
    """Take the role from the worker's own records; what is stated fills their silence.

    A swapped role would turn every verdict round, so a statement never overrules a record.
    """
    worker.role, worker.role_basis = _recorded_role(worker)
    stated = worker.stated.get("role")
    if not stated:
        return
    if worker.role == "unknown":
        worker.role, worker.role_basis = str(stated), "stated in evidence.toml"
    elif worker.role != stated:
        worker.role_basis += f"; evidence.toml says {stated}"


def _recorded_role(worker: Worker) -> tuple[str, str]:
    """Return (role, basis) by start-up lines, else by lines that only one role prints."""
    modes = {boot.mode for stream in worker.streams for boot in stream.boots if boot.mode}
    if len(modes) == 1:
        return MODES.get(modes.pop(), "unknown"), "disaggregation_mode in server_args"
    if len(modes) > 1:
        return "mixed", "server_args of both roles in one stream"
    prefill = sum(stream.prefill_rows for stream in worker.streams)
    decode = sum(stream.decode_rows for stream in worker.streams)
    if prefill and decode:
        return "mixed", "lines of both roles in one stream"
    if prefill or decode:
        role = "prefill" if prefill else "decode"
        return role, f"lines that only a {role} worker prints"
    return worker.role, worker.role_basis


def _split_roles(worker: Worker) -> list[Worker]:
    """Split a worker whose one stream carries both roles into one worker per role."""
    if worker.role != "mixed":
        return [worker]
    return [
        replace(worker, streams=list(worker.streams), role=role,
                role_basis=f"{worker.role_basis}; told apart line by line")
        for role in ("prefill", "decode")
    ]


def _name(workers: list[Worker]) -> None:
    """Give every worker a short unique name, and a host where a folder or a label gives one."""
    population: dict[str, int] = defaultdict(int)
    for worker in workers:
        population[_home(worker).directory] += 1
    for worker in workers:
        home = _home(worker)
        label = folder_label(home.directory)
        alone = population[home.directory] == 1 and label and len(path_parts(home.directory)) > 0
        if worker.stated.get("name"):
            worker.name = str(worker.stated["name"])
        elif home.stream:
            worker.name = home.stream
            worker.host = home.stream.split("/")[0] if "/" in home.stream else None
        elif alone:
            worker.name = worker.host = label
        else:
            worker.name = home.stem or label or home.name
        if worker.stated.get("host"):
            worker.host = str(worker.stated["host"])
        if "told apart" in worker.role_basis:
            worker.name = f"{worker.name}:{worker.role}"
    taken: dict[str, list[Worker]] = defaultdict(list)
    for worker in workers:
        taken[worker.name].append(worker)
    for name, same in taken.items():
        if len(same) > 1:
            for worker in same:
                prefix = "/".join(path_parts(_home(worker).directory))
                worker.name = f"{prefix}/{name}" if prefix else name
    counted: dict[str, int] = defaultdict(int)
    for worker in workers:
        counted[worker.name] += 1
        if counted[worker.name] > 1:
            worker.name = f"{worker.name}#{counted[worker.name]}"


def _home(worker: Worker) -> Stream:
    return (worker.engines or worker.streams)[0]


def _store(con: duckdb.DuckDBPyConnection, workers: list[Worker]) -> None:
    worker_rows = [
        {"worker_id": w.worker_id, "worker": w.name, "host": w.host, "role": w.role,
         "role_basis": w.role_basis, "stated": json.dumps(w.stated, sort_keys=True)}
        for w in workers
    ]
    stream_rows, segment_rows = [], []
    for worker in workers:
        epochs = _epoch_stamps(worker)
        for stream in worker.streams:
            stream_rows.append({"worker_id": worker.worker_id, "evidence_id": stream.evidence_id,
                                "stream": stream.stream})
            segment_rows.extend(_segments(worker, stream, epochs))
    _table(con, "worker", worker_rows, pa.schema([
        ("worker_id", pa.int32()), ("worker", pa.string()), ("host", pa.string()),
        ("role", pa.string()), ("role_basis", pa.string()), ("stated", pa.string())]))
    _table(con, "worker_stream", stream_rows, pa.schema([
        ("worker_id", pa.int32()), ("evidence_id", pa.int32()), ("stream", pa.string())]))
    _table(con, "segment", segment_rows, pa.schema([
        ("worker_id", pa.int32()), ("evidence_id", pa.int32()), ("stream", pa.string()),
        ("start_offset", pa.int64()), ("end_offset", pa.int64()), ("role_filter", pa.string()),
        ("epoch", pa.int32())]))


def _epoch_stamps(worker: Worker) -> list[int]:
    """Return the distinct stamps of the worker's recorded starts, in order."""
    return sorted({
        boot.stamp_ns
        for stream in worker.streams
        for boot in _boots_of_role(worker, stream)
        if boot.stamp_ns is not None
    })


def _boots_of_role(worker: Worker, stream: Stream) -> list[Boot]:
    if "told apart" not in worker.role_basis:
        return list(stream.boots)
    return [boot for boot in stream.boots if MODES.get(boot.mode or "") in (worker.role, None)]


def _segments(worker: Worker, stream: Stream, epochs: list[int]) -> list[dict[str, Any]]:
    """Cut a stream at its recorded starts; epoch 0 is what ran before the first recorded start."""
    role_filter = worker.role if "told apart" in worker.role_basis else None
    boots = _boots_of_role(worker, stream)
    cuts: list[tuple[int, int]] = []
    first_fact = stream.first_fact_offset
    if not boots or (first_fact is not None and first_fact < boots[0].byte_offset):
        cuts.append((0, _epoch_at(stream.first_stamp_ns, epochs)))
    for boot in boots:
        start = boot.byte_offset if cuts else 0
        cuts.append((start, _epoch_at(boot.stamp_ns, epochs)))
    ends = [start for start, _ in cuts[1:]] + [2**62]
    return [
        {"worker_id": worker.worker_id, "evidence_id": stream.evidence_id,
         "stream": stream.stream, "start_offset": start, "end_offset": end,
         "role_filter": role_filter, "epoch": epoch}
        for (start, epoch), end in zip(cuts, ends, strict=True)
    ]


def _epoch_at(stamp_ns: int | None, epochs: list[int]) -> int:
    if stamp_ns is None:
        return len(epochs)
    return sum(1 for start in epochs if start <= stamp_ns)


def _table(
    con: duckdb.DuckDBPyConnection, name: str, rows: list[dict[str, Any]], schema: pa.Schema
) -> None:
    arrow = pa.Table.from_pylist(rows, schema=schema)
    con.register("_incoming", arrow)
    con.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT * FROM _incoming')
    con.unregister("_incoming")
