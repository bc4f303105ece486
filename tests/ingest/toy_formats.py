"""Two tiny line formats and a document format that the pipeline tests read.

``event`` lines: ``[<seconds>] <rid> <n>``, wrapped tails start with two spaces and add to the
rid; ``access`` lines: ``GET <path> <status>``. A document starts with ``#toy`` and has one
account per line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ingest.records import Batch, Line, Match
from ingest.registry import Registry

_EVENT = re.compile(rb"\[(\d{1,9})\] ([\w.]{1,200}(?: {2,3}[\w.]{1,200}){0,8}) (\d{1,9})?\Z")
_ACCESS = re.compile(rb"GET (/\w{0,80}) (\d{3})\Z")


class EventFormat:
    """Lines of the event format."""

    name = "event"

    def parse(self, line: Line, batch: Batch) -> bool:
        if not line.raw.startswith(b"["):
            return False
        match = _EVENT.match(line.raw)
        if match is None:
            batch.reject(line, self.name, "malformed event")
            return True
        stamp, rid, number = match.groups()
        batch.add(
            "engine_event", line, kind="retracted", rid=rid.decode().replace(" ", ""),
            n1=int(number) if number else None, stamp_ns=int(stamp) * 10**9,
            stamp_res_ns=10**9,
        )
        return True

    def continues(self, previous: Line, line: Line) -> bool:
        return line.raw.startswith(b"  ")


class AccessFormat:
    """Lines of the access format."""

    name = "access"

    def parse(self, line: Line, batch: Batch) -> bool:
        match = _ACCESS.match(line.raw)
        if match is None:
            return False
        batch.add("access_line", line, path=match[1].decode(), status_code=int(match[2]))
        return True

    def continues(self, previous: Line, line: Line) -> bool:
        return False


class ToyDocument:
    """A document of accounts."""

    name = "toy_accounts"

    def sniff(self, head: bytes, name: str) -> Match | None:
        return Match(0.9) if head.startswith(b"#toy") else None

    def parse(self, lines: Iterator[Line], name: str) -> Iterator[Batch]:
        for line in lines:
            batch = Batch(lines=1)
            if line.line_no > 1:
                batch.add("account_key", line, key_name="rid", key_value=line.raw.decode(),
                          account="a")
            yield batch


TOYS = Registry((EventFormat(), AccessFormat()), (ToyDocument(),))
