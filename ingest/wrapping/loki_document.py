"""Loki's ``query_range`` answer, one JSON document, compact or indented, as a stream of tokens.

    {"status":"success","data":{"resultType":"streams","result":[{"stream":{"pod":"prefill-0"},
    "values":[["1767323045123456789","[2026-01-02 03:04:05] ..."], ...]}]}}

Format: grafana/loki ``pkg/loghttp``. A JSON string never spans physical lines, so each line is
cut into tokens by itself and only the nesting is kept. Entries keep the order of the document,
which is newest first by default. A line's offset is that of its string in the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ingest.records import Line
from ingest.wrapping.instant import in_range
from ingest.wrapping.jsontext import decode_string
from ingest.wrapping.layer import joined_stream, split_payload, stream_name
from ingest.wrapping.loki import labelled_stream

_TOKEN: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|[^\s"\[\]{},:]++|"', re.DOTALL
)
_HEAD: Final = re.compile(rb'\s{0,64}\{\s{0,64}"(?:status|data)"\s{0,64}:')
_STREAMS: Final = re.compile(rb'"resultType"\s{0,64}:\s{0,64}"streams"')
_RESULT: Final = re.compile(rb'"(?:stream|values)"\s{0,64}:\s{0,64}[{\[]')
# Deeper nesting than an answer ever has.
_MAX_DEPTH: Final = 32
_MAX_LABELS: Final = 256


@dataclass(slots=True)
class _Frame:
    """An open object (``key``: the member being read) or array (``index``: its position)."""

    is_object: bool
    key: bytes | None = None
    index: int = 0


@dataclass(slots=True)
class LokiDocument:
    """Peels the entries out of the document; text around the document passes as it is."""

    name: str = "loki-document"
    sure: bool = True
    frames: list[_Frame] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    stream: str = ""
    stamp_ns: int | None = None
    results: int = 0
    start: tuple[int, int] | None = None

    def feed(self, line: Line) -> Iterator[Line]:
        """The entries that begin on this physical line."""
        raw = line.raw
        if not self.frames:
            if _HEAD.match(raw) is None and raw.strip() != b"{":
                yield line
                return
            self.start, self.results = (line.byte_offset, line.line_no), 0
        for match in _TOKEN.finditer(raw):
            token = match[0]
            if token == b'"' or len(self.frames) > _MAX_DEPTH:
                # Cut in the middle of a string, or no answer of Loki: passed on from here.
                self.frames.clear()
                yield Line(raw[match.start():], line.line_no, line.byte_offset + match.start(),
                           line.stream, line.outer_ns)
                return
            if token[:1] == b'"':
                yield from self._string(token, line, match.start())
            else:
                self._other(token)

    def flush(self) -> Iterable[Line]:
        """Nothing is held back."""
        return ()

    def pending(self) -> tuple[int, int] | None:
        """The document's beginning, as long as it is open."""
        return self.start if self.frames else None

    def _other(self, token: bytes) -> None:
        frames = self.frames
        if token in (b"{", b"["):
            is_object = token == b"{"
            if is_object and len(frames) > 1 and frames[-2].key == b"result":
                # The next result of the answer; it names its stream before its entries.
                self.labels, self.results = {}, self.results + 1
                self.stream = f"result {self.results}"
            frames.append(_Frame(is_object))
        elif token in (b"}", b"]"):
            if frames:
                frames.pop()
            if token == b"}" and frames and frames[-1].key == b"stream" and self.labels:
                self.stream = labelled_stream(self.labels) or self.stream
        elif token == b"," and frames:
            frames[-1].key = None
            frames[-1].index += 1

    def _string(self, token: bytes, line: Line, at: int) -> Iterable[Line]:
        frames = self.frames
        if not frames:
            return ()
        top = frames[-1]
        if top.is_object:
            if top.key is None:
                top.key = token[1:-1]
            elif len(frames) > 1 and frames[-2].key == b"stream" and (
                len(self.labels) < _MAX_LABELS
            ):
                self.labels[stream_name(top.key)] = stream_name(decode_string(token))
            return ()
        if len(frames) < 3 or frames[-2].is_object or frames[-3].key != b"values":
            return ()
        if top.index == 0:
            digits = token[1:-1]
            self.stamp_ns = in_range(int(digits)) if digits.isdigit() and len(digits) < 20 else None
            return ()
        if top.index > 1:
            return ()
        entry = Line(b"", line.line_no, line.byte_offset + at)
        return split_payload(decode_string(token), entry,
                             joined_stream(line.stream, self.stream), self.stamp_ns)


def detect_document(raws: Sequence[bytes]) -> LokiDocument | None:
    """An answer of streams; ``raws`` are the lines of a file's beginning."""
    head = b"\n".join(raws)[:65536]
    if _HEAD.match(head) is None:
        return None
    if _STREAMS.search(head) is None and len(set(_RESULT.findall(head))) < 2:
        return None
    return LokiDocument()
