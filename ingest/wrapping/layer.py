"""One wrapper around log lines: what it says of a line, and lines that it has cut in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from ingest.records import Line

# Joined pieces of one line, and all unfinished lines of a file together, in bytes. Above that the
# pieces are given as they are: hostile input must not fill memory.
_MAX_JOINED_BYTES: Final = 16 * 2**20
_MAX_OPEN_BYTES: Final = 32 * 2**20
_MAX_OPEN_LINES: Final = 4096
_MAX_STREAM_CHARS: Final = 200
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Text that begins a record: engine prefix, JSON, router stamp, ANSI colour, glog.
_RECORD: Final = re.compile(rb"[\[{\x1b]|\*\*\[|\d{4}-\d\d-\d\d|[IWEF]\d{4} \d\d:\d\d:")


class Peeled(msgspec.Struct, frozen=True, gc=False):
    """A line without its wrapper.

    ``payload``: None drops the line (it carries nothing). ``open``: the line goes on in the next
    one of the same ``channel`` of the same stream.
    """

    payload: bytes | None
    stream: str = ""
    outer_ns: int | None = None
    open: bool = False
    channel: str = ""


class Layer(Protocol):
    """Peels one wrapper off lines; lines that do not have it pass as they are.

    ``sure``: False if other text may look alike, so that what it holds has to be records.
    """

    @property
    def name(self) -> str:
        """What the wrapper is."""
        ...

    @property
    def sure(self) -> bool:
        """Whether the wrapper's look alone proves it."""
        ...

    def feed(self, line: Line) -> Iterable[Line]:
        """The lines that this one completes."""
        ...

    def flush(self) -> Iterable[Line]:
        """What is still unfinished at the end."""
        ...

    def pending(self) -> tuple[int, int] | None:
        """(byte offset, line number) from where on reading has to begin again to go on."""
        ...


Peel = Callable[[bytes], Peeled | None]


@dataclass(slots=True)
class _Unfinished:
    first: Line
    stream: str
    outer_ns: int | None
    parts: list[bytes]
    size: int


@dataclass(slots=True)
class LineLayer:
    """A wrapper that shows on every line by itself."""

    name: str
    peel: Peel
    sure: bool = True
    unfinished: dict[tuple[str, str], _Unfinished] = field(default_factory=dict)
    open_bytes: int = 0

    def feed(self, line: Line) -> Iterable[Line]:
        """The lines that this one completes, or the line itself if it has no wrapper."""
        peeled = self.peel(line.raw)
        if peeled is None:
            return (line,)
        payload = peeled.payload
        if payload is None:
            return ()
        stream = joined_stream(line.stream, peeled.stream)
        outer_ns = line.outer_ns if peeled.outer_ns is None else peeled.outer_ns
        if peeled.open or self.unfinished:
            return self._join(line, peeled, payload, stream, outer_ns)
        return split_payload(payload, line, stream, outer_ns)

    def flush(self) -> Iterator[Line]:
        """Lines whose last piece never came."""
        for key in list(self.unfinished):
            yield from self._close(key)

    def pending(self) -> tuple[int, int] | None:
        """Where the first unfinished line begins."""
        starts = [(u.first.byte_offset, u.first.line_no) for u in self.unfinished.values()]
        return min(starts, default=None)

    def _join(
        self, line: Line, peeled: Peeled, payload: bytes, stream: str, outer_ns: int | None
    ) -> Iterable[Line]:
        key = (stream, peeled.channel)
        known = self.unfinished.get(key)
        if known is None:
            if not peeled.open:
                return split_payload(payload, line, stream, outer_ns)
            known = self.unfinished[key] = _Unfinished(line, stream, outer_ns, [], 0)
        known.parts.append(payload)
        known.size += len(payload)
        self.open_bytes += len(payload)
        if not peeled.open or known.size > _MAX_JOINED_BYTES:
            return self._close(key)
        if self.open_bytes > _MAX_OPEN_BYTES or len(self.unfinished) > _MAX_OPEN_LINES:
            return self._close(next(iter(self.unfinished)))
        return ()

    def _close(self, key: tuple[str, str]) -> Iterable[Line]:
        known = self.unfinished.pop(key)
        self.open_bytes -= known.size
        return split_payload(b"".join(known.parts), known.first, known.stream, known.outer_ns)


def split_payload(
    payload: bytes, line: Line, stream: str, outer_ns: int | None
) -> Iterable[Line]:
    """The payload as lines; those after a newline inside it are told apart by their offset."""
    if payload.endswith(b"\n"):
        payload = payload[:-1]
    if b"\n" not in payload:
        return (Line(payload, line.line_no, line.byte_offset, stream, outer_ns),)
    return [
        Line(part, line.line_no, line.byte_offset + number, stream, outer_ns)
        for number, part in enumerate(payload.split(b"\n"))
    ]


def joined_stream(outer: str, inner: str) -> str:
    """Name of a stream inside a stream."""
    if not inner or inner == outer:
        return outer
    return f"{outer}/{inner}" if outer else inner


@lru_cache(maxsize=4096)
def stream_name(text: str | bytes) -> str:
    """Text of the evidence as a stream name: printable and bounded."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)[:_MAX_STREAM_CHARS]


def fits(peel: Peel, raws: Iterable[bytes], *, share: float) -> bool:
    """Whether at least this share of the non-blank lines, and one of them, carry the wrapper."""
    lines = [raw for raw in raws if raw.strip()]
    count = sum(p is not None and p.payload is not None for p in map(peel, lines))
    return count >= max(1, share * len(lines))


def holds_records(raws: Sequence[bytes]) -> bool:
    """Whether some of the lines begin as log records do, the others being their tails."""
    lines = [raw for raw in raws if raw.strip()]
    return sum(_RECORD.match(raw) is not None for raw in lines) > 0.05 * len(lines)
