"""Compiled reader of the failure lines that an abort storm prints by the thousand."""

from __future__ import annotations

import numpy as np

from ingest.bulk.kernel.letters import QUOTED, REASON, run
from ingest.bulk.kernel.memory import byte
from ingest.bulk.kernel.reading import compiled, read_digits, read_room, stands, starts, text
from ingest.bulk.layout import FIRST_INT
from ingest.records import MAX_REASON_CHARS

_FAILED_WORDS = (text(b"Decode transfer failed"), text(b"Decode handshake failed"),
                 text(b"Prefill transfer failed"), text(b"Prefill bootstrap failed"))
_FAILED_SIZES = (22, 23, 23, 24)
_FOR_REQUEST, _RANK = text(b" for request"), text(b" rank=")
_DECODE_REQ, _NONE = text(b"decode_req."), text(b"None")
_REQ_RID, _REQ_ROOM = text(b"req.rid="), text(b"req.bootstrap_room=")
_EXCEPTION = text(b" with exception KVTransferError(bootstrap_room=")
_EXCEPTION_END = text(b"): ")
_HTTP_ERROR = text(b"[http_server] Error: ")
_GONE = text(b"Request is disconnected from the client side (type ")
_GONE_RID = text(b"). Abort request obj.rid=")
_OUTPUT = text(b"Received output for rid=")
_DELETED = text(b" but the state was deleted in TokenizerManager.")


@compiled
def quoted(data, at, end, spans):
    """Read a quoted id of plain characters into the first span; position after it or -1."""
    if at >= end or (byte(data, at) != 39 and byte(data, at) != 34):
        return np.int64(-1)
    quote = byte(data, at)
    start = at + 1
    at = run(data, start, end, QUOTED)
    if at == start or at - start > 512 or not stands(data, at, end, quote):
        return np.int64(-1)
    spans[0], spans[1] = start, at
    return at + 1


@compiled
def _room_or_none(data, at, end, ints):
    """Read a room or ``None`` into the first slot; position after it or -1."""
    if starts(data, at, _NONE):
        return at + 4
    room, after, ok = read_room(data, at, end)
    if not ok:
        return np.int64(-1)
    ints[FIRST_INT] = room
    return after


@compiled
def read_failed(data, at, end, ints, spans):
    """Read ``<side> <step> failed for request rank=...``; returns the event number or -1.

    A reason is taken only if nothing in it would be redacted, escaped or cut.
    """
    event = -1
    for number in range(len(_FAILED_WORDS)):
        if starts(data, at, _FAILED_WORDS[number]):
            event = number
            at += _FAILED_SIZES[number]
            break
    if event < 0:
        return -1
    if starts(data, at, _FOR_REQUEST):
        at += 12
    if not starts(data, at, _RANK):
        return -1
    at += 6
    _, after, count = read_digits(data, at, end)
    if count == 0 or count > 5 or not stands(data, after, end, 32):
        return -1
    spans[2], spans[3] = at, after
    at = after + 1
    if starts(data, at, _DECODE_REQ):
        at += 11
    if not starts(data, at, _REQ_RID):
        return -1
    at = quoted(data, at + 8, end, spans)
    if at < 0 or not stands(data, at, end, 32):
        return -1
    at += 1
    if starts(data, at, _DECODE_REQ):
        at += 11
    if not starts(data, at, _REQ_ROOM):
        return -1
    at = _room_or_none(data, at + 19, end, ints)
    if at < 0:
        return -1
    spans[4], spans[5] = end, end
    if at == end:
        return event
    if not starts(data, at, _EXCEPTION):
        return -1
    at += 47
    if starts(data, at, _NONE):
        at += 4
    else:
        start = at
        while at < end and 48 <= byte(data, at) <= 57:
            at += 1
        if at == start or at - start > 20:
            return -1
    if not starts(data, at, _EXCEPTION_END):
        return -1
    at += 3
    if at >= end or end - at > MAX_REASON_CHARS:
        return -1
    if byte(data, at) == 32 or byte(data, end - 1) == 32 or run(data, at, end, REASON) != end:
        return -1
    spans[4] = at
    return event


@compiled
def read_gone(data, at, end, ints, spans):
    """Read ``Request is disconnected from the client side ...``; True if it is one."""
    if starts(data, at, _HTTP_ERROR):
        at += 21
    if not starts(data, at, _GONE):
        return False
    number, after, count = read_digits(data, at + 51, end)
    if count == 0 or not starts(data, after, _GONE_RID):
        return False
    ints[FIRST_INT + 1] = number
    spans[2:6] = end
    return quoted(data, after + 25, end, spans) == end


@compiled
def read_deleted(data, at, end, spans):
    """Read ``Received output for rid=... but the state was deleted ...``; True if it is one."""
    if not starts(data, at, _OUTPUT):
        return False
    spans[2:6] = end
    at = quoted(data, at + 24, end, spans)
    return at >= 0 and starts(data, at, _DELETED) and at + 47 == end
