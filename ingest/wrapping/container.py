"""Container runtimes: Kubernetes CRI text, Docker json-file, compose and kubectl prefixes.

    2026-01-02T03:04:05.123456789Z stderr F [2026-01-02 03:04:05] ...
    {"log":"[2026-01-02 03:04:05] ...\\n","stream":"stderr","time":"2026-01-02T03:04:05.1Z"}
    prefill-1  | [2026-01-02 03:04:05] ...
    [pod/prefill-0/engine] [2026-01-02 03:04:05] ...

Formats: kubernetes ``pkg/kubelet/kuberuntime/logs``, moby ``daemon/logger/jsonfilelog``, compose
``pkg/compose``. Long lines come in pieces (CRI tag ``P``, Docker ``log`` without newline). Known
gap: a line of more than 16 MiB is given in several pieces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ingest.wrapping.instant import STAMP, epoch_ns
from ingest.wrapping.jsontext import decode_object, text_bytes
from ingest.wrapping.layer import LineLayer, Peeled, fits, stream_name

_CRI: Final = re.compile(
    rb"(%s) (stdout|stderr) ([FP])(?::[^ ]{0,64})?(?: |\Z)" % STAMP
)
_COMPOSE: Final = re.compile(rb"([A-Za-z0-9][\w.-]{0,127})[ \t]{1,64}\|(?: |\Z)")
_KUBECTL: Final = re.compile(rb"\[pod/([^\s/\]]{1,253}/[^\s\]]{1,253})\](?: |\Z)")


def peel_cri(raw: bytes) -> Peeled | None:
    """Kubernetes CRI: stamp, output stream, full or partial."""
    match = _CRI.match(raw)
    if match is None:
        return None
    stamp, channel, tag = match.groups()
    return Peeled(raw[match.end():], "", epoch_ns(stamp), tag == b"P", channel.decode())


class _Docker(msgspec.Struct):
    log: str
    stream: str = ""
    time: str = ""
    kubernetes: Any = None


_DOCKER: Final = msgspec.json.Decoder(_Docker)


def peel_docker(raw: bytes) -> Peeled | None:
    """Docker json-file, and the shape that Fluent Bit gives it with pod and container names."""
    if not raw.startswith(b"{") or b'"log"' not in raw:
        return None
    record = decode_object(_DOCKER, raw)
    if record is None or not (record.time or record.stream in ("stdout", "stderr")):
        return None
    payload = text_bytes(record.log)
    pod = record.kubernetes if isinstance(record.kubernetes, dict) else {}
    names = [str(pod[key]) for key in ("pod_name", "container_name") if pod.get(key)]
    # The runtime ends each line with a newline; collectors that add pod names strip it.
    cut = not payload.endswith(b"\n") and record.kubernetes is None and bool(record.time)
    return Peeled(payload, stream_name("/".join(names)), epoch_ns(record.time.encode()), cut,
                  record.stream)


def peel_compose(raw: bytes) -> Peeled | None:
    """docker compose: container name, padding, bar."""
    match = _COMPOSE.match(raw)
    return match and Peeled(raw[match.end():], stream_name(match[1]))


def peel_kubectl(raw: bytes) -> Peeled | None:
    """kubectl logs --prefix: pod and container."""
    match = _KUBECTL.match(raw)
    return match and Peeled(raw[match.end():], stream_name(match[1]))


def detect_cri(raws: Sequence[bytes]) -> LineLayer | None:
    """CRI text, also where other lines stand between."""
    return LineLayer("cri", peel_cri) if fits(peel_cri, raws, share=0.2) else None


def detect_docker(raws: Sequence[bytes]) -> LineLayer | None:
    """Docker json-file, also where other lines stand between."""
    return LineLayer("docker", peel_docker) if fits(peel_docker, raws, share=0.2) else None


def detect_compose(raws: Sequence[bytes]) -> LineLayer | None:
    """Compose prefixes on most lines; tables with bars look alike but hold no records."""
    if fits(peel_compose, raws, share=0.6):
        return LineLayer("compose", peel_compose, sure=False)
    return None


def detect_kubectl(raws: Sequence[bytes]) -> LineLayer | None:
    """kubectl prefixes, also where other lines stand between."""
    return LineLayer("kubectl", peel_kubectl) if fits(peel_kubectl, raws, share=0.2) else None
