"""Log lines put into every wrapper, as the collectors do it; the tests peel them again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence

# (stream, line) in, wrapped bytes out.
Pairs = Sequence[tuple[str, bytes]]
STAMP = "2026-01-02T03:04:05.123456789Z"
STAMP_NS = 1767323045123456789
HOSTS = ("node-a", "node-b", "node-c")


def _pieces(line: bytes, dice: random.Random) -> list[bytes]:
    """The line in one to three pieces, as runtimes cut long lines."""
    if dice.random() < 0.6:
        return [line]
    cuts = sorted(dice.randrange(len(line) + 1) for _ in range(dice.randrange(1, 3)))
    return [line[a:b] for a, b in zip([0, *cuts], [*cuts, len(line)], strict=True)]


def _text_pieces(line: bytes, dice: random.Random) -> list[str]:
    text = line.decode()
    if dice.random() < 0.6 or len(text) < 2:
        return [text]
    cut = dice.randrange(1, len(text))
    return [text[:cut], text[cut:]]


def cri(pairs: Pairs, dice: random.Random) -> bytes:
    out = b""
    for _, line in pairs:
        channel = dice.choice([b"stdout", b"stderr"])
        *parts, last = _pieces(line, dice)
        for part in parts:
            out += STAMP.encode() + b" " + channel + b" P " + part + b"\n"
        out += STAMP.encode() + b" " + channel + b" F " + last + b"\n"
    return out


def docker(pairs: Pairs, dice: random.Random) -> bytes:
    rows = []
    for _, line in pairs:
        channel = dice.choice(["stdout", "stderr"])
        parts = _text_pieces(line, dice)
        parts[-1] += "\n"
        rows += [{"log": part, "stream": channel, "time": STAMP} for part in parts]
    return b"".join(json.dumps(row, ensure_ascii=dice.random() < 0.5).encode() + b"\n"
                    for row in rows)


def compose(pairs: Pairs, dice: random.Random) -> bytes:
    colour = dice.random() < 0.5
    rows = b""
    for stream, line in pairs:
        name = stream.encode() + b" " * dice.randrange(1, 6) + b"| "
        rows += (b"\x1b[36m" + name + b"\x1b[0m" if colour else name) + line + b"\n"
    return rows


def journal_json(pairs: Pairs, dice: random.Random) -> bytes:
    rows = []
    for stream, line in pairs:
        host, unit = stream.split("/")
        try:
            message: str | list[int] = line.decode()
        except UnicodeDecodeError:
            message = list(line)
        if dice.random() < 0.2 and line:
            message = list(line)
        rows.append({"_HOSTNAME": host, "__REALTIME_TIMESTAMP": str(STAMP_NS // 1000),
                     "_SYSTEMD_UNIT": unit, "_PID": str(dice.randrange(9999)),
                     "MESSAGE": message})
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def journal_text(pairs: Pairs, dice: random.Random) -> bytes:
    stamp = dice.choice([b"2026-01-02T03:04:05+0000", b"Jan  2 03:04:05"])
    return b"".join(
        b"%s %s %s[%d]: %s\n" % (stamp, *s.encode().split(b"/"), dice.randrange(1, 9999), line)
        for s, line in pairs)


def loki_json(pairs: Pairs, dice: random.Random) -> bytes:
    return b"".join(
        json.dumps({"labels": {"pod": stream, "app": "x"}, "line": line.decode(),
                    "timestamp": STAMP}, ensure_ascii=dice.random() < 0.5).encode() + b"\n"
        for stream, line in pairs)


def loki_document(pairs: Pairs, dice: random.Random) -> bytes:
    results = [{"stream": {"pod": stream, "app": "x"}, "values": [[str(STAMP_NS), line.decode()]]}
               for stream, line in pairs]
    document = {"status": "success", "data": {"resultType": "streams", "result": results,
                                              "stats": {"summary": {"n": 1, "s": ["a"]}}}}
    indent = dice.choice([None, 2])
    return json.dumps(document, indent=indent, ensure_ascii=dice.random() < 0.5).encode() + b"\n"


def loki_tsv(pairs: Pairs, dice: random.Random) -> bytes:
    gap = b"\n" * dice.randrange(1, 3)
    return b"".join(b"1767323045123\t2026-01-02T03:04:05.123Z\t" + line + gap
                    for _, line in pairs)


def ray(pairs: Pairs, dice: random.Random) -> bytes:
    return b"".join(b"(" + stream.replace(" ip=", ", ip=").encode() + b") " + line + b"\n"
                    for stream, line in pairs)


def grep(pairs: Pairs, dice: random.Random) -> bytes:
    numbered = dice.random() < 0.5
    return b"".join(
        stream.encode() + b":" + (b"%d:" % n if numbered else b"") + line + b"\n"
        for n, (stream, line) in enumerate(pairs))


def kubectl(pairs: Pairs, dice: random.Random) -> bytes:
    return b"".join(b"[pod/" + stream.encode() + b"] " + line + b"\n" for stream, line in pairs)


def stamp(pairs: Pairs, dice: random.Random) -> bytes:
    return b"".join(STAMP.encode() + b" " + line + b"\n" for _, line in pairs)


# name: (wrap, how a stream is spelled, whether lines have to be text, whether it has an outer time)
KINDS: dict[str, tuple[Callable[[Pairs, random.Random], bytes], str, bool, bool]] = {
    "cri": (cri, "", False, True),
    "docker": (docker, "", True, True),
    "compose": (compose, "%s-1", False, False),
    "journal-json": (journal_json, "%s/sglang.service", False, True),
    "journal-text": (journal_text, "%s/python3", False, False),
    "loki-json": (loki_json, "%s", True, True),
    "loki-document": (loki_document, "%s", True, True),
    "loki-tsv": (loki_tsv, "", False, True),
    "ray": (ray, "Engine pid=812 ip=10.0.0.%s", False, False),
    "grep": (grep, "logs/%s/sglang.log", False, False),
    "kubectl": (kubectl, "%s/engine", False, False),
    "stamp": (stamp, "", False, True),
}
