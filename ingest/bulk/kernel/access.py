"""Compiled reader of uvicorn access lines."""

from __future__ import annotations

from ingest.bulk.kernel.letters import ADDRESS, PATH, PRINTED, run
from ingest.bulk.kernel.memory import byte
from ingest.bulk.kernel.reading import compiled, read_digits, stands, starts, text
from ingest.bulk.layout import FIRST_INT

_DASH, _HTTP, _QUOTE = text(b' - "'), text(b" HTTP/"), text(b'" ')


@compiled
def read_access(data, at, end, ints, spans):
    """Read ``ADDR:PORT - "METHOD PATH HTTP/1.1" CODE ...``; True if it is one."""
    start = at
    at = run(data, at, end, ADDRESS)
    colon = at - 1
    while colon > start and byte(data, colon) != 58:
        colon -= 1
    port, after, count = read_digits(data, colon + 1, end)
    if colon <= start or count == 0 or count > 5 or after != at or colon - start > 64:
        return False
    if not starts(data, at, _DASH):
        return False
    at += 4
    method = at
    while at < end and 65 <= byte(data, at) <= 90:
        at += 1
    if at == method or at - method > 20 or not stands(data, at, end, 32):
        return False
    method_end = at
    at += 1
    path = at
    at = path_end = run(data, at, end, PATH)
    if at == path or at - path > 2048 or not starts(data, at, _HTTP):
        return False
    at += 6
    version = at
    while at < end and (48 <= byte(data, at) <= 57 or byte(data, at) == 46):
        at += 1
    if at == version or at - version > 4 or not starts(data, at, _QUOTE):
        return False
    code, after, count = read_digits(data, at + 2, end)
    if count != 3 or (after < end and byte(data, after) != 32):
        return False
    if run(data, after, end, PRINTED) != end:
        return False
    ints[FIRST_INT], ints[FIRST_INT + 1] = port, code
    spans[0], spans[1] = start, colon
    spans[2], spans[3] = method, method_end
    spans[4], spans[5] = path, path_end
    return True
