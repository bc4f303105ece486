"""Answers of ``GET /server_info`` (or ``/get_server_info``) -> ``config_entry``, per key.

Made by ``sglang/srt/entrypoints/http_server.py`` and ``build_server_info`` (0.5.9-0.5.23): the
resolved server arguments, scheduler facts, ``internal_states`` of the ranks, and the version.

    {"model_path": "m", "page_size": 64, "disaggregation_mode": "decode", "version": "0.5.23"}

Keys of ``internal_states[i]`` are kept when they are per-rank facts or differ from the top level
(the engine repeats all arguments there); ``env_vars`` (``SGLANG_EXPOSE_OWN_ENV_VARS=1``) become
``env.NAME``. The order of ``internal_states`` is the order of arrival, so ``dp`` is set only from
a rank that the state itself names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from ingest.records import Batch, DocumentFormat, Line, Match
from ingest.requests.secret import redact_variable
from ingest.requests.snapshot import Snapshot, add_entry, dp_rank, read_snapshots

_START: Final = re.compile(rb"[\s\xef\xbb\xbf]{0,64}\[?\s{0,64}\{\s{0,64}\"")
_MODEL: Final = re.compile(rb'"model_path"\s?:')
_ARGUMENT: Final = re.compile(
    rb'"(?:tp_size|mem_fraction_static|disaggregation_mode|chunked_prefill_size)"\s?:'
)
_OTHER: Final = re.compile(rb'"(?:is_generation|loads)"\s?:')
_VERSION: Final = re.compile(rb'"version"\s?:\s?"([\w.+-]{1,40})"')

# Facts of a rank: always kept, even where they repeat the top level.
RANK_KEYS: Final = frozenset({
    "dp_rank", "world_size", "memory_usage", "effective_max_running_requests_per_dp",
    "disaggregation_mode", "max_total_num_tokens", "max_req_input_len", "last_gen_throughput",
    "page_size", "disable_radix_cache", "version",
})


class ServerInfo:
    """Snapshots of the server's arguments and state."""

    name = "server_info"

    def sniff(self, head: bytes, name: str) -> Match | None:
        """Recognise an object with a model path and server arguments."""
        if _START.match(head) is None or not _MODEL.search(head) or _OTHER.search(head):
            return None
        if _ARGUMENT.search(head) is None:
            return None
        version = _VERSION.search(head)
        return Match(0.95, version.group(1).decode("ascii") if version else "")

    def parse(self, lines: Iterator[Line], name: str) -> Iterator[Batch]:
        """Yield batches of whole snapshots."""
        return read_snapshots(lines, self.name, _add_snapshot)


def _add_snapshot(batch: Batch, snapshot: Snapshot) -> None:
    document = snapshot.document
    dialect = "internal_states" if "internal_states" in document else "flat"
    seen: set[tuple[str, str, int | None]] = set()
    for key, value in document.items():
        if key == "internal_states" and isinstance(value, list):
            for index, state in enumerate(value):
                if isinstance(state, dict):
                    _add_state(batch, snapshot, dialect, index, state, seen)
                else:
                    batch.reject(snapshot.line, ServerInfo.name, "a state is not an object")
        elif key == "env_vars" and isinstance(value, dict):
            _add_environment(batch, snapshot, dialect, value, None, seen)
        else:
            add_entry(batch, snapshot, "server_info", dialect, key, value)


def _add_state(
    batch: Batch,
    snapshot: Snapshot,
    dialect: str,
    index: int,
    state: dict[str, Any],
    seen: set[tuple[str, str, int | None]],
) -> None:
    dp = dp_rank(state)
    for key, value in state.items():
        if key == "env_vars" and isinstance(value, dict):
            _add_environment(batch, snapshot, dialect, value, dp, seen)
        elif key in RANK_KEYS or snapshot.document.get(key, _ABSENT) != value:
            entry = f"internal_states[{index}].{key}"
            add_entry(batch, snapshot, "server_info", dialect, entry, value, dp)


def _add_environment(
    batch: Batch,
    snapshot: Snapshot,
    dialect: str,
    variables: dict[str, Any],
    dp: int | None,
    seen: set[tuple[str, str, int | None]],
) -> None:
    """Add ``env.NAME`` entries; ranks that say the same count once."""
    for name, value in variables.items():
        clean = redact_variable(name, value)
        if (fact := (name, repr(clean), dp)) not in seen:
            seen.add(fact)
            add_entry(batch, snapshot, "server_info", dialect, f"env.{name}", clean, dp)


_ABSENT: Final = object()

DOCUMENT_FORMATS: Final[tuple[DocumentFormat, ...]] = (ServerInfo(),)
