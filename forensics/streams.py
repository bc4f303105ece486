"""Streams of evidence and what their names say: directories, stems, hosts. Reads no content."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Endings that a log rotation or a split into stdout/stderr adds to one worker's file name.
_ROTATION = re.compile(
    r"(?:\.(?:gz|zst|bz2|xz|log|txt|out|err|stdout|stderr|json|jsonl|prom|\d{1,4})"
    r"|[.-]\d{8}(?:-\d{6})?|\.\d{4}-\d\d-\d\d(?:_\d\d)?)$"
)
# Directory names that say nothing about who wrote the log.
_GENERIC = frozenset({"", "log", "logs", "sglang", "server", "container", "engine", "metrics"})


@dataclass(frozen=True, slots=True)
class Boot:
    """One recorded start of an engine process inside a stream."""

    byte_offset: int
    stamp_ns: int | None
    mode: str | None
    port: str | None


@dataclass(frozen=True, slots=True)
class Stream:
    """One source inside one file, with the profile that ``queries/stream_profile.sql`` gives."""

    evidence_id: int
    stream: str
    name: str
    engine_rows: int
    request_rows: int
    router_rows: int
    config_rows: int
    metric_rows: int
    trace_rows: int
    prefill_rows: int
    decode_rows: int
    first_fact_offset: int | None
    first_stamp_ns: int | None
    boots: tuple[Boot, ...] = ()

    @property
    def key(self) -> tuple[int, str]:
        return self.evidence_id, self.stream

    @property
    def is_engine(self) -> bool:
        """True for the process log itself: it, and nothing else, founds a worker."""
        return self.engine_rows > 0 or bool(self.boots)

    @property
    def directory(self) -> str:
        return directory(self.name)

    @property
    def stem(self) -> str:
        return stem(self.name)


def path_parts(name: str) -> list[str]:
    """Split a display name into its folders and file; archive members count as folders."""
    return [part for part in re.split(r"[/!\\]+", name) if part]


def directory(name: str) -> str:
    """Return the folder part of a display name ('' for a bare file)."""
    return "/".join(path_parts(name)[:-1])


def stem(name: str) -> str:
    """Return the file name without rotation, compression and output-channel endings.

    A name of digits only (``0.log`` of a restarted container) has an empty stem: the folder
    is the worker then.
    """
    text = path_parts(name)[-1] if path_parts(name) else ""
    while (shorter := _ROTATION.sub("", text)) != text and shorter:
        text = shorter
    return "" if text.isdigit() else text


def folder_label(folder: str) -> str:
    """Return the last folder that can name a worker ('' if none does)."""
    for part in reversed(path_parts(folder)):
        if part.lower() not in _GENERIC and not part.isdigit():
            return part
    return ""
