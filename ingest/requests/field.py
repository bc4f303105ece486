"""Single fields of a request record: checked conversion to the column's type, else None."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from ingest.records import MAX_REASON_CHARS, MAX_ROOM

# Longest identifier kept (rid, host, header value of x-request-id); a uuid4 hex has 32.
MAX_ID_CHARS: Final = 512
I32_MAX: Final = 2**31 - 1
I64_MAX: Final = 2**63 - 1

_STATUS: Final = re.compile(r"(?:<?HTTPStatus\.([A-Z_]{1,40}))?[: ]{0,2}(\d{3})?>?")
# Two engine messages go on with what the client sent (a schema, a pattern): keep their head only.
_GRAMMAR: Final = re.compile(
    r"(Failed to compile \w{1,40} grammar|Grammar preprocessing timed out).*", re.DOTALL
)
_DATA_URL: Final = re.compile(r"data:[\w/+.;=-]{0,80},[^\s'\")]*")


def as_str(value: object, limit: int = MAX_ID_CHARS) -> str | None:
    """Return a non-empty string that can be stored (UTF-8, bounded), or None."""
    if type(value) is not str or not value or len(value) > limit:
        return None
    if value.isascii():
        return value
    return value.encode("utf-8", "replace").decode("utf-8")


def as_int(value: object, highest: int = I64_MAX) -> int | None:
    """Return a whole number within [-highest, highest], or None (bool is not a number)."""
    return value if type(value) is int and -highest <= value <= highest else None


def as_bool(value: object) -> bool | None:
    """Return a bool, or None."""
    return value if type(value) is bool else None


def as_seconds(value: object) -> float | None:
    """Return a finite number of seconds, or None."""
    if type(value) is int and -(2**53) <= value <= 2**53:
        return float(value)
    return value if type(value) is float and value - value == 0.0 else None


def as_room(value: object) -> tuple[int | None, str]:
    """Return (room, '') or (None, reason) when the value cannot be a room; None is no room.

    Rooms are whole numbers, never floats: a float may already have lost its low bits.
    """
    if value is None:
        return None, ""
    if type(value) is str and value.isascii() and value.isdigit() and len(value) <= 40:
        value = int(value)
    if type(value) is not int:
        return None, "bootstrap_room is not a whole number"
    if not 0 <= value <= MAX_ROOM:
        return None, "bootstrap_room does not fit 64 bits"
    return value, ""


def as_status(value: object) -> int | None:
    """Return an HTTP status from 500, '500', 'HTTPStatus.X' or '<HTTPStatus.X: 500>'."""
    if type(value) is int:
        return value if 100 <= value <= 999 else None
    if type(value) is not str or len(value) > 80:
        return None
    found = _STATUS.fullmatch(value)
    if found is None:
        return None
    name, code = found.groups()
    if code:
        return int(code)
    member = HTTPStatus.__members__.get(name or "")
    return int(member) if member is not None else None


def as_message(value: object) -> str | None:
    """Return the engine's message, bounded, without the parts that quote the client's input."""
    if type(value) is not str or not value:
        return None
    head = _DATA_URL.sub("data:[elided]", _GRAMMAR.sub(r"\1", value[: 4 * MAX_REASON_CHARS]))
    return as_str(head[:MAX_REASON_CHARS], MAX_REASON_CHARS)
