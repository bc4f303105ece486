"""``--copy-evidence``: a copy of the decompressed bytes under ``evidence/files/<sha256>``."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from ingest.case import Case
from ingest.case_errors import case_errors
from ingest.limits import Limits
from ingest.reading import open_stream
from ingest.sources import Source
from ingest.store import Evidence

_CHUNK_BYTES: Final = 2**20


def keep_copy(case: Case, limits: Limits, source: Source, row: Evidence) -> bool:
    """Copy the bytes whose digest ``row`` holds; False if the file no longer has them.

    Raises DiskFull or another CaseError.
    """
    target = case.copies / str(row.sha256)
    with case_errors(case.root):
        case.copies.mkdir(mode=0o700, exist_ok=True)
        if target.exists():
            return True
        fresh = target.with_name(target.name + ".new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        digest = hashlib.sha256()
        with os.fdopen(fd, "wb") as sink:
            for chunk in _chunks(source, limits, row.ingested_bytes):
                digest.update(chunk)
                sink.write(chunk)
            sink.flush()
            os.fsync(sink.fileno())
        if digest.hexdigest() != row.sha256:
            fresh.unlink()
            return False
        fresh.replace(target)
        return True


def _chunks(source: Source, limits: Limits, size: int) -> Iterator[bytes]:
    """Up to ``size`` bytes of the file; a reading error ends them."""
    with ExitStack() as stack:
        opened = open_stream(stack, source, limits, 0)
        if isinstance(opened, str):
            return
        stream, _ = opened
        while size > 0 and (chunk := stream.read(min(_CHUNK_BYTES, size))):
            size -= len(chunk)
            yield chunk
