"""Bytes at rest that can be opened again and again: a file on disk, or an archive from an archive.

Opening checks that it is a regular file; nothing is opened by a name that evidence gave.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tempfile
import weakref
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Protocol, Self, cast

from ingest.errors import EvidenceTooLarge, IngestError
from ingest.limits import Limits
from ingest.text_encoding import Readable

_CHUNK_BYTES: Final = 2**20
# Archives inside archives up to this size stay in memory, larger ones lie in a temporary file.
_IN_MEMORY_BYTES: Final = 16 * 2**20


class Stream(Protocol):
    """What a source is read through."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; b'' at the end. Raises IngestError or OSError."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...

    def __enter__(self) -> Self:
        """The stream itself."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None, /,
    ) -> None:
        """Close it."""
        ...


class Stored(Protocol):
    """Bytes that can be opened more than once."""

    size: int

    def open(self) -> BinaryIO:
        """A new seekable stream at the first byte; raises OSError or IngestError."""
        ...


class StoredFile:
    """A regular file on disk that must not change as long as it is in use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with open_regular(path) as file:
            self._signature = _signature(file)
        self.size = self._signature[0]

    def open(self) -> BinaryIO:
        """Open the file; raises IngestError if it is another one than before."""
        file = open_regular(self._path)
        if _signature(file) != self._signature:
            file.close()
            raise IngestError("The archive changed while it was read; run again")
        return cast(BinaryIO, file)


class Spool:
    """A bounded copy of a stream: in memory if it is small, else in a file without a name.

    No copy of evidence stays behind, even if the program is killed.
    """

    def __init__(self, source: Readable, limits: Limits) -> None:
        self._data = b""
        self._file: BinaryIO | None = None
        self.size = 0
        parts: list[bytes] = []
        while chunk := source.read(_CHUNK_BYTES):
            self.size += len(chunk)
            if self.size > limits.max_file_bytes:
                raise EvidenceTooLarge(
                    f"An archive in an archive has more than {limits.max_file_bytes} bytes")
            parts.append(chunk)
            if self._file is None and self.size <= _IN_MEMORY_BYTES:
                continue
            try:
                self._file = self._file or self._on_disk()
                self._file.writelines(parts)
                self._file.flush()
            except OSError as error:
                raise _no_room(error) from None
            parts.clear()
        self._data = b"".join(parts)

    def open(self) -> BinaryIO:
        """A new stream over the copy."""
        if self._file is None:
            return io.BytesIO(self._data)
        return cast(BinaryIO, _Shared(self._file, self.size))

    def _on_disk(self) -> BinaryIO:
        file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed by finalize
        weakref.finalize(self, file.close)
        return file


class _Shared(io.RawIOBase):
    """A reader with a position of its own over a file that others read too."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        # A descriptor of its own: the copy lives as long as one of its readers.
        self._handle = os.dup(file.fileno())
        self._size, self._position = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_CUR: self._position, os.SEEK_END: self._size}.get(whence, 0)
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        wanted = self._size - self._position if size < 0 else size
        data = os.pread(self._handle, max(0, wanted), self._position)
        self._position += len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            os.close(self._handle)
        super().close()


def open_regular(path: Path) -> io.FileIO:
    """Open a regular file without waiting on a pipe; raises OSError or IngestError."""
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise IngestError("It is not a regular file; copy its content into a file first")
    return io.FileIO(handle)


def _signature(file: io.FileIO) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _no_room(error: OSError) -> IngestError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return IngestError("There is no room for an archive inside the archive: "
                           "point TMPDIR to a larger disk or unpack the outer archive")
    return IngestError(f"An archive inside the archive cannot be set aside: {error.strerror}")
