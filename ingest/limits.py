"""Bounds on what evidence may make this program do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes unless said otherwise. ``max_ratio`` is decompressed to compressed size."""

    max_line_bytes: int = 16 << 20
    max_file_bytes: int = 1 << 40
    max_ratio: int = 1000
    # Below this much decompressed data the ratio says nothing.
    ratio_from_bytes: int = 64 << 20
    max_members: int = 100_000
    max_depth: int = 4
    block_bytes: int = 8 << 20
