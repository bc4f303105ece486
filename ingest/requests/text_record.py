"""One text line of the request logger -> the same payload that a JSON line gives."""

from __future__ import annotations

import re
from typing import Any, Final

from ingest.requests.literal import Span, measure, object_fields, read_literal
from ingest.requests.payload import (
    Answer,
    FinishReason,
    Malformed,
    MetaInfo,
    Payload,
    RequestObject,
    Sampling,
)

_OBJECT: Final = frozenset(RequestObject.__struct_fields__)
_META: Final = frozenset(MetaInfo.__struct_fields__)
_FINISH: Final = frozenset(FinishReason.__struct_fields__)
_OUT: Final = frozenset({"output_ids", "meta_info"})
_TRACE: Final = frozenset({"traceparent"})
_SAMPLING: Final = frozenset({"max_new_tokens"})
_MEASURED: Final = frozenset({"text", "input_ids", "prompt"})
_NEXT: Final = re.compile(rb", (headers|out)=")


def read_record(raw: bytes, start: int) -> Payload:
    """Read the record whose object is printed at ``start``; raises Malformed.

    The whole line has to be accounted for, to its last byte.
    """
    spans, position = object_fields(raw, start, _OBJECT)
    payload = Payload(obj=_request_object(raw, spans))
    while position < len(raw):
        part = _NEXT.match(raw, position)
        if part is None:
            raise Malformed("text behind the record")
        if part.group(1) == b"headers" and payload.headers is None and payload.out is None:
            found, position = object_fields(raw, part.end())
            payload.headers = {key: read_literal(raw, *span) for key, span in found.items()}
        elif part.group(1) == b"out" and payload.out is None:
            found, position = object_fields(raw, part.end(), _OUT)
            payload.out = _answer(raw, found)
        else:
            raise Malformed("a part occurs twice")
    return payload


def _request_object(raw: bytes, spans: dict[str, Span]) -> RequestObject:
    values: dict[str, Any] = {}
    for name, (start, end) in spans.items():
        if name in _MEASURED:
            values[name] = measure(raw, start, end)
        elif name == "sampling_params":
            values[name] = _sampling(raw, start, end)
        elif name == "external_trace_header":
            if raw.startswith(b"{", start):
                found, _ = object_fields(raw, start, _TRACE)
                values[name] = {key: read_literal(raw, *span) for key, span in found.items()}
        else:
            values[name] = read_literal(raw, start, end)
    return RequestObject(**values)


def _sampling(raw: bytes, start: int, end: int) -> Any:
    if raw.startswith(b"{", start):
        found, _ = object_fields(raw, start, _SAMPLING)
        span = found.get("max_new_tokens")
        return Sampling(read_literal(raw, *span) if span is not None else None)
    if not raw.startswith(b"[", start):
        return None
    items = read_literal(raw, start, end)
    return items if type(items) is list else None


def _answer(raw: bytes, spans: dict[str, Span]) -> Answer:
    answer = Answer()
    if "output_ids" in spans:
        answer.output_ids = measure(raw, *spans["output_ids"])
    if "meta_info" in spans:
        found, _ = object_fields(raw, spans["meta_info"][0], _META)
        meta = MetaInfo()
        for name, (start, end) in found.items():
            if name != "finish_reason":
                setattr(meta, name, read_literal(raw, start, end))
            elif raw.startswith(b"{", start):
                reason, _ = object_fields(raw, start, _FINISH)
                meta.finish_reason = FinishReason(
                    **{key: read_literal(raw, *span) for key, span in reason.items()}
                )
            else:
                word = read_literal(raw, start, end)
                meta.finish_reason = FinishReason(type=word) if word is not None else None
        answer.meta_info = meta
    return answer
