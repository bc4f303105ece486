"""Evidence written and ingested for the tests of excerpts, and the ids of its lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from ingest.case import open_case
from ingest.excerpts import Excerpt, read_excerpts
from ingest.pipeline import ingest
from ingest.records import TABLES

STAMP = "[2026-12-01 04:25:55 TP0] "
ROOM = 4096703817223315620
LOG = [
    "a banner that carries no fact",
    "[2026-12-01 04:24:46] server_args=ServerArgs(model_path='/m', page_size=16, tp_size=2, "
    "context_length=8192, disaggregation_mode='decode', api_key='SECRETKEY', "
    "disaggregation_transfer_backend='mooncake', chat_template='CONTENT', dp_size=1)",
    f"{STAMP}ReqTimeStats(rid=abc, bootstrap_room={ROOM}, input_len=2743, cached_input_len=0, "
    "output_len=64, attempts=0, type=decode): bootstrap_duration=2.81ms, queue_duration=0.48ms, "
    "forward_duration=6.28ms, entry_time=1796099155.423",
    f"{STAMP}Decode transfer failed for request rank=0 decode_req.req.rid='abc' "
    f"decode_req.req.bootstrap_room={ROOM} with exception KVTransferError(bootstrap_room={ROOM}): "
    "Aborted by AbortReq.",
]


@contextmanager
def opened(tmp_path: Path, *evidence: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    ingest([str(path) for path in evidence], tmp_path / "case", workers=1)
    with open_case(tmp_path / "case", read_only=True) as case:
        yield case.con


def write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def all_ids(con: duckdb.DuckDBPyConnection) -> list[str]:
    """An id for every place that the case has a row of."""
    ids = set()
    for table in TABLES:
        ids |= {f"{file}:{offset}" for file, offset in con.execute(
            f'SELECT DISTINCT evidence_id, byte_offset FROM "{table}"').fetchall()}
    return sorted(ids)


def offset_of(lines: list[str], number: int) -> int:
    return len("".join(f"{line}\n" for line in lines[:number]).encode())


def one(con: duckdb.DuckDBPyConnection, lines: list[str], number: int) -> Excerpt:
    name = f"1:{offset_of(lines, number)}"
    return read_excerpts(con, [name])[name]
