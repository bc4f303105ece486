"""Pieces of a router line: spans, ``key=value`` fields, stamps, URLs, durations."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import Final

from ingest.records import MAX_REASON_CHARS

MAX_URL_CHARS: Final = 300
MAX_WORKERS: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1)
_STAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):?(\d\d))?")
_SPAN_NAME: Final = re.compile(r"\s{0,4}[A-Za-z_]\w{0,60}\{")
_SPAN_FIELD: Final = re.compile(
    r'\s{0,4}([A-Za-z_][\w.]{0,60})=("(?:[^"\\]|\\.){0,4096}"|(?:(?!\}:)\S){0,4096})')
_SPAN_END: Final = re.compile(r"\s{0,4}\}:")
_FIELD: Final = re.compile(
    r"(?:\A|(?<=\s))(prefill_url|decode_url|prefill|decode|status_code|status|error|body|attempt"
    r"|method|uri|version|module|request_id|latency)=")
_URL_FIELDS: Final = frozenset({"prefill_url", "decode_url"})
# From here on a message may quote what a client sent or a worker answered.
_BODY: Final = re.compile(
    r"(?:\b(?:body|request|response|payload|content|prompt|text|input|messages)\s?[=:]|[{\[]\s?\").*",
    re.DOTALL)
_DURATION: Final = re.compile(r"(\d{1,15}(?:\.\d{1,12})?)(ns|us|µs|μs|ms|s|m)?")
_UNIT_US: Final = {None: 1.0, "ns": 1e-3, "us": 1.0, "µs": 1.0, "μs": 1.0, "ms": 1e3, "s": 1e6,
                   "m": 6e7}
_URL: Final = re.compile(
    r"\"?([a-z][a-z0-9+.-]{1,10}://[^\s\"',]{1,300}|[\w.\[\]-]{1,255}:\d{1,5}(?![\w:]))")
_PREFILL_URLS: Final = re.compile(
    r'prefill_urls: \[((?:\("[^"]{0,300}", (?:None|Some\(\d{1,5}\))\)(?:, )?){0,1000})\]')
_PREFILL_URL: Final = re.compile(r'\("([^"]{1,300})", (?:None|Some\((\d{1,5})\))\)')
_DECODE_URLS: Final = re.compile(r'decode_urls: \[((?:"[^"]{0,300}"(?:, )?){0,1000})\]')
_DECODE_URL: Final = re.compile(r'"([^"]{1,300})"')
_USER_INFO: Final = re.compile(r"(?<=://)[^/@\s]{1,300}@")


def split_spans(text: str) -> tuple[dict[str, str], str | None]:
    """Return the fields of all leading spans, later ones winning, and the text behind them.

    The text is None if a span is cut or malformed.
    """
    fields: dict[str, str] = {}
    position = 0
    while name := _SPAN_NAME.match(text, position):
        position = name.end()
        while field := _SPAN_FIELD.match(text, position):
            fields[field.group(1)] = _unquoted(field.group(2))
            position = field.end()
        end = _SPAN_END.match(text, position)
        if end is None:
            return fields, None
        position = end.end()
    return fields, text[position:].lstrip(" ")


def split_fields(message: str) -> tuple[str, dict[str, str]]:
    """Return a message without its fields, and the fields.

    An error text runs to the end or to a URL field that has not come yet; a body is dropped.
    """
    found = list(_FIELD.finditer(message))
    fields: dict[str, str] = {}
    position = 0
    while position < len(found):
        key, start = found[position].group(1), found[position].end()
        position += 1
        if key == "body":
            break
        while position < len(found) and key == "error" and not (
            found[position].group(1) == "body"
            or found[position].group(1) in _URL_FIELDS - fields.keys()
        ):
            position += 1
        end = found[position].start() if position < len(found) else len(message)
        fields.setdefault(key, _unquoted(message[start:end].strip()))
    return message[: found[0].start()].rstrip() if found else message, fields


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return value[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return value


@lru_cache(maxsize=64)
def stamp(text: str) -> tuple[int | None, int | None]:
    """Return (UTC ns, width in ns) of a stamp with any fraction; (None, None) if it is no time."""
    found = _STAMP.fullmatch(text)
    if found is None:
        return None, None
    whole, fraction, sign, hours, minutes = found.groups()
    try:
        since = datetime.fromisoformat(whole) - _EPOCH
    except ValueError:
        return None, None
    seconds = since.days * 86_400 + since.seconds
    if sign:
        offset = int(hours) * 3600 + int(minutes) * 60
        seconds -= offset if sign == "+" else -offset
    digits = fraction or ""
    ns = seconds * 10**9 + int(digits.ljust(9, "0"))
    # 64-bit nanoseconds end in 2262.
    return (ns, 10 ** (9 - len(digits))) if abs(ns) < 2**63 else (None, None)


def latency_us(text: str | None) -> int | None:
    """Return microseconds of an integer (µs) or a Rust duration such as ``2.041450065s``."""
    found = _DURATION.fullmatch(text) if text else None
    if found is None:
        return None
    number, unit = found.groups()
    return int(number) if unit is None and number.isdigit() else int(float(number) * _UNIT_US[unit])


def status_of(text: str | None) -> int | None:
    """Return the HTTP status of ``500`` or ``500 Internal Server Error``."""
    head = (text or "")[:3]
    rest = (text or "")[3:4]
    return int(head) if len(head) == 3 and head.isascii() and head.isdigit() and rest in (
        "", " ") else None


def path_of(uri: str | None) -> str | None:
    """Return a request's path without its query, which may carry keys; None if too long."""
    if not uri:
        return None
    path = uri.partition("?")[0]
    return path if len(path) <= MAX_URL_CHARS else None


def url_of(text: str | None) -> str | None:
    """Return a worker's URL without user information and trailing punctuation."""
    found = _URL.match(text) if text else None
    if found is None:
        return None
    return _USER_INFO.sub("", found.group(1)).rstrip(".,;")[:MAX_URL_CHARS] or None


def worker_urls(message: str) -> list[dict[str, str | None]]:
    """Return one partial row per worker URL of a ``mode: PrefillDecode {...}`` text."""
    rows: list[dict[str, str | None]] = []
    if prefill := _PREFILL_URLS.search(message):
        for url, port in _PREFILL_URL.findall(prefill.group(1)):
            rows.append({"prefill_url": url_of(url),
                         "reason": f"bootstrap_port={port}" if port else None})
    if decode := _DECODE_URLS.search(message):
        rows += [{"decode_url": url_of(url)} for url in _DECODE_URL.findall(decode.group(1))]
    return rows[:MAX_WORKERS]


def circuit_change(message: str) -> str | None:
    """Return ``closed -> open`` of a circuit breaker's message."""
    return without_bodies(message.partition(":")[2].strip())


def without_bodies(text: str) -> str | None:
    """Return a bounded message without anything that may quote a request or an answer."""
    kept = _BODY.sub("", _USER_INFO.sub("", text[: 4 * MAX_REASON_CHARS])).strip()
    return kept[:MAX_REASON_CHARS] or None
