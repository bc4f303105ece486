"""Page-level evidence (L4): what page traces show of each response. Empty without traces."""

from __future__ import annotations

from dataclasses import dataclass, field

from forensics.response import Response
from forensics.tiers import Weighing


@dataclass(frozen=True, slots=True)
class PageEvidence:
    """Weighings that page traces support, by (room, rid)."""

    by_use: dict[tuple[int, str], dict[str, Weighing]] = field(default_factory=dict)

    def weigh(self, response: Response) -> dict[str, Weighing]:
        """Return the traced weighings of a response, by mechanism; empty if it was not traced."""
        return self.by_use.get((response.room, response.rid or ""), {})
