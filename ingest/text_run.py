"""The reading of one file's text: blocks to the workers, or a document to its parser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from ingest.block_rows import BlockRows, Period, arrow_tables
from ingest.blocks import Block, decode_evidence, encoding_of, read_blocks
from ingest.dispatch import PARSER_FAULTS, Parsed
from ingest.file_run import BlockEnd, FileRun
from ingest.reading import HashingStream, RestOf
from ingest.recognition import Kind, decode_head, wrapper_of
from ingest.records import DocumentFormat, Line
from ingest.session import Session
from ingest.sources import Source
from ingest.store import interrupts_deferred
from ingest.workers import Task
from ingest.wrappers import Wrapper, detect_wrapper

# Name of the wrapper that is none.
PLAIN: Final = detect_wrapper(b"").name


def read_lines(
    session: Session, run: FileRun, kind: Kind, stream: HashingStream, source: Source, head: bytes
) -> str:
    """Hand the file's blocks to the lane, from where the evidence was committed.

    Returns what went wrong while reading, '' if nothing did.
    """
    row = run.evidence
    wrapper = wrapper_of(decode_head(head)) if kind.wrapper != PLAIN else None
    # Transcoded text does not stand in the file as it is parsed.
    as_is = source.plain and not encoding_of(head).startswith("utf-16")
    path = str(source.path) if as_is else None
    text = RestOf(decode_evidence(stream), row.committed_offset)
    blocks = read_blocks(text, session.limits, start_offset=row.committed_offset,
                         start_line=row.committed_line)
    for block, following in _with_next(blocks):
        end = _block_end(block, following, stream)
        lines: tuple[Line, ...] = ()
        if wrapper is not None:
            lines = tuple(wrapper.peel(block))
            end = _held_back(end, wrapper)
            if block.final:
                lines += tuple(wrapper.flush())
        deliver = _deliverer(session, run, end, len(block.data))
        if not kind.lines:
            session.lane.call(partial(deliver, BlockRows(Parsed(), [], Period())))
        elif wrapper is None:
            session.lane.submit(Task(block), deliver,
                                None if block.skipped else path)
        else:
            session.lane.submit(
                Task(replace(block, data=b""), lines), deliver)
        if source.plain:
            session.meter.read(row.name, source, len(block.data), session.tally.records)
    return stream.failure


def read_document(
    session: Session, run: FileRun, document: DocumentFormat, stream: HashingStream, name: str
) -> str:
    """Parse a document in this process, committing whole batches on the way.

    A document is not continued in its middle: until its end is reached, its progress is zero.
    Returns what went wrong, '' if nothing did.
    """
    session.lane.drain()
    ends: list[BlockEnd] = []
    lines = _document_lines(session, run, document, stream, ends)
    run.counts[document.name] = 1
    fault = ""
    try:
        for batch in document.parse(lines, name):
            with interrupts_deferred():
                session.active = run
                run.other += batch.other_lines
                run.add(arrow_tables(batch))
                session.flush_if_full()
    except PARSER_FAULTS as error:
        fault = f"its parser failed ({type(error).__name__})"
    for _ in lines:
        # What the parser left unread is hashed and counted all the same.
        pass
    run.end = ends[-1] if ends else None
    return fault or stream.failure


def _document_lines(
    session: Session, run: FileRun, document: DocumentFormat, stream: HashingStream,
    ends: list[BlockEnd],
) -> Iterator[Line]:
    wrapper = detect_wrapper(b"")
    for block in read_blocks(decode_evidence(stream), session.limits):
        ends[:] = [_block_end(block, None, stream)]
        session.batch_bytes += len(block.data)
        yield from wrapper.peel(block)


def _deliverer(
    session: Session, run: FileRun, end: BlockEnd, size: int
) -> Callable[[BlockRows], None]:
    def deliver(rows: BlockRows) -> None:
        with interrupts_deferred():
            session.active = run
            run.deliver(rows, end)
            session.batch_bytes += size
            session.flush_if_full()

    return deliver


def _held_back(end: BlockEnd, wrapper: Wrapper) -> BlockEnd:
    """A continuation reads again from the first line that the wrapper still holds."""
    pending = getattr(wrapper, "pending", None)
    # A wrapper that cannot tell is read again from the beginning.
    held = pending() if pending is not None else (0, 1)
    if held is None:
        return end
    offset, line_no = min((end.safe_offset, end.safe_line), held)
    return replace(end, safe_offset=offset, safe_line=line_no)


def _with_next(blocks: Iterator[Block]) -> Iterator[tuple[Block, Block | None]]:
    """Each block with the one that follows it, whose first line number tells the line count."""
    previous = next(blocks)
    for block in blocks:
        yield previous, block
        previous = block
    yield previous, None


def _block_end(block: Block, following: Block | None, stream: HashingStream) -> BlockEnd:
    end = block.byte_offset + len(block.data)
    if following is not None and following.byte_offset == end:
        next_line = following.first_line_no
    else:
        next_line = block.first_line_no + block.data.count(b"\n") + block.unterminated
    safe_offset, safe_line = end, next_line
    if block.unterminated:
        safe_offset = block.byte_offset + block.data.rfind(b"\n") + 1
        safe_line -= 1
    elif block.final and not block.data and block.skipped:
        # The file may end in the middle of a line that was too long: it is read again.
        line_no, offset, length = block.skipped[-1]
        if offset + length == end:
            safe_offset, safe_line = offset, line_no
    return BlockEnd(next_line - 1, safe_offset, safe_line, stream.position,
                    stream.digest.hexdigest(), stream.digest.checkpoints())
