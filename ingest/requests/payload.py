"""The part of a request record that is read: typed decoding that skips everything else.

Prompt and answer fields are kept as undecoded views (JSON) or as lengths (text) and only measured.
Records that do not have the usual types (batches, odd values) are decoded as open maps instead.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

import msgspec

from ingest.requests.field import I32_MAX, MAX_ID_CHARS

NOTHING: Final = msgspec.Raw(b"")


class Malformed(ValueError):
    """A record that cannot be read; the message never quotes it."""


class Sampling(msgspec.Struct, gc=False):
    """Sampling parameters."""

    max_new_tokens: Any = None


class RequestObject(msgspec.Struct, gc=False):
    """The request object (GenerateReqInput and others) or the raw OpenAI body."""

    rid: Any = None
    session_id: Any = None
    text: Any = NOTHING
    input_ids: Any = NOTHING
    sampling_params: Any = None
    stream: Any = None
    lora_path: Any = None
    bootstrap_host: Any = None
    bootstrap_port: Any = None
    bootstrap_room: Any = None
    routed_dp_rank: Any = None
    data_parallel_rank: Any = None
    routing_key: Any = None
    conversation_id: Any = None
    priority: Any = None
    extra_key: Any = None
    custom_labels: Any = None
    external_trace_header: Any = None
    model: Any = None
    prompt: Any = NOTHING
    max_tokens: Any = None
    max_completion_tokens: Any = None


class FinishReason(msgspec.Struct, gc=False):
    """``finish_reason``: 'stop', 'length' or 'abort', and what the engine says of an abort."""

    type: Any = None
    message: Any = None
    status_code: Any = None


class MetaInfo(msgspec.Struct, gc=False):
    """``meta_info`` of an answer."""

    id: Any = None
    finish_reason: FinishReason | None = None
    prompt_tokens: Any = None
    num_retractions: Any = None
    completion_tokens: Any = None
    cached_tokens: Any = None
    dp_rank: Any = None
    e2e_latency: Any = None
    request_received_ts: Any = None
    request_finished_ts: Any = None
    response_sent_to_client_ts: Any = None


class Answer(msgspec.Struct, gc=False):
    """``out`` of a finished request."""

    output_ids: Any = NOTHING
    meta_info: MetaInfo | None = None


class Payload(msgspec.Struct, gc=False):
    """One request record."""

    timestamp: Any = None
    event: Any = None
    rid: Any = None
    obj: RequestObject | None = None
    headers: Any = None
    out: Answer | None = None


_Id = Annotated[str, msgspec.Meta(max_length=MAX_ID_CHARS)]
_Int32 = Annotated[int, msgspec.Meta(ge=-I32_MAX, le=I32_MAX)]


class _UsualSampling(Sampling, gc=False):
    max_new_tokens: int | None = None


class _UsualObject(RequestObject, gc=False):
    rid: _Id | None = None
    text: msgspec.Raw = NOTHING
    input_ids: msgspec.Raw = NOTHING
    sampling_params: _UsualSampling | None = None
    stream: bool | None = None
    bootstrap_host: _Id | None = None
    bootstrap_port: _Int32 | None = None
    bootstrap_room: int | None = None
    routed_dp_rank: _Int32 | None = None
    data_parallel_rank: _Int32 | None = None
    model: _Id | None = None
    prompt: msgspec.Raw = NOTHING
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


class _UsualFinish(FinishReason, gc=False):
    type: _Id | None = None
    message: str | None = None


class _UsualMeta(MetaInfo, gc=False):
    id: _Id | None = None
    finish_reason: _UsualFinish | None = None
    prompt_tokens: int | None = None
    num_retractions: _Int32 | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    dp_rank: _Int32 | None = None
    e2e_latency: float | None = None
    request_received_ts: float | None = None
    request_finished_ts: float | None = None
    response_sent_to_client_ts: float | None = None


class _UsualAnswer(Answer, gc=False):
    output_ids: msgspec.Raw = NOTHING
    meta_info: _UsualMeta | None = None


class _UsualPayload(Payload, gc=False, kw_only=True):
    timestamp: _Id
    event: Literal["request.received", "request.finished", "request.received.openai"]
    rid: _Id | None = None
    obj: _UsualObject
    headers: dict[str, _Id] | None = None
    out: _UsualAnswer | None = None


class _UsualExport(_UsualMeta, gc=False):
    request_parameters: Any = None


_PAYLOAD: Final = msgspec.json.Decoder(_UsualPayload).decode
_PAYLOADS: Final = msgspec.json.Decoder(list[_UsualPayload]).decode
_OBJECT: Final = msgspec.json.Decoder(_UsualObject).decode
_EXPORT: Final = msgspec.json.Decoder(_UsualExport).decode
_PLAIN: Final = json.JSONDecoder()
_FAILURES: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


def decode_usual(raw: bytes) -> Payload | None:
    """Decode a record whose fields all have their usual types and bounds; None if it is not one."""
    try:
        return _PAYLOAD(raw)
    except _FAILURES:
        return None


def decode_usual_array(raw: bytes, count: int) -> list[Payload] | None:
    """Decode a JSON array of ``count`` usual records; None if it is not exactly that."""
    try:
        payloads = _PAYLOADS(raw)
    except _FAILURES:
        return None
    return list(payloads) if len(payloads) == count else None


def decode_open(raw: bytes) -> tuple[Payload, int]:
    """Decode one record as an open map: (payload, bytes used); raises Malformed.

    For batches, NaN, lone surrogates, broken UTF-8, odd types, and bytes behind the object.
    """
    document, used = decode_plain(raw)
    answer = document.get("out")
    return Payload(
        timestamp=document.get("timestamp"),
        event=document.get("event"),
        rid=document.get("rid"),
        obj=object_of(document.get("obj")),
        headers=document.get("headers"),
        out=answer_of(answer) if type(answer) is dict else None,
    ), used


def decode_export(raw: bytes) -> tuple[RequestObject, MetaInfo]:
    """Decode one line of ``--export-metrics-to-file``; raises Malformed."""
    meta: MetaInfo
    try:
        usual = _EXPORT(raw)
        meta, parameters = usual, usual.request_parameters
    except _FAILURES:
        document, used = decode_plain(raw)
        if raw[used:].strip():
            raise Malformed("bytes behind the JSON object") from None
        meta, parameters = meta_of(document), document.get("request_parameters")
    if type(parameters) is dict:
        return object_of(parameters), meta
    if type(parameters) is not str:
        raise Malformed("request_parameters is not a JSON text")
    try:
        return _OBJECT(parameters), meta
    except _FAILURES:
        return object_of(decode_plain(parameters.encode("utf-8", "replace"))[0]), meta


def decode_plain(raw: bytes) -> tuple[dict[str, Any], int]:
    """Decode the JSON object at the start of ``raw``: (object, bytes used); raises Malformed."""
    # surrogateescape keeps the byte count exact; fields are cleaned where they are read.
    text = raw.decode("utf-8", "surrogateescape")
    try:
        document, end = _PLAIN.raw_decode(text)
    except (ValueError, RecursionError):
        raise Malformed("JSON is cut or malformed") from None
    if type(document) is not dict:
        raise Malformed("JSON is not an object")
    if end == len(text):
        return document, len(raw)
    return document, len(text[:end].encode("utf-8", "surrogateescape"))


def object_of(document: Any) -> RequestObject:
    """Build the request object from an open map; anything else gives an empty one."""
    found: RequestObject = _struct(RequestObject, document)
    return found


def answer_of(document: dict[str, Any]) -> Answer:
    """Build the answer from an open map."""
    return Answer(
        output_ids=document.get("output_ids"), meta_info=meta_of(document.get("meta_info"))
    )


def meta_of(document: Any) -> MetaInfo:
    """Build ``meta_info`` from an open map; anything else gives an empty one."""
    meta: MetaInfo = _struct(MetaInfo, document)
    finish: Any = meta.finish_reason
    if type(finish) is dict:
        meta.finish_reason = _struct(FinishReason, finish)
    elif finish is not None:  # one word in old versions
        meta.finish_reason = FinishReason(type=finish)
    return meta


def _struct(kind: Any, document: Any) -> Any:
    if type(document) is not dict:
        return kind()
    return kind(**{name: document[name] for name in kind.__struct_fields__ if name in document})
