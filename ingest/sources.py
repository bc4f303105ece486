"""Arguments of the command line -> readable files: folders, globs, compressed files, archives.

Kinds are recognised by content, never by name. Nothing is ever extracted to a path: members of
archives are read as streams. What cannot be read is named with the reason and the way out.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from ingest import archives
from ingest.errors import IngestError
from ingest.limits import Limits

# Entries of a folder that are no evidence.
_IGNORED: Final = frozenset({".git", ".DS_Store", ".gitignore", "Thumbs.db"})
_CASE_FILE: Final = "case.duckdb"


@dataclass(frozen=True, slots=True)
class Source:
    """One file that can be read, inside or outside an archive.

    ``name`` is the same on every machine: the argument's last part, then the path below it, then
    ``!member`` for archives. ``size`` is the size on disk (of the archive for members).
    """

    name: str
    path: Path
    member: str | None
    size: int
    plain: bool

    def open(self, limits: Limits) -> AbstractContextManager[BinaryIO]:
        """Open the decompressed bytes; raises EvidenceTooLarge on a bomb, OSError and the like."""
        return archives.open_member(self.path, self.member, limits)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that cannot be read; ``reason`` is one sentence with the way out."""

    name: str
    path: Path
    reason: str


def expand(arguments: Sequence[str | Path], limits: Limits | None = None) -> Iterator[
        Source | Unreadable]:
    """Yield every file behind the arguments, in their order, folders sorted by name."""
    limits = limits or Limits()
    taken: dict[str, int] = {}
    for argument in arguments:
        paths = _paths(str(argument))
        if not paths:
            yield Unreadable(_base(str(argument)), Path(argument),
                             "no such file or folder; check the path")
            continue
        for path in paths:
            label = _base(str(path))
            taken[label] = taken.get(label, 0) + 1
            if taken[label] > 1:
                label = f"{label}~{taken[label]}"
            yield from _walk(path, label, limits, set())


def _paths(argument: str) -> list[Path]:
    """Return the path itself, or what it matches as a glob."""
    path = Path(argument)
    if path.exists() or path.is_symlink():
        return [path]
    if glob.has_magic(argument):
        return [Path(found) for found in sorted(glob.glob(argument, recursive=True))]
    return []


def _base(argument: str) -> str:
    return Path(os.path.abspath(argument)).name or "root"


def _walk(path: Path, name: str, limits: Limits, seen: set[tuple[int, int]]) -> Iterator[
        Source | Unreadable]:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            identity = (status.st_dev, status.st_ino)
            if identity in seen or (path / _CASE_FILE).exists():
                return
            entries = sorted(entry.name for entry in os.scandir(path))
            for entry in entries:
                if entry not in _IGNORED:
                    yield from _walk(path / entry, f"{name}/{entry}", limits, seen | {identity})
            return
        if not stat.S_ISREG(status.st_mode):
            yield Unreadable(name, path, "a device, pipe or socket, not a file; copy its content "
                             "into a file first")
            return
        yield from _file(path, name, status.st_size, limits)
    except FileNotFoundError:
        yield Unreadable(name, path, "a link to a file that is not there; collect the file itself")
    except PermissionError:
        yield Unreadable(name, path, "permission denied; run as a user who may read it")
    except (OSError, IngestError, *archives.DAMAGE) as error:
        yield Unreadable(name, path, f"cannot be read: {archives.explain(error)}")


def _file(path: Path, name: str, size: int, limits: Limits) -> Iterator[Source | Unreadable]:
    kind = archives.kind_of_file(path)
    if kind is None:
        yield Source(name, path, None, size, plain=True)
        return
    found = False
    for member in archives.members(path, limits):
        found = True
        if member.reason:
            yield Unreadable(f"{name}!{member.name}", path, member.reason)
        elif member.name:
            yield Source(f"{name}!{member.name}", path, member.name, size, plain=False)
        else:
            yield Source(name, path, None, size, plain=False)
    if not found:
        yield Unreadable(name, path, "an archive without files; nothing to read")
