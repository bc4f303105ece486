"""Ways in which evidence arrives damaged or wrapped; each changes a folder in place."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

_STAMP = re.compile(
    r"(?<=\[)\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|(?<=\"timestamp\": \")[\d-]{10}T[\d:]{8}")


def rewrite(folder: Path, pattern: str, change: Callable[[list[str]], list[str]]) -> None:
    """Apply a change to the lines of every matching file."""
    for path in sorted(folder.rglob(pattern)):
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(change(lines)) + "\n", encoding="utf-8")


def remove(folder: Path, pattern: str) -> None:
    """Delete every matching file."""
    for path in sorted(folder.rglob(pattern)):
        path.unlink()


def lose_lines(folder: Path, share: float, seed: int, pattern: str = "*.log") -> None:
    """Lose a share of the lines at random."""
    dice = random.Random(seed)
    rewrite(folder, pattern, lambda lines: [x for x in lines if dice.random() >= share])


def cut(folder: Path, pattern: str, first: float, last: float) -> None:
    """Keep only the middle of every matching file, as rotation does; the cut is mid-line."""
    for path in sorted(folder.rglob(pattern)):
        data = path.read_bytes()
        path.write_bytes(data[int(len(data) * first) : int(len(data) * last)])


def shift_zone(folder: Path, pattern: str, hours: float) -> None:
    """Stamp the local time of another zone."""
    def move(match: re.Match[str]) -> str:
        text = match.group()
        moment = datetime.fromisoformat(text) + timedelta(hours=hours)
        return moment.isoformat(sep=text[10])

    rewrite(folder, pattern, lambda lines: [_STAMP.sub(move, line) for line in lines])


def wrap_cri(folder: Path, pattern: str) -> None:
    """Kubernetes CRI, long lines in pieces of 200 characters."""
    def wrap(lines: list[str]) -> list[str]:
        out = []
        for line in lines:
            pieces = [line[i : i + 200] for i in range(0, len(line), 200)] or [""]
            for i, piece in enumerate(pieces):
                tag = "F" if i == len(pieces) - 1 else "P"
                out.append(f"2026-10-05T22:00:00.123456789Z stderr {tag} {piece}")
        return out

    rewrite(folder, pattern, wrap)


def wrap_docker(folder: Path, pattern: str) -> None:
    """Docker json-file."""
    rewrite(folder, pattern, lambda lines: [
        json.dumps({"log": line + "\n", "stream": "stderr",
                    "time": "2026-10-05T22:00:00.123456789Z"}, separators=(",", ":"))
        for line in lines])


def compose_into_one(folder: Path) -> None:
    """All logs of all workers in one docker compose stream, interleaved."""
    streams = []
    for path in sorted(folder.rglob("*.log")):
        label = path.parent.name
        streams.append([f"{label:<12}| {line}" for line in
                        path.read_text(encoding="utf-8").splitlines()])
        path.unlink()
    dice, merged = random.Random(7), []
    while streams:
        stream = dice.choice(streams)
        merged.append(stream.pop(0))
        if not stream:
            streams.remove(stream)
    (folder / "compose.log").write_text("\n".join(merged) + "\n", encoding="utf-8")
