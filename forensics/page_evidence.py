"""Page-level evidence (L4): what page traces show of each response. Empty without traces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb

from forensics.clocks import Clock
from forensics.response import Response
from forensics.tiers import Weighing


@dataclass(frozen=True, slots=True)
class PageEvidence:
    """Weighings that page traces support, by (room, rid)."""

    by_use: dict[tuple[int, str], dict[str, Weighing]] = field(default_factory=dict)

    def weigh(self, response: Response) -> dict[str, Weighing]:
        """Return the traced weighings of a response, by mechanism; empty if it was not traced."""
        return self.by_use.get((response.room, response.rid or ""), {})

    def exposures(self, con: duckdb.DuckDBPyConnection) -> Iterator[dict[str, Any]]:
        """Yield the rows of the table ``exposure`` that the traces name outright."""
        return iter(())


def read_page_evidence(
    con: duckdb.DuckDBPyConnection, clocks: dict[int, Clock]
) -> PageEvidence:
    """Read what the page traces of the case show."""
    return PageEvidence()
