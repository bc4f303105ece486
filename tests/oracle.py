"""A decode pool and its prefill, one page and one tick at a time: the truth that queries must find.

Every page remembers who owns it and who wrote it last. Events are appended in order of time; a send
lands at its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Oracle:
    """``stale``: (room, page, last writer) at commit; ``landed``: (source, page, owner, class)."""

    tick: int = 1000
    owner: dict[int, int] = field(default_factory=dict)
    writer: dict[int, int] = field(default_factory=dict)
    pages: dict[int, list[int]] = field(default_factory=dict)
    filled: dict[int, set[int]] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    decode: list[dict[str, Any]] = field(default_factory=list)
    prefill: list[dict[str, Any]] = field(default_factory=list)
    stale: set[tuple[int, int, int | None]] = field(default_factory=set)
    landed: set[tuple[int, int, int, str]] = field(default_factory=set)

    def say(self, trace: list[dict[str, Any]], ev: str, room: int, pages: list[int],
            **more: Any) -> None:
        self.tick += 10
        trace.append({"t": self.tick, "ev": ev, "room": room, "rid": f"r{room}",
                      "pages": [[page, 1] for page in pages], **more})

    def alloc(self, room: int, pages: list[int], why: str = "prealloc") -> None:
        self.say(self.decode, "alloc", room, pages, why=why, tokens=len(pages))
        self.pages.setdefault(room, []).extend(pages)
        self.filled.setdefault(room, set())
        self.owner.update(dict.fromkeys(pages, room))
        if why == "growth":
            self.filled[room].update(pages)
            self.writer.update(dict.fromkeys(pages, room))

    def begin(self, room: int, pages: list[int], chunk: int) -> None:
        self.say(self.prefill, "send_begin", room, pages, tokens=len(pages), chunk=chunk,
                 dst_session="d")

    def end(self, room: int, pages: list[int], chunk: int, ok: bool = True) -> None:
        self.say(self.prefill, "send_end", room, pages, tokens=len(pages), chunk=chunk,
                 dst_session="d", ok=ok)
        for page in pages if ok else []:
            if (owner := self.owner.get(page)) not in (None, room):
                own = page in self.filled[owner]
                when = "during_decode" if owner in self.committed else "before_attend"
                # Only a page that is still to be written by its owner is repaired.
                self.landed.add((room, page, owner, when if own else "early"))
            elif owner == room:
                self.filled[room].add(page)
            self.writer[page] = room

    def commit(self, room: int) -> None:
        pages = self.pages[room]
        self.say(self.decode, "commit", room, pages, tokens=len(pages))
        self.committed.add(room)
        self.stale |= {(room, page, self.writer.get(page))
                       for page in pages if page not in self.filled[room]}

    def free(self, room: int, why: str, output: int | None = None) -> None:
        if output is not None:
            self.say(self.decode, "finish", room, [], tokens=output)
        self.say(self.decode, "free", room, self.pages[room], why=why)
        for page in self.pages.pop(room):
            del self.owner[page]
