"""SGLang ``--log-requests --log-requests-format json`` lines -> ``request_log``.

Printed by ``sglang/srt/utils/request_logger.py`` and ``log_utils.py`` (``log_json``), read for
0.5.9-0.5.23, levels 0-3: bare JSON up to 0.5.11, behind ``[YYYY-mm-dd HH:MM:SS] `` from 0.5.12.

    [2026-01-02 03:04:05] {"timestamp": "2026-01-02T03:04:05.104211", "event": "request.received",
    "rid": "c0ffee", "obj": {"rid": "c0ffee", "bootstrap_room": 1234567890123456789}}

The stamp is the payload's naive local one. Known gap: there is no line for a client disconnect.
"""

from __future__ import annotations

import re
from typing import Final

from ingest.records import Batch, Line, LineFormat
from ingest.requests.block import EVENTS
from ingest.requests.column import RequestColumns
from ingest.requests.moment import prefix_stamp_ns, stamp_ns
from ingest.requests.payload import Malformed, decode_open, decode_usual
from ingest.requests.row import Source, add_rows

# Optional stamp prefix, then an object that names its event before anything a client wrote.
_HEAD: Final = re.compile(
    rb'(?:\[([^\]{"]{1,64})\] )?(?=\{\s{0,8}(?:"timestamp"\s?:\s?"[^"\\]{0,40}"\s?,\s{0,8})?'
    rb'"event"\s?:\s?"request\.)'
)
_OBJECT: Final = b'{"timestamp": "'
_PREFIX_BYTES: Final = len(b"[2026-01-02 03:04:05] ")


class RequestLogJson:
    """Request logger lines in JSON."""

    name = "request_log_json"

    def parse(self, line: Line, batch: Batch) -> bool:
        """Add the records of the line; False if it is no JSON request log line."""
        raw = line.raw
        # The two usual places of the object, without the cost of a pattern.
        if raw.startswith(_OBJECT, _PREFIX_BYTES) and raw.startswith(b"["):
            payload, start = decode_usual(raw[_PREFIX_BYTES:]), _PREFIX_BYTES
        elif raw.startswith(_OBJECT):
            payload, start = decode_usual(raw), 0
        else:
            payload, start = None, 0
        if payload is None:
            if _HEAD.match(raw) is None:
                return False
            self._parse_open(line, batch)
            return True
        event = EVENTS[payload.event]
        columns = batch.deferred.get(event)
        if not isinstance(columns, RequestColumns):
            columns = batch.deferred[event] = RequestColumns(event, self.name)
        columns.payloads.append(payload)
        columns.lines.append(line)
        columns.prefixed.append(start > 0)
        return True

    def _parse_open(self, line: Line, batch: Batch) -> None:
        """Add the rows of a line with unusual records, or several of them, or its reject."""
        raw = line.raw
        while (head := _HEAD.match(raw)) is not None:
            raw = raw[head.end():]
            try:
                payload, used = decode_open(raw)
            except Malformed as error:
                batch.reject(line, self.name, str(error))
                return
            event = EVENTS.get(payload.event) if type(payload.event) is str else None
            if event is None:
                batch.reject(line, self.name, "unknown request event")
            else:
                prefix = head.group(1)
                stamp, width = stamp_ns(payload.timestamp)
                if stamp is None:
                    stamp, width = prefix_stamp_ns(prefix)
                source = Source(event, "json", prefix is not None, stamp, width)
                for reason in add_rows(batch, line, source, payload):
                    batch.reject(line, self.name, reason)
            # Two writers on one file can glue records; anything else behind one is damage.
            raw = raw[used:].strip()
        if raw:
            batch.reject(line, self.name, "bytes behind the JSON object")

    def continues(self, previous: Line, line: Line) -> bool:
        """Records are single lines."""
        return False


LINE_FORMATS: Final[tuple[LineFormat, ...]] = (RequestLogJson(),)
