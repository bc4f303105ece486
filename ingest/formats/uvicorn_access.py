"""uvicorn access lines of the engine's HTTP server.

Format of sglang/srt/utils/common.py ``set_uvicorn_logging_configs``:
``[2025-09-29 08:12:31] INFO:     10.2.0.7:53412 - "POST /v1/chat/completions HTTP/1.1" 200 OK``
The status is the one at header time: a stream that was aborted later is 200 as well.
Known gaps: Granian (--enable-http2) prints other lines.
"""

from __future__ import annotations

import re

from ingest.records import Batch, Line
from ingest.stamps import parse_stamp

_LINE = re.compile(
    rb"(?:\[(?P<stamp>[^\]]{8,40})\] )?(?:INFO|WARNING|ERROR): {1,10}(?P<rest>.*)", re.DOTALL)
_ACCESS = re.compile(
    rb'(?P<addr>\[?[0-9A-Za-z.:_-]{1,64}\]?):(?P<port>\d{1,5}) - '
    rb'"(?P<method>[A-Z]{1,20}) (?P<path>\S{1,2048}) HTTP/[\d.]{1,4}" (?P<status>\d{3})\b')


class UvicornAccess:
    """Line format of access lines; other uvicorn lines are text without a fact."""

    name = "uvicorn_access"

    def parse(self, line: Line, batch: Batch) -> bool:
        """Add one access line; False for lines of other formats."""
        match = _LINE.match(line.raw)
        if match is None:
            return False
        access = _ACCESS.match(match["rest"])
        if access is None:
            batch.other_lines += 1
            return True
        stamp = parse_stamp(match["stamp"]) if match["stamp"] else None
        batch.add(
            "access_line", line,
            stamp_ns=stamp[0] if stamp else None, stamp_res_ns=stamp[1] if stamp else None,
            client_addr=access["addr"].decode(), client_port=int(access["port"]),
            method=access["method"].decode(),
            path=access["path"].split(b"?", 1)[0].decode("utf-8", errors="replace"),
            status_code=int(access["status"]))
        return True

    def continues(self, previous: Line, line: Line) -> bool:
        """Access lines are not wrapped."""
        return False


LINE_FORMATS = (UvicornAccess(),)
