"""How long prompts and answers are; their content is never looked at.

Level 2 of the request logger elides the middle of values above 2,048 characters or items. The
length of an elided value is unknown: None.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

ELISION: Final = "..."
# 2,048 kept characters or items around the elision (`_compute_metadata`, level 2).
_HALF: Final = 1024

_TEXT: Final = msgspec.json.Decoder(str | list[str])
_LISTS: Final = msgspec.json.Decoder(list[msgspec.Raw])

# One length, or one per element of a batch; None where it is unknown.
Size = int | None | list[int | None]


class Measured(NamedTuple):
    """Lengths that a scanner has taken from text which it did not build."""

    chars: Size
    ids: Size


def text_size(value: Any) -> Size:
    """Characters of a text, or of each text of a batch."""
    if isinstance(value, msgspec.Raw):
        raw = bytes(value)
        if not raw or raw == b"null":
            return None
        if raw[0] == 0x22 and len(raw) < 2 * _HALF and b"\\" not in raw and raw.isascii():
            return len(raw) - 2
        try:
            value = _TEXT.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
    if isinstance(value, str):
        return _characters(value)
    if isinstance(value, list):
        return [_characters(text) if isinstance(text, str) else None for text in value]
    return value.chars if isinstance(value, Measured) else None


def ids_size(value: Any) -> Size:
    """Number of token ids, or of each element of a batch."""
    if isinstance(value, msgspec.Raw):
        return _raw_ids(bytes(value), nested=True)
    if isinstance(value, list):
        if value and isinstance(value[0], list):
            return [_items(ids) if isinstance(ids, list) else None for ids in value]
        return _items(value)
    return value.ids if isinstance(value, Measured) else None


def element(size: Size, index: int | None, count: int) -> int | None:
    """Return the length that belongs to element ``index`` of a batch (None: not a batch)."""
    if isinstance(size, list):
        return size[index] if index is not None and len(size) == count else None
    return size


def _characters(text: str) -> int | None:
    if len(text) == 2 * _HALF + len(ELISION) and text.startswith(ELISION, _HALF):
        return None
    return len(text)


def _items(ids: list[Any]) -> int | None:
    return None if ELISION in ids else len(ids)


def _raw_ids(raw: bytes, *, nested: bool) -> Size:
    body = raw[1:-1].strip()
    if raw[:1] != b"[" or b'"' in body or b"{" in body:
        return None
    if not body:
        return 0
    if b"[" not in body:
        return body.count(b",") + 1
    if not nested or body[:1] != b"[":
        return None
    try:
        parts = _LISTS.decode(raw)
    except msgspec.DecodeError:
        return None
    sizes = [_raw_ids(bytes(part), nested=False) for part in parts]
    return [size if isinstance(size, int) else None for size in sizes]
