"""A file's bytes read once: peeked at, hashed and counted on the way to the block reader."""

from __future__ import annotations

import lzma
import zlib
from tarfile import TarError
from typing import BinaryIO, Final
from zipfile import BadZipFile

from zstandard import ZstdError

from ingest.blocks import Digest
from ingest.errors import IngestError, PalimpsestError

# What opening or reading damaged or refused evidence raises.
READ_ERRORS: Final = (
    OSError, EOFError, IngestError, zlib.error, lzma.LZMAError, ZstdError, TarError, BadZipFile,
)


def reason_of(error: BaseException) -> str:
    """One sentence about a reading error that quotes nothing of the file."""
    if isinstance(error, PalimpsestError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, EOFError):
        return "the compressed data ends early"
    return f"the data is damaged ({type(error).__name__})"


class HashingStream:
    """Passes a stream on and keeps digest and number of all bytes that were handed out.

    An error after the first byte ends the stream and is kept in ``failure``: what could be read
    is evidence all the same.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
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
        """Hand out up to ``size`` bytes (all that is left if negative); b'' at the end."""
        if self._ahead and size >= 0:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            data, self._ahead = self._ahead + self._fetch(size), b""
        self.digest.update(data)
        self.position += len(data)
        return data

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fill a buffer as far as one read goes."""
        data = self.read(len(buffer))
        buffer[:len(data)] = data
        return len(data)

    def skip(self, offset: int) -> bool:
        """Read and hash up to a byte offset; False if the stream ends before it."""
        while self.position < offset:
            if not self.read(min(2**20, offset - self.position)):
                return False
        return True

    def _fetch(self, size: int) -> bytes:
        if self.failure:
            return b""
        try:
            return self._source.read(size)
        except READ_ERRORS as error:
            if not self.position and not self._ahead:
                raise
            self.failure = reason_of(error)
            return b""
