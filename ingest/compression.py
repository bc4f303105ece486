"""gzip, bzip2, xz and zstd as streams: any number of frames, bounded output, damage in words.

Codecs are recognised by their first bytes. What could be decompressed is handed out before an
error is raised.
"""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol, cast

import zstandard

from ingest.errors import IngestError
from ingest.text_encoding import Readable

_MAGIC: Final = re.compile(
    rb"(?P<gzip>\x1f\x8b\x08)"
    rb"|(?P<bzip2>BZh[1-9](?:1AY&SY|\x17rE8P\x90))"
    rb"|(?P<xz>\xfd7zXZ\0)"
    rb"|(?P<zstd>\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18)", re.DOTALL
)
_INPUT_BYTES: Final = 128 * 2**10
# Memory that a decoder may take: xz -9 needs 65 MiB, zstd --ultra -22 a window of 128 MiB.
_XZ_MEMORY_BYTES: Final = 256 * 2**20
_ZSTD_WINDOW_BYTES: Final = 128 * 2**20
_OUTPUT_BYTES: Final = 2**20
_AGAIN: Final = "Fetch it again from where it was collected."


def codec_of(head: bytes) -> str | None:
    """'gzip', 'bzip2', 'xz' or 'zstd' by the first bytes, None for anything else."""
    match = _MAGIC.match(head)
    return match.lastgroup if match else None


def decompressed(source: Readable, codec: str) -> Readable:
    """The decompressed bytes; reading raises IngestError where the data is damaged or cut."""
    return _Zstd(source) if codec == "zstd" else _Frames(source, codec)


class _Engine(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """zlib's gzip decoder with the interface of the others."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = not self._inner.unconsumed_tail and len(out) < max_length
        return out


class _Frames:
    """Frames of gzip, bzip2 or xz one after the other, padding of zeros between them."""

    def __init__(self, source: Readable, codec: str) -> None:
        self._source, self._codec = source, codec
        self._engine: _Engine | None = _engine(codec)
        self._input = b""

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; b'' at the end of the last frame."""
        wanted = _OUTPUT_BYTES if size < 0 else size
        while wanted:
            engine = self._engine or self._next_frame()
            if engine is None:
                return b""
            if engine.needs_input and not self._input:
                self._input = self._source.read(_INPUT_BYTES)
                if not self._input:
                    raise IngestError(f"The {self._codec} data ends early", way_out=_AGAIN)
            data, self._input = (self._input, b"") if engine.needs_input else (b"", self._input)
            try:
                out = engine.decompress(data, wanted)
            except lzma.LZMAError as error:
                raise _damage(self._codec, "memory" in str(error).lower()) from None
            except (zlib.error, OSError, EOFError, ValueError):
                raise _damage(self._codec) from None
            if engine.eof:
                self._input = engine.unused_data + self._input
                self._engine = None
            if out:
                return out
        return b""

    def _next_frame(self) -> _Engine | None:
        while True:
            self._input = self._input.lstrip(b"\0")
            if len(self._input) < 10:
                more = self._source.read(_INPUT_BYTES)
                self._input += more
                if more:
                    continue
            if not self._input.lstrip(b"\0"):
                return None
            if codec_of(self._input) != self._codec:
                raise IngestError(f"Other data follows the {self._codec} data", way_out=_AGAIN)
            self._engine = _engine(self._codec)
            return self._engine


def _engine(codec: str) -> Any:
    if codec == "gzip":
        return _Gzip()
    if codec == "bzip2":
        return bz2.BZ2Decompressor()
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)


class _Zstd:
    """Frames of zstd. The library does not say whether the last one was whole, so it is checked."""

    def __init__(self, source: Readable) -> None:
        self._frames = _ZstdFrames(source)
        decoder = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        self._reader = decoder.stream_reader(
            cast(BinaryIO, self._frames), read_size=_INPUT_BYTES, read_across_frames=True)

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; b'' at the end of the last frame."""
        try:
            out: bytes = self._reader.read(_OUTPUT_BYTES if size < 0 else size)
        except zstandard.ZstdError as error:
            raise _damage("zstd", "memory" in str(error).lower()) from None
        if not out and size and not self._frames.complete:
            raise IngestError("The zstd data ends early", way_out=_AGAIN)
        return out


@dataclass(slots=True)
class _ZstdFrames:
    """Passes zstd data on and follows its frames and blocks (RFC 8878, section 3.1)."""

    source: Readable
    # What comes next, how many bytes of it are needed, how many to pass over before it.
    part: str = "magic"
    needed: int = 4
    over: int = 0
    header: bytes = b""
    checksum_bytes: int = 0

    @property
    def complete(self) -> bool:
        """Whether the data seen so far ends with a frame."""
        return self.part == "magic" and not self.header and not self.over

    def read(self, size: int = -1, /) -> bytes:
        data = self.source.read(size)
        at = 0
        while at < len(data):
            step = min(self.over, len(data) - at)
            self.over -= step
            at += step
            if self.over:
                break
            taken = data[at : at + self.needed - len(self.header)]
            self.header += taken
            at += len(taken)
            if len(self.header) == self.needed:
                header, self.header = self.header, b""
                self._follow(header)
        return data

    def _follow(self, header: bytes) -> None:
        value = int.from_bytes(header, "little")
        if self.part == "magic":
            skippable = value >> 4 == 0x184D2A5
            self.part, self.needed = ("size", 4) if skippable else ("frame", 1)
        elif self.part == "size":
            self.part, self.needed, self.over = "magic", 4, value
        elif self.part == "frame":
            single = value >> 5 & 1
            content = (single, 2, 4, 8)[value >> 6]
            self.over = (1 - single) + (0, 1, 2, 4)[value & 3] + content
            self.checksum_bytes = 4 * (value >> 2 & 1)
            self.part, self.needed = "block", 3
        else:
            self.over = 1 if value >> 1 & 3 == 1 else value >> 3
            if value & 1:
                self.over += self.checksum_bytes
                self.part, self.needed = "magic", 4


def _damage(codec: str, too_much_memory: bool = False) -> IngestError:
    if too_much_memory:
        return IngestError(f"Reading the {codec} data needs too much memory",
                           way_out="Decompress it yourself if you trust it.")
    return IngestError(f"The {codec} data is damaged", way_out=_AGAIN)
