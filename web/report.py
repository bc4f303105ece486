"""``report.html``: one self-contained page for the incident commander, from an analysis's results.

Renders with autoescaping and no clock: the same inputs give the same bytes. The page loads nothing
and needs no script.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ingest.errors import ReportError
from ingest.excerpts import Excerpt
from web.report_rows import CAPS, MAX_SOURCES, Record, collect
from web.report_text import count, upper_first
from web.view import build_view
from web.view_rows import MAX_LINES, wanted_lines
from web.view_terms import DEFINITIONS, LABELS

Excerpts = Callable[[Iterable[str]], Mapping[str, Excerpt]]
_TEMPLATES: Final = Path(__file__).parent / "templates" / "report"


def render_report(
    summary: Mapping[str, Any], responses: Iterable[Record], exposures: Iterable[Record],
    excerpts: Excerpts,
) -> str:
    """Return the page.

    ``responses`` and ``exposures`` are read once, from front to back, and only what is shown is
    kept. ``excerpts`` is called once, with the evidence ids of the lines that are shown.
    """
    rows = collect(responses, exposures)
    lines = excerpts(sorted(wanted_lines(summary, rows)))
    view = build_view(summary, rows, lines)
    return _environment().get_template("page.html.j2").render(
        view=view, caps=CAPS, max_sources=MAX_SOURCES, max_lines=MAX_LINES, labels=LABELS,
        definitions=DEFINITIONS)


def write_report(
    path: Path, summary: Mapping[str, Any], responses: Iterable[Record],
    exposures: Iterable[Record], excerpts: Excerpts,
) -> None:
    """Write the page, whole or not at all; raises ReportError."""
    page = render_report(summary, responses, exposures, excerpts)
    fresh = path.with_name(path.name + ".new")
    try:
        # Lone surrogates of a file name cannot be encoded.
        fresh.write_text(page, encoding="utf-8", errors="backslashreplace", newline="\n")
        os.replace(fresh, path)
    except OSError as error:
        raise ReportError(f"{path.name} could not be written: {error.strerror or error}",
                          way_out="Make room for it, or check who may write there.") from error


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True)
    environment.filters["count"] = count
    environment.filters["upper_first"] = upper_first
    return environment
