"""JSON objects of collectors, decoded strictly first and leniently when bytes are not UTF-8."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def decode_object(decoder: msgspec.json.Decoder[T], raw: bytes) -> T | None:
    """The object in ``raw``; None if it is malformed or of another shape."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_leniently(decoder, raw)


def decode_string(token: bytes) -> bytes:
    """The bytes that a JSON string token (quotes included) stands for; b'' if it is damaged."""
    try:
        return msgspec.json.decode(token, type=str).encode()
    except (msgspec.DecodeError, UnicodeError):
        try:
            value = json.loads(token.decode("utf-8", "surrogateescape"), strict=False)
        except ValueError:
            return b""
        return text_bytes(value) if isinstance(value, str) else b""


def text_bytes(text: str) -> bytes:
    """The bytes of a decoded string, undecodable ones as they were."""
    for errors in ("strict", "surrogateescape", "surrogatepass"):
        try:
            return text.encode("utf-8", errors)
        except UnicodeEncodeError:
            continue
    return text.encode("utf-8", "replace")


def _decode_leniently(decoder: msgspec.json.Decoder[T], raw: bytes) -> T | None:
    try:
        value: Any = json.loads(raw.decode("utf-8", "surrogateescape"), strict=False)
        record: T = msgspec.convert(value, decoder.type)
    except (ValueError, RecursionError):
        return None
    return record
