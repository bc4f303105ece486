"""SGLang ``--export-metrics-to-file`` lines -> ``request_log`` (fmt 'export', event 'finished').

Written by ``sglang/srt/observability/request_metrics_exporter.py`` (<= 0.5.9 to 0.5.23):

    {"request_parameters": "{\\"rid\\": \\"c0ffee\\", \\"bootstrap_room\\": 1234}", "id": "c0ffee",
    "finish_reason": {"type": "length", "length": 8}, "request_finished_ts": 1796098138.29}

The line has no stamp; its times are the epoch fields, which only ``--enable-metrics`` adds. Known
gaps: no record for client disconnects, health checks, or fields that are no JSON.
"""

from __future__ import annotations

import re
from typing import Final

from ingest.records import Batch, Line, LineFormat
from ingest.requests.payload import Answer, Malformed, Payload, decode_export
from ingest.requests.row import Source, add_rows

_HEAD: Final = re.compile(rb'\{\s{0,8}"request_parameters"\s?:\s?["{]')
_SOURCE: Final = Source("finished", "export", None, None, None)


class MetricsExport:
    """Lines of the per-request metrics export."""

    name = "metrics_export"

    def parse(self, line: Line, batch: Batch) -> bool:
        """Add the row of the line; False if it is no export line."""
        if _HEAD.match(line.raw) is None:
            return False
        try:
            obj, meta = decode_export(line.raw)
        except Malformed as error:
            batch.reject(line, self.name, str(error))
            return True
        payload = Payload(obj=obj, out=Answer(meta_info=meta))
        for reason in add_rows(batch, line, _SOURCE, payload):
            batch.reject(line, self.name, reason)
        return True

    def continues(self, previous: Line, line: Line) -> bool:
        """Records are single lines."""
        return False


LINE_FORMATS: Final[tuple[LineFormat, ...]] = (MetricsExport(),)
