"""SGLang ``--log-requests`` lines in text (the default format) -> ``request_log``.

Printed by ``sglang/srt/utils/request_logger.py`` (``_dataclass_to_string_truncated``), read for
0.5.9-0.5.23, levels 0-3; a Python ``repr``, not JSON:

    [2026-01-02 03:04:05] Receive: obj=GenerateReqInput(rid='c0ffee'), headers={...}
    [2026-01-02 03:04:05] Receive OpenAI: obj={'model': 'm', 'bootstrap_room': 1234}
    [2026-01-02 03:04:06] Finish: obj=GenerateReqInput(rid='c0ffee', ...), out={'meta_info': {...}}

Known gaps: no line for a client disconnect; keys of client-made maps are printed unescaped, so a
client can damage the line of its own request (a reject), and a line end in such a key starts a
line that nothing tells from a real one.
"""

from __future__ import annotations

import re
from typing import Final

from ingest.records import Batch, Line, LineFormat
from ingest.requests.moment import prefix_stamp_ns
from ingest.requests.payload import Malformed
from ingest.requests.row import Source, add_rows
from ingest.requests.text_record import read_record

_HEAD: Final = re.compile(
    rb"(?:\[([^\]{'\"]{1,64})\] )?(Receive OpenAI|Receive|Finish): obj=(?=\{|[A-Za-z_][\w.]*\()"
)
_MARK: Final = b": obj="
_EVENTS: Final = {
    b"Receive": "received",
    b"Finish": "finished",
    b"Receive OpenAI": "received_openai",
}


class RequestLogText:
    """Request logger lines in text."""

    name = "request_log_text"

    def parse(self, line: Line, batch: Batch) -> bool:
        """Add the rows of the line; False if it is no text request log line."""
        if line.raw.find(_MARK, 0, 96) < 0:
            return False
        head = _HEAD.match(line.raw)
        if head is None:
            return False
        prefix, word = head.groups()
        try:
            payload = read_record(line.raw.rstrip(), head.end())
        except Malformed as error:
            batch.reject(line, self.name, str(error))
            return True
        if word == b"Finish" and payload.out is None:
            batch.reject(line, self.name, "record is cut")
            return True
        source = Source(_EVENTS[word], "text", prefix is not None, *prefix_stamp_ns(prefix))
        for reason in add_rows(batch, line, source, payload):
            batch.reject(line, self.name, reason)
        return True

    def continues(self, previous: Line, line: Line) -> bool:
        """Records are single lines."""
        return False


LINE_FORMATS: Final[tuple[LineFormat, ...]] = (RequestLogText(),)
