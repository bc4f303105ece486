"""The hash-chained audit log: one entry per write, in table ``audit_log`` and ``audit.jsonl``.

``hash`` = sha256 of ``prev`` followed by the canonical JSON of {seq, at, who, what, why}. The
table is written in the transaction of the change it describes; the file follows the commit.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ingest.case_errors import case_errors
from ingest.records import to_json

if TYPE_CHECKING:
    from ingest.case import Case

GENESIS: Final = "0" * 64
_KEYS: Final = ("seq", "at", "who", "what", "why", "prev", "hash")
# Longest what/why kept, in characters: entries name files and counts, never evidence text.
_MAX_TEXT: Final = 2000
_TAIL_BYTES: Final = 64 * 1024
# Stands for a file end that cannot be completed.
_EDITED: Final = 2**62


@dataclass(frozen=True, slots=True)
class Entry:
    """One link of the chain; ``at`` is RFC 3339 UTC."""

    seq: int
    at: str
    who: str
    what: str
    why: str
    prev: str
    hash: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken place: which copy ('table' or 'file'), which entry, what is wrong."""

    copy: str
    seq: int
    text: str


def stage(case: Case, notes: Iterable[tuple[str, str, str]]) -> list[Entry]:
    """Insert (who, what, why) entries into the table inside the caller's transaction."""
    last = case.con.execute(
        "SELECT seq, hash FROM audit_log ORDER BY seq DESC LIMIT 1").fetchone()
    seq, prev = last if last else (0, GENESIS)
    entries = []
    for who, what, why in notes:
        seq += 1
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        body = (seq, at, who[:_MAX_TEXT], what[:_MAX_TEXT], why[:_MAX_TEXT])
        entries.append(Entry(*body, prev, _digest(prev, *body)))
        prev = entries[-1].hash
    if entries:
        case.con.executemany(
            "INSERT INTO audit_log VALUES (?, ?, ?, ?, ?, ?, ?)",
            [[getattr(e, key) for key in _KEYS] for e in entries],
        )
    return entries


def publish(case: Case) -> int:
    """Append what the table holds beyond the file's end to ``audit.jsonl``, durably.

    Returns the number of entries. Left alone: a file whose end is not an entry.
    """
    last_seq, torn_at = _file_end(case)
    if torn_at is not None:
        os.truncate(case.audit_file, torn_at)
    rows = case.con.execute(
        'SELECT seq, "at", who, what, why, prev, hash FROM audit_log WHERE seq > ? ORDER BY seq',
        [last_seq],
    ).fetchall()
    if not rows:
        return 0
    text = "".join(to_json(asdict(Entry(*row))) + "\n" for row in rows)
    fd = os.open(case.audit_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "ab") as stream:
        stream.write(text.encode("utf-8", "surrogatepass"))
        stream.flush()
        os.fsync(stream.fileno())
    return len(rows)


def append(case: Case, *, who: str, what: str, why: str = "") -> Entry:
    """Record one write (or one read that must be on record) as a transaction of its own."""
    with case_errors(case.root):
        case.con.execute("BEGIN")
        try:
            entries = stage(case, [(who, what, why)])
            case.con.execute("COMMIT")
        except BaseException:
            case.con.execute("ROLLBACK")
            raise
        publish(case)
    return entries[0]


def reconcile(case: Case) -> None:
    """Bring ``audit.jsonl`` up to the table after a crash between commit and append.

    The repair is itself an entry, so a file that was cut on purpose leaves a trace.
    """
    restored = publish(case)
    if restored:
        append(case, who="palimpsest", what=f"restore {restored} entries of audit.jsonl",
               why="the file ended before the audit table did (a crash, or entries were removed)")


def verify(case: Case) -> list[Problem]:
    """Find every edit, deletion or reorder in either copy; an intact log gives an empty list."""
    table = [
        Entry(*row) for row in case.con.execute(
            'SELECT seq, "at", who, what, why, prev, hash FROM audit_log ORDER BY rowid').fetchall()
    ]
    problems = _chain_problems("table", table)
    file_entries: list[Entry] = []
    try:
        data = case.audit_file.read_bytes()
    except FileNotFoundError:
        data = b""
    for number, raw in enumerate(data.splitlines(), start=1):
        entry = _decode(raw)
        if entry is None:
            problems.append(Problem("file", number, "the line is not an audit entry"))
        else:
            file_entries.append(entry)
    problems += _chain_problems("file", file_entries)
    in_table = {entry.seq: entry.hash for entry in table}
    in_file = {entry.seq: entry.hash for entry in file_entries}
    for seq in sorted(in_table.keys() | in_file.keys()):
        if seq not in in_file:
            problems.append(Problem("file", seq, "the entry is missing"))
        elif seq not in in_table:
            problems.append(Problem("table", seq, "the entry is missing"))
        elif in_table[seq] != in_file[seq]:
            problems.append(Problem("file", seq, "the entry differs from the table"))
    return problems


def _chain_problems(copy: str, entries: list[Entry]) -> list[Problem]:
    problems = []
    prev = GENESIS
    for position, entry in enumerate(entries, start=1):
        if entry.seq != position:
            problems.append(Problem(copy, entry.seq, f"entry {position} was expected here"))
        if entry.prev != prev:
            problems.append(Problem(copy, entry.seq, "the link to the entry before is broken"))
        body = (entry.seq, entry.at, entry.who, entry.what, entry.why)
        if entry.hash != _digest(entry.prev, *body):
            problems.append(Problem(copy, entry.seq, "the entry was edited"))
        prev = entry.hash
    return problems


def _digest(prev: str, seq: int, at: str, who: str, what: str, why: str) -> str:
    body = to_json({"seq": seq, "at": at, "who": who, "what": what, "why": why})
    return hashlib.sha256((prev + body).encode("utf-8", "surrogatepass")).hexdigest()


def _decode(raw: bytes) -> Entry | None:
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(value, dict) or set(value) != set(_KEYS):
        return None
    texts = all(isinstance(value[key], str) for key in _KEYS if key != "seq")
    if not texts or type(value["seq"]) is not int:
        return None
    return Entry(**value)


def _file_end(case: Case) -> tuple[int, int | None]:
    """Sequence number of the file's last whole entry, and where a torn last line starts."""
    try:
        with case.audit_file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            start = max(0, size - _TAIL_BYTES)
            stream.seek(start)
            tail = stream.read()
    except FileNotFoundError:
        return 0, None
    torn_at = None
    if tail and not tail.endswith(b"\n"):
        cut = tail.rfind(b"\n") + 1
        torn_at = start + cut
        tail = tail[:cut]
    if not tail:
        return 0, torn_at
    entry = _decode(tail.splitlines()[-1])
    # An end that is no entry was edited: nothing is added behind it, and verify tells.
    return (entry.seq if entry else _EDITED), torn_at
