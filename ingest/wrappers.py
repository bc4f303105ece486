"""Takes off what collectors put around log lines, before any grammar sees them.

Kubernetes CRI, Docker json-file, compose, journald, Loki (logcli JSON, API JSON, TSV), Ray, grep,
markdown, ANSI colour, CRLF and BOM, also nested. Which layers a file has is decided once, from its
first 64 KiB; a line without them passes as it is. Pieces of one long line (CRI ``P``, Docker) are
joined, per output channel, across blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from ingest.blocks import Block
from ingest.records import Line
from ingest.wrapping.layers import ANSI, LAYERS, Layer, Peeled, loki_label

_BOM: Final = b"\xef\xbb\xbf"
# A file is wrapped if at least this share of its first lines is, and this many are looked at.
_SHARE: Final = 0.5
_SAMPLE_LINES: Final = 200
_MAX_LAYERS: Final = 4
# A joined line may not grow beyond this many bytes.
_MAX_JOINED: Final = 16 << 20
# Lines that are records already: no layer is looked for on them.
_BARE = re.compile(rb'\[\d{4}-\d\d-\d\d |\{"timestamp":|\{"request_parameters"|[IWEF]\d{4} \d\d:'
                   rb'|\d{4}-\d\d-\d\d \d\d:|Receive: obj=|Finish: obj=|Receive OpenAI: obj=')
# A pasted line that lost its first bracket.
_LOST = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?"
                   rb"(?: (?:DP|PP|TP|EP|ATTN_CP|MOE_DP)\d{1,4}){0,6}\] ")


class Wrapper(Protocol):
    """Takes the wrapping of one file off; keeps state across the blocks of that file."""

    name: str

    def peel(self, block: Block) -> Iterator[Line]: ...

    def flush(self) -> Iterator[Line]: ...


class Plain:
    """No wrapping: lines are split; carriage returns, colour codes and a BOM are taken off."""

    name = "plain"

    def peel(self, block: Block) -> Iterator[Line]:
        """Yield the lines of a block."""
        for raw, line_no, offset in split_lines(block):
            yield Line(raw, line_no, offset)

    def flush(self) -> Iterator[Line]:
        """Nothing is held back."""
        return iter(())


def split_lines(block: Block) -> Iterator[tuple[bytes, int, int]]:
    """Yield (line without end, number, offset); ANSI codes and carriage returns are taken off."""
    data, offset, number = block.data, block.byte_offset, block.first_line_no
    coloured, returns = b"\x1b" in data, b"\r" in data
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    for raw in lines:
        size = len(raw) + 1
        if returns and raw.endswith(b"\r"):
            raw = raw[:-1]
        if coloured and b"\x1b" in raw:
            raw = ANSI.sub(b"", raw)
        if offset == 0 and raw.startswith(_BOM):
            raw = raw[len(_BOM):]
        if _LOST.match(raw):
            raw = b"[" + raw
        yield raw, number, offset
        offset += size
        number += 1


@dataclass(slots=True)
class _Joined:
    parts: list[bytes]
    size: int
    line_no: int
    offset: int
    stream: str
    outer_ns: int | None


@dataclass(slots=True)
class Layered:
    """One or more layers, in a fixed order of trying; see the module docstring."""

    name: str
    layers: tuple[Layer, ...]
    _open: dict[str, _Joined] = field(default_factory=dict)

    def peel(self, block: Block) -> Iterator[Line]:
        """Yield the lines inside the wrapping of a block."""
        for raw, line_no, offset in split_lines(block):
            yield from self._line(raw, line_no, offset)

    def _line(self, raw: bytes, line_no: int, offset: int) -> Iterator[Line]:
        labels: list[str] = []
        outer: int | None = None
        partial: str | None = None
        closes: str | None = None
        for _ in range(_MAX_LAYERS):
            found = self._one(raw)
            if found is None:
                break
            raw = found.inner
            if found.label:
                labels.append(found.label)
            outer = found.outer_ns if found.outer_ns is not None else outer
            partial, closes = found.partial or partial, found.closes or closes
        if b"\x1b" in raw:
            raw = ANSI.sub(b"", raw)
        raw = raw.rstrip(b"\r")
        if _LOST.match(raw):
            raw = b"[" + raw
        stream = "/".join(labels)
        if partial is None and closes is None:
            yield Line(raw, line_no, offset, stream, outer)
            return
        key = f"{stream}\0{partial or closes}"
        held = self._open.get(key)
        if partial is not None:
            if held is None:
                self._open[key] = _Joined([raw], len(raw), line_no, offset, stream, outer)
            elif held.size + len(raw) <= _MAX_JOINED:
                held.parts.append(raw)
                held.size += len(raw)
            return
        if held is None:
            yield Line(raw, line_no, offset, stream, outer)
            return
        del self._open[key]
        yield _joined(held, raw)

    def _one(self, raw: bytes) -> Peeled | None:
        if _BARE.match(raw):
            return None
        for layer in self.layers:
            if (found := layer(raw)) is not None:
                return found
        return None

    def flush(self) -> Iterator[Line]:
        """Yield the lines whose last piece never came."""
        for held in self._open.values():
            yield _joined(held, b"")
        self._open.clear()


def _joined(held: _Joined, last: bytes) -> Line:
    return Line(b"".join((*held.parts, last)), held.line_no, held.offset, held.stream,
                held.outer_ns)


class LokiDocument:
    """A Loki API answer: one JSON document with streams of [ns, line]."""

    name = "loki-api"

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def peel(self, block: Block) -> Iterator[Line]:
        """Collect the document; its lines come at the end."""
        if self._size <= _MAX_JOINED * 16:
            self._parts.append(block.data)
            self._size += len(block.data)
        if block.final:
            yield from self.flush()

    def flush(self) -> Iterator[Line]:
        """Yield the lines of all streams; the stream label names the source."""
        text, self._parts = b"".join(self._parts), []
        try:
            data = msgspec.json.decode(text) if text else {}
            results = data["data"]["result"]
        except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
            return
        number = 0
        for entry in results if isinstance(results, list) else ():
            if not isinstance(entry, dict) or not isinstance(entry.get("values"), list):
                continue
            label = loki_label(entry.get("stream")) or ""
            for value in entry["values"]:
                if not (isinstance(value, list) and len(value) >= 2
                        and isinstance(value[1], str)):
                    continue
                number += 1
                stamp = str(value[0])
                outer = int(stamp) if stamp.isdigit() and len(stamp) <= 19 else None
                raw = ANSI.sub(b"", value[1].encode("utf-8", errors="replace")).rstrip(b"\r\n")
                # The document is one physical line: numbers count its entries.
                yield Line(raw, number, number, label, outer)


def detect_wrapper(head: bytes) -> Wrapper:
    """Return the wrapper of a file by its first 64 KiB; ``Plain`` if it has none."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:200]
    if start.startswith(b"{") and b'"status"' in start and b'"success"' in start and (
            b'"resultType"' in head[:4096] and b'"streams"' in head[:4096]):
        return LokiDocument()
    lines = [raw for raw, _, _ in split_lines(Block(head, 0, 1)) if raw.strip()]
    lines = lines[:_SAMPLE_LINES]
    chosen: list[str] = []
    for _ in range(_MAX_LAYERS):
        name = _dominant(lines)
        if name is None or name in chosen:
            break
        chosen.append(name)
        layer = LAYERS[name]
        lines = [found.inner for raw in lines if (found := layer(raw)) and found.inner]
    if not chosen:
        return Plain()
    return Layered("+".join(chosen), tuple(LAYERS[name] for name in LAYERS if name in chosen))


def _dominant(lines: list[bytes]) -> str | None:
    """Return the layer that most lines have, if at least half of the candidates do."""
    open_lines = [raw for raw in lines if not _BARE.match(raw)]
    if not open_lines or len(open_lines) < _SHARE * len(lines):
        return None
    counts = {
        name: sum(1 for raw in open_lines if layer(raw) is not None)
        for name, layer in LAYERS.items()
    }
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] >= max(1, _SHARE * len(open_lines)) else None
