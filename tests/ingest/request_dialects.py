"""Prints invented requests the way the engine's request logger does, in each of its dialects."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ingest.records import Batch, DocumentFormat, Line, LineFormat, Reject

FIXTURES = Path(__file__).parent / "fixtures"
PREFIX = "[2026-12-01 04:22:17] "
STAMP_NS = 1_796_098_937_000_000_000  # 2026-12-01 04:22:17, read as if it were UTC
# Text that imitates records, in every quoting; whoever takes it for one has been fooled.
HOSTILE = (
    "bootstrap_room=123",
    "', bootstrap_room=123, rid='forged",
    "\", bootstrap_room=123, rid=\"forged",
    "), out={'meta_info': {'id': 'forged', 'prompt_tokens': 1}}",
    "'}, headers={'x-request-id': 'forged'}",
    "\nReceive: obj=GenerateReqInput(rid='forged', bootstrap_room=123)",
    '\n{"timestamp": "2026-12-01T04:22:17", "event": "request.received", "rid": "forged"}',
    '", "bootstrap_room": 123, "x": "',
    "\\', bootstrap_room=123, x='", "\\", "\\\\", "'", '"', "'''", "[", "}", ")", " ... ", "é中😀",
)
MAX_LENGTH = 2048  # level 2


def truncated_text(value: Any, limit: int) -> str:
    """Print like ``_dataclass_to_string_truncated``; `Call` stands for a dataclass."""
    if isinstance(value, str):
        if len(value) > limit:
            return f"{value[: limit // 2]!r} ... {value[-(limit // 2) :]!r}"
        return repr(value)
    if isinstance(value, list):
        if len(value) > limit:
            return f"{value[: limit // 2]} ... {value[-(limit // 2) :]}"
        return str(value)
    if isinstance(value, Call):
        fields = ", ".join(f"{k}={truncated_text(v, limit)}" for k, v in value.items())
        return f"{value.name}({fields})"
    if isinstance(value, dict):
        fields = ", ".join(f"'{k}': {truncated_text(v, limit)}" for k, v in value.items())
        return "{" + fields + "}"
    return str(value)


def truncated_json(value: Any, limit: int) -> Any:
    """Shorten like ``_transform_data_for_logging``."""
    if isinstance(value, str):
        half = limit // 2
        return value if len(value) <= limit else value[:half] + "..." + value[-half:]
    if isinstance(value, list):
        items = [truncated_json(item, limit) for item in value]
        half = limit // 2
        return items if len(items) <= limit else [*items[:half], "...", *items[-half:]]
    if isinstance(value, dict):
        return {key: truncated_json(item, limit) for key, item in value.items()}
    return value


class Call(dict[str, Any]):
    """A dataclass instance: its fields in order, and the name of its class."""

    name = "GenerateReqInput"


def text_line(
    word: str,
    obj: dict[str, Any],
    headers: dict[str, str] | None = None,
    out: dict[str, Any] | None = None,
    *,
    prefix: str = PREFIX,
    limit: int = 2**30,
) -> str:
    """One text line."""
    tail = f", headers={headers}" if headers else ""
    tail += f", out={truncated_text(out, limit)}" if out is not None else ""
    return f"{prefix}{word}: obj={truncated_text(obj, limit)}{tail}"


def json_line(
    event: str,
    obj: dict[str, Any],
    headers: dict[str, str] | None = None,
    out: dict[str, Any] | None = None,
    *,
    prefix: str = PREFIX,
    limit: int = 2**30,
    timestamp: str = "2026-12-01T04:22:17.669894",
) -> str:
    """One JSON line."""
    record: dict[str, Any] = {"timestamp": timestamp, "event": event}
    if event != "request.received.openai":
        record["rid"] = obj.get("rid")
    record["obj"] = truncated_json(dict(obj), limit)
    if headers:
        record["headers"] = headers
    if out is not None:
        record["out"] = truncated_json(out, limit)
    return prefix + json.dumps(record, ensure_ascii=False)


def lines_of(data: bytes) -> list[Line]:
    """Split bytes as the reader does: no line ends, no byte order mark, offsets kept."""
    lines, offset = [], 0
    for number, raw in enumerate(data.split(b"\n"), 1):
        start = 3 if number == 1 and raw.startswith(b"\xef\xbb\xbf") else 0
        if raw:
            lines.append(Line(raw[start:].removesuffix(b"\r"), number, offset))
        offset += len(raw) + 1
    return lines


def parse(
    line_format: LineFormat, lines: Iterable[Line | str]
) -> tuple[list[dict[str, Any]], list[Reject], int]:
    """Parse lines: (rows in line order, rejects, number of lines claimed)."""
    batch, claimed = Batch(), 0
    for number, line in enumerate(lines, 1):
        if isinstance(line, str):
            line = Line(line.encode("utf-8", "surrogateescape"), number, 0)
        claimed += line_format.parse(line, batch)
    rows = [
        row
        for name, table in batch.arrow()
        if name != "reject"
        for row in table.to_pylist()
    ]
    return sorted(rows, key=lambda row: row["line_no"]), batch.rejects, claimed


def parse_document(
    document_format: DocumentFormat, data: bytes
) -> tuple[list[dict[str, Any]], list[Reject]]:
    """Parse a whole file: (config rows, rejects); every batch must fit its tables."""
    rows: list[dict[str, Any]] = []
    rejects: list[Reject] = []
    for batch in document_format.parse(iter(lines_of(data)), "snapshot.json"):
        for name, table in batch.arrow():
            rows += table.to_pylist() if name == "config_entry" else []
        rejects += batch.rejects
    return rows, rejects


def known(row: dict[str, Any]) -> dict[str, Any]:
    """The row without NULLs and without its place in the file."""
    places = ("stream", "line_no", "byte_offset", "outer_ns")
    return {key: value for key, value in row.items() if value is not None and key not in places}
