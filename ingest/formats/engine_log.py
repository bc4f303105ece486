"""The engine process log (SGLang 0.5.9 to 0.5.23), one line at a time.

Printed to stderr by every process of an engine; prefix by ``configure_logger``
(sglang/srt/utils/common.py), no level, host or role in it. Sample:
``[2025-09-29 08:13:01 TP0] Deferred KV release for room 69175 timed out after 30.0s without ...``
Known gaps: a log configured by SGLANG_LOGGING_CONFIG_PATH has an arbitrary prefix.
"""

from __future__ import annotations

from typing import Any, Final

from ingest.engine import batch_lines, events, server_args, time_stats
from ingest.engine.prefix import split
from ingest.records import Batch, Line, to_json

_NAME: Final = "engine_log"
# Messages of the request logger, which other formats read behind the same prefix.
_REQUEST_LOG: Final = (b"{", b"Receive: obj=", b"Receive OpenAI: obj=", b"Finish: obj=", b"INFO:  ",
                       b"WARNING:  ", b"ERROR:  ")
# Messages that are unmistakable without a prefix (TP 1 under a collector that strips it).
_BARE: Final = (b"Decode batch", b"Prefill batch", b"ReqTimeStats(", b"Req Time Stats(",
                b"server_args=", b"max_total_num_tokens=", b"kv_canary violation:",
                b"Deferred KV release ", b"Decode transfer failed ", b"Prefill transfer failed ",
                b"Context corruption detected:", b"RuntimeError: Transfer thread failed",
                b"RuntimeError: State index length mismatch",
                b"ValueError: Request is disconnected", b"[http_server] Error:")


class EngineLog:
    """Line format of the process log; see the module docstring."""

    name = _NAME

    def parse(self, line: Line, batch: Batch) -> bool:
        """Add the facts of one engine line; False for lines of other formats."""
        raw = line.raw
        prefixed = split(raw)
        if prefixed is None:
            if not raw.startswith(_BARE):
                return False
            values, message = {}, raw
        else:
            values, message = prefixed.values, prefixed.message
            if message.startswith(_REQUEST_LOG):
                return False
            if prefixed.bad_stamp:
                batch.reject(line, _NAME, "the stamp is no date")
                return True
        self._message(line, batch, values, message)
        return True

    def continues(self, previous: Line, line: Line) -> bool:
        """Engine lines are not wrapped; what follows them without a prefix is other text."""
        return False

    def _message(
        self, line: Line, batch: Batch, values: dict[str, Any], message: bytes
    ) -> None:
        first = message[:1]
        if first in b"DP" and (found := batch_lines.parse(message)) is not None:
            _add(line, batch, "batch_line", values, found)
        elif first == b"R" and (found := time_stats.parse(message)) is not None:
            _add(line, batch, "time_stats", values, found)
        elif first == b"s" and message.startswith(b"server_args="):
            _add_server_args(line, batch, values, message)
        else:
            event = events.parse(message)
            if event is None:
                batch.other_lines += 1
            elif isinstance(event, str):
                batch.reject(line, _NAME, event)
            else:
                kind, columns = event
                batch.add("engine_event", line, kind=kind, **values, **columns)


def _add(
    line: Line, batch: Batch, table: str, values: dict[str, Any], found: dict[str, Any] | str
) -> None:
    if isinstance(found, str):
        batch.reject(line, _NAME, found)
    else:
        batch.add(table, line, **values, **found)


def _add_server_args(line: Line, batch: Batch, values: dict[str, Any], message: bytes) -> None:
    parsed = server_args.parse(message.decode("utf-8", errors="replace"))
    if parsed is None:
        batch.reject(line, _NAME, "server_args is neither a dataclass nor a dict")
        return
    dialect, entries, cut = parsed
    stamp = {key: values[key] for key in ("stamp_ns", "stamp_res_ns") if key in values}
    for key, value in entries:
        batch.add("config_entry", line, source="server_args", dialect=dialect, snapshot=0, key=key,
                  value=to_json(value), **stamp)
    batch.add("engine_event", line, kind="boot", attrs=to_json({"keys": len(entries)}), **values)
    if cut:
        batch.reject(line, _NAME, "server_args is cut; the keys before the cut were read")


LINE_FORMATS = (EngineLog(),)
