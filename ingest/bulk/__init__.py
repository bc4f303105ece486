"""Compiled scan of the bulk of an engine log: batch, time-stats, access and failure lines.

The grammar of ``ingest.engine`` is the specification; this is its fast path. A line is taken only
if it is exactly in the spelling that the engine prints; every other line is handed back as a span
and goes through the grammar. Both give the same rows (``tests/ingest/test_bulk.py``).
"""

from __future__ import annotations

from ingest.bulk.columns import BulkResult, scan

__all__ = ["BulkResult", "scan"]
