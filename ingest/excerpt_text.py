"""One line of evidence -> the text that may be shown of it. Content and secrets stay out.

Lines of the engine's own messages pass, scrubbed and bounded. All others are rebuilt from the facts
that the case holds of them (which never hold content); ``…`` stands where something was left out.
A line of which the case holds no fact is shown as its length and hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ingest.requests.secret import redact, redact_command
from ingest.visible import visible

# Longest text of a line, in characters, and of one value inside a rebuilt line.
MAX_CHARS: Final = 600
MAX_VALUE_CHARS: Final = 120
_MAX_EXTENTS: Final = 8
LEFT_OUT: Final = "…"

Row = Mapping[str, Any]
# Facts of one line: table -> its rows.
Facts = Mapping[str, Sequence[Row]]

# Keys of the resolved configuration that verdicts and advice rest on.
CONFIG_KEYS: Final = (
    "version", "disaggregation_mode", "disaggregation_transfer_backend",
    "disaggregation_bootstrap_port", "disaggregation_decode_allocation_policy",
    "disaggregation_decode_enable_offload_kvcache", "disaggregation_decode_enable_radix_cache",
    "disaggregation_enable_kv_checksum", "allow_auto_truncate", "context_length", "page_size",
    "max_total_tokens", "max_total_num_tokens", "max_req_input_len", "max_running_requests",
    "mem_fraction_static", "chunked_prefill_size", "tp_size", "dp_size", "pp_size", "ep_size",
    "enable_dp_attention", "enable_hierarchical_cache", "disable_radix_cache",
    "speculative_algorithm", "host", "port", "served_model_name", "enable_metrics", "log_requests",
    "log_requests_level", "log_requests_format", "enable_request_time_stats_logging", "kv_canary",
    "dp_rank", "node_rank", "timezone", "role",
    "env.SGLANG_DISAGGREGATION_DEFERRED_DECODE_KV_RELEASE",
)
_PLACE: Final = {key: place for place, key in enumerate(CONFIG_KEYS)}
# Where the scalar of a configuration key is no content: flags, numbers, short words.
_SCALAR: Final = re.compile(r'"(?:[^"\\]|\\.){0,118}"|[\w.+-]{1,40}')

# What an engine message may quote of a request.
_CONTENT: Final = re.compile(
    r"\b(?:input_ids|output_ids|origin_input_ids|text|prompt|messages|content|input_embeds)['\"]?\s?"
    r"[=:]\s?[\[('\"{].*", re.DOTALL)
# A record that was written behind another one without a line end.
_GLUED: Final = re.compile(
    r"(?<=.)(?:\[\d{4}-\d\d-\d\d[ T]\d\d:|Receive(?: OpenAI)?: obj=|Finish: obj="
    r"|\{\s?\"(?:timestamp|request_parameters)\").*", re.DOTALL)
_DATA_URL: Final = re.compile(r"data:[\w/+.;=-]{0,80},[^\s'\")]*")
_NUMBERS: Final = re.compile(r"\[\s*-?\d+(?:,\s*-?\d+){7,}[^\]]*\]?")
# Kinds of engine events whose message repeats what the client sent; their head alone is shown.
_QUOTING: Final = frozenset({"finish_abort"})
_HEAD_ENDS: Final = re.compile(r": |=\(|['\"{\[<]")
_SELF_RID: Final = re.compile(r", self\.rid=(?:'[^']{0,512}'|\"[^\"]{0,512}\")$")
_STAMPED: Final = re.compile(r"\[[^\]]{8,80}\] ")


def line_text(raw: bytes | None, physical: bytes, facts: Facts) -> str:
    """Return what may be shown of a line.

    ``raw``: the line without the wrapping of a log collector, None if it cannot be told apart;
    ``physical``: its bytes in the file; ``facts``: the rows that the case holds of it.
    """
    for table, render in _RENDERERS.items():
        rows = facts.get(table)
        if rows:
            text = render(rows, raw)
            if len(rows) > 1 and table not in _ONE_TEXT:
                text += f" {LEFT_OUT} ({len(rows)} records on this line)"
            return visible(text, MAX_CHARS)
    size = f"{len(physical)} bytes, sha256 {hashlib.sha256(physical).hexdigest()}"
    if "reject" in facts:
        return f"(a line that could not be parsed: {size})"
    return f"(a line that is not recognised: {size})"


def _engine_line(rows: Sequence[Row], raw: bytes | None) -> str:
    row = rows[0]
    kind = row.get("kind")
    if kind == "send_failed_slice":
        return _glog_line(row)
    if raw is None:
        return _fields_text("engine line", row, (
            "kind", "rid", "room", "peer_room", "n1", "n2", "role", "input_len", "output_len"))
    text = raw[: 8 * MAX_CHARS].decode("utf-8", "replace")
    if kind in _QUOTING:
        text = _quoting_head(text)
    return scrub(text)


def scrub(text: str) -> str:
    """Take token ids, quoted content and secrets out of an engine message."""
    text = _GLUED.sub(LEFT_OUT, text)
    text = _DATA_URL.sub(f"data:{LEFT_OUT}", text)
    text = _CONTENT.sub(LEFT_OUT, text)
    text = _NUMBERS.sub(f"[{LEFT_OUT}]", text)
    return redact_command(text)


def _quoting_head(text: str) -> str:
    stamp = _STAMPED.match(text)
    start = stamp.end() if stamp else 0
    rid = _SELF_RID.search(text)
    body = text[start : rid.start() if rid else len(text)]
    end = _HEAD_ENDS.search(body)
    if end is not None:
        body = body[: end.start()] + LEFT_OUT
    return text[:start] + body + (rid.group() if rid else "")


def _glog_line(row: Row) -> str:
    attrs = _attrs(row)
    micros = attrs.get("tod_us")
    clock = ""
    if isinstance(micros, int):
        seconds, rest = divmod(micros, 10**6)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:06d}"
    return scrub(f"{attrs.get('level', '')}{attrs.get('mmdd', '')} {clock} "
                 f"{attrs.get('where', '')}] {row.get('reason') or LEFT_OUT}")


def _config_line(rows: Sequence[Row], raw: bytes | None) -> str:
    kept: dict[str, str] = {}
    for row in sorted(rows, key=lambda r: (_PLACE.get(str(r["key"]), len(_PLACE)), str(r["key"]))):
        key, value = str(row["key"]), str(row["value"])
        if key in _PLACE and value != "null" and _SCALAR.fullmatch(value):
            dp = f"[dp {row['dp']}]" if row.get("dp") is not None else ""
            kept.setdefault(key + dp, _clean_scalar(key, value))
    stamp = _stamp_prefix(rows[0])
    parts = [f"{key}={value}" for key, value in kept.items()]
    return f"{stamp}{rows[0].get('source')}: {', '.join([*parts, LEFT_OUT])}"


def _clean_scalar(key: str, value: str) -> str:
    try:
        plain = json.loads(value)
    except ValueError:
        return LEFT_OUT
    return json.dumps(redact(key, plain), ensure_ascii=False)


def _request_line(rows: Sequence[Row], raw: bytes | None) -> str:
    row = rows[0]
    meta = _present({
        "prompt_tokens": row.get("prompt_tokens"),
        "completion_tokens": row.get("completion_tokens"),
        "cached_tokens": row.get("cached_tokens"), "dp_rank": row.get("dp_rank"),
        "e2e_latency": row.get("e2e_latency_s"),
        "request_received_ts": _epoch(row.get("request_received_ns")),
        "request_finished_ts": _epoch(row.get("request_finished_ns")),
        "response_sent_to_client_ts": _epoch(row.get("response_sent_ns")),
    })
    finish = _present({"type": row.get("finish_type"), "status_code": row.get("status_code")})
    obj = _present({
        "rid": row.get("rid"), "bootstrap_host": row.get("bootstrap_host"),
        "bootstrap_port": row.get("bootstrap_port"), "bootstrap_room": row.get("room"),
        "routed_dp_rank": row.get("routed_dp_rank"), "stream": row.get("streaming"),
    })
    if row.get("fmt") == "text":
        return _request_text(row, obj, finish, meta)
    answer = {"finish_reason": finish, **meta} if finish else meta
    if row.get("fmt") == "export":
        return _json_object({"request_parameters": obj, **answer})
    record: dict[str, Any] = {
        "timestamp": _moment(row.get("stamp_ns"), row.get("stamp_res_ns"), "T"),
        "event": f"request.{str(row.get('event')).replace('_', '.')}", "obj": obj}
    if answer:
        record["out"] = {"meta_info": answer}
    stamp = _moment(row.get("stamp_ns"), 10**9, " ")
    prefix = f"[{stamp}] " if row.get("prefixed") and stamp else ""
    return prefix + _json_object(_present(record))


def _request_text(row: Row, obj: dict[str, Any], finish: dict[str, Any],
                  meta: dict[str, Any]) -> str:
    prefix = _stamp_prefix(row)
    if row.get("event") == "received_openai":
        return f"{prefix}Receive OpenAI: obj={_python_map(obj)}"
    fields = ", ".join([*(f"{key}={_python(value)}" for key, value in obj.items()), LEFT_OUT])
    word = "Finish" if row.get("event") == "finished" else "Receive"
    text = f"{prefix}{word}: obj=GenerateReqInput({fields})"
    if word == "Finish":
        answer = {"finish_reason": finish, **meta} if finish else meta
        text += f", out={_python_map({'meta_info': answer})}"
    return text


def _access_text(rows: Sequence[Row], raw: bytes | None) -> str:
    row = rows[0]
    return (f"{_stamp_prefix(row)}{_short(row.get('client_addr'))}:{row.get('client_port')} - "
            f"\"{row.get('method')} {_short(row.get('path'))}\" {row.get('status_code')}")


def _router_text(rows: Sequence[Row], raw: bytes | None) -> str:
    row = rows[0]
    stamp = _moment(row.get("stamp_ns"), row.get("stamp_res_ns"), " ")
    fields = _present({
        "request_id": row.get("request_id"), "method": row.get("method"), "path": row.get("path"),
        "status_code": row.get("status_code"), "latency_us": row.get("latency_us"),
        "prefill_url": row.get("prefill_url"), "decode_url": row.get("decode_url")})
    parts = [f"{key}={redact_command(_short(value))}" for key, value in fields.items()]
    if row.get("reason"):
        # It may quote the body of an answer.
        parts.append(f"reason={LEFT_OUT}")
    return f"{stamp} {row.get('level') or ''} {row.get('event')}: {', '.join(parts)}"


def _status_text(rows: Sequence[Row], raw: bytes | None) -> str:
    counts = {state: sum(row.get("state") == state for row in rows)
              for state in ("running", "queued")}
    rids = [_short(row.get("rid")) for row in rows[:4] if row.get("rid")]
    return (f"{_stamp_prefix(rows[0])}scheduler.status rank={rows[0].get('rank')} "
            f"running={counts['running']} queued={counts['queued']} rids={', '.join(rids)}"
            + (f", {LEFT_OUT}" if len(rows) > len(rids) else ""))


def _metric_text(rows: Sequence[Row], raw: bytes | None) -> str:
    row = rows[0]
    return f"{_short(row.get('name'))} {_short(row.get('labels'))} {row.get('value')}"


def _page_text(rows: Sequence[Row], raw: bytes | None) -> str:
    row = rows[0]
    extents: list[Any] = [[r["start_page"], r["n_pages"]] for r in rows
                          if r.get("start_page") is not None]
    if len(extents) > _MAX_EXTENTS:
        extents[_MAX_EXTENTS:] = [LEFT_OUT]
    fields = _present({
        "t": row.get("t_ns"), "ev": row.get("ev"), "room": row.get("room"), "rid": row.get("rid"),
        "pages": extents or None, "n_pages": None if extents else row.get("n_pages"),
        "tokens": row.get("tokens"), "why": row.get("why"), "chunk": row.get("chunk"),
        "dst_session": row.get("dst_session"), "ok": row.get("ok")})
    if row.get("ev") == "header":
        # The other rows repeat these; their lines do not.
        fields |= _present({key: row.get(key) for key in ("host", "role", "dp_rank")})
    return _json_object(fields)


def _account_text(rows: Sequence[Row], raw: bytes | None) -> str:
    row = rows[0]
    return _fields_text("account", row, ("key_name", "key_value", "account"))


_RENDERERS: Final[Mapping[str, Callable[[Sequence[Row], bytes | None], str]]] = {
    "request_log": _request_line, "config_entry": _config_line, "time_stats": _engine_line,
    "batch_line": _engine_line, "engine_event": _engine_line, "access_line": _access_text,
    "router_event": _router_text, "scheduler_status": _status_text, "page_event": _page_text,
    "metric": _metric_text, "account_key": _account_text,
}
# Tables whose rows of one line are one record.
_ONE_TEXT: Final = frozenset({"config_entry", "page_event", "scheduler_status", "account_key"})


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def _short(value: object) -> str:
    return visible(str(value), MAX_VALUE_CHARS)


def _scalar(value: Any) -> Any:
    return _short(value) if isinstance(value, str) else value


def _json_object(fields: Mapping[str, Any]) -> str:
    parts = [
        f"{json.dumps(key)}: "
        + (_json_object(value) if isinstance(value, dict)
           else json.dumps(_scalar(value), ensure_ascii=False))
        for key, value in fields.items()]
    return "{" + ", ".join([*parts, LEFT_OUT]) + "}"


def _python_map(fields: Mapping[str, Any]) -> str:
    parts = [f"{key!r}: {_python(value)}" for key, value in fields.items()]
    return "{" + ", ".join([*parts, LEFT_OUT]) + "}"


def _python(value: Any) -> str:
    return _python_map(value) if isinstance(value, dict) else repr(_scalar(value))


def _fields_text(title: str, row: Row, names: Sequence[str]) -> str:
    shown = _present({name: row.get(name) for name in names})
    return f"{title}: " + ", ".join(f"{name}={_short(value)}" for name, value in shown.items())


def _attrs(row: Row) -> dict[str, Any]:
    try:
        found = json.loads(row.get("attrs") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _epoch(ns: int | None) -> float | None:
    return None if ns is None else round(ns / 1e9, 6)


def _stamp_prefix(row: Row) -> str:
    stamp = _moment(row.get("stamp_ns"), row.get("stamp_res_ns"), " ")
    return f"[{stamp}] " if stamp else ""


def _moment(ns: int | None, width_ns: int | None, separator: str) -> str | None:
    """Return a naive stamp as its source prints it, as precise as it was."""
    if ns is None:
        return None
    seconds, nanos = divmod(ns, 10**9)
    try:
        text = datetime.fromtimestamp(seconds, UTC).strftime(f"%Y-%m-%d{separator}%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return None
    digits = {10**9: 0, 10**6: 3, 10**3: 6}.get(width_ns or 10**9, 9)
    return f"{text}.{nanos:09d}"[: len(text) + 1 + digits] if digits else text
