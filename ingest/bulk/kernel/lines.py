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
from ingest.bulk.kernel.event import read_deleted, read_failed, read_gone
from ingest.bulk.kernel.keys import PLACES
from ingest.bulk.kernel.memory import byte, put_word, word
from ingest.bulk.kernel.prefix import NO_MINUTE, read_prefix
from ingest.bulk.kernel.reading import compiled, starts, text
from ingest.bulk.kernel.stats import read_stats
from ingest.bulk.layout import (
    ACCESS,
    DECODE,
    EVENT,
    FIRST_INT,
    GROUP_ACCESS,
    GROUP_BATCH,
    GROUP_EVENT,
    GROUP_STATS,
    MIN_LINE_BYTES,
    NULL,
    PREFILL,
    REST,
    STATS,
    WIDTHS,
    WORD_BYTES,
)

_DECODE_HEAD = text(b"Decode batch, ")
_PREFILL_HEAD = text(b"Prefill batch, ")
_STATS_HEAD = text(b"ReqTimeStats(rid=")
_OLD_STATS_HEAD = text(b"Req Time Stats(rid=")
_ACCESS_HEAD = text(b"INFO:     ")
_WIDTHS = np.array(WIDTHS, dtype=np.int64)
_GONE, _DELETED = 4, 5


@compiled
def _scan_lines(data, ends, kinds, rows, counts, absent, ints, floats, spans, codes):
    """Fill the outputs for every line; ``ends`` are the positions of the line ends.

    ``kinds`` has a value per line; the others one per line of a group (first index), of which
    ``counts`` tells the number: the line's index, and one row of memory per column. ``absent``
    counts the lines without a value, per group and integer or decimal column.
    """
    some = np.empty(ints.shape[1], dtype=np.int64)
    real = np.empty(floats.shape[1], dtype=np.float64)
    span = np.zeros(spans.shape[1], dtype=np.int64)
    guess = np.zeros((3, PLACES), dtype=np.int64)
    memo = np.full(3, NO_MINUTE, dtype=np.uint64)
    start = 0
    for row in range(len(ends)):
        end = ends[row]
        line, start = start, end + 1
        if end - line < MIN_LINE_BYTES:
            continue
        some[:] = NULL
        at = read_prefix(data, line, end, some, memo)
        if at < 0:
            continue
        first = byte(data, at)
        group, kind, code = -1, REST, -1
        if first == 68 and starts(data, at, _DECODE_HEAD):
            real[:] = np.nan
            group, kind = GROUP_BATCH, DECODE
            code = 2 * read_batch(data, at + 14, end, True, some, real, guess[0])
        elif first == 80 and starts(data, at, _PREFILL_HEAD):
            real[:] = np.nan
            group, kind = GROUP_BATCH, PREFILL
            code = 2 * read_batch(data, at + 15, end, False, some, real, guess[1]) + 1
        elif first == 68 or first == 80:
            group, kind = GROUP_EVENT, EVENT
            code = read_failed(data, at, end, some, span)
        elif first == 82 and starts(data, at, _STATS_HEAD):
            real[:] = np.nan
            group, kind = GROUP_STATS, STATS
            code = 2 * read_stats(data, at + 17, end, some, real, span, guess[2])
        elif first == 82 and starts(data, at, _OLD_STATS_HEAD):
            real[:] = np.nan
            group, kind = GROUP_STATS, STATS
            code = 2 * read_stats(data, at + 19, end, some, real, span, guess[2]) + 1
        elif first == 82 or first == 91:
            group, kind = GROUP_EVENT, EVENT
            if read_gone(data, at, end, some, span):
                code = _GONE
            elif read_deleted(data, at, end, span):
                code = _DELETED
        elif first == 73 and starts(data, at, _ACCESS_HEAD) and _has_no_rank(some):
            group, kind = GROUP_ACCESS, ACCESS
            if read_access(data, at + 10, end, some, span):
                code = 0
        if code < 0:
            continue
        kinds[row] = kind
        at = counts[group]
        counts[group] = at + 1
        rows[group, at] = row
        codes[group, at] = code
        n_ints, n_floats, n_spans = _WIDTHS[group]
        for i in range(n_ints):
            ints[group, i, at] = some[i]
        for i in range(n_floats):
            floats[group, i, at] = real[i]
        for i in range(n_spans):
            spans[group, i, at] = span[i]
        missing = absent[group]
        for i in range(n_ints):
            missing[i] += some[i] == NULL
        for i in range(n_floats):
            missing[n_ints + i] += real[i] != real[i]


@compiled
def _has_no_rank(some):
    # Access lines come from the one process that has no rank.
    for slot in range(2, FIRST_INT):  # noqa: SIM110 - compiled
        if some[slot] != NULL:
            return False
    return True


@compiled
def _copy_texts(data, begins, ends, offsets, out):
    """Copy one text per row into a contiguous buffer with offsets (the layout of Arrow strings).

    Whole words are copied, so ``out`` is longer than the texts by a word.
    """
    at = 0
    for i in range(len(begins)):
        size = ends[i] - begins[i]
        for done in range(0, size, WORD_BYTES):
            put_word(out, at + done, word(data, begins[i] + done))
        at += size
        offsets[i + 1] = at


def _sources() -> int:
    """Return a number that changes with everything that is compiled into the scan."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(layout.__file__),
             Path(records.__file__)]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()
    return int.from_bytes(digest[:7], "big")


def _entry_points(sources: int, *, keep: bool):
    """Return scan and copy, kept on disk between runs if ``keep``.

    The cache looks at the time of one file only, but a closure's values are part of its key.
    """
    entry = njit(cache=keep, nogil=True)

    @entry
    def scan_lines(data, ends, kinds, rows, counts, absent, ints, floats, spans, codes):
        if sources:
            _scan_lines(data, ends, kinds, rows, counts, absent, ints, floats, spans, codes)

    @entry
    def copy_texts(data, begins, ends, offsets, out):
        if sources:
            _copy_texts(data, begins, ends, offsets, out)

    return scan_lines, copy_texts


try:
    scan_lines, copy_texts = _entry_points(_sources(), keep=True)
except RuntimeError:
    # Neither this folder nor the user's cache can be written: every run compiles.
    scan_lines, copy_texts = _entry_points(_sources(), keep=False)
