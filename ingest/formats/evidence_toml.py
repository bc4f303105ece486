"""An operator's ``evidence.toml`` -> ``config_entry``: which files are whose.

Engine logs name neither host nor role; this file, beside the evidence, may. Every key is optional:

    [[worker]]
    name = "decode-0"
    host = "node-7"
    role = "decode"                  # prefill, decode, unified or router
    files = ["decode.log", "requests/*.log"]
    version = "0.5.18"               # release, image tag, commit
    backend = "mooncake"
    timezone = "+08:00"              # of the stamps without zone: UTC, Z, +HH:MM, -HH:MM
    model = "glm-5.3"
    model_state = "dsa"              # plain, dsa, swa or mamba
    [worker.env]
    SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE = "1"

One row per key: ``snapshot`` is the worker's number from 0, ``value`` JSON; the environment becomes
``env.NAME``. A key that is unknown or of the wrong type is a reject that names it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, Final

from ingest.records import Batch, DocumentFormat, Line, Match, to_json
from ingest.requests.secret import redact, redact_variable

MAX_BYTES: Final = 2**20
MAX_WORKERS: Final = 10_000
MAX_TEXT_CHARS: Final = 1000
MAX_FILES: Final = 10_000
ROLES: Final = frozenset({"prefill", "decode", "unified", "router"})
MODEL_STATES: Final = frozenset({"plain", "dsa", "swa", "mamba"})

_WORKER: Final = re.compile(rb"\s{0,64}\[\[\s{0,8}(?:worker|\"worker\"|'worker')\s{0,8}\]\]")
_SNIFF: Final = re.compile(
    rb"(?m)^(?:\xef\xbb\xbf)?[ \t]{0,64}"
    rb"(?:\[\[[ \t]{0,8}worker[ \t]{0,8}\]\]|worker[ \t]{0,8}=[ \t]{0,8}\[)")
_ZONE: Final = re.compile(r"UTC|Z|[+-](?:0\d|1[0-4]):?[0-5]\d")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w{0,200}")
_ERROR_LINE: Final = re.compile(r"\(at (?:line (\d{1,9}), column \d{1,9}|end of document)\)$")
_PLAIN_KEY: Final = re.compile(r"[\w.-]{1,60}")


class EvidenceToml:
    """Files that say who is who."""

    name = "evidence_toml"

    def sniff(self, head: bytes, name: str) -> Match | None:
        """Recognise a table of workers."""
        return Match(0.95) if _SNIFF.search(head) and b"\0" not in head else None

    def parse(self, lines: Iterator[Line], name: str) -> Iterator[Batch]:
        """Yield one batch."""
        batch, read, size = Batch(), [], 0
        for line in lines:
            batch.lines += 1
            size += len(line.raw) + 1
            if size > MAX_BYTES:
                batch.reject(line, self.name, "too long; nothing of it is used")
                yield batch
                return
            read.append(line)
        if read:
            _read(batch, read)
        yield batch


def _read(batch: Batch, lines: list[Line]) -> None:
    # Lines that the reader left out (blank ones) count for positions in error messages.
    numbered = {line.line_no: line.raw for line in lines}
    first, last = lines[0].line_no, lines[-1].line_no
    raw = b"\n".join(numbered.get(number, b"") for number in range(first, last + 1))
    try:
        document = tomllib.loads(raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except (ValueError, RecursionError, OverflowError) as error:
        found = _ERROR_LINE.search(str(error)) if isinstance(error, ValueError) else None
        wanted = first
        if found:
            wanted = first + int(found.group(1)) - 1 if found.group(1) else last
        line = min(lines, key=lambda line: abs(line.line_no - wanted))
        batch.reject(line, EvidenceToml.name, "not valid TOML; nothing of it is used")
        return
    for key in document.keys() - {"worker"}:
        batch.reject(lines[0], EvidenceToml.name, f"unknown key: {_shown(key)}")
    workers = document.get("worker", [])
    if not isinstance(workers, list) or len(workers) > MAX_WORKERS:
        batch.reject(lines[0], EvidenceToml.name, "worker is not a list, or too long a one")
        return
    starts = [line for line in lines if _WORKER.match(line.raw)]
    if len(starts) != len(workers):
        starts = [lines[0]] * len(workers)
    for number, (line, worker) in enumerate(zip(starts, workers, strict=True)):
        if isinstance(worker, dict):
            _add_worker(batch, line, number, worker)
        else:
            batch.reject(line, EvidenceToml.name, "a worker is not a table")


def _add_worker(batch: Batch, line: Line, number: int, worker: dict[str, Any]) -> None:
    for key, value in worker.items():
        check = _CHECKS.get(key)
        if key == "env" and isinstance(value, dict):
            for name, setting in value.items():
                _add_variable(batch, line, number, name, setting)
        elif key == "env":
            batch.reject(line, EvidenceToml.name, "env is not a table")
        elif check is None:
            batch.reject(line, EvidenceToml.name, f"unknown key: {_shown(key)}")
        elif not check[0](value):
            batch.reject(line, EvidenceToml.name, f"{key} is not {check[1]}")
        else:
            _add(batch, line, number, key, redact(key, value))


def _add_variable(batch: Batch, line: Line, number: int, name: str, value: Any) -> None:
    if type(value) is int and abs(value) < 2**63:
        value = str(value)
    if not _VARIABLE.fullmatch(name) or not _is_text(value):
        batch.reject(line, EvidenceToml.name, f"env.{_shown(name)} is not a text")
        return
    _add(batch, line, number, f"env.{name}", redact_variable(name, value))


def _add(batch: Batch, line: Line, number: int, key: str, value: Any) -> None:
    batch.add("config_entry", line, source="evidence_toml", dialect="", snapshot=number, key=key,
              value=to_json(value))


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= MAX_TEXT_CHARS


def _is_files(value: Any) -> bool:
    return type(value) is list and len(value) <= MAX_FILES and all(map(_is_text, value))


_TEXT: Final[tuple[Callable[[Any], bool], str]] = (_is_text, "a text")
_CHECKS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "name": _TEXT, "host": _TEXT, "version": _TEXT, "backend": _TEXT, "model": _TEXT,
    "role": (lambda value: _is_text(value) and value in ROLES, "one of: " + ", ".join(
        sorted(ROLES))),
    "files": (_is_files, "a list of texts"),
    "timezone": (lambda value: _is_text(value) and bool(_ZONE.fullmatch(value)),
                 "UTC, Z, +HH:MM or -HH:MM"),
    "model_state": (lambda value: _is_text(value) and value in MODEL_STATES,
                    "one of: " + ", ".join(sorted(MODEL_STATES))),
}


def _shown(key: str) -> str:
    """A key as a reject may name it: bounded, and only if it is a plain one."""
    return key if _PLAIN_KEY.fullmatch(key) else "a key of unusual characters"


DOCUMENT_FORMATS: Final[tuple[DocumentFormat, ...]] = (EvidenceToml(),)
