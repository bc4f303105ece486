"""Columns of ``request_log`` from many usual records at once.

The same result as ``row.add_rows``, record by record; records that turn out not to fit a column
are handed to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.records import TABLES, Batch, Line
from ingest.requests.field import as_message, as_status
from ingest.requests.identity import IDENTITY, identity_keys, lower_headers, traceparent_of
from ingest.requests.moment import FIRST_EPOCH_S, LAST_EPOCH_S, prefix_stamp_ns, stamp_ns
from ingest.requests.payload import NOTHING, MetaInfo, Payload, RequestObject
from ingest.requests.row import Source, add_rows, max_new_tokens
from ingest.requests.size import ids_size, text_size

_SCHEMA = TABLES["request_log"]
_NO_META = MetaInfo()
# What building a column raises when a value does not fit its type.
UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)


class RequestColumns:
    """Usual JSON records of one event, collected line by line until the batch is stored."""

    __slots__ = ("event", "format_name", "lines", "payloads", "prefixed")

    def __init__(self, event: str, format_name: str) -> None:
        self.event = event
        self.format_name = format_name
        self.payloads: list[Any] = []
        self.lines: list[Line] = []
        self.prefixed: list[bool] = []

    def tables(self, batch: Batch) -> Iterator[tuple[str, pa.Table]]:
        """Yield one table, or put the records into ``batch`` as rows if one does not fit."""
        lines = self.lines
        place = {
            "stream": [line.stream for line in lines],
            "line_no": [line.line_no for line in lines],
            "byte_offset": [line.byte_offset for line in lines],
            "outer_ns": [line.outer_ns for line in lines],
            "prefixed": self.prefixed,
        }
        try:
            table = request_table(
                self.event, self.payloads, place, lambda index: lines[index].raw
            )
        except UNFIT:
            for line, payload, prefixed in zip(lines, self.payloads, self.prefixed, strict=True):
                stamp = _stamp(payload.timestamp, line.raw)
                source = Source(self.event, "json", prefixed, *stamp)
                for reason in add_rows(batch, line, source, payload):
                    batch.reject(line, self.format_name, reason)
            return
        yield "request_log", table


def request_table(
    event: str, payloads: list[Any], place: dict[str, Any], raw_of: Callable[[int], bytes]
) -> pa.Table:
    """Return the rows of usual records of one event; raises one of UNFIT if a value does not fit.

    ``place``: the columns that say where the records were read; ``raw_of``: a record's line.
    """
    columns = place | _columns(event, payloads)
    columns["stamp_ns"], columns["stamp_res_ns"] = _stamps(payloads, raw_of)
    arrays = [_array(columns.get(field.name), field.type, len(payloads)) for field in _SCHEMA]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _columns(event: str, payloads: list[Any]) -> dict[str, Any]:
    objects: list[Any] = [payload.obj for payload in payloads]
    openai = event == "received_openai"
    who = [_who(payload.headers, obj) for payload, obj in zip(payloads, objects, strict=True)]
    columns: dict[str, Any] = {
        "event": event,
        "fmt": "json",
        "rid": [
            (payload.rid if payload.rid is not None else _rid(payload)) or None
            for payload in payloads
        ],
        "room": [obj.bootstrap_room for obj in objects],
        "bootstrap_host": [obj.bootstrap_host or None for obj in objects],
        "bootstrap_port": [obj.bootstrap_port for obj in objects],
        "x_request_id": [item[0] for item in who],
        "keys": [item[1] for item in who],
        "traceparent": [item[2] for item in who],
        "routed_dp_rank": [
            obj.data_parallel_rank if obj.routed_dp_rank is None else obj.routed_dp_rank
            for obj in objects
        ],
        "streaming": [obj.stream for obj in objects],
    }
    if openai:
        columns["prompt_chars"] = [_single(text_size(obj.prompt)) for obj in objects]
        columns["prompt_ids"] = [_single(ids_size(obj.prompt)) for obj in objects]
        columns["model"] = [obj.model or None for obj in objects]
    else:
        columns["prompt_chars"] = [
            None if obj.text is NOTHING else _single(text_size(obj.text)) for obj in objects
        ]
        columns["prompt_ids"] = [
            None if obj.input_ids is NOTHING else _single(ids_size(obj.input_ids))
            for obj in objects
        ]
    columns["max_new_tokens"] = [
        max_new_tokens(obj, None, 0)
        if obj.sampling_params is None
        else obj.sampling_params.max_new_tokens
        for obj in objects
    ]
    if event == "finished":
        _add_answers(columns, payloads)
    return columns


def _add_answers(columns: dict[str, Any], payloads: list[Any]) -> None:
    answers = [payload.out for payload in payloads]
    metas: list[Any] = [
        _NO_META if answer is None or answer.meta_info is None else answer.meta_info
        for answer in answers
    ]
    finishes = [meta.finish_reason for meta in metas]
    columns["output_ids"] = [
        None
        if answer is None or answer.output_ids is NOTHING
        else _single(ids_size(answer.output_ids))
        for answer in answers
    ]
    columns["dp_rank"] = [meta.dp_rank for meta in metas]
    columns["prompt_tokens"] = [meta.prompt_tokens for meta in metas]
    columns["completion_tokens"] = [meta.completion_tokens for meta in metas]
    columns["cached_tokens"] = [meta.cached_tokens for meta in metas]
    columns["num_retractions"] = [meta.num_retractions for meta in metas]
    columns["e2e_latency_s"] = [meta.e2e_latency for meta in metas]
    columns["request_received_ns"] = epochs([meta.request_received_ts for meta in metas])
    columns["request_finished_ns"] = epochs([meta.request_finished_ts for meta in metas])
    columns["response_sent_ns"] = epochs(
        [meta.response_sent_to_client_ts for meta in metas]
    )
    columns["finish_type"] = [
        None if finish is None or len(finish.type or "") > 64 else finish.type or None
        for finish in finishes
    ]
    columns["finish_message"] = [
        None if finish is None or finish.message is None else as_message(finish.message)
        for finish in finishes
    ]
    columns["status_code"] = [
        None if finish is None or finish.status_code is None else as_status(finish.status_code)
        for finish in finishes
    ]


def _stamps(payloads: list[Any], raw_of: Callable[[int], bytes]) -> tuple[Any, Any]:
    """Return the (ns, width in ns) columns."""
    texts = pa.array([payload.timestamp for payload in payloads], pa.string())
    if pc.unique(pc.utf8_length(texts)).to_pylist() == [26]:
        try:
            stamps = pc.cast(texts, pa.timestamp("us")).cast(pa.timestamp("ns")).cast(pa.int64())
            return stamps, pa.repeat(pa.scalar(1000, pa.int64()), len(texts))
        except pa.ArrowInvalid:
            pass
    pairs = [_stamp(payload.timestamp, raw_of(index)) for index, payload in enumerate(payloads)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def epochs(seconds: list[float | None]) -> pa.Array:
    """Convert epoch seconds to ns like ``moment.epoch_ns``, all at once.

    A double near 1.8e9 s is printed with at most 7 decimals, and with 6 or fewer whenever those
    already round-trip; so the printed digits can be had back without making the text.
    """
    values = pa.array(seconds, pa.float64()).to_numpy(zero_copy_only=False)
    known = (values >= FIRST_EPOCH_S) & (values <= LAST_EPOCH_S)
    whole = np.floor(np.where(known, values, 0.0))
    fraction = np.where(known, values, 0.0) - whole
    base = whole.astype(np.int64)
    micros = base * 1_000_000 + np.rint(fraction * 1e6).astype(np.int64)
    exact = micros / 1e6 == values
    tenths = base * 10_000_000 + np.rint(fraction * 1e7).astype(np.int64)
    ns = np.where(exact, micros * 1000, tenths * 100)
    return pa.array(ns, pa.int64(), mask=~known)


def _array(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    if type(values) is str:
        return pa.repeat(pa.scalar(values, kind), count)
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _stamp(text: str, raw: bytes) -> tuple[int | None, int | None]:
    """Return the payload's stamp, or else that of the line's prefix."""
    stamp = stamp_ns(text)
    return stamp if stamp[0] is not None else prefix_stamp_ns(raw[1:])


def _single(size: Any) -> int | None:
    return None if type(size) is list else size


def _rid(payload: Payload) -> Any:
    if payload.obj is not None and payload.obj.rid is not None:
        return payload.obj.rid
    meta = payload.out.meta_info if payload.out is not None else None
    return meta.id if meta is not None else None


def _who(
    headers: dict[str, str] | None, obj: RequestObject
) -> tuple[str | None, str | None, str | None]:
    """Return (x_request_id, keys, traceparent)."""
    anonymous = (
        obj.session_id is None and obj.routing_key is None and obj.lora_path is None
        and obj.priority is None and obj.custom_labels is None and obj.extra_key is None
        and obj.conversation_id is None
    )
    if anonymous and not obj.external_trace_header:
        if not headers:
            return None, None, None
        if len(headers) == 1 and (found := headers.get("x-request-id")):
            return found, None, None
    lower = lower_headers(headers) if headers else {}
    fields = {} if anonymous else {name: getattr(obj, name) for name in IDENTITY}
    return (
        lower.get("x-request-id"),
        identity_keys(lower, fields),
        traceparent_of(obj.external_trace_header, lower),
    )
