"""Prometheus text exposition -> ``metric``: scrapes of engines and routers.

Made by ``GET /metrics`` of SGLang (prometheus_client, names with a colon), of the router (Rust),
and by recorders that put many scrapes into one file, each sample with its own timestamp:

    # TYPE sglang:num_running_reqs gauge
    sglang:num_running_reqs{engine_type="decode",tp_rank="0"} 4 1791237614880

Histogram buckets and ``_created`` samples are left out. A timestamp is in milliseconds, or in
seconds (OpenMetrics): their ranges do not overlap. Without one, the time is that of the scrape if
the file's name says it: ``..._1796098162.prom`` (epoch seconds), or an ISO time with its zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ingest.records import Batch, DocumentFormat, Line, Match, to_json

MAX_LABELS: Final = 64
MAX_LABEL_CHARS: Final = 512
MAX_SAMPLE_BYTES: Final = 16 * 1024
# Rows after which a batch is handed over.
MAX_BATCH_ROWS: Final = 20_000
_FIRST_EPOCH_S: Final = 946_684_800  # 2000-01-01
_LAST_EPOCH_S: Final = 9_223_372_036  # what fits into 64-bit nanoseconds
_LARGEST_OFFSET_S: Final = 14 * 3600  # UTC+14:00, the Line Islands

_COMMENT: Final = re.compile(rb"#(?: (?:HELP|TYPE|UNIT) [^\s]| EOF$|$| )")
_TYPE: Final = re.compile(rb"# (?:TYPE|HELP) [A-Za-z_:\"]")
_SAMPLE: Final = re.compile(
    rb'[A-Za-z_:][\w:]{0,200}(\{(?:[^"{}]|"(?:[^"\\]|\\.){0,4096}"){0,200}\})?[ \t]{1,8}'
    rb"[-+]?(?:\d[\d.]{0,40}(?:[eE][-+]?\d{1,4})?|NaN|Inf|nan|inf)(?:[ \t]{1,8}-?[\d.]{1,24})?"
    rb"(?:[ \t]{1,8}# \{.*)?\s{0,8}$"
)
_SNIFFED_LINES: Final = 40
_NAME_EPOCH: Final = re.compile(r"_(\d{10})(?:\.(?:prom|txt|metrics))?(?:\.\w{1,4})?$")
_NAME_ISO: Final = re.compile(
    r"(\d{4})-?(\d\d)-?(\d\d)[T_](\d\d)[-:]?(\d\d)[-:]?(\d\d)(?:Z|([+-]\d\d):?(\d\d))")


class PrometheusText:
    """Scrapes in text form."""

    name = "prometheus_text"

    def sniff(self, head: bytes, name: str) -> Match | None:
        """Recognise a file whose first lines are all samples or comments of the exposition."""
        lines = [line.rstrip() for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
        if len(lines) > 1:
            del lines[-1]  # cut, or empty
        lines = [line for line in lines if line][:_SNIFFED_LINES]
        typed = any(_TYPE.match(line) for line in lines)
        found = [_SAMPLE.match(line) for line in lines]
        strange = sum(
            match is None and not _COMMENT.match(line)
            for line, match in zip(lines, found, strict=True))
        labelled = any(match and match.group(1) for match in found)
        if not lines or 4 * strange > len(lines) or not (typed or labelled):
            return None
        if not typed and not any(found):
            return None
        return Match(0.9, "typed" if typed else "bare")

    def parse(self, lines: Iterator[Line], name: str) -> Iterator[Batch]:
        """Yield batches of samples."""
        scraped_ns = scrape_ns(name)
        batch = Batch()
        for line in lines:
            batch.lines += 1
            text = line.raw.decode("utf-8", "replace").strip()
            if not text or text[0] == "#":
                batch.other_lines += 1
            elif len(line.raw) > MAX_SAMPLE_BYTES:
                batch.reject(line, self.name, "sample too long")
            else:
                _add(batch, line, text, scraped_ns)
            if len(batch.rows.get("metric", ())) + len(batch.rejects) >= MAX_BATCH_ROWS:
                yield batch
                batch = Batch()
        yield batch


def _add(batch: Batch, line: Line, text: str, scraped_ns: int | None) -> None:
    # An exemplar stands behind ' # {'; a label value with that text is read whole below.
    plain = text.partition(" # {")[0] if " # {" in text else text
    sample = _sample(plain) or (_sample(text) if plain != text else None)
    if sample is None:
        batch.reject(line, PrometheusText.name, "malformed sample")
        return
    name, labels, value, timestamp = sample[:4]
    if (name.endswith("_bucket") and "le" in labels) or name.endswith("_created"):
        batch.other_lines += 1
        return
    if len(labels) > MAX_LABELS or len(name) > MAX_LABEL_CHARS:
        batch.reject(line, PrometheusText.name, "too many labels or too long a name")
        return
    t_ns = scraped_ns
    if timestamp is not None:
        t_ns = _timestamp_ns(plain.rsplit(None, 1)[-1])
        if t_ns is None:
            batch.reject(line, PrometheusText.name, "the timestamp is no epoch time")
            return
    batch.add(
        "metric", line, t_ns=t_ns, name=name, value=float(value),
        labels=to_json({key: item[:MAX_LABEL_CHARS] for key, item in labels.items()}),
    )


def _sample(text: str) -> Sample | None:
    """Parse one sample by itself, so that its name stays as printed and its line is known."""
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                float(sample.value)
                return sample
    except (ValueError, OverflowError, IndexError, KeyError, TypeError):
        return None
    return None


def _timestamp_ns(text: str) -> int | None:
    """Read a sample's timestamp exactly: milliseconds or seconds since the epoch."""
    try:
        number = Decimal(text)
        if not number.is_finite():
            return None
        if _FIRST_EPOCH_S <= number <= _LAST_EPOCH_S:
            return int(number * 10**9)
        if _FIRST_EPOCH_S * 1000 <= number <= _LAST_EPOCH_S * 1000:
            return int(number * 10**6)
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return None


def scrape_ns(name: str) -> int | None:
    """Return the epoch ns that a file's name states; a time without zone states none."""
    base = name.replace("\\", "/").rsplit("/", 1)[-1]
    if found := _NAME_EPOCH.search(base):
        seconds = int(found.group(1))
        return seconds * 10**9 if _FIRST_EPOCH_S <= seconds <= _LAST_EPOCH_S else None
    if found := _NAME_ISO.search(base):
        *parts, hours, minutes = found.groups()
        try:
            when = datetime(*map(int, parts), tzinfo=UTC)  # type: ignore[misc,arg-type]
        except ValueError:
            return None
        offset = int(hours[1:]) * 3600 + int(minutes) * 60 if hours else 0
        if offset > _LARGEST_OFFSET_S:
            return None
        seconds = int(when.timestamp()) + (offset if hours and hours[0] == "-" else -offset)
        return seconds * 10**9 if _FIRST_EPOCH_S <= seconds <= _LAST_EPOCH_S else None
    return None


DOCUMENT_FORMATS: Final[tuple[DocumentFormat, ...]] = (PrometheusText(),)
