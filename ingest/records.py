"""The raw fact tables, the records that parsers emit, and the protocols they follow.

A parser turns lines (or one whole document) into rows of the tables below and rejects. It keeps
the source's own stamp and precision, corrects no clock, and keeps no prompt or response text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa

# Longest engine message (failure reason, abort message) that is kept, in characters.
MAX_REASON_CHARS: Final = 400
# Largest room: SGLang mints 63-bit rooms, other routers up to 64 bits; never a float.
MAX_ROOM: Final = 2**64 - 1

_STR = pa.string()
_I64 = pa.int64()
_I32 = pa.int32()
_I16 = pa.int16()
_U64 = pa.uint64()
_F64 = pa.float64()
_BOOL = pa.bool_()

# Every raw row starts with where it was read and when its source says it was.
#   evidence_id   file (table ``evidence``); filled by the store, parsers leave it out
#   stream        source inside the file ('' = one source; else container, pod, host, file label)
#   line_no       1-based physical line where the record starts
#   byte_offset   offset of that line in the decompressed bytes
#   stamp_ns      the record's own stamp, naive local time read as if it were UTC; NULL if none
#   stamp_res_ns  width of the stamp: 1e9 for whole seconds, 1e6 ms, 1e3 us, 1 ns
#   outer_ns      stamp of the log collector's wrapper, epoch ns UTC; NULL if there is none
ORIGIN: Final = (
    ("stream", _STR),
    ("line_no", _I64),
    ("byte_offset", _I64),
    ("stamp_ns", _I64),
    ("stamp_res_ns", _I64),
    ("outer_ns", _I64),
)
# Ranks of the engine prefix, NULL where the prefix does not print them.
RANKS: Final = (("dp", _I16), ("pp", _I16), ("tp", _I16), ("attn_cp", _I16), ("moe_dp", _I16),
                ("ep", _I16))

TABLES: Final[Mapping[str, pa.Schema]] = {
    # One row per engine line that is not a batch or time-stats line. ``kind`` is the closed
    # vocabulary ENGINE_KINDS; n1/n2 are its two numbers, peer_room the second room (writer).
    "engine_event": pa.schema([
        *ORIGIN, *RANKS,
        ("kind", _STR), ("role_hint", _STR), ("rid", _STR), ("room", _U64), ("peer_room", _U64),
        ("n1", _I64), ("n2", _I64), ("session", _STR), ("reason", _STR), ("attrs", _STR),
    ]),
    # Scheduler statistics. ``kind`` is 'prefill' or 'decode'. ``dialect``: the version-dependent
    # keys that the line carries, sorted, comma-separated (e.g. 'bootstrap-req,pending-token').
    "batch_line": pa.schema([
        *ORIGIN, *RANKS,
        ("kind", _STR), ("running_reqs", _I32), ("queue_reqs", _I32), ("new_seqs", _I32),
        ("new_tokens", _I64), ("cached_tokens", _I64), ("used_tokens", _I64),
        ("token_usage", _F64), ("swa_tokens", _I64), ("swa_usage", _F64),
        ("prealloc_usage", _F64), ("prealloc_reqs", _I32), ("transfer_reqs", _I32),
        ("retracted_reqs", _I32), ("bootstrap_reqs", _I32), ("inflight_reqs", _I32),
        ("throughput_tokens_s", _F64), ("dialect", _STR),
    ]),
    # ReqTimeStats in either spelling ('ReqTimeStats', 'Req Time Stats'). Durations in ms.
    "time_stats": pa.schema([
        *ORIGIN, *RANKS,
        ("spelling", _STR), ("rid", _STR), ("room", _U64), ("role", _STR),
        ("input_len", _I64), ("cached_input_len", _I64), ("output_len", _I64), ("attempts", _I32),
        ("bootstrap_ms", _F64), ("bootstrap_queue_ms", _F64), ("bootstrap_done_ns", _I64),
        ("alloc_wait_ms", _F64), ("prealloc_queue_ms", _F64), ("transfer_ms", _F64),
        ("queue_ms", _F64), ("forward_ms", _F64), ("entry_ns", _I64),
        ("transfer_speed_gb_s", _F64), ("transfer_total_mb", _F64),
    ]),
    # Request logger lines and --export-metrics-to-file lines; one row per sub-request of a batch.
    # event: 'received' | 'finished' | 'received_openai'; fmt: 'json' | 'text' | 'export';
    # prefixed: a JSON line behind a '[stamp] ' prefix (>= 0.5.12). ``keys``: JSON object with the
    # small identity fields that accounts may be keyed on (headers, routing_key, session_id,
    # conversation_id, custom_labels, extra_key, lora_path, priority). *_ns are epoch ns.
    "request_log": pa.schema([
        *ORIGIN,
        ("event", _STR), ("fmt", _STR), ("prefixed", _BOOL), ("sub_index", _I32),
        ("rid", _STR), ("room", _U64), ("bootstrap_host", _STR), ("bootstrap_port", _I32),
        ("x_request_id", _STR), ("keys", _STR), ("routed_dp_rank", _I32), ("dp_rank", _I32),
        ("streaming", _BOOL), ("prompt_chars", _I64), ("prompt_ids", _I64), ("output_ids", _I64),
        ("prompt_tokens", _I64), ("completion_tokens", _I64), ("cached_tokens", _I64),
        ("num_retractions", _I32), ("finish_type", _STR), ("finish_message", _STR),
        ("status_code", _I32), ("e2e_latency_s", _F64), ("request_received_ns", _I64),
        ("request_finished_ns", _I64), ("response_sent_ns", _I64), ("max_new_tokens", _I64),
        ("model", _STR), ("traceparent", _STR),
    ]),
    # uvicorn access lines.
    "access_line": pa.schema([
        *ORIGIN,
        ("client_addr", _STR), ("client_port", _I32), ("method", _STR), ("path", _STR),
        ("status_code", _I32),
    ]),
    # Router log; its stamps are UTC. event: 'started' | 'finished' | 'client_error' |
    # 'server_error' | 'select_failed' | 'prefill_error' | 'decode_error' | 'retry' | 'dispatch' |
    # 'server_start' | 'disconnected' | 'circuit_breaker' | 'other'.
    "router_event": pa.schema([
        *ORIGIN,
        ("level", _STR), ("event", _STR), ("request_id", _STR), ("method", _STR), ("path", _STR),
        ("status_code", _I32), ("latency_us", _I64), ("prefill_url", _STR), ("decode_url", _STR),
        ("reason", _STR),
    ]),
    # Configuration as stated by a process: one row per key, value as JSON text, secrets redacted.
    # source: 'server_args' | 'server_info' | 'loads' | 'model_info' | 'evidence_toml'. ``dp`` only
    # for per-rank keys. ``snapshot``: number of the snapshot inside the file, from 0.
    "config_entry": pa.schema([
        *ORIGIN, ("dp", _I16),
        ("source", _STR), ("dialect", _STR), ("snapshot", _I32), ("key", _STR), ("value", _STR),
    ]),
    # Scheduler status JSON: one row per (line, rid). state: 'running' | 'queued'.
    "scheduler_status": pa.schema([
        *ORIGIN, ("rank", _STR), ("state", _STR), ("rid", _STR),
    ]),
    # Prometheus samples (text exposition), without histogram buckets. ``t_ns`` epoch ns of the
    # scrape or of the sample's own timestamp, NULL if neither is known. labels: JSON object.
    "metric": pa.schema([
        *ORIGIN, ("t_ns", _I64), ("name", _STR), ("labels", _STR), ("value", _F64),
    ]),
    # kv-page-trace/1: one row per extent (or one with start_page NULL where an event has no pages).
    # Header rows: ev = 'header', attrs = the header object.
    "page_event": pa.schema([
        *ORIGIN,
        ("host", _STR), ("role", _STR), ("dp_rank", _I16), ("session", _STR),
        ("event_no", _I64), ("t_ns", _I64), ("ev", _STR), ("room", _U64), ("rid", _STR),
        ("extent_no", _I32), ("start_page", _I64), ("n_pages", _I64), ("tokens", _I64),
        ("why", _STR), ("chunk", _I32), ("dst_session", _STR), ("ok", _BOOL), ("attrs", _STR),
    ]),
    # accounts.csv: one row per (line, key). key_name: 'x_request_id', 'request_id', 'rid', 'room'
    # or the name of an identity field in request_log.keys.
    "account_key": pa.schema([
        *ORIGIN, ("key_name", _STR), ("key_value", _STR), ("account", _STR),
    ]),
    # Lines that belong to a format but could not be parsed. Never holds the line's text.
    "reject": pa.schema([
        ("stream", _STR), ("line_no", _I64), ("byte_offset", _I64), ("format", _STR),
        ("reason", _STR),
    ]),
}

# What an engine line says, by ``kind``; (n1, n2) and other columns in the comment.
ENGINE_KINDS: Final = frozenset({
    "boot",                    # server_args=...; the values are in config_entry
    "pool",                    # max_total_num_tokens=n1, context_len=n2; attrs: the other values
    "kv_cache",                # KV Cache is allocated. #tokens: n1; attrs: dtype, sizes
    "pool_short",              # KV pool holds n1 tokens, fewer than --context-length n2
    "pool_hybrid",             # SWA / mamba / DSV4 / unified pools: attrs has the line's numbers
    "model_loaded",            # Load weight end: attrs: type (model class)
    "ready",                   # The server is fired up and ready to roll!
    "stopping",                # SIGTERM / SIGQUIT received
    "crashed",                 # Subprocess ... crashed; scheduler hit an exception
    "input_too_long",          # Input length (n1) exceeds the maximum allowed length (n2), rid
    "http_input_too_long",     # the same text behind [http_server] Error, or context length; no rid
    "reject_prefill",          # Request {rid} exceeds the maximum number of tokens: n1 > n2
    "truncated",               # ... Truncated. len(req.origin_input_ids)=n1, max_req_input_len=n2
    "finish_abort",            # any other `<msg>, self.rid='..'` line of set_finish_with_abort
    "decode_transfer_failed", "decode_handshake_failed",
    "prefill_transfer_failed", "prefill_bootstrap_failed",
    "deferred_timeout",        # Deferred KV release for room timed out; n1 = milliseconds
    "deferred_failed",         # Deferred KV release failed for room
    "generationless_ack",      # Generation-less ABORT_ACK received
    "abort_sent", "abort_received", "abort_ack_sent",   # DEBUG lines
    "abort_queue",             # DEBUG: Abort {queued|...|running} request; attrs: queue
    "client_disconnected",     # Request is disconnected from the client side (type n1), rid
    "abort_unknown_rid",       # Abort request for rid=.. not found in rid_to_state
    "state_deleted",           # Received output for rid=.. but the state was deleted
    "context_corruption",      # metadata collision: rid, room (expected), peer_room, n1 = index
    "metadata_not_ready",      # rid, room, n1 = index
    "checksum_mismatch",       # rid, room; reason: expected/got or 'peer rank'
    "checksum_skipped",
    "canary_violation",        # n1 = slot_idx, n2 = position; attrs: launch_tag, fail_reason
    "canary_stats",            # n1 = step, n2 = violations; attrs: the rest
    "canary_installed", "canary_overflow",
    "state_len_mismatch",      # len(prefill_state_indices) = n1, len(dst_state_indices) = n2
    "kv_len_mismatch",         # len(chunked_dst_kv_indice) = n1, len(prefill_kv_indices) = n2
    "sender_init",             # DEBUG CommonKVSender init with num_kv_indices: n1, aux n2
    "session_failed",          # Session {session} failed.
    "session_recovered",
    "send_failed_slice",       # glog / transport: a slice or batch failed or timed out
    "transfer_thread_died",
    "prefill_lost",            # Lost connection with prefill instance, n1 = requests affected
    "retracted",               # KV cache pool is full. n1 = #retracted_reqs, n2 = new tokens
    "retract_aborted",         # retract_decode: aborted ..., rid
    "memory_check",            # leak / use-after-free / Mem Check lines
    "role_switch",
    "warmup",                  # start / end of warm-up lines
    "nixl_error", "mori_error", "staging_error", "optimistic_retry", "timeouts_once",
    "flush_cache", "traceback",
})


# A struct, not a dataclass: millions are made, and this constructor is eight times as fast.
class Line(msgspec.Struct, frozen=True, gc=False):
    """One logical line after its wrapper was peeled; ``raw`` has no line end and no ANSI codes."""

    raw: bytes
    line_no: int
    byte_offset: int
    stream: str = ""
    outer_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """A line that belongs to a format but cannot be parsed."""

    line_no: int
    byte_offset: int
    format: str
    reason: str
    stream: str = ""


class Deferred(Protocol):
    """Records that a format keeps in its own shape and turns into columns at once."""

    def tables(self, batch: Batch) -> Iterator[tuple[str, pa.Table]]:
        """Yield the tables; records that do not fit go to ``batch`` as rows and rejects."""
        ...


@dataclass(slots=True)
class Batch:
    """Rows collected per table, and the rejects, of one stretch of one file.

    ``other_lines`` counts lines that are neither records nor rejects (banners, warnings, parts of
    a traceback): they are text that carries no fact this program uses. ``deferred`` holds, by
    format, records that become rows only in ``arrow``: count rows there, not in ``rows``.
    """

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    tables: list[tuple[str, pa.Table]] = field(default_factory=list)
    deferred: dict[str, Deferred] = field(default_factory=dict)
    formats: dict[str, int] = field(default_factory=dict)
    other_lines: int = 0
    lines: int = 0

    def add(self, table: str, line: Line, /, **values: Any) -> None:
        """Append one row; keys that are left out become NULL."""
        values["stream"] = line.stream
        values["line_no"] = line.line_no
        values["byte_offset"] = line.byte_offset
        values["outer_ns"] = line.outer_ns
        bucket = self.rows.get(table)
        if bucket is None:
            bucket = self.rows[table] = []
        bucket.append(values)

    def reject(self, line: Line, format_name: str, reason: str) -> None:
        """Count a line as a reject; ``reason`` never quotes the line."""
        self.rejects.append(
            Reject(line.line_no, line.byte_offset, format_name, reason, line.stream)
        )

    def arrow(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield (table name, Arrow table) for everything collected, rejects included."""
        yield from self.tables
        for records in self.deferred.values():
            yield from records.tables(self)
        for name, rows in self.rows.items():
            yield name, rows_to_arrow(name, rows)
        if self.rejects:
            rows = [
                {"stream": r.stream, "line_no": r.line_no, "byte_offset": r.byte_offset,
                 "format": r.format, "reason": r.reason}
                for r in self.rejects
            ]
            yield "reject", rows_to_arrow("reject", rows)


def rows_to_arrow(table: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Turn row dictionaries into an Arrow table of the table's schema (missing keys are NULL)."""
    schema = TABLES[table]
    columns = [
        pa.array([row.get(name) for row in rows], type=schema.field(name).type)
        for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def to_json(value: Any) -> str:
    """Render a small value as canonical JSON text (sorted keys, no spaces, UTF-8)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class Match:
    """Answer of a sniffer: how sure (0..1) and which dialect was seen."""

    confidence: float
    dialect: str = ""


class LineFormat(Protocol):
    """A format whose records are (mostly) single lines; several may share one file."""

    name: str

    def parse(self, line: Line, batch: Batch) -> bool:
        """Add the line's rows or its reject to ``batch``; return False if it is not this format.

        Must be cheap on foreign lines and keep no state between lines.
        """
        ...

    def continues(self, previous: Line, line: Line) -> bool:
        """Say whether ``line``, which nothing claims, is a wrapped tail of ``previous``."""
        ...


class DocumentFormat(Protocol):
    """A format that is one whole file (a JSON snapshot, a CSV, a page trace)."""

    name: str

    def sniff(self, head: bytes, name: str) -> Match | None:
        """Recognise the file by its first 64 KiB; ``name`` may add facts, never decide alone."""
        ...

    def parse(self, lines: Iterator[Line], name: str) -> Iterator[Batch]:
        """Yield batches; the caller bounds line length and total size."""
        ...


# Modules in ``ingest.formats`` export LINE_FORMATS and/or DOCUMENT_FORMATS (tuples of instances).
FormatFactory = Callable[[], LineFormat]
