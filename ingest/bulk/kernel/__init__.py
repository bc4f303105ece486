"""The compiled scan itself: one pass over a block of bytes. No Python objects inside.

``scan_lines`` fills, per group of lines: one row of memory per integer, decimal and text span
column, and a number that encodes kind and dialect, role or event. A line that is not exactly in the
expected spelling keeps kind 0.
"""

from __future__ import annotations

from ingest.bulk.kernel.lines import copy_texts, scan_lines

__all__ = ["copy_texts", "scan_lines"]
