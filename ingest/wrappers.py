"""What stands around the lines of a file -> the lines themselves, with their stream and stamp.

``detect_wrapper`` looks at a file's beginning and chooses the layers that fit clearly, outermost
first; a line that lacks a layer passes that layer as it is. A request log, an engine line or a
router line is never taken for a wrapper.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ingest.blocks import Block, decode_evidence, encoding_of
from ingest.records import Line
from ingest.wrapping.clean import BOM, clean, plain_lines
from ingest.wrapping.container import (
    detect_compose,
    detect_cri,
    detect_docker,
    detect_kubectl,
)
from ingest.wrapping.journal import detect_entries, detect_short
from ingest.wrapping.layer import Layer, holds_records
from ingest.wrapping.loki import detect_logcli, detect_rows
from ingest.wrapping.loki_document import detect_document
from ingest.wrapping.prefix import detect_grep, detect_ray, detect_stamp

PLAIN: Final = "plain"
_HEAD_BYTES: Final = 64 * 2**10
# Lines of the beginning that are looked at, and wrappers inside wrappers.
_SAMPLE_LINES: Final = 500
_MAX_DEPTH: Final = 4

# Most specific first: what a later one would also take belongs to the earlier one.
_DETECTORS: Final[tuple[Callable[[Sequence[bytes]], Layer | None], ...]] = (
    detect_document, detect_docker, detect_entries, detect_logcli, detect_cri, detect_rows,
    detect_kubectl, detect_ray, detect_grep, detect_compose, detect_short, detect_stamp,
)


class Wrapper(Protocol):
    """Peels the blocks of one file, in order, and at its end whatever is unfinished."""

    @property
    def name(self) -> str:
        """What the wrapper is, 'plain' if there is none."""
        ...

    def peel(self, block: Block) -> Iterator[Line]:
        """The lines that the block completes; cut lines wait for their rest."""
        ...

    def flush(self) -> Iterator[Line]:
        """Lines whose rest never came; call once, after the final block."""
        ...

    def pending(self) -> tuple[int, int] | None:
        """(byte offset, line number) from which a later continuation has to read again.

        None if it may go on behind the last block. Ask before ``flush``.
        """
        ...


@dataclass(frozen=True, slots=True)
class Plain:
    """No wrapper: physical lines, cleaned of ANSI codes and line ends."""

    name: str = PLAIN

    def peel(self, block: Block) -> Iterator[Line]:
        """The block's lines."""
        return iter(plain_lines(block))

    def flush(self) -> Iterator[Line]:
        """Nothing is held back."""
        return iter(())

    def pending(self) -> tuple[int, int] | None:
        """Every line stands for itself."""
        return None


@dataclass(slots=True)
class Chain:
    """Wrappers around wrappers, outermost first."""

    layers: tuple[Layer, ...]

    @property
    def name(self) -> str:
        """The layers' names, outermost first, joined by '+'."""
        return "+".join(layer.name for layer in self.layers)

    def peel(self, block: Block) -> Iterator[Line]:
        """The lines that the block completes."""
        lines: Iterable[Line] = plain_lines(block)
        for layer in self.layers:
            lines = _through(layer, lines)
        return iter(lines)

    def flush(self) -> Iterator[Line]:
        """What the layers hold back, each through the layers inside it."""
        for number, layer in enumerate(self.layers):
            lines: Iterable[Line] = map(_cleaned, layer.flush())
            for inner in self.layers[number + 1:]:
                lines = _through(inner, lines)
            yield from lines

    def pending(self) -> tuple[int, int] | None:
        """The first place that a layer needs again."""
        places = [place for layer in self.layers if (place := layer.pending()) is not None]
        return min(places, default=None)


_PLAIN_WRAPPER: Final = Plain()


def detect_wrapper(head: bytes) -> Wrapper:
    """Choose the wrapper of a file by its first 64 KiB; ``Plain`` if nothing fits clearly."""
    layers = _layers(_sample(head))
    return Chain(layers) if layers else _PLAIN_WRAPPER


def _layers(raws: list[bytes]) -> tuple[Layer, ...]:
    found: list[Layer] = []
    proven = 0
    while len(found) < _MAX_DEPTH and any(raws):
        for detect in _DETECTORS:
            layer = detect(raws)
            # The sample goes through a layer of its own: the one that is kept stays unused.
            twin = detect(raws)
            if layer is not None and twin is not None:
                break
        else:
            break
        found.append(layer)
        lines = [Line(raw, number, number) for number, raw in enumerate(raws, 1)]
        peeled = [out for line in lines for out in twin.feed(line)]
        peeled.extend(twin.flush())
        raws = [clean(line.raw) for line in peeled]
        # A layer that others may look like needs proof: a sure one or records inside it.
        if layer.sure or holds_records(raws):
            proven = len(found)
    return tuple(found[:proven])


def _sample(head: bytes) -> list[bytes]:
    """The first whole lines of a file; one that has no line end yet is a line."""
    if encoding_of(head).startswith("utf-16"):
        stream = decode_evidence(io.BytesIO(head))
        head = b"".join(iter(lambda: stream.read(len(head) + 1), b""))
    head = head[:_HEAD_BYTES].removeprefix(BOM)
    if not head:
        return []
    raws = head.split(b"\n", _SAMPLE_LINES)
    if len(raws) > 1:
        raws.pop()
    return [clean(raw) for raw in raws]


def _through(layer: Layer, lines: Iterable[Line]) -> Iterator[Line]:
    for line in lines:
        for inner in layer.feed(line):
            yield _cleaned(inner)


def _cleaned(line: Line) -> Line:
    raw = clean(line.raw)
    if raw is line.raw:
        return line
    return Line(raw, line.line_no, line.byte_offset, line.stream, line.outer_ns)
