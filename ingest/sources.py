"""Arguments of the command line -> readable files: folders, globs, compressed files, archives.

Kinds are recognised by content, never by name. What cannot be read is named, with the reason and
the way out, and the others go on.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Final

from ingest.archives import Opener, look_into, printable, sentence
from ingest.bounded import Bounded
from ingest.errors import IngestError
from ingest.limits import Limits
from ingest.stored import Stream, open_regular

_CASE_FILE: Final = "case.duckdb"
_IGNORED: Final = frozenset({"Thumbs.db", "desktop.ini", "__MACOSX"})


@dataclass(frozen=True, slots=True)
class Source:
    """One file that can be read, on disk or inside an archive.

    ``name`` is the same on every machine: the last part of the argument, the path below it, and
    for members ``!`` and the member's chain. ``size`` is that of ``path`` on disk, in bytes; for
    members that is the archive's. ``plain``: an uncompressed file on disk.
    """

    name: str
    path: Path
    member: str | None
    size: int
    plain: bool
    opener: Opener | None = field(default=None, repr=False, compare=False)

    def open(self, limits: Limits) -> Stream:
        """Open the decompressed bytes, a context manager that is read forwards.

        Opening and reading raise OSError, IngestError on damage (after what was readable), and
        EvidenceTooLarge on a decompression bomb.
        """
        if self.opener is not None:
            return self.opener(limits)
        file = open_regular(self.path)
        return Bounded(file, None, limits, file.close)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that cannot be read; ``reason`` is one sentence with the way out."""

    name: str
    path: Path
    reason: str


def expand(
    arguments: Sequence[str | Path], limits: Limits | None = None
) -> Iterator[Source | Unreadable]:
    """Yield every file behind the arguments: in their order, folders sorted by name.

    The same path is given once. Hidden files and cases of this program inside a folder are no
    evidence. Never raises for what it finds; names are distinct.
    """
    walk = _Walk(limits or Limits())
    paths: list[Path] = []
    for argument in dict.fromkeys(os.fspath(argument) for argument in arguments):
        found = _paths(argument)
        if not found:
            reason = ("No file matches this pattern: check it" if glob.has_magic(argument)
                      else "There is no such file or folder: check the path")
            yield Unreadable(walk.own_name(printable(_last_part(argument))), Path(argument), reason)
        paths += found
    paths = list(dict.fromkeys(paths))
    for path, label in zip(paths, _labels(paths), strict=True):
        yield from walk.argument(path, label)


def _paths(argument: str) -> list[Path]:
    """The path itself, or what it matches as a glob that no shell has expanded."""
    if os.path.lexists(argument):
        return [Path(argument)]
    if glob.has_magic(argument):
        return [Path(found) for found in sorted(glob.glob(argument, recursive=True),
                                                key=os.fsencode)]
    return []


def _last_part(path: str | Path) -> str:
    return os.path.basename(os.path.abspath(path)) or "root"


def _labels(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, with as many parts before it as it takes to be distinct."""
    parts = [[part for part in Path(os.path.abspath(path)).parts if part != os.sep] or ["root"]
             for path in paths]
    lengths = [1] * len(paths)
    while True:
        labels = ["/".join(p[-n:]) for p, n in zip(parts, lengths, strict=True)]
        longer = [min(n + (labels.count(label) > 1), len(p))
                  for label, p, n in zip(labels, parts, lengths, strict=True)]
        if longer == lengths:
            return labels
        lengths = longer


@dataclass(slots=True)
class _Walk:
    """What has been given so far, so that nothing is given twice and no name twice."""

    limits: Limits
    names: dict[str, int] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    folders: set[tuple[int, int]] = field(default_factory=set)

    def own_name(self, name: str) -> str:
        """The name, told apart from an equal one before."""
        count = self.names[name] = self.names.get(name, 0) + 1
        return name if count == 1 else self.own_name(f"{name}~{count}")

    def unreadable(self, path: Path, name: str, reason: str) -> Unreadable:
        """Something at a path, with a name of its own."""
        return Unreadable(self.own_name(printable(name)), path, reason)

    def argument(self, path: Path, label: str) -> Iterator[Source | Unreadable]:
        """Everything behind one argument."""
        if os.path.exists(path / _CASE_FILE):
            yield self.unreadable(path, label, "This is a case of this program, not evidence: "
                                               "give the folder with the logs")
            return
        waiting = [(path, label)]
        # Links to folders come after everything that can be reached without them.
        linked: list[tuple[Path, str]] = []
        while waiting or linked:
            place, name = waiting.pop() if waiting else linked.pop(0)
            try:
                status = place.stat()
                if stat.S_ISDIR(status.st_mode):
                    inside = self._inside(place, (status.st_dev, status.st_ino))
                    below = [(place / entry.name, f"{name}/{entry.name}") for entry in inside]
                    follow = [os.path.islink(p) and os.path.isdir(p) for p, _ in below]
                    linked += compress(below, follow)
                    waiting += reversed([b for b, f in zip(below, follow, strict=True) if not f])
                else:
                    yield from self._file(place, name, status)
            except FileNotFoundError:
                yield self.unreadable(place, name, "This link leads nowhere, or the file is gone: "
                                                   "collect the file itself")
            except (OSError, IngestError) as error:
                yield self.unreadable(place, name, sentence(error))

    def _inside(self, folder: Path, identity: tuple[int, int]) -> list[os.DirEntry[str]]:
        """What lies in a folder, sorted; nothing if it was met before or is a case."""
        if identity in self.folders:
            return []
        self.folders.add(identity)
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        if any(entry.name == _CASE_FILE for entry in found):
            return []
        return [entry for entry in found
                if not entry.name.startswith(".") and entry.name not in _IGNORED]

    def _file(
        self, path: Path, name: str, status: os.stat_result
    ) -> Iterator[Source | Unreadable]:
        absolute = os.path.abspath(path)
        if absolute in self.files:
            return
        self.files.add(absolute)
        if not stat.S_ISREG(status.st_mode):
            yield self.unreadable(path, name, "This is a device, pipe or socket: copy its content "
                                              "into a file and give that")
            return
        empty = True
        for found in look_into(path, self.limits):
            empty = False
            full = self.own_name(printable(name) + (f"!{found.member}" if found.member else ""))
            if found.reason:
                yield Unreadable(full, path, found.reason)
            else:
                yield Source(full, path, found.member or None, status.st_size, not found.packed,
                             found.opener if found.packed else None)
        if empty:
            yield self.unreadable(path, name, "This archive holds no file: "
                                              "give the logs themselves")
