"""The decompressed bytes of a tar archive, read at growing offsets without starting over.

A compressed archive can only be read forwards. Streams that were used are kept, and the one that
stands closest before the wanted offset goes on, so that listing and reading members in turn
decompresses once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final

from ingest.bounded import Bounded, Exact
from ingest.compression import decompressed
from ingest.errors import IngestError
from ingest.limits import Limits
from ingest.stored import Stored, Stream
from ingest.text_encoding import Readable

_CHUNK_BYTES: Final = 2**18
_MAX_IDLE: Final = 2


class Forward:
    """A stream that knows its position and can look ahead."""

    def __init__(self, source: Readable, file: BinaryIO, seekable: bool) -> None:
        self._source, self._file, self._seekable = source, file, seekable
        self._ahead = b""
        self.position = 0

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes."""
        if self._ahead:
            size = len(self._ahead) if size < 0 else size
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data = self._source.read(size)
        self.position += len(data)
        return data

    def exactly(self, size: int) -> bytes:
        """``size`` bytes, fewer only at the end."""
        parts: list[bytes] = []
        while size and (data := self.read(size)):
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    def peek(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer at the end or where the data is damaged, not consumed."""
        try:
            while len(self._ahead) < size:
                data = self._source.read(size - len(self._ahead))
                if not data:
                    break
                self._ahead += data
        except IngestError:
            # Reading on will meet the damage again, behind what is good.
            if not self._ahead:
                raise
        return self._ahead[:size]

    def skip_to(self, position: int) -> bool:
        """Move forward; False if the data ends before."""
        if self._seekable:
            self._file.seek(position)
            self._ahead, self.position = b"", position
            return True
        while self.position < position:
            if not self.read(min(_CHUNK_BYTES, position - self.position)):
                return False
        return True

    def close(self) -> None:
        """Close the file below."""
        self._file.close()


class TarReading:
    """Access to the decompressed bytes of one archive."""

    def __init__(
        self, stored: Stored, codec: str | None, packed_bytes: int, limits: Limits
    ) -> None:
        self._stored, self._codec, self._limits = stored, codec, limits
        self._packed_bytes = packed_bytes
        self._idle: list[Forward] = []
        self._closed = False

    def at(self, position: int) -> Forward:
        """A stream at ``position``; raises OSError or IngestError, also where data is damaged."""
        before = [s for s in self._idle if s.position <= position or self._codec is None]
        stream = max(before, key=lambda s: s.position, default=None)
        if stream is None:
            stream = self._new()
        else:
            self._idle.remove(stream)
        try:
            stream.skip_to(position)
        except BaseException:
            stream.close()
            raise
        return stream

    def give_back(self, stream: Forward) -> None:
        """Keep a stream for later, or close it."""
        self._idle.append(stream)
        keep = 0 if self._closed else _MAX_IDLE
        self._idle.sort(key=lambda s: -s.position)
        while len(self._idle) > keep:
            self._idle.pop().close()

    def close(self) -> None:
        """Close idle streams; members can still be opened, each on its own."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def peek(self, position: int, size: int, count: int) -> bytes:
        """The first ``count`` bytes of a member, fewer if it is shorter, or damaged there."""
        stream = self.at(position)
        try:
            return stream.peek(min(count, size))
        finally:
            self.give_back(stream)

    def member(self, position: int, size: int, limits: Limits) -> Stream:
        """A member's bytes."""
        stream = self.at(position)
        return Bounded(Exact(stream, size), None, limits, _once(
            lambda: self.give_back(stream)))

    def _new(self) -> Forward:
        file = self._stored.open()
        if self._codec is None:
            return Forward(file, file, True)
        source = Bounded(decompressed(file, self._codec), self._packed_bytes, self._limits,
                         file.close)
        return Forward(source, file, False)


def _once(action: Callable[[], None]) -> Callable[[], None]:
    actions = [action]

    def run() -> None:
        with suppress(IndexError):
            actions.pop()()

    return run
