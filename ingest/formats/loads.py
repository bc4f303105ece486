"""Answers of ``GET /v1/loads`` -> ``config_entry`` (source 'loads'), per DP rank and key.

Made by SGLang's load endpoint (0.5.18-0.5.23 seen):

    {"timestamp": "2026-01-02T03:04:05+00:00", "version": "0.5.23", "loads": [{"timestamp":
    1796098361.8, "dp_rank": 0, "disaggregation": {"mode": "decode"}}]}

Nested objects give dotted keys (``disaggregation.mode``). The epoch of a rank's numbers is the
value of its key ``timestamp``. Held pages of deferred releases are not among the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from ingest.records import Batch, DocumentFormat, Line, Match
from ingest.requests.snapshot import Snapshot, add_entry, dp_rank, read_snapshots

_START: Final = re.compile(rb"[\s\xef\xbb\xbf]{0,64}[\[{]")
_LOADS: Final = re.compile(rb'"loads"\s?:\s{0,64}\[')
_BARE: Final = re.compile(
    rb'[\s\xef\xbb\xbf]{0,64}\[\s{0,64}\{\s{0,64}"dp_rank"\s?:[^{}\[\]]{0,200}"num_\w{0,40}reqs"'
)
MAX_DEPTH: Final = 4


class Loads:
    """Snapshots of the load of the ranks."""

    name = "loads"

    def sniff(self, head: bytes, name: str) -> Match | None:
        """Recognise an object with a list of loads, or the bare list of older versions."""
        if _BARE.match(head):
            return Match(0.9, "list")
        if _START.match(head) and _LOADS.search(head, 0, 4096) and b'"num_running_reqs"' in head:
            return Match(0.95, "v1")
        return None

    def parse(self, lines: Iterator[Line], name: str) -> Iterator[Batch]:
        """Yield batches of whole snapshots."""
        return read_snapshots(lines, self.name, _add_snapshot, list_is_one=True)


def _add_snapshot(batch: Batch, snapshot: Snapshot) -> None:
    document = snapshot.document
    loads = document.get("loads")
    if not isinstance(loads, list):
        _add_load(batch, snapshot, "list", "", document, dp_rank(document), 0)
        return
    for key, value in document.items():
        if key != "loads":
            add_entry(batch, snapshot, "loads", "v1", key, value)
    for load in loads:
        if isinstance(load, dict):
            _add_load(batch, snapshot, "v1", "", load, dp_rank(load), 0)
        else:
            batch.reject(snapshot.line, Loads.name, "a load is not an object")


def _add_load(
    batch: Batch,
    snapshot: Snapshot,
    dialect: str,
    prefix: str,
    load: dict[str, Any],
    dp: int | None,
    depth: int,
) -> None:
    for key, value in load.items():
        if isinstance(value, dict) and value and depth < MAX_DEPTH:
            _add_load(batch, snapshot, dialect, f"{prefix}{key}.", value, dp, depth + 1)
        else:
            add_entry(batch, snapshot, "loads", dialect, f"{prefix}{key}", value, dp)


DOCUMENT_FORMATS: Final[tuple[DocumentFormat, ...]] = (Loads(),)
