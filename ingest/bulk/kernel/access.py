"""Compiled reader of uvicorn access lines."""

from __future__ import annotations

from ingest.bulk.kernel.reading import compiled, read_digits, starts, text
from ingest.bulk.layout import FIRST_INT

_DASH, _HTTP = text(b' - "'), text(b" HTTP/")


@compiled
def read_access(data, at, end, ints, spans):
    """Read ``ADDR:PORT - "METHOD PATH HTTP/1.1" CODE ...``; True if it is one."""
    start = at
    while at < end and data[at] != 32:
        c = data[at]
        if not (48 <= c <= 58 or c == 46 or 97 <= c <= 122 or 65 <= c <= 90 or c == 95):
            return False
        at += 1
    colon = at - 1
    while colon > start and data[colon] != 58:
        colon -= 1
    port, after, count = read_digits(data, colon + 1, end)
    if colon <= start or count == 0 or count > 5 or after != at or colon - start > 64:
        return False
    if not starts(data, at, end, _DASH):
        return False
    at += 4
    method = at
    while at < end and 65 <= data[at] <= 90:
        at += 1
    if at == method or at - method > 20 or at >= end or data[at] != 32:
        return False
    method_end = at
    at += 1
    path = at
    while at < end and 33 <= data[at] <= 126 and data[at] != 63 and data[at] != 34:
        at += 1
    if at == path or at >= end or data[at] != 32 or at - path > 2048:
        return False
    path_end = at
    if not starts(data, at, end, _HTTP):
        return False
    at += 6
    while at < end and (48 <= data[at] <= 57 or data[at] == 46):
        at += 1
    if at + 4 >= end or data[at] != 34 or data[at + 1] != 32:
        return False
    code, after, count = read_digits(data, at + 2, end)
    if count != 3 or (after < end and data[after] != 32):
        return False
    for i in range(after, end):
        if data[i] < 32 or data[i] > 126:
            return False
    ints[FIRST_INT], ints[FIRST_INT + 1] = port, code
    spans[0], spans[1] = start, colon
    spans[2], spans[3] = method, method_end
    spans[4], spans[5] = path, path_end
    return True
