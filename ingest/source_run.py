"""One given file from its first byte to its rows: compared, recognised, parsed, finished."""

from __future__ import annotations

from contextlib import ExitStack

from ingest.evidence_copy import keep_copy
from ingest.file_run import FileRun
from ingest.kinship import HEAD_BYTES, Likeness, compare, head_digest
from ingest.lineage import (
    Continue,
    Copy,
    Decision,
    New,
    Place,
    Unchanged,
    decide,
    is_listing,
    owns_rows,
    revive,
    settle,
    settled_status,
    supersede_contained,
)
from ingest.reading import HashingStream, open_stream
from ingest.recognition import HEAD_LIMIT_BYTES, Kind, recognise
from ingest.session import Session
from ingest.sources import Source, Unreadable
from ingest.store import Evidence, interrupts_deferred, is_contained
from ingest.text_run import read_document, read_lines


def take_source(session: Session, source: Source) -> None:
    """Bring one file up to date in the case; a file that cannot be read is on record as that."""
    member = printable(source.member) if source.member else None
    place = Place(printable(source.name), printable(str(source.path)), member)
    session.looked_at.append(place.name)
    session.tally.files += 1
    like, decision, head = _first_look(session, source, place)
    if isinstance(decision, New | Continue):
        with ExitStack() as stack:
            opened = open_stream(stack, source, session.limits, HEAD_LIMIT_BYTES)
            if isinstance(opened, str):
                _record_unreadable(session, place, opened)
            else:
                _parse(session, source, place, decision, *opened)
    elif isinstance(decision, Unchanged):
        _keep(session, decision)
    elif isinstance(decision, Copy) and like is not None:
        _record_copy(session, source, place, decision, like, head)
    session.meter.finish(place.name, source, session.tally.records)


def _first_look(
    session: Session, source: Source, place: Place
) -> tuple[Likeness | None, Decision | None, bytes]:
    """Compare a file with the case; one that resembles nothing is parsed in the same reading."""
    with ExitStack() as stack:
        opened = open_stream(stack, source, session.limits, HEAD_LIMIT_BYTES)
        if isinstance(opened, str):
            _record_unreadable(session, place, opened)
            return None, None, b""
        stream, head = opened
        like = _compare(session, place, head, stream)
        decision = decide(session.lineage, place, like)
        if like is None and isinstance(decision, New | Continue):
            _parse(session, source, place, decision, stream, head)
            return None, None, head
        return like, decision, head


def take_unreadable(session: Session, source: Unreadable) -> None:
    """Put on record that something could not be read."""
    place = Place(printable(source.name), printable(str(source.path)), None)
    session.looked_at.append(place.name)
    session.tally.files += 1
    _record_unreadable(session, place, printable(source.reason))


def printable(text: str) -> str:
    """Text that can be stored: undecodable bytes of a file name become escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _compare(
    session: Session, place: Place, head: bytes, stream: HashingStream
) -> Likeness | None:
    kin = session.lineage.kin
    at_path = kin.at_path(place.path, place.member)
    rows = kin.alike(head[:HEAD_BYTES])
    if len(head) < HEAD_BYTES:
        rows += [row for row in at_path if row not in rows]
    if rows or at_path:
        # Earlier files of this run may still be with the workers.
        session.lane.drain()
    if not rows and head:
        return None
    return compare(stream, rows)


def _parse(
    session: Session, source: Source, place: Place, decision: New | Continue,
    stream: HashingStream, head: bytes,
) -> None:
    kind = recognise(session.formats, head, place.name)
    run = _start(session, source, place, decision, kind, head)
    before = (run.evidence.records, run.evidence.rejects)
    from_zero = kind.document is not None
    if isinstance(decision, Continue):
        from_zero = from_zero or decision.from_zero or not _goes_on(session, run.evidence, kind)
        run.restart(from_zero=from_zero)
    run.evidence.wrapper = kind.wrapper
    run.evidence.parser_version = session.lineage.parser_version
    if kind.document is not None:
        message = read_document(session, run, kind.document, stream, place.name)
    else:
        message = read_lines(session, run, kind, stream, source, head)

    def finish() -> None:
        with interrupts_deferred():
            _finish(session, source, run, decision, before, message)

    session.lane.call(finish)
    session.tally.bytes += stream.position


def _start(
    session: Session, source: Source, place: Place, decision: New | Continue, kind: Kind,
    head: bytes,
) -> FileRun:
    lineage = session.lineage
    if isinstance(decision, Continue):
        row = decision.row
        if row.evidence_id in session.pending.evidence:
            session.flush()
    else:
        reusable = [
            old for old in lineage.kin.at_path(place.path, place.member)
            if old.status == "unreadable" and old.sha256 is None
        ]
        evidence_id = reusable[0].evidence_id if reusable else lineage.kin.next_id
        row = Evidence(evidence_id, place.name, place.path, place.member)
        row.version_of = decision.previous.evidence_id if decision.previous else None
        # Facts must not be seen twice while the other version is current.
        row.current = not (decision.previous or decision.suspects or decision.contains)
    row.compressed_bytes = None if source.plain else source.size
    row.head_bytes = min(len(head), HEAD_BYTES)
    row.head_sha256 = head_digest(head[:HEAD_BYTES])
    lineage.kin.add(row)
    lineage.seen.add(row.evidence_id)
    return FileRun(session.case, session.pending, row, session.formats.lines)


def _goes_on(session: Session, row: Evidence, kind: Kind) -> bool:
    """Whether the earlier reading saw the same kind of lines, so that its rows may stay."""
    documents = {document.name for document in session.formats.documents}
    was_lines = row.format is not None and row.format not in documents
    return was_lines == kind.lines and row.wrapper == kind.wrapper


def _finish(
    session: Session, source: Source, run: FileRun, decision: New | Continue,
    before: tuple[int, int], message: str,
) -> None:
    """Close the file's evidence row once all its rows are pending or committed."""
    row, lineage, tally = run.evidence, session.lineage, session.tally
    session.active = None
    run.checkpoint()
    row.message = message
    row.status = "damaged" if message else settled_status(row)
    outcome = "continued" if isinstance(decision, Continue) else "new"
    if isinstance(decision, New) and not row.current:
        _judge_version(session, row, decision)
    else:
        row.current = True
        settle(lineage, row)
    row.complete = True
    lineage.put(row)
    tally.records += row.records - before[0]
    tally.rejects += row.rejects - before[1]
    tally.damaged += bool(message)
    if row.format is None and not message:
        tally.unrecognised += 1
    elif outcome == "continued":
        tally.continued += 1
    else:
        tally.new += 1
    tally.recognised += row.format is not None
    session.note(
        f"ingest {outcome} evidence {row.evidence_id}",
        f"{row.name}: {row.format or 'unrecognised'}, {row.records} records, "
        f"{row.rejects} rejects, sha256 {row.sha256}" + (f"; {message}" if message else ""),
    )
    if session.copy_evidence and row.sha256:
        kept = keep_copy(session.case, session.limits, source, row)
        if not kept:
            session.note(f"keep no copy of evidence {row.evidence_id}",
                         f"{row.name}: the file changed while it was read")
    session.batch_files += 1
    session.flush_if_full()


def _judge_version(session: Session, row: Evidence, decision: New) -> None:
    """Decide which of several versions is current, by the rows that they gave."""
    lineage = session.lineage
    # The comparison is made in the case, where all rows have to be for it.
    session.flush()
    for other in decision.suspects:
        if is_contained(session.case, row.evidence_id, other.evidence_id, row.committed_offset):
            same_path = (row.path, row.member) == (other.path, other.member)
            row.duplicate_of = other.evidence_id
            row.status = "truncated" if same_path else "duplicate"
            lineage.seen.add(other.evidence_id)
            return
    row.current = True
    supersede_contained(lineage, decision.contains, row)
    settle(lineage, row)


def _keep(session: Session, decision: Unchanged) -> None:
    row, tally = decision.row, session.tally
    session.lineage.seen.add(row.evidence_id)
    tally.recognised += row.format is not None
    if decision.duplicate:
        tally.duplicates += 1
        return
    tally.unchanged += 1
    revive(session.lineage, row)
    settle(session.lineage, row)


def _record_copy(
    session: Session, source: Source, place: Place, decision: Copy, like: Likeness, head: bytes
) -> None:
    """List a file whose bytes are on record under another path."""
    lineage, original = session.lineage, decision.original
    lineage.seen.add(original.evidence_id)
    revive(lineage, original)
    at_path = lineage.kin.at_path(place.path, place.member)
    listings = [row for row in at_path if is_listing(row)]
    held = [row for row in at_path if owns_rows(row) and row is not original]
    evidence_id = listings[-1].evidence_id if listings else lineage.kin.next_id
    row = Evidence(
        evidence_id, place.name, place.path, place.member,
        size_bytes=like.size_bytes, sha256=like.sha256, digest_checkpoints=like.checkpoints,
        compressed_bytes=None if source.plain else source.size,
        head_bytes=min(len(head), HEAD_BYTES), head_sha256=head_digest(head[:HEAD_BYTES]),
        format=original.format, ingested_bytes=like.size_bytes, complete=True,
        duplicate_of=original.evidence_id, status=decision.status,
        version_of=held[-1].evidence_id if held else None,
    )
    lineage.kin.add(row)
    lineage.put(row)
    lineage.seen.add(row.evidence_id)
    settle(lineage, row)
    session.tally.duplicates += 1
    session.tally.recognised += row.format is not None
    session.note(f"list evidence {row.evidence_id} as {decision.status}",
                 f"{row.name}: the bytes are those of evidence {original.evidence_id}")
    session.batch_files += 1
    session.flush_if_full()


def _record_unreadable(session: Session, place: Place, message: str) -> None:
    lineage = session.lineage
    session.tally.unreadable += 1
    at_path = lineage.kin.at_path(place.path, place.member)
    known = [row for row in at_path if row.status == "unreadable"]
    if known and known[-1].message == message:
        return
    held = [row for row in at_path if owns_rows(row)]
    row = Evidence(
        known[-1].evidence_id if known else lineage.kin.next_id,
        place.name, place.path, place.member, status="unreadable", message=message,
        version_of=held[-1].evidence_id if held else None,
    )
    lineage.kin.add(row)
    lineage.put(row)
    session.note(f"list evidence {row.evidence_id} as unreadable", f"{row.name}: {message}")
    session.batch_files += 1
    session.flush_if_full()

