"""The facts of every worker: start-up lines, snapshots, spelling and evidence.toml, per epoch."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import timedelta
from typing import Any, Final

import duckdb

import queries
from forensics.fleet import SILENCE_NS, Epoch, Fleet, LogSpan, Pool
from forensics.grouping import Worker
from forensics.knowledge import load_knowledge, max_req_input_len
from forensics.versions import VersionRange, infer_range, parse_build, released_by

# Wheels and announcements differ by days, and clocks may be wrong: a release counts as possible for
# this long before its date.
_DATE_MARGIN: Final = timedelta(days=30)
# Model classes by the state that travels beside the pages (leak-mechanisms.md, sections 2 and 6).
_STATE_OF_CLASS: Final = (
    (re.compile(r"Dsa|DeepseekV32|DeepseekV4|GlmMoeDsa", re.IGNORECASE), "dsa"),
    (re.compile(r"Mamba|Qwen3Next|Qwen3_5|Kimi(?:K3|Linear)|Falcon(?:H1|Mamba)|Nemotron_?H|Jamba"
                r"|Bailing.*Linear", re.IGNORECASE), "mamba"),
    (re.compile(r"Gemma[23]|GptOss|Llama4|Cohere2|MiMo|Step3p5", re.IGNORECASE), "swa"),
    (re.compile(r"^(?:Qwen[23]ForCausalLM|LlamaForCausalLM|DeepseekV[23]ForCausalLM"
                r"|MistralForCausalLM|Qwen[23]MoeForCausalLM|Glm4MoeForCausalLM)$"), "plain"),
)


def read_fleet(con: duckdb.DuckDBPyConnection, workers: list[Worker]) -> Fleet:
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
        # A statement fills gaps; what the process recorded of itself overrules it.
        names = {"disaggregation_transfer_backend": "backend"} | {
            name: name for name in stated if name.startswith("env.")}
        for option, name in names.items():
            if name in stated and epoch.config.get(option) is None:
                epoch.config[option] = stated[name]


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
        stated = stated if isinstance(stated, int) else None
        epoch.hybrid = any(row["kind"] == "hybrid" for row in rows)
        epoch.model_state = _state_of(rows)
        pools = [
            Pool(row["dp"], row["n1"], row["n2"], epoch.page_size,
                 _limit(named, stated, _derived_limit(row["n1"], row["n2"], epoch)))
            for row in rows if row["kind"] == "pool"
        ]
        if not pools:
            tokens, context = (
                epoch.config.get("max_total_num_tokens"), epoch.config.get("context_length"))
            tokens = tokens if isinstance(tokens, int) else None
            context = context if isinstance(context, int) else None
            limit = _limit(named, stated, _derived_limit(tokens, context, epoch))
            if tokens is not None or limit is not None:
                pools = [Pool(None, tokens, context, epoch.page_size, limit)]
        epoch.pools = tuple(sorted(pools, key=lambda p: -1 if p.dp is None else p.dp))


def _limit(named: int | None, stated: int | None, derived: int | None) -> int | None:
    """Return max_req_input_len: the lowest on record, for a snapshot may be of another boot.

    A refusal names the limit of its own boot: no start-up line need be interpreted beside it.
    """
    known = (named, stated) if named is not None else (stated, derived)
    return min((limit for limit in known if limit is not None), default=None)


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
