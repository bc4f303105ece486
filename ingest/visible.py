"""Hostile text made fit to be shown: bounded, with control and bidirectional characters visible."""

from __future__ import annotations

import unicodedata
from typing import Final

# Control, format (bidirectional overrides, zero width), surrogate, private, line separators.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# More combining marks than this on one character only serve to paint over other lines.
_MAX_MARKS: Final = 2


def visible(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of the text, each hidden one as its escape.

    What was cut off is counted: ``abc… (+12 characters)``.
    """
    cut = len(text) - limit
    shown = text[:limit]
    if not (shown.isascii() and shown.isprintable()):
        shown = _escaped(shown)
    return f"{shown}… (+{cut} characters)" if cut > 0 else shown


def _escaped(text: str) -> str:
    parts: list[str] = []
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if category in _HIDDEN or marks > _MAX_MARKS:
            char = char.encode("unicode_escape", "backslashreplace").decode("ascii")
        parts.append(char)
    return "".join(parts)
