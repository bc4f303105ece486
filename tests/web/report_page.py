"""A rendered report, read back as a browser would."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

from report_case import (
    excerpts,
    response,
    summary,
)

from web.report import render_report

VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})
INLINE = frozenset({"a", "span", "bdi", "strong", "code", "time"})


class Page(HTMLParser):
    """What a browser would make of the page: balanced tags, ids, links, texts by element id."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[tuple[str, str | None]] = []
        self.ids: Counter[str] = Counter()
        self.links: list[tuple[str, str]] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.by_id: dict[str, list[str]] = {}
        self.link: list[str] | None = None
        self.feed(text)
        self.close()
        assert not self.stack, self.stack

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]
        found = dict(attrs).get("id")
        if found is not None:
            self.ids[found] += 1
            self.by_id[found] = []
        if tag == "a":
            self.link = []
            self.links.append((dict(attrs).get("href") or "", ""))
        if tag not in VOID:
            self.stack.append((tag, found))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack[-1][0] == tag, (tag, self.stack[-3:])
        if tag not in INLINE:
            self.handle_data(" ")
        self.stack.pop()
        if tag == "a" and self.link is not None:
            self.links[-1] = (self.links[-1][0], "".join(self.link).strip())
            self.link = None

    def handle_data(self, data: str) -> None:
        if any(tag == "style" for tag, _ in self.stack):
            return
        self.texts.append(data)
        if self.link is not None:
            self.link.append(data)
        for _, found in self.stack:
            if found is not None:
                self.by_id[found].append(data)

    def text(self, element: str | None = None) -> str:
        parts = self.texts if element is None else self.by_id[element]
        return re.sub(r"\s+", " ", "".join(parts)).strip()


def case() -> list[dict[str, Any]]:
    return [response(0, "confirmed"), response(1, "confirmed"), response(2, "probable"),
            response(3, "possible", "late_write"), response(4, "not_assessable"),
            *(response(n, "excluded") for n in range(5, 15))]


def render(records: Iterable[dict[str, Any]], pairs: Iterable[dict[str, Any]] = (),
           **fields: Any) -> str:
    records = list(records)
    return render_report(summary(records, **fields), iter(records), iter(pairs), excerpts)
