"""One pass over a block of bytes, line by line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numba import njit

from ingest import records
from ingest.bulk import layout
from ingest.bulk.kernel.access import read_access
from ingest.bulk.kernel.batch import read_batch
from ingest.bulk.kernel.event import read_failed, read_gone
from ingest.bulk.kernel.keys import PLACES
from ingest.bulk.kernel.prefix import read_prefix
from ingest.bulk.kernel.reading import compiled, starts, text
from ingest.bulk.kernel.stats import read_stats
from ingest.bulk.layout import (
    ACCESS,
    DECODE,
    EVENT,
    GROUP_ACCESS,
    GROUP_BATCH,
    GROUP_EVENT,
    GROUP_STATS,
    MIN_LINE_BYTES,
    NULL,
    PREFILL,
    STATS,
)

_DECODE_HEAD = text(b"Decode batch, ")
_PREFILL_HEAD = text(b"Prefill batch, ")
_STATS_HEAD = text(b"ReqTimeStats(rid=")
_ACCESS_HEAD = text(b"INFO:     ")


@compiled
def _scan_lines(data, ends, kinds, rows, counts, ints, floats, spans, codes):
    """Fill the outputs for every line; ``ends`` are the positions of the line ends.

    ``kinds`` has a value per line; the others one per line of a group (first index), of which
    ``counts`` tells the number: the line's index, and one row of memory per column.
    """
    some = np.empty(ints.shape[1], dtype=np.int64)
    real = np.empty(floats.shape[1], dtype=np.float64)
    span = np.zeros(spans.shape[1], dtype=np.int64)
    guess = np.zeros((3, PLACES), dtype=np.int64)
    start = 0
    for row in range(len(ends)):
        end = ends[row]
        line, start = start, end + 1
        if end - line < MIN_LINE_BYTES:
            continue
        some[:] = NULL
        at = read_prefix(data, line, end, some)
        if at < 0 or at >= end:
            continue
        first = data[at]
        group, kind, code = -1, 0, 0
        if first == 68 and starts(data, at, end, _DECODE_HEAD):
            real[:] = np.nan
            code = read_batch(data, at + 14, end, True, some, real, guess[0])
            group, kind = GROUP_BATCH, DECODE
        elif first == 80 and starts(data, at, end, _PREFILL_HEAD):
            real[:] = np.nan
            code = read_batch(data, at + 15, end, False, some, real, guess[1])
            group, kind = GROUP_BATCH, PREFILL
        elif first == 82 and starts(data, at, end, _STATS_HEAD):
            real[:] = np.nan
            code = read_stats(data, at + 17, end, some, real, span, guess[2])
            group, kind = GROUP_STATS, STATS
        elif first == 73 and starts(data, at, end, _ACCESS_HEAD):
            group, kind = GROUP_ACCESS, ACCESS
            if not (some[2] == NULL and some[3] == NULL and some[4] == NULL and some[5] == NULL
                    and some[6] == NULL and some[7] == NULL
                    and read_access(data, at + 10, end, some, span)):
                code = -1
        elif first == 68 or first == 80:
            code = read_failed(data, at, end, some, span)
            group, kind = GROUP_EVENT, EVENT
        elif first == 82:
            code = 4 if read_gone(data, at, end, some, span) else -1
            group, kind = GROUP_EVENT, EVENT
        if group < 0 or code < 0:
            continue
        if group == GROUP_BATCH:
            code = 2 * code + (1 if kind == PREFILL else 0)
        kinds[row] = kind
        at = counts[group]
        counts[group] = at + 1
        rows[group, at] = row
        codes[group, at] = code
        for i in range(len(some)):
            ints[group, i, at] = some[i]
        if group in (GROUP_BATCH, GROUP_STATS):
            for i in range(len(real)):
                floats[group, i, at] = real[i]
        if group != GROUP_BATCH:
            for i in range(len(span)):
                spans[group, i, at] = span[i]


def _sources() -> int:
    """Return a number that changes with everything that is compiled into the scan."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(layout.__file__),
             Path(records.__file__)]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()
    return int.from_bytes(digest[:7], "big")


def _kept(sources: int):
    """Return the scan as kept on disk between runs.

    The cache looks at the time of one file only, but a closure's values are part of its key.
    """
    @njit(cache=True, nogil=True)
    def scan_lines(data, ends, kinds, rows, counts, ints, floats, spans, codes):
        if sources:
            _scan_lines(data, ends, kinds, rows, counts, ints, floats, spans, codes)

    return scan_lines


scan_lines = _kept(_sources())


@njit(cache=True, nogil=True)
def copy_texts(data, begins, ends, offsets, out):
    """Copy one text per row into a contiguous buffer with offsets (the layout of Arrow strings)."""
    at = 0
    for i in range(len(begins)):
        for j in range(begins[i], ends[i]):
            out[at] = data[j]
            at += 1
        offsets[i + 1] = at
