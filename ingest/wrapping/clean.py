"""A physical line or payload -> the text that was logged: no ANSI codes, CR, markdown or gap."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate, count
from operator import add
from typing import Final

from ingest.blocks import Block
from ingest.records import Line

BOM: Final = b"\xef\xbb\xbf"
# CSI sequences (colours, cursor), OSC sequences (titles, links), two-byte escapes.
_ANSI: Final = re.compile(
    rb"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])"
)
# An engine prefix whose opening bracket a paste has lost: the bracket is given back.
_OPENED: Final = re.compile(
    rb"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?"
    rb"(?: (?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d{1,5}){0,8}(?: encode_\w{1,40}(?:\[\d{1,5}\])?)?\] "
)
# Bold markdown around a line, or around its prefix only.
_BOLD_LINE: Final = re.compile(rb"\*\*[\[{\d]")
_BOLD_PREFIX: Final = re.compile(rb"\*\*(\[[^\]*]{1,120}\])\*\*")


def clean(raw: bytes) -> bytes:
    """The text as the program logged it."""
    if b"\x1b" in raw:
        raw = _ANSI.sub(b"", raw)
    if raw.endswith(b"\r"):
        raw = raw.rstrip(b"\r")
    if raw.startswith(b"**"):
        prefix = _BOLD_PREFIX.match(raw)
        if prefix is not None:
            raw = prefix[1] + raw[prefix.end():]
        elif _BOLD_LINE.match(raw) is not None:
            raw = raw[2:].rstrip().removesuffix(b"**")
    if raw.startswith(b"20") and _OPENED.match(raw) is not None:
        raw = b"[" + raw
    return raw


def plain_lines(block: Block) -> Iterable[Line]:
    """The block's physical lines, cleaned; the fast path of files without a wrapper."""
    data = block.data
    raws = _split(data)
    offsets: Iterable[int] = map(
        add, accumulate(map(len, raws), initial=0), count(block.byte_offset))
    # The offsets are those of the uncleaned text: they have to be taken before it changes.
    if b"\x1b" in data or b"\r" in data:
        offsets = list(offsets)
        raws = list(map(clean, raws))
    elif _may_change(data):
        offsets = list(offsets)
        raws = [clean(raw) if raw.startswith((b"20", b"**")) else raw for raw in raws]
    if block.byte_offset == 0 and data.startswith(BOM):
        offsets = list(offsets)
        raws[0] = clean(raws[0][len(BOM):])
    return map(Line, raws, count(block.first_line_no), offsets)


def _split(data: bytes) -> list[bytes]:
    raws = data.split(b"\n")
    if not raws[-1]:
        raws.pop()
    return raws


def _may_change(data: bytes) -> bool:
    """Whether a line may carry markdown or a lost bracket."""
    return (
        data.startswith((b"20", b"**")) or b"\n20" in data or b"\n**" in data
    )
