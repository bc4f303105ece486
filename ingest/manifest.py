"""``evidence/manifest.jsonl``: one JSON object per evidence file, rewritten whole and atomically.

Keys are those of the design: name, size, sha256, format, parser, lines, records, rejects,
first_at, last_at, clock; status, message, duplicate_of and version_of only where they say more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ingest.case import Case
from ingest.case_errors import case_errors
from ingest.schema import CLOCK_SEPARATOR, ZONED_CLOCKS
from ingest.store import Evidence, load_evidence


def write_manifest(case: Case) -> None:
    """Rewrite the manifest from table ``evidence``; raises DiskFull or another CaseError."""
    text = "".join(
        json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"
        for entry in manifest_entries(load_evidence(case))
    )
    target = case.manifest_file
    fresh = target.with_name(target.name + ".new")
    with case_errors(case.root):
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(target)


def manifest_entries(evidence: Sequence[Evidence]) -> list[dict[str, Any]]:
    """The manifest's objects, in order of evidence id."""
    names = {row.evidence_id: row.name for row in evidence}
    return [_entry(row, names) for row in evidence]


def _entry(row: Evidence, names: dict[int, str]) -> dict[str, Any]:
    clocks = set(row.clock.split(CLOCK_SEPARATOR)) if row.clock else set()
    zoned = bool(clocks) and clocks <= ZONED_CLOCKS
    entry: dict[str, Any] = {
        "name": row.name,
        "size": row.size_bytes,
        "sha256": row.sha256,
        "format": row.format,
        "parser": row.parser_version,
        "lines": row.lines,
        "records": row.records,
        "rejects": row.rejects,
        "first_at": render_ns(row.first_stamp_ns, zoned=zoned),
        "last_at": render_ns(row.last_stamp_ns, zoned=zoned),
        "clock": row.clock,
    }
    if row.status != "ok":
        entry["status"] = row.status
    if row.message:
        entry["message"] = row.message
    if row.duplicate_of is not None:
        entry["duplicate_of"] = names.get(row.duplicate_of)
    if row.version_of is not None:
        entry["version_of"] = names.get(row.version_of)
    return entry


def render_ns(stamp_ns: int | None, *, zoned: bool) -> str | None:
    """RFC 3339 text of epoch nanoseconds, with ``Z`` only if the zone is known.

    The fraction is as long as it has to be: none, 3, 6 or 9 digits.
    """
    if stamp_ns is None:
        return None
    seconds, nanos = divmod(stamp_ns, 10**9)
    try:
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return None
    if nanos:
        digits = f"{nanos:09d}"
        while digits.endswith("000"):
            digits = digits[:-3]
        text += f".{digits}"
    return text + ("Z" if zoned else "")
