"""A file's bytes read once: peeked at, hashed and counted on the way to the block reader."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from contextlib import ExitStack
from typing import Final

from zstandard import ZstdError

from ingest.blocks import Digest, Readable
from ingest.errors import IngestError, PalimpsestError
from ingest.limits import Limits
from ingest.sources import Source

# What opening or reading damaged or refused evidence raises; KeyError: a member that is gone;
# RuntimeError, NotImplementedError and ValueError: archives of a kind that is not supported.
READ_ERRORS: Final = (
    OSError, EOFError, IngestError, KeyError, RuntimeError, ValueError, zlib.error,
    lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, ZstdError,
)
_CHUNK_BYTES: Final = 2**20
# A read that runs into damage gives nothing, so that compressed data is read in small steps.
_PACKED_BYTES: Final = 16 * 2**10


def explain(error: BaseException) -> str:
    """One sentence about a reading error; quotes nothing of the file."""
    if isinstance(error, PalimpsestError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, EOFError):
        return "the compressed data ends early; copy it again"
    return f"the data is damaged ({type(error).__name__}); copy it again"


def open_stream(stack: ExitStack, source: Source, limits: Limits, peek: int) -> (
        tuple[HashingStream, bytes] | str):
    """Open a file for as long as ``stack`` lives: the stream and its first ``peek`` bytes.

    Returns the reason instead if the file cannot be opened or not one byte of it be read.
    """
    try:
        stream = HashingStream(stack.enter_context(source.open(limits)),
                               limits.block_bytes if source.plain else _PACKED_BYTES)
        return stream, stream.peek_head(peek)
    except READ_ERRORS as error:
        return explain(error)


class HashingStream:
    """Passes a stream on and keeps digest and number of all bytes that were handed out.

    An error after the first byte ends the stream and is kept in ``failure``: what could be read
    is evidence all the same.
    """

    def __init__(self, source: Readable, largest_read: int = _CHUNK_BYTES) -> None:
        self._source = source
        self._largest = largest_read
        self._ahead = b""
        self.digest = Digest()
        self.position = 0
        self.failure = ""

    def peek_head(self, size: int) -> bytes:
        """The first ``size`` bytes, not handed out; raises what reading the first byte raises."""
        while len(self._ahead) < size:
            chunk = self._fetch(size - len(self._ahead))
            if not chunk:
                break
            self._ahead += chunk
        return self._ahead[:size]

    def read(self, size: int = -1) -> bytes:
        """Hand out ``size`` bytes, fewer only at the end; all that is left if negative."""
        parts = [self._ahead] if self._ahead else []
        have = len(self._ahead)
        self._ahead = b""
        while size < 0 or have < size:
            chunk = self._fetch(self._largest if size < 0 else size - have)
            if not chunk:
                break
            parts.append(chunk)
            have += len(chunk)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if 0 <= size < have:
            data, self._ahead = data[:size], data[size:]
        self.digest.update(data)
        self.position += len(data)
        return data

    def _fetch(self, size: int) -> bytes:
        if self.failure:
            return b""
        try:
            return self._source.read(min(size, self._largest))
        except READ_ERRORS as error:
            if not self.position and not self._ahead:
                raise
            self.failure = explain(error)
            return b""


class RestOf:
    """A stream from a byte offset on; what comes before is read and dropped."""

    def __init__(self, stream: Readable, offset: int) -> None:
        self._stream = stream
        self._ahead = b""
        while offset > 0 and (chunk := stream.read(_CHUNK_BYTES)):
            # A transcoded stream may hand out more than was asked for.
            self._ahead = chunk[offset:]
            offset -= len(chunk)

    def read(self, size: int = -1, /) -> bytes:
        """Hand out some of the rest; b'' at its end."""
        if self._ahead:
            data, self._ahead = self._ahead, b""
            return data
        return self._stream.read(size)
