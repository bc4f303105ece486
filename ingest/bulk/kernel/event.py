"""Compiled reader of the failure lines that an abort storm prints by the thousand."""

from __future__ import annotations

import numpy as np

from ingest.bulk.kernel.reading import compiled, read_digits, read_room, starts, text
from ingest.bulk.layout import FIRST_INT
from ingest.records import MAX_REASON_CHARS

_FAILED_WORDS = (text(b"Decode transfer failed"), text(b"Decode handshake failed"),
                 text(b"Prefill transfer failed"), text(b"Prefill bootstrap failed"))
_FOR_REQUEST, _RANK = text(b" for request"), text(b" rank=")
_DECODE_REQ, _NONE = text(b"decode_req."), text(b"None")
_REQ_RID, _REQ_ROOM = text(b"req.rid="), text(b"req.bootstrap_room=")
_EXCEPTION = text(b" with exception KVTransferError(bootstrap_room=")
_GONE = text(b"Request is disconnected from the client side (type ")
_GONE_RID = text(b"). Abort request obj.rid=")


@compiled
def quoted(data, at, end, spans):
    """Read a quoted id of plain characters into the first span; position after it or -1."""
    if at >= end or (data[at] != 39 and data[at] != 34):
        return -1
    quote = data[at]
    start = at + 1
    at = start
    while at < end and data[at] != 39 and data[at] != 34:
        if data[at] < 33 or data[at] > 126:
            return -1
        at += 1
    if at == start or at - start > 512 or at >= end or data[at] != quote:
        return -1
    spans[0], spans[1] = start, at
    return at + 1


@compiled
def _room_or_none(data, at, end, ints):
    """Read a room or ``None`` into the first slot; position after it or -1."""
    if starts(data, at, end, _NONE):
        return at + 4
    room, after, ok = read_room(data, at, end)
    if not ok or after - at > 20 or room > np.uint64(9223372036854775807):
        return -1
    ints[FIRST_INT] = np.int64(room)
    return after


@compiled
def read_failed(data, at, end, ints, spans):
    """Read ``<side> <step> failed for request rank=...``; returns the event number or -1.

    A reason is taken only if nothing in it would be redacted, escaped or cut.
    """
    event = -1
    for number in range(len(_FAILED_WORDS)):
        if starts(data, at, end, _FAILED_WORDS[number]):
            event = number
            at += len(_FAILED_WORDS[number])
    if event < 0:
        return -1
    if starts(data, at, end, _FOR_REQUEST):
        at += 12
    if not starts(data, at, end, _RANK):
        return -1
    at += 6
    _, after, count = read_digits(data, at, end)
    if count == 0 or count > 5 or after >= end or data[after] != 32:
        return -1
    spans[2], spans[3] = at, after
    at = after + 1
    if starts(data, at, end, _DECODE_REQ):
        at += 11
    if not starts(data, at, end, _REQ_RID):
        return -1
    at = quoted(data, at + 8, end, spans)
    if at < 0 or at >= end or data[at] != 32:
        return -1
    at += 1
    if starts(data, at, end, _DECODE_REQ):
        at += 11
    if not starts(data, at, end, _REQ_ROOM):
        return -1
    at = _room_or_none(data, at + 19, end, ints)
    if at < 0:
        return -1
    spans[4], spans[5] = end, end
    if at == end:
        return event
    if not starts(data, at, end, _EXCEPTION):
        return -1
    at += 47
    if starts(data, at, end, _NONE):
        at += 4
    else:
        start = at
        while at < end and 48 <= data[at] <= 57:
            at += 1
        if at == start or at - start > 20:
            return -1
    if at + 3 >= end or data[at] != 41 or data[at + 1] != 58 or data[at + 2] != 32:
        return -1
    at += 3
    if end - at > MAX_REASON_CHARS or data[at] == 32 or data[end - 1] == 32:
        return -1
    for i in range(at, end):
        c = data[i]
        if c < 32 or c > 126 or c == 34 or c == 39 or c == 91:
            return -1
    spans[4] = at
    return event


@compiled
def read_gone(data, at, end, ints, spans):
    """Read ``Request is disconnected from the client side ...``; True if it is one."""
    if not starts(data, at, end, _GONE):
        return False
    number, after, count = read_digits(data, at + 51, end)
    if count == 0 or not starts(data, after, end, _GONE_RID):
        return False
    ints[FIRST_INT + 1] = number
    spans[2] = spans[3] = spans[4] = spans[5] = end
    return quoted(data, after + 25, end, spans) == end
