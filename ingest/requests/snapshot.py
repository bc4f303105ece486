"""JSON snapshots in a file: one object, several one behind the other, NDJSON, or a list of them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from ingest.records import Batch, Line, to_json
from ingest.requests.secret import redact

# A server_info answer has some 40 KB. Only what is not yet a whole object is held.
MAX_PENDING_BYTES: Final = 64 * 2**20
# Rows after which a batch is handed over.
MAX_BATCH_ROWS: Final = 20_000
# After so many malformed objects the rest of the file is given up: it is no set of snapshots.
MAX_MALFORMED: Final = 100
# Longest value kept as JSON text, in characters; the longest one seen has 20,000.
MAX_VALUE_CHARS: Final = 64 * 1024
MAX_KEY_CHARS: Final = 200

_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One JSON object of the file and the line where it starts."""

    number: int
    document: dict[str, Any]
    line: Line


def read_snapshots(
    lines: Iterable[Line],
    format_name: str,
    add: Callable[[Batch, Snapshot], None],
    *,
    list_is_one: bool = False,
) -> Iterator[Batch]:
    """Yield batches filled by ``add``, object by object; what is cut or malformed is a reject.

    Every object has its number; with ``list_is_one`` the objects of a list share one.
    """
    batch, number = Batch(), 0
    for line, value, problem in _values(_pieces(lines, batch)):
        if problem:
            batch.reject(line, format_name, problem)
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                add(batch, Snapshot(number, item, line))
                number += not list_is_one
            else:
                batch.reject(line, format_name, "JSON is not an object")
        number += list_is_one
        if len(batch.rows.get("config_entry", ())) >= MAX_BATCH_ROWS:
            yield replace(batch)
            batch.rows, batch.rejects, batch.lines = {}, [], 0
    yield batch


def _pieces(lines: Iterable[Line], batch: Batch) -> Iterator[list[Line]]:
    """Cut the file into runs of lines that hold whole objects, as far as that is cheap to see."""
    pending: list[Line] = []
    size, next_try = 0, 0
    for line in lines:
        batch.lines += 1
        pending.append(line)
        size += len(line.raw) + 1
        # A line that ends an object of its own, or one printed with indentation.
        closes = line.raw.startswith((b"}", b"]")) or len(pending) == 1
        if closes and size >= next_try and line.raw.rstrip().endswith((b"}", b"]")):
            if _is_whole(pending):
                yield pending
                pending, size, next_try = [], 0, 0
            else:  # tries get rarer, so that their cost stays linear in the file
                next_try = 2 * size
        if size > MAX_PENDING_BYTES:
            yield pending
            pending, size, next_try = [], 0, 0
    if pending:
        yield pending


def _is_whole(pieces: list[Line]) -> bool:
    try:
        _, end = _decode(_text(pieces), 0)
    except (ValueError, RecursionError):
        return False
    return end >= 0


def _text(pieces: list[Line]) -> str:
    return "\n".join(piece.raw.decode("utf-8", "replace") for piece in pieces)


def _decode(text: str, position: int) -> tuple[Any, int]:
    value, end = _DECODER.raw_decode(text, _skip_space(text, position))
    return value, _skip_space(text, end)


def _values(runs: Iterator[list[Line]]) -> Iterator[tuple[Line, Any, str]]:
    """Yield (line where it starts, JSON value, problem) for everything in the runs."""
    malformed = 0
    for pieces in runs:
        text = _text(pieces)
        starts = [0]
        for piece in pieces:
            starts.append(starts[-1] + len(piece.raw.decode("utf-8", "replace")) + 1)
        position = _skip_space(text, 0)
        while position < len(text):
            line = pieces[min(bisect_right(starts, position), len(pieces)) - 1]
            try:
                value, position = _decode(text, position)
            except (ValueError, RecursionError):
                malformed += 1
                if malformed > MAX_MALFORMED:
                    yield line, None, "too much malformed JSON, the rest is not read"
                    return
                yield line, None, "JSON is cut or malformed"
                # The next object of a file with one per line can still be whole.
                following = text.find("\n{", position)
                position = len(text) if following < 0 else following + 1
            else:
                yield line, value, ""


def add_entry(
    batch: Batch,
    snapshot: Snapshot,
    source: str,
    dialect: str,
    key: str,
    value: Any,
    dp: int | None = None,
) -> None:
    """Add one ``config_entry`` row, secrets redacted; a value too long becomes a reject."""
    name = key.rpartition(".")[2]
    text = to_json(redact(name, value)).encode("utf-8", "replace").decode("utf-8")
    if len(text) > MAX_VALUE_CHARS or len(key) > MAX_KEY_CHARS:
        batch.reject(snapshot.line, source, "a value or its key is too long")
        return
    batch.add(
        "config_entry", snapshot.line, dp=dp, source=source, dialect=dialect,
        snapshot=snapshot.number, key=key.encode("utf-8", "replace").decode("utf-8"), value=text,
    )


def dp_rank(document: dict[str, Any]) -> int | None:
    """Return the DP rank that a per-rank object states, or None."""
    rank = document.get("dp_rank")
    return rank if type(rank) is int and 0 <= rank < 2**15 else None


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n\ufeff,":
        position += 1
    return position
