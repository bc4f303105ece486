"""What the operating system and DuckDB say about a case, as errors with a way out."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb

from ingest.errors import CaseError, CaseForeign, CaseLocked, DiskFull

DATABASE: Final = "case.duckdb"

_NO_SPACE: Final = ("no space left on device", "disk quota exceeded", "disk is full",
                    "not enough space", "out of disk space")
_DENIED: Final = ("permission denied", "read-only file system", "operation not permitted")
_DAMAGED: Final = ("not a valid duckdb", "corrupt", "checksum", "could not read enough bytes",
                   "failed to deserialize", "serialization error", "replaying", "wal file")


@contextmanager
def case_errors(root: Path) -> Iterator[None]:
    """Turn operating-system and DuckDB errors about the case into the error tree."""
    try:
        yield
    except OSError as error:
        raise _from_os(error, root) from error
    except duckdb.Error as error:
        known = _from_duckdb(error, root)
        if known is None:
            raise
        raise known from error


def _from_os(error: OSError, root: Path) -> CaseError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_full(root)
    if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        return _denied(root)
    return CaseError(f"Cannot use the case {root}: {error.strerror or type(error).__name__}")


def _from_duckdb(error: duckdb.Error, root: Path) -> CaseError | None:
    text = str(error).lower()
    if any(mark in text for mark in _NO_SPACE):
        return _disk_full(root)
    if "set lock on file" in text or "different configuration" in text:
        holder = text.partition("(pid ")[2].partition(")")[0]
        by = f"process {holder}" if holder.isdigit() else "another connection"
        return CaseLocked(
            f"The case {root} is in use by {by}",
            way_out="Wait for it or stop it (a running serve or watch holds its case), "
                    "or give another --case.",
        )
    if any(mark in text for mark in _DENIED):
        return _denied(root)
    if isinstance(error, duckdb.OutOfMemoryException):
        return CaseError(f"DuckDB ran out of memory on the case {root}",
                         way_out="Free memory or use fewer workers; then run the same again.")
    if any(mark in text for mark in _DAMAGED) or isinstance(
        error, duckdb.InternalException | duckdb.SerializationException | duckdb.FatalException
    ):
        return CaseForeign(
            f"{root / DATABASE} is not a case of this program, or is damaged",
            way_out="Move it away and ingest the evidence again, or give another --case.",
        )
    if isinstance(error, duckdb.IOException):
        return CaseError(f"DuckDB could not read or write the case {root}")
    # A statement that DuckDB refuses is a defect of this program, not of the case.
    return None


def _disk_full(root: Path) -> DiskFull:
    return DiskFull(f"The disk that holds the case {root} is full",
                    way_out="Free space and run the same command again: it continues.")


def _denied(root: Path) -> CaseError:
    return CaseError(f"The case {root} is not writable for this user",
                     way_out="Give another --case, or open it read-only.")
