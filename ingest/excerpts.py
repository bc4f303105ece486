"""Evidence ids -> the log lines behind them, read again from the evidence and redacted.

A line is shown only while its file still holds the bytes that the case was made from; otherwise a
note says why it is not. Judges nothing and never fails for what became of a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb

from ingest.blocks import (
    Block,
    Readable,
    decode_evidence,
    encoding_of,
    read_blocks,
    same_prefix,
)
from ingest.case_errors import DATABASE
from ingest.excerpt_text import CONFIG_KEYS, line_text
from ingest.limits import Limits
from ingest.reading import READ_ERRORS, HashingStream, explain
from ingest.records import TABLES
from ingest.sources import Source, expand
from ingest.wrappers import Wrapper, detect_wrapper

_ID: Final = re.compile(r"(\d{1,9}):(\d{1,18})")
_HEAD_BYTES: Final = 65536
# Reading goes on until the digest vouches for a line: small blocks read little beyond it.
_BLOCK_BYTES: Final = 1 << 20
# Rows of one line that are looked at; a batched request can have thousands.
_MAX_ROWS: Final = 200
_DOCUMENT: Final = "loki-document"
_GONE: Final = "The file is no longer where it was read; the line cannot be shown."
_CHANGED: Final = ("The file no longer holds what it held when it was read; its line is not shown.")
_NO_LINE: Final = "No line that can be shown begins at this place of the file."


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One line of evidence as it may be shown.

    ``line_no`` is 1-based, 0 if unknown; ``byte_offset`` counts decompressed bytes; ``sha256`` is
    that of the whole file when it was read. ``text`` is '' where ``note`` says why.
    """

    evidence_id: int
    name: str
    line_no: int
    byte_offset: int
    sha256: str | None
    text: str
    note: str


@dataclass(frozen=True, slots=True)
class _File:
    """What the case holds of one file."""

    evidence_id: int
    name: str
    path: str
    member: str | None
    sha256: str | None
    checkpoints: bytes
    size_bytes: int


@dataclass(slots=True)
class _Found:
    """A line read again; ``end`` is the number of bytes that have to be vouched for."""

    line_no: int
    physical: bytes
    raw: bytes | None
    end: int


@dataclass(slots=True)
class _Reading:
    """What one pass over a file gave."""

    found: dict[int, _Found] = field(default_factory=dict)
    proven: int = 0
    failure: str = ""

    def vouches_for(self, offsets: list[int]) -> bool:
        """Whether all these lines were found, in bytes that are those of the case."""
        return all(o in self.found and self.found[o].end <= self.proven for o in offsets)


def read_excerpts(con: duckdb.DuckDBPyConnection, ids: Iterable[str]) -> dict[str, Excerpt]:
    """Return the excerpt of every evidence id ('FILE:OFFSET'); each file is read at most once.

    Ids that name nothing get an excerpt whose note says so.
    """
    wanted: dict[int, dict[int, str]] = {}
    result: dict[str, Excerpt] = {}
    for name in sorted(set(ids)):
        match = _ID.fullmatch(name)
        if match is None:
            result[name] = Excerpt(0, "", 0, 0, None, "", "This is no evidence id.")
        else:
            wanted.setdefault(int(match[1]), {})[int(match[2])] = name
    if not wanted:
        return result
    files = _files(con, sorted(wanted))
    facts = _facts(con, wanted)
    readings = _read_all(list(files.values()), wanted, _copies(con))
    for evidence_id, names in sorted(wanted.items()):
        file = files.get(evidence_id)
        for offset, name in names.items():
            if file is None:
                result[name] = Excerpt(evidence_id, "", 0, offset, None, "",
                                       "The case has no such file.")
            else:
                result[name] = _excerpt(file, offset, readings[evidence_id],
                                        facts.get((evidence_id, offset), {}))
    return result


def _excerpt(
    file: _File, offset: int, reading: _Reading, facts: dict[str, list[dict[str, Any]]]
) -> Excerpt:
    line = reading.found.get(offset)
    recorded = next((int(row["line_no"]) for rows in facts.values() for row in rows
                     if row.get("line_no")), 0)
    if line is not None and line.end <= reading.proven:
        return Excerpt(file.evidence_id, file.name, line.line_no, offset, file.sha256,
                       line_text(line.raw, line.physical, facts), "")
    # Bytes that are those of the case, in which no such line begins, have not changed.
    why = _NO_LINE if line is None and offset < reading.proven else _CHANGED
    return Excerpt(file.evidence_id, file.name, recorded, offset, file.sha256, "",
                   reading.failure or why)


def _files(con: duckdb.DuckDBPyConnection, ids: list[int]) -> dict[int, _File]:
    rows = con.execute(
        "SELECT evidence_id, name, path, member, sha256, digest_checkpoints, ingested_bytes "
        "FROM evidence WHERE evidence_id IN (SELECT unnest(?::INTEGER[]))", [ids]).fetchall()
    return {number: _File(number, name, path, member, sha256, checkpoints or b"", size or 0)
            for number, name, path, member, sha256, checkpoints, size in rows}


def _facts(
    con: duckdb.DuckDBPyConnection, wanted: dict[int, dict[int, str]]
) -> dict[tuple[int, int], dict[str, list[dict[str, Any]]]]:
    """Return the rows of the wanted lines: (evidence_id, byte_offset) -> table -> rows."""
    places = [(file, offset) for file, names in sorted(wanted.items()) for offset in sorted(names)]
    files, offsets = [p[0] for p in places], [p[1] for p in places]
    found: dict[tuple[int, int], dict[str, list[dict[str, Any]]]] = {}
    for table in TABLES:
        keys = "AND key IN (SELECT unnest($keys::VARCHAR[])) " if table == "config_entry" else ""
        parameters: dict[str, Any] = {"files": files, "offsets": offsets, "most": _MAX_ROWS}
        if keys:
            parameters["keys"] = list(CONFIG_KEYS)
        result = con.execute(
            "WITH place AS (SELECT unnest($files::INTEGER[]) AS evidence_id, "
            "unnest($offsets::BIGINT[]) AS byte_offset) "
            f'SELECT t.* FROM "{table}" AS t JOIN place USING (evidence_id, byte_offset) '
            f"WHERE true {keys}"
            "QUALIFY row_number() OVER (PARTITION BY t.evidence_id, t.byte_offset "
            "ORDER BY t.rowid) <= $most ORDER BY ALL", parameters)
        columns = [column[0] for column in result.description or []]
        while chunk := result.fetchmany(4096):
            for values in chunk:
                row = dict(zip(columns, values, strict=True))
                place = found.setdefault((row["evidence_id"], row["byte_offset"]), {})
                place.setdefault(table, []).append(row)
    return found


def _copies(con: duckdb.DuckDBPyConnection) -> Path | None:
    """Return the folder of evidence copies of the case that the connection has open."""
    row = con.execute("SELECT path FROM duckdb_databases() "
                      "WHERE database_name = current_database()").fetchone()
    path = Path(row[0]) if row and row[0] else None
    return path.parent / "evidence" / "files" if path and path.name == DATABASE else None


def _read_all(
    files: list[_File], wanted: dict[int, dict[int, str]], copies: Path | None
) -> dict[int, _Reading]:
    """Read the wanted lines of each file from where it was, or from the copy that the case keeps.

    An archive is gone through once for all of its members.
    """
    by_path: dict[str, list[_File]] = {}
    for file in files:
        by_path.setdefault(file.path, []).append(file)
    readings: dict[int, _Reading] = {}
    for path, parts in sorted(by_path.items()):
        by_member: dict[str | None, list[_File]] = {}
        for file in parts:
            by_member.setdefault(file.member, []).append(file)
        for source in _sources(path):
            member = source.member and source.member.encode("utf-8", "backslashreplace").decode()
            for file in by_member.pop(member, ()):
                readings[file.evidence_id] = _pass(file, source, sorted(wanted[file.evidence_id]))
            if not by_member:
                break
    for file in files:
        gone = "" if os.path.exists(file.path) else _GONE
        first = readings.setdefault(file.evidence_id, _Reading(failure=gone))
        offsets = sorted(wanted[file.evidence_id])
        if copies is None or not file.sha256 or first.vouches_for(offsets):
            continue
        copy = copies / file.sha256
        if re.fullmatch(r"[0-9a-f]{64}", file.sha256) and copy.is_file():
            again = _pass(file, Source(file.name, copy, None, 0, plain=True), offsets)
            if again.vouches_for(offsets):
                readings[file.evidence_id] = again
    return readings


def _sources(path: str) -> Iterator[Source]:
    if not os.path.isfile(path):
        return
    for source in expand([path]):
        if isinstance(source, Source):
            yield source


def _pass(file: _File, source: Source, offsets: list[int]) -> _Reading:
    reading = _Reading()
    try:
        with source.open(Limits()) as opened:
            _collect(file, HashingStream(_Capped(opened, file.size_bytes)), offsets, reading)
    except READ_ERRORS as error:
        reading.failure = f"The file cannot be read again: {explain(error)}."
    return reading


def _collect(
    file: _File, stream: HashingStream, offsets: list[int], reading: _Reading
) -> None:
    head = stream.peek_head(_HEAD_BYTES)
    transcoded = encoding_of(head).startswith("utf-16")
    wrapper = detect_wrapper(head)
    # The entries of a document begin anywhere on its lines: only the whole of it tells where.
    in_document = _DOCUMENT in wrapper.name
    left = sorted(offsets, reverse=True)
    last_end = 0
    for block in read_blocks(decode_evidence(stream), Limits(block_bytes=_BLOCK_BYTES)):
        end = block.byte_offset + len(block.data)
        skipped = {offset for _, offset, _ in block.skipped}
        while left and left[-1] < end:
            offset = left.pop()
            line = (None if offset in skipped or in_document
                    else _line_at(block, offset, wrapper))
            if line is not None:
                if transcoded:
                    line.end = stream.position
                reading.found[offset] = line
                last_end = max(last_end, line.end)
        if in_document:
            entries = _entries(wrapper, block, frozenset(offsets),
                               stream.position if transcoded else end)
            reading.found |= entries
            last_end = max([last_end, *(line.end for line in entries.values())])
        # Nothing more is wanted: read on only until a checkpoint vouches for the last line.
        if not left and same_prefix(stream.digest.checkpoints(), file.checkpoints) >= last_end:
            break
    whole = stream.position == file.size_bytes and stream.digest.hexdigest() == file.sha256
    reading.proven = (stream.position if whole
                      else same_prefix(stream.digest.checkpoints(), file.checkpoints))
    if stream.failure:
        reading.failure = f"The file cannot be read again to this line: {stream.failure}."


def _line_at(block: Block, offset: int, wrapper: Wrapper) -> _Found | None:
    """Return the line that begins at ``offset``, None if none begins there."""
    start = offset - block.byte_offset
    if start < 0 or (start > 0 and block.data[start - 1 : start] != b"\n"):
        return None
    stop = block.data.find(b"\n", start)
    stop = len(block.data) if stop < 0 else stop
    physical = block.data[start:stop]
    line_no = block.first_line_no + block.data.count(b"\n", 0, start)
    peeled = list(_peel(wrapper, Block(physical + b"\n", offset, line_no, final=True)))
    raw = peeled[0] if len(peeled) == 1 else None
    return _Found(line_no, physical, raw, min(offset + len(physical) + 1,
                                              block.byte_offset + len(block.data)))


def _entries(
    wrapper: Wrapper, block: Block, wanted: frozenset[int], end: int
) -> dict[int, _Found]:
    """Return the wanted entries of a document that the block completes."""
    found: dict[int, _Found] = {}
    for line in wrapper.peel(block):
        offset = line.byte_offset
        if offset in wanted:
            # Several lines in one entry: which of them is meant cannot be told.
            raw = None if offset in found else line.raw
            found[offset] = _Found(line.line_no, line.raw, raw, end)
    return found


def _peel(wrapper: Wrapper, block: Block) -> Iterator[bytes]:
    for line in wrapper.peel(block):
        yield line.raw
    for line in wrapper.flush():
        yield line.raw


class _Capped:
    """A stream that ends after so many bytes: a file that grew is read as it was."""

    def __init__(self, stream: Readable, size: int) -> None:
        self._stream = stream
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        """Hand out what is left, at most ``size`` bytes."""
        if self._left <= 0:
            return b""
        data = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data
