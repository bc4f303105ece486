"""A running sha256 with checkpoints, by which another version of a file is known by content."""

from __future__ import annotations

import hashlib
from typing import Final

# A checkpoint every 4 KiB up to 1 MiB tells short files apart, every 64 KiB after that is enough
# for long ones; 8 bytes of a digest cannot be met by chance.
_FINE_BYTES: Final = 4096
_COARSE_BYTES: Final = 65536
_FINE_UNTIL_BYTES: Final = 1 << 20
_CHECK_BYTES: Final = 8


class Digest:
    """sha256 of everything so far; a checkpoint is the beginning of the digest at a mark."""

    __slots__ = ("_checks", "_hash", "_length")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._length = 0
        self._checks = bytearray()

    def update(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        view = memoryview(data)
        at, size = 0, len(view)
        while at < size:
            step = _FINE_BYTES if self._length < _FINE_UNTIL_BYTES else _COARSE_BYTES
            room = min(step - self._length % step, size - at)
            self._hash.update(view[at : at + room])
            at += room
            self._length += room
            if self._length % step == 0:
                self._checks += self._hash.digest()[:_CHECK_BYTES]

    def hexdigest(self) -> str:
        """The sha256 of all bytes so far, in hex."""
        return self._hash.hexdigest()

    def checkpoints(self) -> bytes:
        """All checkpoints so far, 8 bytes each."""
        return bytes(self._checks)


def same_prefix(checkpoints: bytes, other: bytes) -> int:
    """Number of leading bytes of two files that their checkpoints prove equal."""
    shorter = min(len(checkpoints), len(other)) // _CHECK_BYTES
    # A checkpoint covers all bytes before it: once two differ, all later ones do.
    low, high = 0, shorter
    while low < high:
        middle = (low + high + 1) // 2
        end = middle * _CHECK_BYTES
        if checkpoints[end - _CHECK_BYTES : end] == other[end - _CHECK_BYTES : end]:
            low = middle
        else:
            high = middle - 1
    fine = min(low, _FINE_UNTIL_BYTES // _FINE_BYTES)
    return fine * _FINE_BYTES + (low - fine) * _COARSE_BYTES
