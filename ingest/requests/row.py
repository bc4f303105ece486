"""Rows of ``request_log`` from a decoded record; a batched request gives one row per element."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ingest.records import Batch, Line
from ingest.requests.field import (
    I32_MAX,
    as_bool,
    as_int,
    as_message,
    as_room,
    as_seconds,
    as_status,
    as_str,
)
from ingest.requests.identity import IDENTITY, identity_keys, lower_headers, traceparent_of
from ingest.requests.moment import epoch_ns
from ingest.requests.payload import MetaInfo, Payload, RequestObject, Sampling
from ingest.requests.size import ELISION, element, ids_size, text_size

# A bound on hostile batches; the engine itself elides lists above 2,048 items at level 2.
MAX_BATCH: Final = 65_536

_NO_OBJECT: Final = RequestObject()
_NO_META: Final = MetaInfo()
_NO_HEADERS: Final[dict[str, str]] = {}


class Source(NamedTuple):
    """What a format knows about a record besides its payload."""

    event: str
    fmt: str
    prefixed: bool | None
    stamp_ns: int | None
    stamp_res_ns: int | None


def add_rows(batch: Batch, line: Line, source: Source, payload: Payload) -> list[str]:
    """Append the record's rows to ``batch``; return the reasons of what could not be kept."""
    obj = payload.obj or _NO_OBJECT
    meta = (payload.out.meta_info if payload.out is not None else None) or _NO_META
    rid = payload.rid
    if rid is None:
        rid = obj.rid if obj.rid is not None else meta.id
    room = obj.bootstrap_room
    rows = batch.rows.get("request_log")
    if rows is None:
        rows = batch.rows["request_log"] = []
    record = _Record(line, source, payload, obj, meta)
    if type(rid) is not list and type(room) is not list:
        return record.append(rows, rid, room, None, 0)
    if type(rid) is list and type(room) is list and ELISION in room and ELISION not in rid:
        # A JSON line has the ids in full beside an object whose lists are elided.
        gap = room.index(ELISION)
        unknown = [None] * max(len(rid) - len(room) + 1, 0)
        rooms = [*room[:gap], *unknown, *room[gap + 1 :]]
        if len(rooms) == len(rid):
            return ["batch list is elided", *record.append_batch(rows, rid, rooms, len(rid))]
    if type(rid) is list and type(room) is list and len(rid) != len(room):
        # Which room goes with which rid is unknown: keep both, joined to nothing.
        reasons = record.append_batch(rows, rid, None, len(rid))
        reasons += record.append_batch(rows, None, room, len(room))
        return ["rid and bootstrap_room differ in length", *reasons]
    return record.append_batch(rows, rid, room, len(rid if type(rid) is list else room))


class _Record:
    """One record on its way to rows: ``shared`` holds what all elements of a batch have."""

    __slots__ = ("headers", "obj", "shared", "sizes")

    def __init__(
        self, line: Line, source: Source, payload: Payload, obj: RequestObject, meta: MetaInfo
    ) -> None:
        self.obj = obj
        headers = payload.headers
        self.headers = lower_headers(headers) if headers is not None else _NO_HEADERS
        openai = source.event == "received_openai"
        text, ids = (obj.prompt, obj.prompt) if openai else (obj.text, obj.input_ids)
        self.sizes = (text_size(text), ids_size(ids))
        routed = obj.routed_dp_rank if obj.routed_dp_rank is not None else obj.data_parallel_rank
        self.shared: dict[str, Any] = {
            "stream": line.stream,
            "line_no": line.line_no,
            "byte_offset": line.byte_offset,
            "outer_ns": line.outer_ns,
            "stamp_ns": source.stamp_ns,
            "stamp_res_ns": source.stamp_res_ns,
            "event": source.event,
            "fmt": source.fmt,
            "prefixed": source.prefixed,
            "x_request_id": self.headers.get("x-request-id"),
            "routed_dp_rank": as_int(routed, I32_MAX),
            "streaming": as_bool(obj.stream),
            "model": as_str(obj.model) if openai else None,
            "traceparent": traceparent_of(obj.external_trace_header, self.headers),
        }
        if payload.out is not None:
            self._add_answer(payload.out.output_ids, meta)

    def _add_answer(self, output_ids: Any, meta: MetaInfo) -> None:
        size = ids_size(output_ids)
        finish = meta.finish_reason
        shared = self.shared
        shared["output_ids"] = None if type(size) is list else size
        shared["dp_rank"] = as_int(meta.dp_rank, I32_MAX)
        shared["prompt_tokens"] = as_int(meta.prompt_tokens)
        shared["completion_tokens"] = as_int(meta.completion_tokens)
        shared["cached_tokens"] = as_int(meta.cached_tokens)
        shared["num_retractions"] = as_int(meta.num_retractions, I32_MAX)
        shared["e2e_latency_s"] = as_seconds(meta.e2e_latency)
        shared["request_received_ns"] = epoch_ns(meta.request_received_ts)
        shared["request_finished_ns"] = epoch_ns(meta.request_finished_ts)
        shared["response_sent_ns"] = epoch_ns(meta.response_sent_to_client_ts)
        if finish is not None:
            shared["finish_type"] = as_str(finish.type, 64)
            shared["finish_message"] = as_message(finish.message)
            shared["status_code"] = as_status(finish.status_code)

    def append_batch(
        self, rows: list[dict[str, Any]], rid: Any, room: Any, count: int
    ) -> list[str]:
        """Append one row per element; an empty batch still gives the record's row."""
        if count == 0:
            return self.append(rows, None, None, None, 0)
        reasons: set[str] = set()
        if count > MAX_BATCH:
            reasons.add(f"batch of more than {MAX_BATCH} elements")
        elided = False
        for index in range(min(count, MAX_BATCH)):
            one_rid, one_room = _pick(rid, index, count), _pick(room, index, count)
            if ELISION in (one_rid, one_room):
                elided = True
                reasons.add("batch list is elided")
                continue
            reasons.update(self.append(rows, one_rid, one_room, index, count))
            if elided:  # behind the gap the element's number is unknown
                rows[-1]["sub_index"] = None
        return sorted(reasons)

    def append(
        self, rows: list[dict[str, Any]], rid: Any, room: Any, index: int | None, count: int
    ) -> list[str]:
        """Append the row of one element (``index`` None: the request is not a batch)."""
        obj = self.obj
        row = self.shared if index is None else self.shared.copy()
        number, reason = as_room(room)
        row["rid"] = as_str(rid)
        row["room"] = number
        row["sub_index"] = index
        row["bootstrap_host"] = as_str(_pick(obj.bootstrap_host, index, count))
        row["bootstrap_port"] = as_int(_pick(obj.bootstrap_port, index, count), I32_MAX)
        row["max_new_tokens"] = as_int(max_new_tokens(obj, index, count))
        row["prompt_chars"] = element(self.sizes[0], index, count)
        row["prompt_ids"] = element(self.sizes[1], index, count)
        row["keys"] = identity_keys(
            self.headers, {name: _pick(getattr(obj, name), index, count) for name in IDENTITY}
        )
        rows.append(row)
        reasons = [reason] if reason else []
        if row["rid"] is None and rid is not None and rid != "":
            reasons.append("rid is too long or no text")
        return reasons


def _pick(value: Any, index: int | None, count: int) -> Any:
    """Return the element's value: its item of a list, or the value that all elements share."""
    if type(value) is not list:
        return value
    return value[index] if index is not None and len(value) == count else None


def max_new_tokens(obj: RequestObject, index: int | None, count: int) -> Any:
    """Return the most tokens that the element may generate, as its body states it."""
    params = _pick(obj.sampling_params, index, count)
    if isinstance(params, Sampling):
        return params.max_new_tokens
    if type(params) is dict:
        return params.get("max_new_tokens")
    # The two spellings of an OpenAI body.
    return obj.max_completion_tokens if obj.max_completion_tokens is not None else obj.max_tokens
