"""Who a request belongs to, as far as the engine logged it: headers and small identity fields."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ingest.requests.field import as_str

# Longer strings are not identifiers, and may be content.
MAX_KEY_CHARS: Final = 200
# A bound on hostile label maps; the engine's own allow-list is a handful.
MAX_LABELS: Final = 64

# Fields of the request object that may name a customer.
IDENTITY: Final = (
    "routing_key", "session_id", "conversation_id", "custom_labels", "extra_key", "lora_path",
    "priority",
)
# Columns of their own, or secrets: not identity keys.
_NOT_KEYS: Final = frozenset({"x-request-id", "traceparent", "tracestate"})
_SECRET: Final = re.compile(
    r"(?:^|[-_])(?:authorization|cookie2?|token|secret|password|api-?key|credentials?)$"
)
# The same text as ``records.to_json`` for strings, whole numbers, bools and maps of them.
_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode


def lower_headers(headers: Any) -> dict[str, str]:
    """Return the headers with lower-case names, without values that cannot be stored."""
    if type(headers) is not dict:
        return {}
    kept: dict[str, str] = {}
    for name, value in headers.items():
        text = as_str(value)
        if text is not None and type(name) is str and name.isascii() and len(name) <= 100:
            kept[name.lower()] = text
    return kept


def identity_keys(headers: Mapping[str, str], fields: Mapping[str, Any]) -> str | None:
    """Return the identity fields as canonical JSON, or None; a field outranks a header."""
    keys: dict[str, Any] = {}
    for name, text in headers.items():
        if len(text) <= MAX_KEY_CHARS and name not in _NOT_KEYS and not _SECRET.search(name):
            keys[name] = text
    for name, value in fields.items():
        if value is not None and (kept := _small(value)) is not None:
            keys[name] = kept
    return _ENCODE(keys).decode() if keys else None


def traceparent_of(trace_header: Any, headers: Mapping[str, str]) -> str | None:
    """Return the W3C trace context of the request, from its object or its headers."""
    if type(trace_header) is dict:
        found = as_str(trace_header.get("traceparent"), MAX_KEY_CHARS)
        if found is not None:
            return found
    return headers.get("traceparent")


def _small(value: Any) -> Any:
    if type(value) is int:
        return value if -(2**63) <= value < 2**63 else None
    if type(value) is bool:
        return value
    if type(value) is dict:
        labels = {
            key: kept
            for name, item in list(value.items())[:MAX_LABELS]
            if (key := as_str(name, MAX_KEY_CHARS)) is not None
            and type(item) in (str, int, bool)
            and (kept := _small(item)) is not None
        }
        return labels or None
    return as_str(value, MAX_KEY_CHARS)
