"""Streams that keep to the limits: size and ratio of decompressed data, length of a member."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from ingest.errors import EvidenceTooLarge, IngestError
from ingest.limits import Limits
from ingest.text_encoding import Readable

_CHUNK_BYTES: Final = 2**20


class Bounded:
    """Passes a decompressed stream on until it is larger than honest data would be."""

    def __init__(
        self, source: Readable, compressed_bytes: int | None, limits: Limits,
        close: Callable[[], None],
    ) -> None:
        """``compressed_bytes``: None where nothing is compressed, so that there is no ratio."""
        self._source, self._limits, self._close = source, limits, close
        self._compressed_bytes = compressed_bytes
        self._count = 0

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; raises EvidenceTooLarge."""
        data = self._source.read(_CHUNK_BYTES if size < 0 else size)
        self._count += len(data)
        check_size(self._count, self._compressed_bytes, self._limits)
        return data

    def close(self) -> None:
        """Close what lies below."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None, /,
    ) -> None:
        self.close()


class Exact:
    """Reads exactly the bytes of a member; raises IngestError if the archive has fewer."""

    def __init__(self, source: Readable, size: int) -> None:
        self._source = source
        self._left = size

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; b'' behind the member's last."""
        wanted = self._left if size < 0 else min(size, self._left)
        if not wanted:
            return b""
        data = self._source.read(wanted)
        if not data:
            raise IngestError("The archive ends early; fetch it again")
        self._left -= len(data)
        return data


def check_size(count: int, compressed_bytes: int | None, limits: Limits) -> None:
    """Raise EvidenceTooLarge if so many decompressed bytes are more than the limits allow."""
    if count > limits.max_file_bytes:
        raise EvidenceTooLarge(
            f"It has more than {limits.max_file_bytes} bytes after decompression",
            way_out="Split it.")
    if compressed_bytes is None or count <= limits.ratio_from_bytes:
        return
    if count > max(1, compressed_bytes) * limits.max_ratio:
        raise EvidenceTooLarge(
            f"It grows more than {limits.max_ratio}-fold when it is decompressed, "
            "like a decompression bomb", way_out="Decompress it yourself if you trust it.")
