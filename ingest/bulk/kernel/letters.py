"""Classes of bytes, and the end of a run of one class."""

from __future__ import annotations

import string

import numpy as np

from ingest.bulk.kernel.memory import byte, inlined

RID, ADDRESS, PATH, PRINTED, REASON, QUOTED = 1, 2, 4, 8, 16, 32

_ASCII = frozenset(range(33, 127))
_CLASSES = {
    # Up to a comma; parentheses would end or nest what stands around an id.
    RID: _ASCII - set(b",()"),
    ADDRESS: set((string.ascii_letters + string.digits + ":._").encode()),
    PATH: _ASCII - set(b'?"'),
    PRINTED: _ASCII | {32},
    # Nothing that would be redacted, escaped or cut.
    REASON: (_ASCII | {32}) - set(b"\"'["),
    QUOTED: _ASCII - set(b"\"'"),
}
_TABLE = np.array(
    [sum(bit for bit, members in _CLASSES.items() if code in members) for code in range(256)],
    dtype=np.uint8)


@inlined
def run(data, at, end, letters):
    """Position of the first byte from ``at`` on that is not of the class, or ``end``."""
    while at < end and byte(_TABLE, byte(data, at)) & letters:
        at += 1
    return at
