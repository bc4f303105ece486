"""SGLang router log (``smg`` / ``sglang_router``, Rust ``tracing``) -> ``router_event``.

Printed by ``sgl-model-gateway/src/{middleware,server,routers/http/pd_router}.rs`` (0.1.x-0.3.2):

    2026-01-02 03:04:05  INFO http_request{method=POST uri=/generate version=HTTP/1.1
    module="smg" request_id="gnt-Ab"}: smg::request: src/middleware.rs:310: started processing

(one line). Fields come in any order, spans may be nested or repeated; the flattened JSON mode has
the same facts as keys. Stamps are UTC. ``latency`` is in microseconds, or a Rust duration in 0.1.x.
Request and response bodies that a message quotes are cut off. Known gap: the router prints neither
room nor rid.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from ingest.formats._router_fields import (
    circuit_change,
    latency_us,
    path_of,
    split_fields,
    split_spans,
    stamp,
    status_of,
    url_of,
    without_bodies,
    worker_urls,
)
from ingest.records import Batch, Line, LineFormat

MAX_ID_CHARS: Final = 512

_TARGETS: Final = rb"(?:smg|sglang_router|sgl_model_gateway)\w{0,20}"
_HEAD: Final = re.compile(
    rb"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)\s{1,4}"
    rb"(TRACE|DEBUG|INFO|WARN|ERROR) "
)
_OURS: Final = re.compile(rb"(?:\A|[ :])" + _TARGETS + rb"(?:::\w{1,60}){0,12}: |http_request\{")
_JSON_HEAD: Final = re.compile(
    rb'\{"timestamp"\s?:\s?"[^"\\]{19,40}"\s?,\s?"level"\s?:\s?"(?:TRACE|DEBUG|INFO|WARN|ERROR)"'
)
_JSON_TARGET: Final = re.compile(rb'"target"\s?:\s?"' + _TARGETS + rb'(?:::\w{1,60}){0,12}"')
# ``target: path:line: message``; the path and line are a build option.
_TAIL: Final = re.compile(
    r"(?P<target>\w{1,60}(?:::\w{1,60}){0,12}): (?:[^\s:]{1,300}\.rs:\d{1,7}: )?(?P<message>.*)",
    re.DOTALL,
)
# How a message begins -> event.
_EVENTS: Final = (
    ("started processing request", "started"),
    ("finished processing request", "finished"),
    ("request failed with client error", "client_error"),
    ("request failed with server error", "server_error"),
    ("Failed to select PD pair", "select_failed"),
    ("Prefill server failed", "prefill_error"),
    ("Prefill server returned error", "prefill_error"),
    ("Prefill request failed", "prefill_error"),
    ("Decode server failed", "decode_error"),
    ("Decode server returned error", "decode_error"),
    ("Decode request failed", "decode_error"),
    ("PD retry attempt", "retry"),
    ("Retrying request", "retry"),
    ("Sending concurrent requests", "dispatch"),
    ("Client disconnected", "disconnected"),
    ("Circuit breaker state transition", "circuit_breaker"),
    ("Starting router on", "server_start"),
)
# Messages that come with a worker's URL; a line that ends in or before it was wrapped.
_NEEDS_URL: Final = frozenset({"prefill_error", "decode_error"})
_UNFINISHED: Final = re.compile(rb"(?:\w{0,20}=|\w{1,20}_url=\S{0,300})$")
_NEW_RECORD: Final = re.compile(rb"\s{0,4}[\[{]|\d{4}-\d\d-\d\d")


class RouterLog:
    """Lines of the router's log."""

    name = "router_log"

    def parse(self, line: Line, batch: Batch) -> bool:
        """Add the line's rows, or count it as other text; False if it is no router line."""
        raw = line.raw
        if raw[:1] == b"{":
            if not _JSON_HEAD.match(raw) or not _JSON_TARGET.search(raw):
                return False
            return self._parse_json(line, batch)
        head = _HEAD.match(raw)
        if head is None or not _OURS.search(raw, head.end() - 1):
            return False
        text = raw[head.end():].decode("utf-8", "replace")
        fields, rest = split_spans(text)
        tail = _TAIL.match(rest) if rest is not None else None
        if tail is None:
            batch.reject(line, self.name, "spans or target are cut or malformed")
            return True
        self._add(line, batch, head.group(1).decode("ascii"), head.group(2).decode("ascii"),
                  tail["message"], fields)
        return True

    def _parse_json(self, line: Line, batch: Batch) -> bool:
        try:
            document = msgspec.json.decode(line.raw)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict) and isinstance(document.get("fields"), dict):
            document = document | document["fields"]
        if not isinstance(document, dict) or not isinstance(document.get("message"), str):
            batch.reject(line, self.name, "malformed JSON")
            return True
        fields: dict[str, str] = {}
        spans = document.get("spans")
        for group in (document, document.get("span"), *(spans if isinstance(spans, list) else ())):
            if isinstance(group, dict):
                fields |= {key: str(value) for key, value in group.items()
                           if isinstance(value, str | int | float)}
        self._add(line, batch, document["timestamp"], document["level"],
                  document["message"], fields)
        return True

    def _add(
        self, line: Line, batch: Batch, when: str, level: str, message: str,
        fields: dict[str, str],
    ) -> None:
        stamp_ns, width = stamp(when)
        if stamp_ns is None:
            batch.reject(line, self.name, "the stamp is no time")
            return
        event = _event_of(message)
        if event == "other" and level not in ("WARN", "ERROR"):
            batch.other_lines += 1
            return
        if event != "other" and "=" in message:
            message, own = split_fields(message)
            fields = own | fields
        status = fields.get("status_code")
        if status is None and event not in _NEEDS_URL:
            # A worker's status is not the router's answer: that line's ``reason`` has it.
            status = fields.get("status")
        row: dict[str, Any] = {
            "stamp_ns": stamp_ns, "stamp_res_ns": width, "level": level, "event": event,
            "request_id": _bounded(fields.get("request_id")),
            "method": _bounded(fields.get("method")),
            "path": path_of(fields.get("uri")),
            "status_code": status_of(status),
            "latency_us": latency_us(fields.get("latency")),
            "prefill_url": url_of(fields.get("prefill_url") or fields.get("prefill")),
            "decode_url": url_of(fields.get("decode_url") or fields.get("decode")),
        }
        if event == "server_start":
            for urls in worker_urls(message) or ({},):
                batch.add("router_event", line, **(row | urls))
            return
        row["reason"] = _reason(event, message, fields)
        batch.add("router_event", line, **row)

    def continues(self, previous: Line, line: Line) -> bool:
        """A line without a head of its own goes on with one that broke off inside its fields."""
        if _NEW_RECORD.match(line.raw) or not line.raw.strip():
            return False
        head = _HEAD.match(previous.raw)
        if head is None:
            return False
        _, rest = split_spans(previous.raw[head.end():].decode("utf-8", "replace"))
        tail = _TAIL.match(rest) if rest is not None else None
        message = tail["message"].rstrip() if tail is not None else ""
        if " " not in message:  # no message yet, or part of the source path
            return True
        event = _event_of(message)
        if event == "server_start":
            return message.count("{") > message.count("}")
        if event in _NEEDS_URL and "_url=" not in message:
            return True
        return _UNFINISHED.search(previous.raw) is not None or any(
            start != message and start.startswith(message) for start, _ in _EVENTS)


def _event_of(message: str) -> str:
    return next((event for start, event in _EVENTS if message.startswith(start)), "other")


def _reason(event: str, message: str, fields: dict[str, str]) -> str | None:
    """What the router says about a failure; never a body."""
    if event in ("started", "finished", "client_error", "server_error", "dispatch"):
        return None
    if event == "circuit_breaker":
        return circuit_change(message)
    if event == "other":
        return without_bodies(message)
    return without_bodies(fields.get("error") or fields.get("status") or message)


def _bounded(value: str | None) -> str | None:
    return value if value and len(value) <= MAX_ID_CHARS else None


LINE_FORMATS: Final[tuple[LineFormat, ...]] = (RouterLog(),)
