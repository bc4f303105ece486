"""The words of the report: tiers with their definitions, evidence levels, mechanisms, reasons."""

from __future__ import annotations

import re
from typing import Final

from forensics.knowledge import load_knowledge
from forensics.reasons import REASONS
from web.report_text import name

TIERS: Final = ("confirmed", "probable", "possible", "not_assessable", "excluded")
LABELS: Final = {
    "confirmed": "confirmed", "probable": "probable", "possible": "possible",
    "not_assessable": "not assessable", "excluded": "excluded",
}
# One sentence each, as the verdicts define them (forensics.tiers); the model's threshold is 0.5.
DEFINITIONS: Final = {
    "confirmed": "page-level or count-level records show it",
    "probable": "every necessary condition was observed and the model puts it over the stated "
                "threshold, a probability of 0.5",
    "possible": "no necessary condition is refuted",
    "not_assessable": "evidence is missing: the records that would decide are not here",
    "excluded": "a recorded fact refutes a necessary condition",
}
LEVELS: Final = {
    "L0": "metrics only",
    "L1": "request logs and error lines",
    "L2": "times of allocation and release per request",
    "L3": "complete, ordered scheduler events",
    "L4": "page traces",
}
# What a state of the knowledge base means for a build.
STATES: Final = {
    "exposed": "open to it", "reduced": "open, reduced", "closed": "closed",
    "unknown": "unknown, so not closed",
}
_PLACEHOLDER: Final = re.compile(r"\{\w+\}")


def mechanism_title(key: str) -> str:
    """Return the title that the knowledge base gives a mechanism."""
    known = load_knowledge().mechanisms.get(key)
    return known.title if known else name(key.replace("_", " "))


def mechanism_line(key: str) -> str:
    """Return the one sentence that the knowledge base has of a mechanism."""
    known = load_knowledge().mechanisms.get(key)
    return known.one_line if known else ""


def reason_sentence(code: str) -> str:
    """Return the sentence of a reason code with its values left open."""
    return _PLACEHOLDER.sub("…", REASONS.get(code, ""))


def tier_anchor(tier: str) -> str:
    """Return the anchor of a tier's section."""
    return "excluded" if tier == "excluded" else f"tier-{tier}"
