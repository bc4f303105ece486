"""What a file is, by its first bytes: a document, or lines of known formats, wrapped or not."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ingest.block_rows import claims_any
from ingest.blocks import Block, decode_evidence
from ingest.records import DocumentFormat, Line
from ingest.registry import Registry
from ingest.wrappers import Wrapper, detect_wrapper

# A document or a wrapper shows in the first 64 KiB; a line of a known format has to come within
# the first MiB (a boot log starts with warnings and banners).
SNIFF_BYTES: Final = 64 * 2**10
HEAD_LIMIT_BYTES: Final = 2**20
_LEAST_CONFIDENCE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Kind:
    """``document`` if it is one; else whether known ``lines`` were seen behind ``wrapper``."""

    document: DocumentFormat | None
    wrapper: str
    lines: bool


def recognise(formats: Registry, head: bytes, name: str) -> Kind:
    """Recognise a file by its first bytes; ``name`` may add facts, never decide alone."""
    head = decode_head(head)
    sniffed = head[:SNIFF_BYTES]
    best: tuple[float, DocumentFormat] | None = None
    for document in formats.documents:
        match = document.sniff(sniffed, name)
        if match is not None and match.confidence >= _LEAST_CONFIDENCE and (
            best is None or match.confidence > best[0]
        ):
            best = (match.confidence, document)
    if best is not None:
        return Kind(best[1], detect_wrapper(b"").name, False)
    wrapper = wrapper_of(head).name
    known = claims_any(formats.lines, _peel(sniffed))
    if not known and len(head) > SNIFF_BYTES:
        # Only a file that begins with other text is looked at further.
        lines = list(_peel(head))
        # A wrapper that is one large document shows its lines only when it is read whole.
        known = claims_any(formats.lines, lines) or (not lines and len(head) >= HEAD_LIMIT_BYTES)
    return Kind(None, wrapper, known)


def wrapper_of(head: bytes) -> Wrapper:
    """A new wrapper for the file whose (decoded) beginning this is."""
    return detect_wrapper(head[:SNIFF_BYTES])


def decode_head(head: bytes) -> bytes:
    """The beginning of a file as UTF-8, like the blocks that follow."""
    stream = decode_evidence(io.BytesIO(head))
    return b"".join(iter(lambda: stream.read(len(head) + 1), b""))


def _peel(head: bytes) -> Iterator[Line]:
    """The whole lines of a file's beginning; a beginning without line end is one line."""
    whole = head[:head.rfind(b"\n") + 1] or head
    wrapper = wrapper_of(head)
    yield from wrapper.peel(Block(whole, 0, 1))
    yield from wrapper.flush()
