"""Which evidence of the case a given file is, by its bytes alone.

A file may be what is already on record, what is on record and more (it has grown), a beginning of
what is on record (it was truncated), or something else. Names and inodes decide nothing; the path
only says which record a changed file is a new version of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ingest.blocks import Digest, Readable, same_prefix
from ingest.store import Evidence

# Files of one beginning are compared further; log lines start with a stamp, so that this many
# bytes tell nearly all files apart. A shorter file proves nothing about a longer one of another
# path.
HEAD_BYTES: Final = 256
_CHUNK_BYTES: Final = 2**20


@dataclass(slots=True)
class Kin:
    """Evidence of the case by the digest of its beginning and by path."""

    rows: dict[int, Evidence] = field(default_factory=dict)
    by_head: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    by_path: dict[tuple[str, str | None], list[int]] = field(default_factory=dict)
    head_lengths: set[int] = field(default_factory=set)
    next_id: int = 1

    def add(self, row: Evidence) -> None:
        """Take up a row, or its changed path or head."""
        self.rows[row.evidence_id] = row
        self.next_id = max(self.next_id, row.evidence_id + 1)
        _include(self.by_path.setdefault((row.path, row.member), []), row.evidence_id)
        if row.head_sha256 and row.head_bytes:
            self.head_lengths.add(row.head_bytes)
            _include(self.by_head.setdefault((row.head_bytes, row.head_sha256), []),
                     row.evidence_id)

    def at_path(self, path: str, member: str | None) -> list[Evidence]:
        """Rows that the path has held, oldest first."""
        ids = self.by_path.get((path, member), [])
        return [row for row in map(self.rows.__getitem__, sorted(ids))
                if (row.path, row.member) == (path, member)]

    def alike(self, head: bytes) -> list[Evidence]:
        """Rows whose beginning this file has too, oldest first."""
        found: list[int] = []
        for length in self.head_lengths:
            if length <= len(head):
                found += self.by_head.get((length, head_digest(head[:length])), [])
        return [self.rows[evidence_id] for evidence_id in sorted(found)]


@dataclass(frozen=True, slots=True)
class Likeness:
    """What a whole reading of a file has shown about its candidates.

    ``equal``: rows with exactly these bytes. ``grown``: rows that this file begins with.
    ``inside``: rows that provably begin with this file. ``shared_bytes``: for other candidates,
    how far the beginnings are known to agree.
    """

    size_bytes: int
    sha256: str
    checkpoints: bytes
    equal: tuple[Evidence, ...]
    grown: tuple[Evidence, ...]
    inside: tuple[Evidence, ...]
    shared_bytes: dict[int, int]


def head_digest(head: bytes) -> str:
    """Digest of a file's first bytes."""
    return hashlib.sha256(head).hexdigest()


def compare(stream: Readable, candidates: Iterable[Evidence]) -> Likeness:
    """Read a file once and compare it with candidates; raises what reading raises."""
    waiting: dict[int, list[Evidence]] = {}
    rows = list(candidates)
    for row in rows:
        if row.ingested_bytes and row.sha256:
            waiting.setdefault(row.ingested_bytes, []).append(row)
    marks = sorted(waiting, reverse=True)
    digest = Digest()
    position = 0
    reached: list[Evidence] = []
    while chunk := stream.read(_CHUNK_BYTES):
        start = 0
        while marks and marks[-1] <= position + len(chunk):
            mark = marks.pop()
            digest.update(chunk[start:mark - position])
            start = mark - position
            sha256 = digest.hexdigest()
            reached += [row for row in waiting[mark] if row.sha256 == sha256]
        digest.update(chunk[start:] if start else chunk)
        position += len(chunk)
    checkpoints = digest.checkpoints()
    shared = {
        row.evidence_id: same_prefix(checkpoints, row.digest_checkpoints or b"")
        for row in rows
    }
    return Likeness(
        size_bytes=position,
        sha256=digest.hexdigest(),
        checkpoints=checkpoints,
        equal=tuple(row for row in (reached if position else rows)
                    if row.ingested_bytes == position and row.size_bytes == position),
        grown=tuple(row for row in reached if row.ingested_bytes < position),
        inside=tuple(row for row in rows if row.ingested_bytes > position
                     and 0 < position <= shared.get(row.evidence_id, 0)),
        shared_bytes=shared,
    )


def is_later_period(earlier: Evidence, later: Evidence) -> bool:
    """Whether two files cover periods that do not overlap, as the parts of a rotated log do."""
    return (
        earlier.clock is not None and earlier.clock == later.clock
        and earlier.last_stamp_ns is not None and later.first_stamp_ns is not None
        and earlier.last_stamp_ns <= later.first_stamp_ns
    )


def _include(ids: list[int], evidence_id: int) -> None:
    if evidence_id not in ids:
        ids.append(evidence_id)
