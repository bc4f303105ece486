"""What the command line shows: progress on standard error, results as one screen of text."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ingest.session import IngestResult
from ingest.session import Progress as IngestProgress

_TIERS: Final = ("confirmed", "probable", "possible", "not_assessable", "excluded")
# Without a terminal a line is printed at most this often, in seconds.
_QUIET_S: Final = 15.0


class Reporter:
    """Progress of a run: a bar on a terminal, a line now and then elsewhere, or nothing."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._task: Any = None
        self._last = 0.0

    def __enter__(self) -> Reporter:
        if not self._quiet and self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(), console=self._console, transient=True)
            self._bar.start()
            self._task = self._bar.add_task("reading", total=None, note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def ingest(self, now: IngestProgress) -> None:
        """Show how far the reading of evidence is."""
        rate = f"{now.bytes_per_s / 1e6:.0f} MB/s"
        self._show(f"reading {now.name[-48:]}", now.bytes_done, now.bytes_total, rate)

    def step(self, name: str, done: int, total: int) -> None:
        """Show which step of the analysis runs."""
        self._show(name, done, total, f"{done:,} of {total:,}" if total else "")

    def _show(self, text: str, done: int, total: int, note: str) -> None:
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.update(self._task, description=text, completed=done, total=total or None,
                             note=note)
        elif time.monotonic() - self._last > _QUIET_S:
            self._last = time.monotonic()
            share = f" {100 * done // total} %" if total else ""
            print(f"palimpsest: {text}{share} {note}".rstrip(), file=sys.stderr, flush=True)


def ingest_text(result: IngestResult, case: Path) -> str:
    """Return what an ingest did, in one or two lines."""
    text = (
        f"{result.files} files: {result.new} new, {result.continued} continued, "
        f"{result.unchanged} unchanged, {result.duplicates} duplicates, "
        f"{result.unrecognised} not recognised, {result.unreadable} unreadable\n"
        f"{result.records:,} records, {result.rejects:,} rejects; "
        f"manifest: {case / 'evidence' / 'manifest.jsonl'}")
    return text


def screen(summary: dict[str, Any], out: Path) -> str:
    """Return ``summary.json`` as one screen of text."""
    exposed, by_tier = summary["exposed_responses"], summary["responses"]["by_tier"]
    window = summary["window"]
    lines = [
        _headline(summary),
        "",
        f"Exposed responses: at least {exposed['low']}, expected {exposed['expected']:.1f}, "
        f"at most {exposed['high']}; beside them {exposed['not_assessable']} not assessable",
        "Responses by tier:  " + "  ".join(f"{t} {by_tier[t]}" for t in _TIERS),
        f"Window (UTC):       {_short(window['first'])} to {_short(window['last'])}",
    ]
    if summary["accounts"]["known"]:
        lines.append("Accounts:           " + "; ".join(
            f"as {role} at least {a['low']}, expected {a['expected']:.1f}, at most {a['high']}, "
            f"{a['not_assessable']} not assessable"
            for role, a in (("recipient", summary["accounts"]["as_recipient"]),
                            ("source", summary["accounts"]["as_source"]))))
    lines += ["", "Mechanism            " + "  ".join(f"{t:>14}" for t in _TIERS)]
    for name, counts in summary["mechanisms"].items():
        lines.append(f"  {name:<19}" + "  ".join(f"{counts[t]:>14}" for t in _TIERS))
    lines += ["", "Workers"]
    for worker in summary["fleet"]:
        limits = sorted({str(p["max_req_input_len"]) for p in worker["pools"]
                         if p["max_req_input_len"] is not None})
        lines.append(
            f"  {worker['worker']:<18} {worker['role']:<8} {worker['version']['text']:<12} "
            f"{worker['backend'] or 'backend unknown':<10} refuses prompts from "
            f"{'/'.join(limits) or 'unknown'} tokens on; " + ", ".join(
                f"{m} {k['state']}" for m, k in worker["knowledge"].items()))
    if summary["findings"]:
        lines += ["", "Findings", *(f"  {f['text']}" for f in summary["findings"][:8])]
    if summary["missing"]:
        lines += ["", "Missing, and what would have recorded it"]
        lines += [f"  {m['what']} -> {m['switch']}" for m in summary["missing"][:8]]
    lines += ["", f"Report:  {out / 'report.html'}",
              f"Records: {out / 'responses.jsonl'}, {out / 'exposures.jsonl'}, "
              f"{out / 'summary.json'}"]
    return "\n".join(lines)


def _headline(summary: dict[str, Any]) -> str:
    by_tier, total = summary["responses"]["by_tier"], summary["responses"]["total"]
    if total == 0:
        return ("No response could be found in this evidence: nothing is assessable. This is not "
                "an all-clear.")
    shown = by_tier["confirmed"] + by_tier["probable"] + by_tier["possible"]
    if shown == 0 and by_tier["not_assessable"] == 0:
        return f"No exposure: all {total} responses are excluded by recorded facts."
    if shown == 0:
        return (f"No exposure found, but {by_tier['not_assessable']} of {total} responses cannot "
                "be assessed: this is not an all-clear.")
    return (f"{shown} of {total} responses may contain another request's data: "
            f"{by_tier['confirmed']} confirmed, {by_tier['probable']} probable, "
            f"{by_tier['possible']} possible.")


def _short(moment: str | None) -> str:
    return moment[:19] + "Z" if moment else "unknown"
