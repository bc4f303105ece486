"""A case directory: opened, created, locked and checked; nothing is read into it here.

Layout: ``case.duckdb`` (facts), ``audit.jsonl`` (hash chain), ``evidence/manifest.jsonl``,
``evidence/files/`` (copies on request), ``out/`` (everything generated).
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

import duckdb

from ingest import audit_log
from ingest.case_errors import DATABASE, case_errors
from ingest.errors import CaseError, CaseForeign, CaseTooNew
from ingest.schema import APPLICATION, PROGRAM_VERSION, SCHEMA_VERSION, create_statements

_DIR_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
# Smallest memory limit given to DuckDB; half of the machine's memory otherwise.
_MIN_MEMORY_BYTES: Final = 512 * 2**20


@dataclass(slots=True)
class Case:
    """An open case; close it, or use it as a context manager."""

    root: Path
    con: duckdb.DuckDBPyConnection
    read_only: bool

    @property
    def database(self) -> Path:
        """The DuckDB file."""
        return self.root / DATABASE

    @property
    def audit_file(self) -> Path:
        """The hash-chained log as JSON Lines."""
        return self.root / "audit.jsonl"

    @property
    def manifest_file(self) -> Path:
        """One JSON object per evidence file."""
        return self.root / "evidence" / "manifest.jsonl"

    @property
    def copies(self) -> Path:
        """Folder of evidence copies, named by sha256."""
        return self.root / "evidence" / "files"

    @property
    def out(self) -> Path:
        """Folder of everything generated."""
        return self.root / "out"

    def close(self) -> None:
        """Close the database; safe to call twice."""
        self.con.close()

    def __enter__(self) -> Case:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_case(
    root: Path,
    *,
    create: bool = True,
    read_only: bool = False,
    threads: int | None = None,
    memory_bytes: int | None = None,
) -> Case:
    """Open the case in ``root``, creating it when ``create`` and none is there.

    ``memory_bytes``: limit of DuckDB's buffers, by default half of the machine's memory.
    Raises CaseLocked (another process has it open), CaseForeign (not a case, or damaged),
    CaseTooNew (newer schema), DiskFull, or CaseError (missing, not writable).
    """
    database = root / DATABASE
    with case_errors(root):
        if not database.exists():
            if read_only or not create:
                raise CaseError(f"No case in {root}", way_out="Ingest evidence into it first.")
            _create(root)
        con = duckdb.connect(str(database), read_only=read_only)
        try:
            _configure(con, threads, memory_bytes or _memory_limit_bytes())
            _check(con, root)
        except BaseException:
            con.close()
            raise
    case = Case(root, con, read_only)
    if not read_only:
        try:
            with case_errors(root):
                for folder in (case.manifest_file.parent, case.out):
                    folder.mkdir(mode=_DIR_MODE, exist_ok=True)
                restrict(database)
                audit_log.reconcile(case)
        except BaseException:
            con.close()
            raise
    return case


def restrict(*files: Path) -> None:
    """Give the owner alone access to the files that exist."""
    for file in files:
        if file.exists():
            file.chmod(_FILE_MODE)


def _create(root: Path) -> None:
    """Make the directory and an empty case; the database appears complete or not at all."""
    if root.exists() and not root.is_dir():
        raise CaseForeign(f"{root} is not a directory", way_out="Give another --case.")
    if not root.exists() or not any(root.iterdir()):
        root.mkdir(mode=_DIR_MODE, parents=True, exist_ok=True)
        root.chmod(_DIR_MODE)
    fresh = root / f"{DATABASE}.new"
    for left_over in (fresh, root / f"{fresh.name}.wal"):
        left_over.unlink(missing_ok=True)
    con = duckdb.connect(str(fresh))
    try:
        con.execute("BEGIN")
        for statement in create_statements():
            con.execute(statement)
        con.executemany(
            "INSERT INTO case_meta VALUES (?, ?)",
            [("application", APPLICATION), ("schema_version", str(SCHEMA_VERSION)),
             ("created_by_version", PROGRAM_VERSION)],
        )
        con.execute("COMMIT")
        con.execute("CHECKPOINT")
    finally:
        con.close()
    restrict(fresh)
    # A second process that created the same case in the meantime keeps its own.
    try:
        os.link(fresh, root / DATABASE)
    except FileExistsError:
        pass
    except OSError as error:
        # File systems without hard links.
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
            raise
        fresh.rename(root / DATABASE)
        return
    fresh.unlink()


def _configure(
    con: duckdb.DuckDBPyConnection, threads: int | None, memory_bytes: int
) -> None:
    # Evidence is hostile and results must not depend on locale, network or stray variables.
    con.execute("SET TimeZone = 'UTC'")
    con.execute("SET autoinstall_known_extensions = false")
    con.execute("SET autoload_known_extensions = false")
    con.execute("SET python_enable_replacements = false")
    con.execute("SET preserve_insertion_order = true")
    con.execute(f"SET threads = {max(1, threads or os.cpu_count() or 1)}")
    con.execute(f"SET memory_limit = '{memory_bytes // 2**20}MiB'")
    # Row groups are compressed as soon as they are full, while they are in the processor's cache:
    # 15 % less CPU time per row than the default of 5 buffered groups, and less memory.
    con.execute("SET write_buffer_row_group_count = 1")
    # Rows arrive as Arrow tables, so no SQL statement needs the file system.
    con.execute("SET enable_external_access = false")


def _memory_limit_bytes() -> int:
    """Half of what the machine or its container offers."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        quota = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if quota.isdigit():
            total = min(total, int(quota))
    except OSError:
        pass
    return max(_MIN_MEMORY_BYTES, total // 2)


def _check(con: duckdb.DuckDBPyConnection, root: Path) -> None:
    try:
        meta = dict(con.execute("SELECT key, value FROM case_meta").fetchall())
    except duckdb.CatalogException:
        meta = {}
    if meta.get("application") != APPLICATION:
        raise CaseForeign(
            f"{root / DATABASE} is a DuckDB file, but not a case of this program",
            way_out="Give another --case.",
        )
    version = meta.get("schema_version", "")
    if not version.isdigit() or int(version) < 1:
        raise CaseForeign(f"{root / DATABASE} names no schema version",
                          way_out="Ingest the evidence into a new case.")
    if int(version) > SCHEMA_VERSION:
        raise CaseTooNew(
            f"{root} has case schema {version}, this program knows up to {SCHEMA_VERSION}",
            way_out="Use the program version that wrote it, or a newer one.",
        )
