"""Answers of ``GET /model_info`` (or ``/get_model_info``) -> ``config_entry``, per key.

Made by ``sglang/srt/entrypoints/http_server.py`` (0.5.9-0.5.23):

    {"model_path": "m", "tokenizer_path": "m", "is_generation": true, "weight_version": "default"}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ingest.records import Batch, DocumentFormat, Line, Match
from ingest.requests.snapshot import Snapshot, add_entry, read_snapshots

_START: Final = re.compile(rb"[\s\xef\xbb\xbf]{0,64}\[?\s{0,64}\{\s{0,64}\"")
_KEYS: Final = (re.compile(rb'"model_path"\s?:'), re.compile(rb'"is_generation"\s?:'))


class ModelInfo:
    """Snapshots of what the model is."""

    name = "model_info"

    def sniff(self, head: bytes, name: str) -> Match | None:
        """Recognise an object with a model path that says whether the model generates."""
        if _START.match(head) and all(key.search(head, 0, 8192) for key in _KEYS):
            return Match(0.95)
        return None

    def parse(self, lines: Iterator[Line], name: str) -> Iterator[Batch]:
        """Yield batches of whole snapshots."""
        return read_snapshots(lines, self.name, _add_snapshot)


def _add_snapshot(batch: Batch, snapshot: Snapshot) -> None:
    for key, value in snapshot.document.items():
        add_entry(batch, snapshot, "model_info", "", key, value)


DOCUMENT_FORMATS: Final[tuple[DocumentFormat, ...]] = (ModelInfo(),)
