"""glog lines of the Mooncake transfer engine inside an engine's stderr.

``E1005 22:02:03.929026 20927 worker_pool.cpp:654] Worker: Process failed for slice (...)``; this
form has no year, the long form is ``E20261005 22:02:03.929026``. Only lines that say that a write
failed or timed out become rows; they bound when it may still land. The year is not guessed: the
stamp stays NULL, month, day and time of day are in attrs.
Known gaps: lines carry no room; only time and session join them.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ingest.records import Batch, Line, to_json
from ingest.redact import message as kept
from ingest.stamps import parse_stamp

_LINE = re.compile(
    rb"(?:^|.{0,4096}?[^\w.:])(?P<level>[IWEF])(?P<date>\d{4}|\d{8}) "
    rb"(?P<time>\d\d:\d\d:\d\d\.\d{6}) {1,12}(?P<tid>\d{1,12}) (?P<where>[\w./-]{1,120}:\d{1,6})\] "
    rb"(?P<message>.*)", re.DOTALL)
_FAILED = re.compile(
    rb"Process failed for slice|transfer timeout|[Tt]imed? ?out|transport retry counter exceeded"
    rb"|Failed to (?:submit|post|complete)|Sync batch data transfer")
_PEER = re.compile(rb"peer_nic: ?([\w.:\[\]-]{1,120})")
_DAY_US: Final = 1_000_000


class Glog:
    """Line format of glog lines, also where one is glued behind an unfinished line."""

    name = "glog"

    def parse(self, line: Line, batch: Batch) -> bool:
        """Add a failure line; claim every other glog line as text without a fact."""
        match = _LINE.match(line.raw)
        if match is None:
            return False
        message = match["message"]
        if (match["level"] == b"I" and b"imeout" not in message) or not _FAILED.search(message):
            batch.other_lines += 1
            return True
        hours, minutes, rest = match["time"].split(b":")
        seconds, micros = rest.split(b".")
        tod = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * _DAY_US + int(micros)
        attrs: dict[str, Any] = {
            "level": match["level"].decode(), "where": match["where"].decode(),
            "mmdd": match["date"][-4:].decode(), "tod_us": tod}
        stamp = None
        if len(match["date"]) == 8:
            date = match["date"]
            stamp = parse_stamp(
                date[:4] + b"-" + date[4:6] + b"-" + date[6:] + b" " + match["time"])
        peer = _PEER.search(message)
        batch.add(
            "engine_event", line, kind="send_failed_slice", role_hint=None,
            stamp_ns=stamp[0] if stamp else None, stamp_res_ns=stamp[1] if stamp else None,
            session=peer[1].decode().split("@")[0] if peer else None,
            reason=kept(message), attrs=to_json(attrs))
        return True

    def continues(self, previous: Line, line: Line) -> bool:
        """glog lines are not wrapped."""
        return False


LINE_FORMATS = (Glog(),)
