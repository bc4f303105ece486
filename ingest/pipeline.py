"""Evidence files -> rows of a case: hashed, recognised by content, parsed, committed in batches.

Files are taken in the order in which they are given, ids follow that order, and every transaction
holds rows together with the progress that belongs to them: a run that is killed is continued by
the next one without losing or doubling a row.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ingest.case import open_case
from ingest.errors import NothingReadable, UsageError
from ingest.kinship import Kin
from ingest.limits import Limits
from ingest.lineage import Lineage
from ingest.manifest import write_manifest
from ingest.registry import PARSER_VERSION, Registry, registry
from ingest.session import IngestResult, Meter, Progress, Session
from ingest.source_run import take_source, take_unreadable
from ingest.sources import Source, expand
from ingest.store import Pending, interrupts_deferred, load_evidence
from ingest.workers import Lane

__all__ = ["IngestResult", "Progress", "ingest"]

# Below this, starting worker processes costs more than they save: each loads for about a CPU
# second, in which one process reads some 100 MB of engine log.
_POOL_BYTES: Final = 256 * 2**20
# Buffers of the database while rows are written: more would only keep what is on disk already.
_STORE_BYTES: Final = 256 * 2**20
# Most names in an error message.
_NAMED: Final = 10


def ingest(
    arguments: Sequence[str],
    case_dir: Path,
    *,
    limits: Limits | None = None,
    copy_evidence: bool = False,
    workers: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    actor: str = "",
    formats: Registry | None = None,
) -> IngestResult:
    """Read evidence into the case in ``case_dir``, creating it if there is none.

    ``workers``: threads and processes to parse with, by default one per core; 1 keeps everything
    in this thread. ``formats`` replaces the registered formats (then nothing leaves this process).
    Raises UsageError, NothingReadable (nothing was recognised; what was looked at is on record),
    CaseError and its kinds, and KeyboardInterrupt with a text that says how to go on.
    """
    if not arguments:
        raise UsageError("No evidence was given", way_out="Name at least one file or folder.")
    limits = limits or Limits()
    on_disk = _bytes_on_disk(arguments)
    cores = workers or _cores()
    pooled = cores > 1 and on_disk >= _POOL_BYTES and formats is None
    # This thread reads, hashes and writes rows meanwhile.
    threads = cores - 1 if formats is None else 0
    # Rows are written while others are parsed: more threads of the database would only wait.
    with open_case(case_dir, threads=max(1, cores // 2), memory_bytes=_STORE_BYTES) as case:
        pending = Pending()
        kin = Kin()
        for row in load_evidence(case):
            kin.add(row)
        with Lane(
            formats or registry(), processes=cores if pooled else 0, threads=threads
        ) as lane:
            session = Session(
                case=case, limits=limits, formats=lane.formats, lane=lane, pending=pending,
                lineage=Lineage(kin, pending, PARSER_VERSION), actor=actor or _user(),
                copy_evidence=copy_evidence, meter=Meter(on_disk, progress),
            )
            try:
                for source in expand(arguments, limits):
                    if isinstance(source, Source):
                        take_source(session, source)
                    else:
                        take_unreadable(session, source)
                lane.drain()
            except KeyboardInterrupt:
                with interrupts_deferred():
                    session.interrupt()
                    write_manifest(case)
                raise KeyboardInterrupt(
                    f"Interrupted after {session.tally.files} files; what was read is kept. "
                    "Run the same command again: it continues."
                ) from None
            session.flush()
        write_manifest(case)
        result = session.tally.result()
    _require_recognised(result, session.looked_at, arguments)
    return result


def _require_recognised(result: IngestResult, looked_at: list[str], given: Sequence[str]) -> None:
    if result.recognised:
        return
    if not looked_at:
        raise NothingReadable(
            f"There is no file in {_some(list(given))}",
            way_out="Give the folder that holds the fleet's logs.",
        )
    raise NothingReadable(
        f"None of {len(looked_at)} files is evidence that this program knows: {_some(looked_at)}",
        way_out="Give engine, request or router logs, or their snapshots.",
    )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _bytes_on_disk(arguments: Sequence[str]) -> int:
    """Size of what was given, archives as they lie there."""
    total = 0
    for argument in arguments:
        try:
            if not os.path.isdir(argument):
                total += os.stat(argument).st_size
                continue
            for folder, _, names in os.walk(argument):
                for name in names:
                    total += os.lstat(os.path.join(folder, name)).st_size
        except OSError:
            continue
    return total


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
