"""What a given file means for the case: nothing new, more of the same, another version, a copy.

``decide`` answers from bytes; ``settle`` keeps ``current`` right when a path holds other bytes
than before. Rows of superseded evidence stay in the case and are no longer current.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ingest.kinship import HEAD_BYTES, Kin, Likeness, is_later_period
from ingest.store import Evidence, Pending


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file was given: printable name, path and archive member."""

    name: str
    path: str
    member: str | None


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The file is on record as ``row``; ``duplicate`` if as a copy of other evidence."""

    row: Evidence
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """The file's bytes stand in ``original``, all of it or its beginning."""

    original: Evidence
    status: str


@dataclass(frozen=True, slots=True)
class Continue:
    """The file is ``row`` and more, or was not read to its end."""

    row: Evidence
    from_zero: bool = False


@dataclass(frozen=True, slots=True)
class New:
    """Bytes that are not on record.

    ``previous``: what the path held before. ``suspects``: longer evidence that begins alike, of
    which this may be the beginning. ``contains``: evidence that this file begins with.
    """

    previous: Evidence | None = None
    suspects: tuple[Evidence, ...] = ()
    contains: tuple[Evidence, ...] = ()


Decision = Unchanged | Copy | Continue | New


@dataclass(slots=True)
class Lineage:
    """The evidence rows, and which of them this run has met."""

    kin: Kin
    pending: Pending
    parser_version: str
    seen: set[int] = field(default_factory=set)

    def put(self, row: Evidence) -> None:
        """Write the row with the next transaction."""
        self.pending.evidence[row.evidence_id] = row


def owns_rows(row: Evidence) -> bool:
    """Whether the row stands for bytes of its own, not for a copy or an unreadable file."""
    return row.duplicate_of is None and row.parser_version is not None


def is_listing(row: Evidence) -> bool:
    """Whether the row only says that a file was a copy: it was never parsed."""
    return row.parser_version is None and row.status != "unreadable"


def decide(lineage: Lineage, place: Place, like: Likeness | None) -> Decision:
    """Say what a file is; ``like`` is None if nothing in the case begins as it does."""
    at_path = lineage.kin.at_path(place.path, place.member)
    held = [row for row in at_path if row.status != "unreadable"]
    # Empty when last seen, or a document that was interrupted.
    unread = [row for row in held if owns_rows(row) and not row.ingested_bytes]
    if like is None:
        return _unlike(held, unread)
    same_place = [row for row in like.equal if row in at_path
                  and not (is_listing(row) and row.duplicate_of is None)]
    if same_place:
        return _known(lineage, same_place[-1])
    whole = [row for row in like.equal if owns_rows(row) and row.ingested_bytes]
    if whole:
        original = whole[0]
        if original.evidence_id in lineage.seen or any(map(is_listing, at_path)):
            return Copy(original, "duplicate")
        move(lineage, original, place)
        return _known(lineage, original)
    grown = [row for row in like.grown
             if owns_rows(row) and (row in at_path or row.ingested_bytes >= HEAD_BYTES)]
    free = [row for row in grown if row in at_path or row.evidence_id not in lineage.seen]
    if free:
        best = max(free, key=lambda row: (row in at_path, row.ingested_bytes))
        move(lineage, best, place)
        return Continue(best, from_zero=best.parser_version != lineage.parser_version)
    inside = [row for row in like.inside if owns_rows(row)]
    if inside:
        return Copy(inside[0], "truncated" if inside[0] in at_path else "duplicate")
    longer = [row for row in lineage.kin.rows.values()
              if row.evidence_id in like.shared_bytes and owns_rows(row)
              and row.ingested_bytes > like.size_bytes > 0]
    if longer or grown:
        return New(held[-1] if held else None, tuple(longer), tuple(grown))
    return _unlike(held, unread)


def move(lineage: Lineage, row: Evidence, place: Place) -> None:
    """Note under which path the bytes were last given."""
    if (row.path, row.member) != (place.path, place.member):
        row.name, row.path, row.member = place.name, place.path, place.member
        lineage.kin.add(row)
        lineage.put(row)


def settle(lineage: Lineage, holder: Evidence) -> None:
    """Take from current use what the holder's path held before.

    Kept: what this run has met under another path, parts of a rotated log, which cover another
    period, and everything as long as the holder has no records that could stand for it.
    """
    if not holder.records and holder.duplicate_of is None:
        return
    for row in lineage.kin.at_path(holder.path, holder.member):
        if row is holder or row.evidence_id in lineage.seen or row.status == "superseded":
            continue
        if is_later_period(row, holder) or is_later_period(holder, row):
            continue
        row.current = False
        row.status = "superseded"
        if is_listing(row):
            # The file is no longer a copy, and what it was a copy of says nothing about it.
            row.duplicate_of = None
        lineage.put(row)


def revive(lineage: Lineage, row: Evidence) -> None:
    """Make evidence current again whose bytes were given again."""
    if owns_rows(row) and not row.current and row.complete:
        row.current = True
        row.status = settled_status(row)
        lineage.put(row)


def settled_status(row: Evidence) -> str:
    """The status of evidence that is current and read to its end."""
    if row.message:
        return "damaged"
    return "ok" if row.format else "unrecognised"


def supersede_contained(lineage: Lineage, contained: Iterable[Evidence], whole: Evidence) -> None:
    """Take from current use the evidence that ``whole`` begins with."""
    for row in contained:
        row.current = False
        row.duplicate_of = whole.evidence_id
        row.status = "duplicate"
        lineage.put(row)


def _unlike(held: list[Evidence], unread: list[Evidence]) -> Decision:
    if unread:
        return Continue(unread[-1], from_zero=True)
    return New(held[-1] if held else None)


def _known(lineage: Lineage, row: Evidence) -> Decision:
    if row.duplicate_of is not None:
        original = lineage.kin.rows[row.duplicate_of]
        revive(lineage, original)
        return Unchanged(row, duplicate=True)
    if row.parser_version != lineage.parser_version:
        return Continue(row, from_zero=True)
    if not row.complete:
        return Continue(row)
    return Unchanged(row)
