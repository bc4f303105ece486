"""Release dates and dialect markers of the knowledge base, as plain tuples.

Kept apart from ``forensics.knowledge`` so that versions can be parsed without the rule base.
"""

from __future__ import annotations

import tomllib
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any

from ingest.errors import KnowledgeError, Origin

Release = tuple[int, ...]


@cache
def release_dates() -> tuple[tuple[Release, date | None], ...]:
    """Return every known release with the day its wheel was published (None: not recorded)."""
    return tuple(
        (_release(row["version"]), row.get("date"))
        for row in _tables("releases.toml", "release")
    )


@cache
def dialect_markers() -> dict[str, tuple[Release | None, Release | None, Release | None]]:
    """Return marker name -> (since, until, first known release after ``until``)."""
    known = sorted(release for release, _ in release_dates())
    markers = {}
    for row in _tables("dialect.toml", "marker"):
        since = _release(row["since"]) if "since" in row else None
        until = _release(row["until"]) if "until" in row else None
        after = next((r for r in known if until is not None and r > until), None)
        markers[str(row["name"])] = (since, until, after)
    return markers


def knowledge_bytes(name: str) -> bytes:
    """Return the bytes of one knowledge file."""
    return files("forensics").joinpath("knowledge", name).read_bytes()


def knowledge_files() -> tuple[str, ...]:
    """Return the names of all knowledge files, sorted."""
    folder = files("forensics").joinpath("knowledge")
    return tuple(sorted(p.name for p in folder.iterdir() if p.name.endswith(".toml")))


def read_toml(name: str) -> dict[str, Any]:
    """Parse one knowledge file; raises KnowledgeError naming the file."""
    try:
        return tomllib.loads(knowledge_bytes(name).decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise KnowledgeError(f"not readable as TOML: {exc}", origin=Origin(name)) from exc


def _tables(name: str, key: str) -> list[dict[str, Any]]:
    rows = read_toml(name).get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise KnowledgeError(f"no [[{key}]] tables", origin=Origin(name))
    return rows


def _release(text: object) -> Release:
    return tuple(int(part) for part in str(text).split("."))
