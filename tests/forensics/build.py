"""Hand-made responses and prefill sides for verdict tests: every field unknown unless given."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from forensics.fleet import LogSpan, PrefillSide
from forensics.response import Response


def response(**given: Any) -> Response:
    """A decode-side use with ReqTimeStats on both roles; ``n``/``p``/``out`` are the counts."""
    n, p, out = given.pop("n", None), given.pop("p", None), given.pop("out", None)
    values: dict[str, Any] = {field.name: None for field in fields(Response)}
    values |= {
        "response_id": 1, "use_id": 1, "room": 77, "attempt": 0, "rid": "d1", "p_rid": "p1",
        "decode_worker_id": 1, "prefill_worker_id": 0, "prefill_seen": p is not None,
        "ambiguous": False, "epoch": 1, "p_epoch": 1, "has_end": out is not None,
        "prompt_low": n, "prompt_high": n, "output_low": out, "output_high": out,
        "p_prompt_low": p, "p_prompt_high": p,
        "refs": ["stats|1:100"], "p_refs": ["stats|0:200"],
    }
    return Response(**(values | given))


def side(**given: Any) -> PrefillSide:
    """A known 0.5.18 prefill that refuses from 2,042 tokens on and does not truncate."""
    values: dict[str, Any] = {
        "known": True, "version": "0.5.18", "stale_state": "exposed", "fails_closed": False,
        "model_state": "plain", "lowest_limit": 2042, "truncates": False, "evidence": ("0:0",),
        "log": None, "prints_every_refusal": False,
    }
    return PrefillSide(**(values | given))


def log(first_s: int, last_s: int, **given: Any) -> LogSpan:
    """A process log from ``first_s`` to ``last_s`` that holds its start and no ReqTimeStats."""
    values: dict[str, Any] = {
        "first_ns": first_s * 10**9, "last_ns": last_s * 10**9, "has_boot": True,
        "has_stats": False, "silences": (), "refs": ("0:0", "0:9"),
    }
    return LogSpan(**(values | given))
