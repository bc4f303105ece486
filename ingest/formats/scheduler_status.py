"""SGLang scheduler status lines -> ``scheduler_status``: who ran and who waited at one moment.

Printed by ``sglang/srt/utils/scheduler_status_logger.py`` when
``SGLANG_LOG_SCHEDULER_STATUS_TARGET`` is set (with ``--enable-metrics``); framed like the request
log, bare up to 0.5.11:

    [2026-01-02 03:04:05] {"timestamp": "2026-01-02T03:04:05.1", "event": "scheduler.status",
    "rank": 0, "running_rids": ["c0ffee"], "queued_rids": []}

A line without any request gives one row whose state and rid are NULL. Known gap: the line is
written on decode iterations only.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ingest.records import Batch, Line, LineFormat
from ingest.requests.field import as_str
from ingest.requests.moment import prefix_stamp_ns, stamp_ns
from ingest.requests.payload import Malformed, decode_plain

_HEAD: Final = re.compile(
    rb'(?:\[([^\]{"]{1,64})\] )?(?=\{\s{0,8}(?:"timestamp"\s?:\s?"[^"\\]{0,40}"\s?,\s{0,8})?'
    rb'"event"\s?:\s?"scheduler\.status")'
)
_STATES: Final = (("running", "running_rids"), ("queued", "queued_rids"))


class SchedulerStatus:
    """Lines of the scheduler status logger."""

    name = "scheduler_status"

    def parse(self, line: Line, batch: Batch) -> bool:
        """Add one row per request of the line; False if it is no status line."""
        head = _HEAD.match(line.raw)
        if head is None:
            return False
        raw = line.raw[head.end() :]
        try:
            document, used = decode_plain(raw)
        except Malformed as error:
            batch.reject(line, self.name, str(error))
            return True
        if raw[used:].strip():
            batch.reject(line, self.name, "bytes behind the JSON object")
        stamp, width = stamp_ns(document.get("timestamp"))
        if stamp is None:
            stamp, width = prefix_stamp_ns(head.group(1))
        rank = document.get("rank")
        shared: dict[str, Any] = {
            "stamp_ns": stamp,
            "stamp_res_ns": width,
            "rank": str(rank) if type(rank) is int and abs(rank) < 2**31 else as_str(rank, 64),
        }
        found = False
        for state, key in _STATES:
            rids = document.get(key)
            if rids is not None and type(rids) is not list:
                batch.reject(line, self.name, f"{key} is not a list")
                continue
            for rid in rids or ():
                text = as_str(rid)
                if text is None:
                    batch.reject(line, self.name, f"{key} holds something else than a rid")
                    continue
                batch.add("scheduler_status", line, state=state, rid=text, **shared)
                found = True
        if not found:
            batch.add("scheduler_status", line, **shared)
        return True

    def continues(self, previous: Line, line: Line) -> bool:
        """Records are single lines."""
        return False


LINE_FORMATS: Final[tuple[LineFormat, ...]] = (SchedulerStatus(),)
