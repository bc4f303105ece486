"""One layer of wrapping around one line: recognise it, take it off, keep what it says.

A layer gives (inner bytes, stream label, outer time in epoch ns, continuation); the label and the
time are None where the wrapper does not say. ``partial`` marks a piece of a longer line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from ingest.stamps import parse_stamp

ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")


class Peeled(NamedTuple):
    """What is inside a layer, and what the layer says of it."""

    inner: bytes
    label: str | None = None
    outer_ns: int | None = None
    # Piece of a longer line: its key (lines of one key belong together); None for whole lines.
    partial: str | None = None
    # The last piece, or a whole line: closes what was collected under this key.
    closes: str | None = None


Layer = Callable[[bytes], Peeled | None]

_CRI = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) "
    rb"(stdout|stderr) ([FP]) ?(.*)",
    re.DOTALL)


def cri(raw: bytes) -> Peeled | None:
    """Kubernetes CRI: ``TIME stderr F message``; P marks a piece of a longer line."""
    match = _CRI.match(raw)
    if match is None:
        return None
    outer = _epoch(match[1])
    channel = match[2].decode()
    if match[3] == b"P":
        return Peeled(match[4], None, outer, partial=channel)
    return Peeled(match[4], None, outer, closes=channel)


class _Docker(msgspec.Struct):
    log: str
    stream: str = ""
    time: str = ""


_DOCKER = msgspec.json.Decoder(_Docker)


def docker(raw: bytes) -> Peeled | None:
    """Docker json-file: ``{"log":"...\\n","stream":"stderr","time":"..."}``."""
    if not raw.startswith(b'{"log":'):
        return None
    try:
        entry = _DOCKER.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    outer = _epoch(entry.time.encode())
    inner = entry.log.encode("utf-8", errors="replace")
    if inner.endswith(b"\n"):
        return Peeled(inner.rstrip(b"\r\n"), None, outer, closes=entry.stream)
    return Peeled(inner, None, outer, partial=entry.stream)


_COMPOSE = re.compile(rb"([A-Za-z0-9][\w.-]{0,127}) {0,64}\| ?(.*)", re.DOTALL)


def compose(raw: bytes) -> Peeled | None:
    """docker compose: ``name-1  | message``, padded to the longest name."""
    match = _COMPOSE.match(raw)
    return Peeled(match[2], match[1].decode()) if match else None


def journald(raw: bytes) -> Peeled | None:
    """journald JSON export: MESSAGE as text or as an array of bytes."""
    if not raw.startswith(b"{") or b'"MESSAGE"' not in raw or b"__REALTIME_TIMESTAMP" not in raw:
        return None
    try:
        entry = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    text = entry.get("MESSAGE")
    if isinstance(text, str):
        inner = text.encode("utf-8", errors="replace")
    elif isinstance(text, list) and all(isinstance(b, int) and 0 <= b < 256 for b in text):
        inner = bytes(text)
    else:
        return None
    host = entry.get("_HOSTNAME")
    unit = entry.get("CONTAINER_NAME") or entry.get("_SYSTEMD_UNIT") or entry.get(
        "SYSLOG_IDENTIFIER")
    label = "/".join(str(part)[:120] for part in (host, unit) if part)
    stamp = str(entry.get("__REALTIME_TIMESTAMP"))
    outer = int(stamp) * 1000 if stamp.isdigit() and len(stamp) <= 18 else None
    return Peeled(inner.rstrip(b"\r\n"), label or None, outer)


_LABELS: Final = ("pod", "pod_name", "container", "instance", "host", "hostname", "job")


def loki_json(raw: bytes) -> Peeled | None:
    """logcli JSON lines: ``{"labels":{...},"line":"...","timestamp":"..."}``."""
    if not raw.startswith(b"{") or b'"line"' not in raw or b'"labels"' not in raw:
        return None
    try:
        entry = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("line"), str):
        return None
    stamp = str(entry.get("timestamp", ""))
    outer = int(stamp) if stamp.isdigit() and len(stamp) <= 19 else _epoch(stamp.encode())
    return Peeled(entry["line"].encode("utf-8", errors="replace").rstrip(b"\r\n"),
                  loki_label(entry.get("labels")), outer)


def loki_label(labels: Any) -> str | None:
    """Return the name that a Loki label set gives its source; None if it names none."""
    if not isinstance(labels, dict):
        return None
    found = [str(labels[name])[:120] for name in _LABELS if labels.get(name)]
    return "/".join(found[:2]) or None


_LOKI_TSV = re.compile(
    rb"(\d{13}|\d{19})\t(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d))\t(.*)",
    re.DOTALL)


def loki_tsv(raw: bytes) -> Peeled | None:
    """Loki export as tab-separated columns: epoch, ISO time, line."""
    match = _LOKI_TSV.match(raw)
    if match is None:
        return None
    epoch = int(match[1]) * (10**6 if len(match[1]) == 13 else 1)
    return Peeled(match[3], None, epoch)


_RAY = re.compile(
    rb"\((\w[\w.:<>-]{0,120}) pid=(\d{1,9})(?:, ip=([\w.:-]{1,64}))?\) ?(.*)", re.DOTALL)


def ray(raw: bytes) -> Peeled | None:
    """Ray: ``(ClassName pid=123, ip=1.2.3.4) message``."""
    match = _RAY.match(raw)
    if match is None:
        return None
    parts = [match[1].decode(), f"pid={match[2].decode()}"]
    if match[3]:
        parts.append(match[3].decode())
    return Peeled(match[4], " ".join(parts))


# What may follow a file name that grep put in front: the start of a known line.
_GREP = re.compile(
    rb"([\w./@+-]{0,255}?[\w@+-]\.(?:log|txt|out|err|json|jsonl)(?:[.-]\w{1,32}){0,4}"
    rb"|[\w./@+-]{1,255}?/[\w.@+-]{1,128})(?::(?:\d{1,12}:)?|-\d{1,12}-)(?=[\[{(\dA-Z])(.*)",
    re.DOTALL)


def grep(raw: bytes) -> Peeled | None:
    """grep: ``file.log:message``, ``file.log:123:message``, context lines with ``-``."""
    match = _GREP.match(raw)
    return Peeled(match[2], match[1].decode("utf-8", errors="replace")) if match else None


_DYNAMO = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)[ \t]+(?:INFO|WARN|ERROR|DEBUG|TRACE)?[ \t]*"
    rb"(?=\[|\{\"timestamp\"|[IWEF]\d{4} )(.*)", re.DOTALL)
_SHORT_ISO = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?[+-]\d\d:?\d\d) ([\w.-]{1,64}) "
    rb"([\w.@/-]{1,64})(?:\[\d{1,9}\])?: (.*)", re.DOTALL)
_SYSLOG = re.compile(
    rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([\w.-]{1,64}) ([\w.@/-]{1,64})(?:\[\d{1,9}\])?: "
    rb"(?=[\[{(\dA-Z])(.*)", re.DOTALL)


def dynamo(raw: bytes) -> Peeled | None:
    """A stamp in UTC in front of a whole engine line (Dynamo and similar front ends)."""
    match = _DYNAMO.match(raw)
    return Peeled(match[2], None, _epoch(match[1])) if match else None


def journal_text(raw: bytes) -> Peeled | None:
    """journalctl -o short-iso, and syslog lines: host and unit name the source."""
    match = _SHORT_ISO.match(raw)
    if match:
        return Peeled(match[4], f"{match[2].decode()}/{match[3].decode()}", _epoch(match[1]))
    match = _SYSLOG.match(raw)
    return Peeled(match[3], f"{match[1].decode()}/{match[2].decode()}") if match else None


_BOLD = re.compile(rb"\*\*(?=\[?\d{4}-\d\d-\d\d |\[\d\d:)(.*?)\*\*\s*", re.DOTALL)


def markdown(raw: bytes) -> Peeled | None:
    """A line set bold in a bug report."""
    match = _BOLD.fullmatch(raw)
    return Peeled(match[1]) if match else None


# In the order in which they are tried on a line: the strictest shapes first.
LAYERS: Final[dict[str, Layer]] = {
    "cri": cri, "docker": docker, "journald": journald, "loki-json": loki_json,
    "loki-tsv": loki_tsv, "ray": ray, "dynamo": dynamo, "journal-text": journal_text,
    "markdown": markdown, "grep": grep, "compose": compose,
}


def _epoch(text: bytes) -> int | None:
    parsed = parse_stamp(text)
    return parsed[0] if parsed and parsed[2] else None
