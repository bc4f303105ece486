"""Engine messages made fit to be kept: bounded, without token ids, without control characters."""

from __future__ import annotations

import re
from typing import Final

from ingest.records import MAX_REASON_CHARS

_CONTENT = re.compile(
    r"(?:input_ids|output_ids|origin_input_ids|text|prompt|messages|content)\s*[=:]\s*(?:\[|['\"])"
    r".*", re.DOTALL)
# Control and bidirectional characters: they make a line look like another one.
_CONTROL: Final = dict.fromkeys((
    *range(32), 127, *range(0x80, 0xA0), *range(0x200B, 0x2010), *range(0x202A, 0x202F),
    *range(0x2066, 0x206A), 0xFEFF))


def message(text: bytes | str) -> str:
    """Return an engine message as kept: at most MAX_REASON_CHARS, content cut off."""
    if isinstance(text, bytes):
        text = text[: 4 * MAX_REASON_CHARS].decode("utf-8", errors="replace")
    text = _CONTENT.sub("…", text).translate(_CONTROL).strip()
    return text if len(text) <= MAX_REASON_CHARS else text[: MAX_REASON_CHARS - 1] + "…"
