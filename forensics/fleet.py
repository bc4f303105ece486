"""What is known of every worker: build, backend, switches, pools and limits, per boot epoch."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import duckdb

import queries
from forensics.grouping import Worker
from forensics.knowledge import load_knowledge, max_req_input_len
from forensics.response import Response
from forensics.versions import VersionRange, infer_range, parse_build, released_by

# Wheels and announcements differ by days, and clocks may be wrong: a release counts as possible for
# this long before its date.
_DATE_MARGIN: Final = timedelta(days=30)
# A decode worker prints a batch line every 40 steps while anything runs: seconds, not this long.
SILENCE_NS: Final = 60 * 10**9
DEFERRED_SWITCH: Final = "SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE"
# Model classes by the state that travels beside the pages (leak-mechanisms.md, sections 2 and 6).
_STATE_OF_CLASS: Final = (
    (re.compile(r"Dsa|DeepseekV32|DeepseekV4|GlmMoeDsa", re.IGNORECASE), "dsa"),
    (re.compile(r"Mamba|Qwen3Next|Qwen3_5|Kimi(?:K3|Linear)|Falcon(?:H1|Mamba)|Nemotron_?H|Jamba"
                r"|Bailing.*Linear", re.IGNORECASE), "mamba"),
    (re.compile(r"Gemma[23]|GptOss|Llama4|Cohere2|MiMo|Step3p5", re.IGNORECASE), "swa"),
    (re.compile(r"^(?:Qwen[23]ForCausalLM|LlamaForCausalLM|DeepseekV[23]ForCausalLM"
                r"|MistralForCausalLM|Qwen[23]MoeForCausalLM|Glm4MoeForCausalLM)$"), "plain"),
)
_SWITCHES: Final = (
    "allow_auto_truncate", "disaggregation_enable_kv_checksum",
    "disaggregation_decode_allocation_policy", "disaggregation_decode_enable_radix_cache",
    "disaggregation_decode_enable_offload_kvcache", "enable_hierarchical_cache",
    "speculative_algorithm", "enable_dp_attention", "load_balance_method", "log_requests",
    "enable_request_time_stats_logging", "enable_metrics", "kv_canary",
)


@dataclass(frozen=True, slots=True)
class Pool:
    """One allocator's size as reported; ``limit`` is max_req_input_len (refused from there on)."""

    dp: int | None
    tokens: int | None
    context_len: int | None
    page_size: int | None
    limit: int | None


@dataclass(slots=True)
class Epoch:
    """One worker in one boot epoch."""

    worker_id: int
    number: int
    version: VersionRange = field(default_factory=VersionRange)
    version_basis: str = "nothing in the evidence bounds the build"
    contradictory: bool = False
    config: dict[str, Any] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    model_state: str | None = None
    hybrid: bool = False
    pools: tuple[Pool, ...] = ()

    @property
    def backend(self) -> str | None:
        value = self.config.get("disaggregation_transfer_backend")
        return str(value) if value else None

    @property
    def page_size(self) -> int | None:
        value = self.config.get("page_size")
        return value if isinstance(value, int) and value > 0 else None

    @property
    def dp_size(self) -> int | None:
        value = self.config.get("dp_size")
        return value if isinstance(value, int) else None

    @property
    def truncates(self) -> bool | None:
        value = self.config.get("allow_auto_truncate")
        return value if isinstance(value, bool) else None

    @property
    def deferred_switch(self) -> bool | None:
        """What the environment says of deferred release; None if nothing printed it."""
        value = self.config.get(f"env.{DEFERRED_SWITCH}")
        if value is None:
            return None
        return str(value).strip().lower() not in {"0", "false", "no", "off", ""}

    @property
    def lowest_limit(self) -> int | None:
        limits = [pool.limit for pool in self.pools if pool.limit is not None]
        return min(limits, default=None)

    def switches(self) -> dict[str, Any]:
        found = {name: self.config.get(name) for name in _SWITCHES}
        found[DEFERRED_SWITCH] = self.deferred_switch
        return found


@dataclass(frozen=True, slots=True)
class PrefillSide:
    """What is known of the prefill that served a response, for the hand-off mechanisms.

    ``known``: the very worker is known; otherwise the values hold for every prefill worker that
    it can have been (worst state, lowest limit).
    """

    known: bool
    version: str
    stale_state: str
    fails_closed: bool
    model_state: str
    lowest_limit: int | None
    truncates: bool | None
    evidence: tuple[str, ...]
    log: LogSpan | None = None
    prints_every_refusal: bool = False

    def refusals_covered(self, response: Response) -> bool:
        """True if the log of this prefill would show a refusal of the response, and shows none.

        Needs a process log that brackets the response, holds its own start, and prints refusals
        for the rank: only global TP rank 0 prints them, so with DP attention only DP rank 0 does.
        A log that prints one record per request would show this room too: its silence is a gap.
        """
        log = self.log
        if not (self.known and log and self.prints_every_refusal) or log.has_stats:
            return False
        start, end = response.received_lo or response.first_ns, response.ended_hi
        return (
            start is not None and end is not None
            and log.has_boot and log.first_ns <= start and log.last_ns >= end
        )


@dataclass(frozen=True, slots=True)
class LogSpan:
    """Time that a process log covers, worker axis; see ``queries/log_span.sql``."""

    first_ns: int
    last_ns: int
    has_boot: bool
    has_stats: bool
    silences: tuple[tuple[int, int], ...]
    refs: tuple[str, ...]


@dataclass(slots=True)
class Fleet:
    """All workers and their epochs; lookups for the verdict functions."""

    workers: dict[int, Worker]
    epochs: dict[tuple[int, int], Epoch]
    logs: dict[tuple[int, int], LogSpan] = field(default_factory=dict)
    # Times of rooms that prefill served and no decode log names, sorted.
    orphans: list[int] = field(default_factory=list)
    _sides: dict[tuple[int | None, int | None], PrefillSide] = field(default_factory=dict)

    def of(self, worker_id: int | None, epoch: int | None) -> Epoch | None:
        """Return the epoch's facts, or None for an unknown worker."""
        if worker_id is None:
            return None
        found = self.epochs.get((worker_id, epoch if epoch is not None else 0))
        return found or next(
            (e for (w, _), e in sorted(self.epochs.items()) if w == worker_id), None)

    def orphan_between(self, lo: int, hi: int) -> bool:
        """Say whether prefill served a room between two times that no decode log names."""
        at = bisect_left(self.orphans, lo)
        return at < len(self.orphans) and self.orphans[at] <= hi

    def prefill_side(self, response: Response) -> PrefillSide:
        """Return what is known of the prefill that served the response."""
        key = response.prefill_worker_id, response.p_epoch
        if key not in self._sides:
            self._sides[key] = self._prefill_side(*key)
        return self._sides[key]

    def _prefill_side(self, worker_id: int | None, epoch: int | None) -> PrefillSide:
        if worker_id is not None and epoch is not None:
            chosen = [e for e in (self.of(worker_id, epoch),) if e]
        else:
            chosen = [
                e for (w, _), e in sorted(self.epochs.items())
                if (w == worker_id if worker_id is not None
                    else self.workers[w].role in ("prefill", "unknown"))
            ]
        known = worker_id is not None
        # A prefill whose log is missing may exist beside the known ones: without a name for the
        # worker, the known builds close nothing.
        states = [_handoff_state(e) for e in chosen]
        state = _worst(s for s, _ in states) if states else "unknown"
        if not known and state == "closed":
            state = "unknown"
        limits = [e.lowest_limit for e in chosen]
        truncates = {e.truncates for e in chosen}
        only = chosen[0] if len(chosen) == 1 else None
        return PrefillSide(
            known=known,
            version=" / ".join(sorted({str(e.version) for e in chosen})) or "unknown",
            stale_state=state,
            fails_closed=bool(states) and all(closed for _, closed in states),
            model_state=(only.model_state if only else None) or "unknown",
            lowest_limit=(
                min((limit for limit in limits if limit is not None), default=None)
                if not known or None not in limits else None),
            truncates=truncates.pop() if known and len(truncates) == 1 else None,
            evidence=only.evidence if only else (),
            log=self.logs.get((only.worker_id, only.number)) if only else None,
            prints_every_refusal=bool(
                only and (only.dp_size == 1 or only.config.get("enable_dp_attention") is False)),
        )


def _handoff_state(epoch: Epoch) -> tuple[str, bool]:
    """Return (state of the stale hand-off, closed because the backend refuses it)."""
    assessment = load_knowledge().lookup(
        "stale_handoff", epoch.version, epoch.backend, epoch.model_state, {})
    plain = load_knowledge().lookup(
        "stale_handoff", epoch.version, epoch.backend, "plain", {})
    return assessment.state, assessment.state == "closed" and plain.state != "closed"


_SAFETY: Final = ("closed", "reduced", "unknown", "exposed")


def _worst(states: Iterable[str]) -> str:
    return max(states, key=_SAFETY.index, default="unknown")


def read(con: duckdb.DuckDBPyConnection, workers: list[Worker]) -> Fleet:
    """Collect every worker's facts from the case (tables of identity and clocks must exist)."""
    by_id = {worker.worker_id: worker for worker in workers}
    numbers: dict[int, set[int]] = defaultdict(set)
    for worker_id, epoch in con.execute("SELECT DISTINCT worker_id, epoch FROM segment").fetchall():
        numbers[worker_id].add(epoch)
    boots = {w for (w,) in con.execute(
        "SELECT DISTINCT worker_id FROM segment WHERE epoch > 0").fetchall()}
    epochs = {
        (w, n): Epoch(w, n)
        for w in by_id
        # Epoch 0 of a worker whose start is recorded holds only lines before that start.
        for n in sorted(numbers[w] or {0})
        if not (n == 0 and w in boots and numbers[w] == {0})
    }
    _configure(con, epochs, by_id)
    _date(con, epochs, by_id)
    _measure(con, epochs)
    logs = {
        (row["worker_id"], row["epoch"]): LogSpan(
            row["first_ns"], row["last_ns"], row["has_boot"], row["has_stats"],
            tuple((pause["lo"], pause["hi"]) for pause in row["silences"]), tuple(row["refs"]))
        for row in queries.rows(con, "log_span", silence_ns=SILENCE_NS)
    }
    return Fleet(by_id, epochs, logs)


def _configure(
    con: duckdb.DuckDBPyConnection, epochs: dict[tuple[int, int], Epoch],
    workers: dict[int, Worker],
) -> None:
    """Fill ``config`` from server_args of the epoch, snapshots of the worker, and evidence.toml."""
    refs: dict[tuple[int, int], set[str]] = defaultdict(set)
    for row in queries.rows(con, "worker_config"):
        value = _value(row["value"])
        for (worker_id, number), epoch in epochs.items():
            if worker_id != row["worker_id"] or row["epoch"] not in (None, number):
                continue
            # A snapshot belongs to no epoch: it fills gaps, a start-up line overrules it.
            if row["epoch"] is not None or row["key"] not in epoch.config:
                epoch.config[row["key"]] = value
            refs[worker_id, number].add(row["ref"])
    for key, found in refs.items():
        epochs[key].evidence = tuple(sorted(found, key=_ref_order))[:4]
    for (worker_id, _), epoch in epochs.items():
        stated = workers[worker_id].stated
        if "backend" in stated:
            epoch.config["disaggregation_transfer_backend"] = stated["backend"]
        epoch.config |= {name: stated[name] for name in stated if name.startswith("env.")}


def _ref_order(ref: str) -> tuple[int, int]:
    file, _, offset = ref.partition(":")
    return int(file), int(offset)


def _value(text: str | None) -> Any:
    try:
        return json.loads(text) if text is not None else None
    except ValueError:
        return text


def _date(
    con: duckdb.DuckDBPyConnection, epochs: dict[tuple[int, int], Epoch],
    workers: dict[int, Worker],
) -> None:
    """Bound each epoch's build: what it states itself, and what its own spelling proves."""
    markers: dict[tuple[int, int], set[str]] = defaultdict(set)
    for row in queries.rows(con, "dialect_marker"):
        for worker_id, number in epochs:
            if worker_id == row["worker_id"] and row["epoch"] in (None, number):
                markers[worker_id, number].add(row["marker"])
    traced = dict(con.execute(
        "SELECT s.worker_id, any_value(json_extract_string(p.attrs::JSON, '$.engine_version')) "
        "FROM page_event AS p JOIN evidence AS e USING (evidence_id) "
        "JOIN worker_stream AS s USING (evidence_id, stream) "
        "WHERE e.current AND p.ev = 'header' GROUP BY 1 ORDER BY 1").fetchall())
    last_day = {
        (worker_id, epoch): day for worker_id, epoch, day in con.execute(
            "SELECT worker_id, epoch, (make_timestamp_ns(max(stamp_ns)))::DATE FROM current_row "
            "WHERE stamp_ns > 0 GROUP BY 1, 2 ORDER BY 1, 2").fetchall()}
    for (worker_id, number), epoch in epochs.items():
        texts = [
            (source, str(text)) for source, text in (
                ("evidence.toml", workers[worker_id].stated.get("version")),
                ("server_info", epoch.config.get("version")),
                ("page trace header", traced.get(worker_id)),
            ) if text
        ]
        spelled = infer_range(markers[worker_id, number])
        ran = last_day.get((worker_id, number))
        if not texts and ran and not spelled.empty and ran <= load_knowledge().as_of:
            # A process cannot run a release that was published after it ran.
            dated = spelled.intersect(released_by(ran + _DATE_MARGIN))
            spelled = spelled if dated.empty else dated
        if spelled.empty:
            epoch.contradictory = True
            spelled = VersionRange(why=spelled.why)
        stated = [(source, parse_build(text).range()) for source, text in texts]
        stated = [(source, found) for source, found in stated if not found.unknown]
        if not stated:
            epoch.version = spelled
            if not spelled.unknown:
                epoch.version_basis = "spelling of its own lines: " + "; ".join(spelled.why[:4])
            continue
        epoch.version, epoch.version_basis = stated[0][1], f"stated in {stated[0][0]}"
        for _, other in [*stated[1:], ("", spelled)]:
            both = epoch.version.intersect(other)
            if both.empty:
                epoch.contradictory = True
                epoch.version = _hull(epoch.version, other)
                epoch.version_basis += "; contradicted by other evidence: the wider range counts"
            else:
                epoch.version = both


def _hull(left: VersionRange, right: VersionRange) -> VersionRange:
    """Return the smallest range that holds both: a contradiction makes nothing safer."""
    low = None if left.low is None or right.low is None else min(left.low, right.low)
    high = None if left.high is None or right.high is None else max(left.high, right.high)
    return VersionRange(low, high, False, left.why + right.why)


def _measure(con: duckdb.DuckDBPyConnection, epochs: dict[tuple[int, int], Epoch]) -> None:
    """Fill pools, limits and the state type from the start-up lines and snapshots."""
    lines: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for row in queries.rows(con, "pool_line"):
        lines[row["worker_id"], row["epoch"]].append(row)
    for key, epoch in epochs.items():
        rows = lines[key]
        named = min((row["n1"] for row in rows if row["kind"] == "limit"), default=None)
        stated = epoch.config.get("max_req_input_len")
        if isinstance(stated, int):
            named = stated if named is None else min(named, stated)
        epoch.hybrid = any(row["kind"] == "hybrid" for row in rows)
        epoch.model_state = _state_of(rows)
        pools = [
            Pool(row["dp"], row["n1"], row["n2"], epoch.page_size,
                 named if named is not None else _derived_limit(row["n1"], row["n2"], epoch))
            for row in rows if row["kind"] == "pool"
        ]
        if not pools:
            tokens, context = (
                epoch.config.get("max_total_num_tokens"), epoch.config.get("context_length"))
            tokens = tokens if isinstance(tokens, int) else None
            context = context if isinstance(context, int) else None
            if tokens is not None or named is not None:
                limit = named if named is not None else _derived_limit(tokens, context, epoch)
                pools = [Pool(None, tokens, context, epoch.page_size, limit)]
        epoch.pools = tuple(sorted(pools, key=lambda p: -1 if p.dp is None else p.dp))


def _derived_limit(tokens: int | None, context: int | None, epoch: Epoch) -> int | None:
    if tokens is None or context is None:
        return None
    dcp = epoch.config.get("dcp_size")
    return max_req_input_len(
        tokens, context, epoch.version, dcp=dcp if isinstance(dcp, int) else 1)[0]


def _state_of(rows: list[dict[str, Any]]) -> str | None:
    for row in rows:
        if row["kind"] != "model":
            continue
        model = str((_value(row["text"]) or {}).get("type", ""))
        for pattern, state in _STATE_OF_CLASS:
            if pattern.search(model):
                return state
    return None
