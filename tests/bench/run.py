"""The ingest benchmark: each figure against its peer in the same run. ``run.py [--size MB]``.

Every measurement is a fresh process; CPU is user plus system time of that process and its children.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import inputs

ROOT = Path(__file__).parents[2]
_LINES_PEER = """
import duckdb, sys
con = duckdb.connect()
con.execute("SET threads = 2")
print(con.execute("SELECT count(*), sum(length(line)) FROM read_csv(?,"
    " columns = {'line': 'VARCHAR'}, delim = '\\x01', quote = '', escape = '',"
    " header = false, auto_detect = false,"
    " max_line_size = 20000000, strict_mode = false)", [sys.argv[1]]).fetchall())
"""
_JSON_PEER = """
import duckdb, sys
con = duckdb.connect(sys.argv[2])
con.execute("SET threads = 2")
con.execute('''CREATE TABLE request_log AS SELECT timestamp, event, rid,
    obj.bootstrap_host, obj.bootstrap_port, obj.bootstrap_room, obj.stream, obj.routed_dp_rank,
    obj.sampling_params.max_new_tokens, headers, out.meta_info
    FROM read_json(?, format = 'newline_delimited', columns = {timestamp: 'VARCHAR',
    event: 'VARCHAR', rid: 'VARCHAR', obj: 'STRUCT(bootstrap_host VARCHAR, bootstrap_port INTEGER,
        bootstrap_room UBIGINT, stream BOOLEAN, routed_dp_rank INTEGER,
        sampling_params STRUCT(max_new_tokens BIGINT))',
    headers: 'MAP(VARCHAR, VARCHAR)',
    out: 'STRUCT(meta_info STRUCT(id VARCHAR, finish_reason STRUCT("type" VARCHAR, length BIGINT,
        message VARCHAR, status_code INTEGER), prompt_tokens BIGINT, completion_tokens BIGINT,
        cached_tokens BIGINT, num_retractions INTEGER, dp_rank INTEGER, e2e_latency DOUBLE,
        response_sent_to_client_ts DOUBLE))'})''', [sys.argv[1]])
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds (user + system, children included), wall seconds, peak memory in MB."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def measure(command: Sequence[str]) -> Cost:
    """Run a command to its end and return what it cost; raises if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)})
    error = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    if status:
        raise SystemExit(f"{command[:4]} failed: {error[-400:].decode(errors='replace')}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(cpu, wall, usage.ru_maxrss / 1024)


def ingest(path: Path, case: Path, *, workers: int | None = None) -> Cost:
    """Cost of ``palimpsest ingest`` into a new case."""
    more = ["--workers", str(workers)] if workers else []
    return measure([sys.executable, "-m", "palimpsest", "ingest", "-q", str(path), "--case",
                    str(case), *more])


def row(name: str, cost: Cost, size: int, peer: Cost | None = None) -> str:
    """One line of the table."""
    ratio = f"{cost.cpu_s / peer.cpu_s:6.2f}" if peer else "      "
    return (f"{name:<44} {cost.cpu_s:8.2f} {cost.cpu_s / size * 1e9:8.2f} {cost.wall_s:8.2f} "
            f"{cost.peak_mb:8.0f} {ratio}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=float, default=1000, help="size of each input in MB")
    size = int(parser.parse_args().size * 1e6)
    print(f"{'what':<44} {'CPU s':>8} {'CPU s/GB':>8} {'wall s':>8} {'peak MB':>8} {'ratio':>6}")
    with tempfile.TemporaryDirectory(prefix="palimpsest-bench-") as name:
        folder = Path(name)
        engine, small, requests = (folder / n for n in ("engine.log", "quarter.log", "req.log"))
        inputs.engine_log(engine, size)
        inputs.engine_log(small, size // 4)
        inputs.request_log(requests, size)
        peer = measure([sys.executable, "-c", _LINES_PEER, str(engine)])
        print(row("DuckDB reads the engine log as lines", peer, size))
        ingest(small, folder / "warm")  # loads or compiles the kernel
        print(row("ingest engine log", ingest(engine, folder / "c1"), size, peer))
        print(row("ingest engine log, one process", ingest(engine, folder / "c2", workers=1), size,
                  peer))
        print(row("ingest a quarter of it (memory flat?)", ingest(small, folder / "c3"),
                  size // 4))
        peer = measure([sys.executable, "-c", _JSON_PEER, str(requests), str(folder / "peer.db")])
        print(row("DuckDB read_json of the same columns", peer, size))
        print(row("ingest JSON request log", ingest(requests, folder / "c4"), size, peer))


if __name__ == "__main__":
    main()
