"""The manifest: exactly the keys of the design, zone only where it is known, atomic."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.case import Case, open_case
from ingest.errors import DiskFull
from ingest.manifest import manifest_entries, render_ns, write_manifest
from ingest.store import Evidence, Pending, commit

KEYS = ["name", "size", "sha256", "format", "parser", "lines", "records", "rejects", "first_at",
        "last_at", "clock"]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with open_case(tmp_path / "case") as opened:
        yield opened


def _row(evidence_id: int = 1, **values: object) -> Evidence:
    base = {"name": "n/a.log", "path": "/x/n/a.log", "size_bytes": 10, "sha256": "ab",
            "format": "engine", "parser_version": "1", "lines": 3, "records": 2, "rejects": 1}
    return Evidence(evidence_id, **(base | values))  # type: ignore[arg-type]


def test_plain_entry_has_exactly_the_keys_of_the_design() -> None:
    entry, = manifest_entries([_row(
        first_stamp_ns=1_759_133_551_000_000_000, last_stamp_ns=1_759_133_552_417_000_000,
        clock="local, zone unknown")])
    assert list(entry) == KEYS
    assert entry == {
        "name": "n/a.log", "size": 10, "sha256": "ab", "format": "engine", "parser": "1",
        "lines": 3, "records": 2, "rejects": 1, "first_at": "2025-09-29T08:12:31",
        "last_at": "2025-09-29T08:12:32.417", "clock": "local, zone unknown",
    }


@pytest.mark.parametrize(
    ("clock", "zone"),
    [("utc", "Z"), ("epoch", "Z"), ("epoch; utc", "Z"), ("collector, utc", "Z"),
     ("local, zone unknown", ""), ("local, zone unknown; utc", ""), (None, "")],
)
def test_zone_is_printed_only_if_every_clock_has_one(clock: str | None, zone: str) -> None:
    entry, = manifest_entries([_row(first_stamp_ns=0, last_stamp_ns=0, clock=clock)])
    assert entry["first_at"] == "1970-01-01T00:00:00" + zone


def test_other_outcomes_say_what_they_are() -> None:
    first, copy, broken = manifest_entries([
        _row(1), _row(2, name="n/b.log", status="duplicate", duplicate_of=1, version_of=1),
        _row(3, status="unreadable", message="permission denied", sha256=None, size_bytes=None,
             format=None, parser_version=None),
    ])
    assert list(first) == KEYS
    assert list(copy) == [*KEYS, "status", "duplicate_of", "version_of"]
    assert (copy["status"], copy["duplicate_of"]) == ("duplicate", "n/a.log")
    assert list(broken) == [*KEYS, "status", "message"]
    assert (broken["size"], broken["sha256"], broken["format"]) == (None, None, None)


@pytest.mark.parametrize(
    ("stamp", "text"),
    [(None, None), (0, "1970-01-01T00:00:00Z"), (-1, "1969-12-31T23:59:59.999999999Z"),
     (1_000, "1970-01-01T00:00:00.000001Z"), (500_000_000, "1970-01-01T00:00:00.500Z"),
     (2**63 - 1, "2262-04-11T23:47:16.854775807Z")],
)
def test_times_keep_their_precision(stamp: int | None, text: str | None) -> None:
    assert render_ns(stamp, zoned=True) == text


def test_manifest_is_replaced_whole(case: Case) -> None:
    pending = Pending()
    pending.evidence[1] = _row()
    pending.evidence[2] = _row(2, name="n/ü.log")
    commit(case, pending)
    write_manifest(case)
    write_manifest(case)
    lines = case.manifest_file.read_text().splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["n/a.log", "n/ü.log"]
    assert case.manifest_file.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in case.manifest_file.parent.iterdir()] == ["manifest.jsonl"]


def test_full_disk_keeps_the_old_manifest(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    write_manifest(case)
    before = case.manifest_file.read_bytes()
    pending = Pending()
    pending.evidence[1] = _row()
    commit(case, pending)

    def no_room(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("ingest.manifest.os.fsync", no_room)
    with pytest.raises(DiskFull):
        write_manifest(case)
    assert case.manifest_file.read_bytes() == before
