"""JSON snapshots in a file: one object, several one behind the other, NDJSON, or a list of them."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ingest.records import Batch, Line, to_json
from ingest.requests.secret import redact

# A server_info answer has some 40 KB; a day of minutely ones stays below this.
MAX_FILE_BYTES: Final = 256 * 2**20
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


def snapshots(
    lines: Iterator[Line], batch: Batch, format_name: str, *, list_is_one: bool = False
) -> Iterator[Snapshot]:
    """Yield the objects of the file in order; what is cut or malformed becomes a reject.

    Each has its number; with ``list_is_one`` the objects of a list share one. The caller must
    store ``batch`` when the iteration has ended: it may hold rejects.
    """
    pieces: list[Line] = []
    size = 0
    for line in lines:
        size += len(line.raw) + 1
        if size > MAX_FILE_BYTES:
            batch.reject(line, format_name, f"file of more than {MAX_FILE_BYTES} bytes")
            break
        pieces.append(line)
        batch.lines += 1
    if not pieces:
        return
    texts = [piece.raw.decode("utf-8", "replace") for piece in pieces]
    starts = [0]
    for piece in texts:
        starts.append(starts[-1] + len(piece) + 1)
    text = "\n".join(texts)
    position, number = _skip_space(text, 0), 0
    while position < len(text):
        line = pieces[min(bisect_right(starts, position), len(pieces)) - 1]
        try:
            document, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            batch.reject(line, format_name, "JSON is cut or malformed")
            # The next snapshot of a file with one per line can still be whole.
            following = text.find("\n{", position)
            if following < 0:
                return
            position = following + 1
            continue
        position = _skip_space(text, position)
        for item in document if isinstance(document, list) else [document]:
            if isinstance(item, dict):
                yield Snapshot(number, item, line)
                number += not list_is_one
            else:
                batch.reject(line, format_name, "JSON is not an object")
        number += list_is_one


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
