"""Benchmark inputs of any size, grown from real lines: fresh times, ids and rooms in every copy."""

from __future__ import annotations

import random
import re
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"
_STAMP = re.compile(rb"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_RID = re.compile(rb"\b[0-9a-f]{32}\b")
_ROOM = re.compile(rb"\b\d{18,19}\b")
_EPOCH = re.compile(rb"entry_time=(\d{10})")
_SMALL = re.compile(rb"(?<=: )\d{2,6}(?=[,.])")


def grow(template: Path, target: Path, size: int, seed: int = 1) -> int:
    """Write ``size`` bytes of lines like the template's; returns the number of lines."""
    dice = random.Random(seed)
    lines = template.read_bytes().splitlines()
    count = 0
    written = 0
    second = 0
    with target.open("wb") as file:
        while written < size:
            second += 1
            stamp = b"[2026-10-%02d %02d:%02d:%02d" % (
                5 + second // 86400 % 20, second // 3600 % 24, second // 60 % 60, second % 60)
            epoch = b"entry_time=%d" % (1791237600 + second)
            batch = []
            for line in lines:
                line = _STAMP.sub(stamp, line)
                line = _RID.sub(lambda _: b"%032x" % dice.getrandbits(128), line)
                line = _ROOM.sub(lambda _: b"%d" % dice.getrandbits(62), line)
                line = _EPOCH.sub(epoch, line)
                batch.append(_SMALL.sub(lambda m: b"%d" % dice.randrange(10, 99999), line))
            data = b"\n".join(batch) + b"\n"
            file.write(data)
            written += len(data)
            count += len(batch)
    return count


def engine_log(target: Path, size: int) -> int:
    """A mixed engine process log: batch lines, ReqTimeStats, access lines, failures."""
    return grow(FIXTURES / "engine_mixed.log", target, size)


def request_log(target: Path, size: int) -> int:
    """A JSON request log without prefixes, as 0.5.9 to 0.5.11 write it."""
    return grow(FIXTURES / "requests.jsonl", target, size, seed=2)
