"""``server_args=...``: the resolved configuration, as a dataclass or a dict repr.

``ServerArgs(...)`` up to 0.5.18, ``{...}`` since 0.5.19 (sglang/srt/entrypoints/engine.py). Text
is split at its top level by a scanner that knows Python's quotes and brackets; each value is read
with ``ast.literal_eval`` on its own bounded text and never evaluated. What is no literal (the
``<X.Y: 'z'>`` of an enum) is kept as text.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from ingest.requests.secret import redact

_START = re.compile(r"server_args=(ServerArgs\(|\{)")
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[\[({<]|[\])}>]|,""", re.DOTALL)
_KEY = re.compile(r"""\s*(?:(?P<quote>['"])(?P<name>[^'"]{1,120})(?P=quote)\s*:|"""
                  r"""(?P<field>[A-Za-z_]\w{0,119})\s*=)\s*""")
_MAX_VALUE_CHARS: Final = 20_000
MAX_LINE_CHARS: Final = 1 << 20


def parse(message: str) -> tuple[str, list[tuple[str, Any]], bool] | None:
    """Return (dialect, [(key, value)], cut) of a server_args line, None for other lines.

    ``cut``: the line ends before its last bracket; the keys that were whole are returned.
    """
    match = _START.match(message)
    if match is None:
        return None
    dialect = "dict" if match.group(1) == "{" else "dataclass"
    parts, cut = _split(message[match.end() : MAX_LINE_CHARS])
    entries = []
    for part in parts:
        key = _KEY.match(part)
        if key is not None:
            name = key.group("name") or key.group("field")
            entries.append((name, redact(name, _value(part[key.end() :].strip()))))
    return dialect, entries, cut


def _split(text: str) -> tuple[list[str], bool]:
    parts, depth, start = [], 0, 0
    for token in _TOKEN.finditer(text):
        symbol = token.group()
        if symbol in "[({<":
            depth += 1
        elif symbol in "])}>":
            if symbol == ">" and depth == 0:
                continue
            depth -= 1
            if depth < 0:
                parts.append(text[start : token.start()])
                return parts, False
        elif symbol == "," and depth == 0:
            parts.append(text[start : token.start()])
            start = token.end()
    return parts, True


def _value(text: str) -> Any:
    if len(text) > _MAX_VALUE_CHARS:
        return f"({len(text)} characters)"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
