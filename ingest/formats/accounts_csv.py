"""An operator's ``accounts.csv`` -> ``account_key``: which account a request key belongs to.

    x_request_id,account
    req-885da5cd2edc2b59,acct-0068

The header names ``account`` and at least one key: ``x_request_id``, ``request_id``, ``rid``,
``room``, or any other column, which then names an identity field of ``request_log.keys``. Comma,
semicolon or tab. One row per key cell that is not empty; lines that repeat or contradict each
other are kept. A quoted cell cannot run over a line's end.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Final

from ingest.records import MAX_ROOM, Batch, DocumentFormat, Line, Match

MAX_CELL_CHARS: Final = 512
# A table of more columns is an export of something else.
MAX_COLUMNS: Final = 16
# Rows after which a batch is handed over.
MAX_BATCH_ROWS: Final = 20_000
KNOWN_KEYS: Final = frozenset({"x_request_id", "request_id", "rid", "room"})
_ALIASES: Final = {"bootstrap_room": "room"}
_ACCOUNT: Final = "account"
_DELIMITERS: Final = (",", ";", "\t")


class AccountsCsv:
    """Tables of accounts."""

    name = "accounts_csv"

    def sniff(self, head: bytes, name: str) -> Match | None:
        """Recognise a header with ``account`` and a key."""
        first = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
        columns = _header(first)
        if columns is None:
            return None
        known = KNOWN_KEYS.intersection(columns[0])
        return Match(0.95 if known else 0.6, ",".join(sorted(known)))

    def parse(self, lines: Iterator[Line], name: str) -> Iterator[Batch]:
        """Yield batches of rows."""
        batch = Batch()
        header: tuple[list[str], str] | None = None
        for line in lines:
            batch.lines += 1
            if header is None:
                header = _header(line.raw.removeprefix(b"\xef\xbb\xbf"))
                if header is None:
                    batch.reject(line, self.name, "the header names no account or no key")
                    break
                batch.other_lines += 1
            elif not line.raw.strip():
                batch.other_lines += 1
            else:
                _add(batch, line, *header)
            if len(batch.rows.get("account_key", ())) + len(batch.rejects) >= MAX_BATCH_ROWS:
                yield batch
                batch = Batch()
        yield batch


def _header(raw: bytes) -> tuple[list[str], str] | None:
    """Return (column names, delimiter) of a header line, or None if it is none."""
    if len(raw) > MAX_COLUMNS * MAX_CELL_CHARS:
        return None
    for delimiter in _DELIMITERS:
        cells = _cells(raw, delimiter)
        if cells is None or not 2 <= len(cells) <= MAX_COLUMNS:
            continue
        names = [_column(cell) for cell in cells]
        if names.count(_ACCOUNT) == 1 and any(name and name != _ACCOUNT for name in names):
            return names, delimiter
    return None


def _column(cell: str) -> str:
    name = cell.strip()
    plain = name.lower().replace("-", "_")
    plain = _ALIASES.get(plain, plain)
    return plain if plain in KNOWN_KEYS or plain == _ACCOUNT else name


def _cells(raw: bytes, delimiter: str) -> list[str] | None:
    """Return the cells of one line, or None if it is no CSV (a quote that stays open, NUL)."""
    try:
        text = raw.decode("utf-8").rstrip("\r\n")
        rows = list(csv.reader([text], delimiter=delimiter, strict=True))
    except (csv.Error, UnicodeDecodeError):
        return None
    return [cell.strip() for cell in rows[0]] if len(rows) == 1 else None


def _add(batch: Batch, line: Line, names: list[str], delimiter: str) -> None:
    cells = _cells(line.raw, delimiter)
    if cells is None:
        batch.reject(line, AccountsCsv.name, "malformed CSV or text that is not UTF-8")
        return
    if len(cells) != len(names):
        batch.reject(line, AccountsCsv.name, "another number of cells than the header")
        return
    if any(len(cell) > MAX_CELL_CHARS for cell in cells):
        batch.reject(line, AccountsCsv.name, "a cell is too long")
        return
    account = cells[names.index(_ACCOUNT)]
    keys = [(name, cell) for name, cell in zip(names, cells, strict=True)
            if cell and name and name != _ACCOUNT]
    if not account or not keys:
        batch.reject(line, AccountsCsv.name, "no account" if not account else "no key")
        return
    for name, cell in keys:
        value: str | None = cell
        if name == "room":
            value = _room(cell)
            if value is None:
                batch.reject(line, AccountsCsv.name, "room is not a whole number of 64 bits")
                continue
        batch.add("account_key", line, key_name=name, key_value=value, account=account)


def _room(cell: str) -> str | None:
    """Return a room as a plain decimal; a float has already lost its low bits."""
    if not (cell.isascii() and cell.isdigit() and len(cell) <= 40):
        return None
    room = int(cell)
    return str(room) if room <= MAX_ROOM else None


DOCUMENT_FORMATS: Final[tuple[DocumentFormat, ...]] = (AccountsCsv(),)
