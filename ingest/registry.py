"""Finds the formats: every module of ``ingest.formats`` with LINE_FORMATS or DOCUMENT_FORMATS.

Adding a format is adding a module; nothing is registered by hand.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Final

from ingest import formats
from ingest.errors import IngestError
from ingest.records import DocumentFormat, LineFormat

# Version of the parsers as a whole: raised when the same bytes would give other rows. Evidence
# that an older version read is parsed again.
PARSER_VERSION: Final = "1"

# Formats are disjoint by contract; the order is fixed all the same. Request logs come first
# because most lines of a request log are theirs and cost a JSON decode only there.
_ORDER: Final = ("request", "export", "engine", "canary", "glog", "uvicorn", "access", "router")


@dataclass(frozen=True, slots=True)
class Registry:
    """Line formats in the order in which they are asked, and document formats by name."""

    lines: tuple[LineFormat, ...]
    documents: tuple[DocumentFormat, ...]


@cache
def registry() -> Registry:
    """All formats of the package; raises IngestError if two have the same name."""
    modules = [
        importlib.import_module(f"{formats.__name__}.{info.name}")
        for info in sorted(pkgutil.iter_modules(formats.__path__), key=lambda info: info.name)
        if not info.name.startswith("_")
    ]
    return from_modules(modules)


def from_modules(modules: Iterable[ModuleType]) -> Registry:
    """Collect the formats that the modules export."""
    lines: list[LineFormat] = []
    documents: list[DocumentFormat] = []
    for module in modules:
        lines.extend(getattr(module, "LINE_FORMATS", ()))
        documents.extend(getattr(module, "DOCUMENT_FORMATS", ()))
    names = [f.name for f in lines] + [f.name for f in documents]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise IngestError(f"Two formats have the same name: {', '.join(twice)}")
    return Registry(
        tuple(sorted(lines, key=lambda f: (_rank(f.name), f.name))),
        tuple(sorted(documents, key=lambda f: f.name)),
    )


def _rank(name: str) -> int:
    for position, word in enumerate(_ORDER):
        if word in name:
            return position
    return len(_ORDER)
