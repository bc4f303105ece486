"""Loki exports by line: logcli JSON lines and Grafana's tab-separated text.

    {"labels":{"pod":"prefill-0"},"line":"[2026-...] ...","timestamp":"2026-01-02T03:04:05.1Z"}
    1767323045123<TAB>2026-01-02T03:04:05.123Z<TAB>[2026-...] ...

Formats: grafana/loki ``pkg/logcli/output``, grafana ``Download logs``. Exports may run from newest
to oldest: the order of the file is kept. In the text form blank lines stand between the rows and
each line of a traceback is a row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ingest.wrapping.instant import STAMP, epoch_ns
from ingest.wrapping.jsontext import decode_object, text_bytes
from ingest.wrapping.layer import LineLayer, Peeled, fits, stream_name

_ROW: Final = re.compile(rb"(\d{13}|\d{16}|\d{19})\t(%s)\t" % STAMP)
# Labels that name a source, most telling first; one of each group is taken.
_WHERE: Final = ("pod", "pod_name", "k8s_pod_name", "hostname", "host", "node_name", "node",
                 "instance")
_WHAT: Final = ("container", "container_name", "k8s_container_name", "compose_service",
                "systemd_unit", "unit")
# Labels that differ between the lines of one source.
_CHANGING: Final = frozenset({"level", "detected_level", "stream", "severity", "__error__",
                              "__error_details__"})


class _Row(msgspec.Struct):
    labels: dict[str, Any]
    line: str
    timestamp: str


_LINE: Final = msgspec.json.Decoder(_Row)


def peel_logcli(raw: bytes) -> Peeled | None:
    """One line of ``logcli -o jsonl``."""
    if not raw.startswith(b"{") or b'"labels"' not in raw or b'"line"' not in raw:
        return None
    row = decode_object(_LINE, raw)
    if row is None:
        return None
    outer_ns = epoch_ns(row.timestamp.encode("utf-8", "replace"))
    if outer_ns is None:
        return None
    return Peeled(text_bytes(row.line), labelled_stream(row.labels), outer_ns)


def peel_row(raw: bytes) -> Peeled | None:
    """One row of tab-separated text; the blank lines between rows are dropped."""
    match = _ROW.match(raw)
    if match is None:
        return None if raw.strip() else Peeled(None)
    # The epoch column is exact where the other is rounded, and the other way round.
    count, stamp = match.groups()
    epoch = int(count) * 10 ** (19 - len(count))
    shown = epoch_ns(stamp)
    fine = shown is not None and abs(shown - epoch) < 10**6
    return Peeled(raw[match.end():], "", max(shown or 0, epoch) if fine else epoch)


def labelled_stream(labels: Mapping[str, Any]) -> str:
    """The stream that a set of labels names: host or pod and container, else all labels."""
    names: list[str] = []
    for group in (_WHERE, _WHAT):
        for key in group:
            if isinstance(labels.get(key), str) and labels[key]:
                names.append(labels[key])
                break
    if not names:
        names = [",".join(f"{key}={labels[key]}" for key in sorted(labels)
                          if key not in _CHANGING)]
    return stream_name("/".join(names))


def detect_logcli(raws: Sequence[bytes]) -> LineLayer | None:
    """logcli JSON lines."""
    return LineLayer("loki-json", peel_logcli) if fits(peel_logcli, raws, share=0.2) else None


def detect_rows(raws: Sequence[bytes]) -> LineLayer | None:
    """Tab-separated rows with two stamps."""
    return LineLayer("loki-tsv", peel_row) if fits(peel_row, raws, share=0.2) else None
