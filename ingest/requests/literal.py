"""A scanner for Python ``repr`` text as the request logger prints it: one pass, no backtracking.

It finds the fields of ``Name(key=value, ...)`` and ``{'key': value, ...}`` and reads only the ones
asked for. Strings are skipped as a whole, so what a client wrote inside one is never taken for a
field. Known limit: the logger prints the *keys* of client-made maps unescaped, so a client can
write text outside of quotes; a field that then occurs twice is refused.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from ingest.requests.payload import Malformed
from ingest.requests.size import ELISION, Measured

# Longest literal that is read; batches of 2,048 uuid4 ids have 76 KiB.
MAX_LITERAL_BYTES: Final = 256 * 1024
MAX_STRING_BYTES: Final = 16 * 1024
# Of a longer string (an engine message), so much is read.
MAX_HEAD_BYTES: Final = 4 * 1024
MAX_DEPTH: Final = 64
MAX_LITERAL_DEPTH: Final = 8
MAX_FIELDS: Final = 2_000

_STRING_TEXT: Final = rb"""'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+\""""
_STRING: Final = re.compile(_STRING_TEXT, re.DOTALL)
# Everything up to the next bracket or comma (at the top), or up to the next bracket (inside one).
_DEEP: Final = re.compile(rb"""(?:[^'"()\[\]{}]++|""" + _STRING_TEXT + rb")*+", re.DOTALL)
_ESCAPE: Final = re.compile(
    rb"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", re.DOTALL
)
_NOT_FLAT: Final = re.compile(rb"""['"()\[\]{}]|\.\.\.""")
_CLASS: Final = re.compile(rb"[A-Za-z_][\w.]{0,99}\(")
_FLAT_VALUE: Final = rb"""(?:[^'"()\[\]{},]++|""" + _STRING_TEXT + rb")*+"
_CALL_FIELD: Final = re.compile(rb"([A-Za-z_]\w{0,99})=(" + _FLAT_VALUE + rb")", re.DOTALL)
_MAP_FIELD: Final = re.compile(rb"'([^']{0,400})': (" + _FLAT_VALUE + rb")", re.DOTALL)
_FLAT: Final = re.compile(_FLAT_VALUE, re.DOTALL)
_VALUE_ENDS: Final = b",)]}"
_INT: Final = re.compile(rb"-?\d{1,40}")
_FLOAT: Final = re.compile(rb"-?\d{1,40}(?:\.\d{1,40})?(?:e[+-]?\d{1,4})?")
_WORD: Final = re.compile(rb"<?[A-Za-z_][\w.]{0,79}(?:: \d{1,9})?>?")
_CLOSER: Final = {0x28: 0x29, 0x5B: 0x5D, 0x7B: 0x7D}  # ( ) [ ] { }
_CONSTANT: Final[dict[bytes, Any]] = {b"None": None, b"True": True, b"False": False}
_GAP: Final = b" ... "

Span = tuple[int, int]


def object_fields(
    raw: bytes, start: int, wanted: frozenset[str] | None = None
) -> tuple[dict[str, Span], int]:
    """Find the fields of ``Name(key=value, ...)`` or ``{'key': value, ...}`` at ``start``.

    Returns ({key: (start, end) of its value} for the wanted keys, position behind the object).
    Raises Malformed when the text is cut, unbalanced, or states a wanted key twice.
    """
    if raw.startswith(b"{", start):
        in_map, closer, position = True, b"}", start + 1
    else:
        name = _CLASS.match(raw, start)
        if name is None:
            raise Malformed("no object where one belongs")
        in_map, closer, position = False, b")", name.end()
    spans: dict[str, Span] = {}
    if raw.startswith(closer, position):
        return spans, position + 1
    field_pattern = _MAP_FIELD if in_map else _CALL_FIELD
    unwanted = None if wanted is None else _unwanted(wanted, in_map)
    while True:
        found = field_pattern.match(raw, position)
        if found is None:
            raise Malformed("record is cut or not a plain repr")
        value, position = found.span(2)
        if position == len(raw) or raw[position] not in _VALUE_ENDS:
            position = skip_value(raw, position)
        key = found.group(1).decode("utf-8", "replace")
        if wanted is None or key in wanted:
            if key in spans:
                raise Malformed("a field occurs twice")
            if len(spans) >= MAX_FIELDS:
                raise Malformed("too many fields")
            spans[key] = (value, position)
        if raw.startswith(b", ", position):
            position += 2
            if unwanted is not None and key not in spans:
                position = _end_of(unwanted, raw, position)
        elif raw.startswith(closer, position):
            return spans, position + 1
        else:
            raise Malformed("record is cut or not a plain repr")


def skip_value(raw: bytes, start: int) -> int:
    """Return where the value at ``start`` ends: at a comma, a closing bracket, or the end."""
    position = start
    while True:
        position = _end_of(_FLAT, raw, position)
        if position == len(raw):
            return position
        char = raw[position]
        if char in _CLOSER:
            position = _skip_brackets(raw, position)
        elif char in _VALUE_ENDS:
            return position
        else:
            raise Malformed("string without an end")


def read_literal(raw: bytes, start: int, end: int, depth: int = 0) -> Any:
    """Read a small value; None also for what is no literal (objects print as bare words).

    Elided lists have the item '...' where the gap is. Raises Malformed.
    """
    if end - start > MAX_LITERAL_BYTES or depth > MAX_LITERAL_DEPTH:
        return _long_string(raw, start) if raw[start : start + 1] in (b"'", b'"') else None
    token = raw[start:end]
    if token in _CONSTANT:
        return _CONSTANT[token]
    first = token[:1]
    if first in (b"'", b'"'):
        return _read_string(raw, start, end)
    if first in (b"[", b"("):
        return _read_list(raw, start, end, depth)
    if first == b"{":
        spans, _ = object_fields(raw, start)
        return {key: read_literal(raw, *span, depth + 1) for key, span in spans.items()}
    if _INT.fullmatch(token):
        return int(token)
    if _FLOAT.fullmatch(token):
        return float(token)
    return token.decode("ascii", "replace") if _WORD.fullmatch(token) else None


def measure(raw: bytes, start: int, end: int) -> Measured:
    """Measure a text or id list, or a batch of them, without building it."""
    first = raw[start : start + 1]
    if first in (b"'", b'"'):
        return Measured(_characters(raw, start, end), None)
    if first != b"[" or raw.startswith(b"[]", start):
        return Measured(None, 0 if first == b"[" else None)
    if raw[start + 1 : start + 2] not in (b"[", b"'", b'"'):
        return Measured(None, _count(raw, start, end))
    chars: list[int | None] = []
    ids: list[int | None] = []
    for span in _items(raw, start, end):
        chars.append(_characters(raw, *span) if raw[span[0]] in b"'\"" else None)
        ids.append(_count(raw, *span))
    return Measured(chars, ids)


@lru_cache(maxsize=32)
def _unwanted(wanted: frozenset[str], in_map: bool) -> re.Pattern[bytes]:
    """Return the pattern of a run of fields that are not wanted and hold no brackets."""
    names = "|".join(sorted(map(re.escape, wanted))).encode()
    if in_map:
        key = rb"'(?!(?:" + names + rb")')[^']{0,400}+': "
    else:
        key = rb"(?!(?:" + names + rb")=)[A-Za-z_]\w{0,99}+="
    return re.compile(rb"(?:" + key + _FLAT_VALUE + rb", )*+", re.DOTALL)


def _end_of(pattern: re.Pattern[bytes], raw: bytes, position: int) -> int:
    found = pattern.match(raw, position)
    return position if found is None else found.end()


def _skip_brackets(raw: bytes, position: int) -> int:
    stack = [_CLOSER[raw[position]]]
    while stack:
        position = _end_of(_DEEP, raw, position + 1)
        if position == len(raw):
            raise Malformed("record is cut")
        char = raw[position]
        if char in _CLOSER:
            stack.append(_CLOSER[char])
            if len(stack) > MAX_DEPTH:
                raise Malformed("nested too deeply")
        elif char != stack.pop():
            raise Malformed("unbalanced brackets or quotes")
    return position + 1


def _items(raw: bytes, start: int, end: int) -> Iterator[Span]:
    """Yield the spans of a list's items; an elided list stops at its gap."""
    position = start + 1
    if raw[position] in b")]":
        return
    while True:
        stop = skip_value(raw, position)
        yield position, stop
        if not raw.startswith(b", ", stop) or stop + 2 > end:
            return
        position = stop + 2


def _read_list(raw: bytes, start: int, end: int, depth: int) -> list[Any]:
    found = [read_literal(raw, *span, depth + 1) for span in _items(raw, start, end)]
    closed = _skip_brackets(raw, start)
    if closed < end and raw.startswith(_GAP + b"[", closed):
        found.append(ELISION)
        second = closed + len(_GAP)
        found += [read_literal(raw, *span, depth + 1) for span in _items(raw, second, end)]
    return found


def _read_string(raw: bytes, start: int, end: int) -> str | None:
    found = _STRING.match(raw, start)
    if found is None:
        return None
    if found.end() != end or end - start > MAX_STRING_BYTES:
        return _long_string(raw, start)
    return _unescape(raw[start:end])


def _long_string(raw: bytes, start: int) -> str | None:
    """Return the head of a string that is elided or too long, with '...' behind it."""
    found = _STRING.match(raw, start)
    if found is None:
        return None
    if found.end() - start <= MAX_HEAD_BYTES:
        head = raw[start : found.end()]
    else:
        cut = raw[start : start + MAX_HEAD_BYTES]
        escape = cut.rfind(b"\\", len(cut) - 10)  # the longest escape has 10 bytes
        head = (cut if escape < 0 else cut[:escape]) + cut[:1]
    text = _unescape(head)
    return None if text is None else text + ELISION


def _unescape(literal: bytes) -> str | None:
    text = literal.decode("utf-8", "replace")
    if b"\\" not in literal:
        return text[1:-1]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if type(value) is str else None


def _characters(raw: bytes, start: int, end: int) -> int | None:
    """Count the characters of a string; None if it is elided or not only a string."""
    found = _STRING.match(raw, start)
    if found is None or found.end() != end:
        return None
    body = raw[start + 1 : end - 1]
    if b"\\" in body:
        body = _ESCAPE.sub(b"?", body)
    return len(body) if body.isascii() else len(body.decode("utf-8", "replace"))


def _count(raw: bytes, start: int, end: int) -> int | None:
    """Count the items of a flat list; None if it is elided, nested or holds strings."""
    body = raw[start + 1 : end - 1]
    if raw[start : start + 1] != b"[" or _NOT_FLAT.search(body):
        return None
    return body.count(b",") + 1 if body.strip() else 0
