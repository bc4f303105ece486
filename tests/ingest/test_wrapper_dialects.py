"""Dialects of wrappers as they stand in public logs, and text that is no wrapper."""

from __future__ import annotations

import io
import json

import pytest

from ingest.blocks import Block, read_blocks
from ingest.limits import Limits
from ingest.records import Line
from ingest.wrappers import PLAIN, detect_wrapper
from ingest.wrapping.clean import clean
from ingest.wrapping.instant import epoch_ns

BATCH = "[2026-01-02 03:04:05 TP0] Decode batch, #running-req: 12, #token: 7"
NS = 1767323045123456789


def peel(text: str | bytes) -> list[Line]:
    data = text.encode() if isinstance(text, str) else text
    wrapper = detect_wrapper(data)
    out = [line for block in read_blocks(io.BytesIO(data), Limits())
           for line in wrapper.peel(block)]
    return out + list(wrapper.flush())


def parts(text: str | bytes) -> list[tuple[str, str, int | None]]:
    return [(line.stream, line.raw.decode(), line.outer_ns) for line in peel(text)]


@pytest.mark.parametrize(
    ("stamp", "ns"),
    [("2026-01-02T03:04:05.123456789Z", NS), ("2026-01-02T03:04:05Z", NS // 10**9 * 10**9),
     ("2026-01-02T05:04:05.123456789+02:00", NS), ("2026-01-01T22:04:05.123456789-0500", NS),
     ("2026-01-02 03:04:05.5Z", NS // 10**9 * 10**9 + 5 * 10**8),
     ("1970-01-01T00:00:00Z", 0), ("1969-12-31T23:59:59.5Z", -5 * 10**8),
     ("2026-02-30T03:04:05Z", None), ("2026-01-02T24:04:05Z", None), ("9999-01-02T03:04:05Z", None),
     ("2026-01-02T03:04:61.5Z", None), ("2026-01-02T03:04:05", None), ("", None),
     ("2026-01-02T03:04:05.1234567891Z", None)],
)
def test_stamps(stamp: str, ns: int | None) -> None:
    assert epoch_ns(stamp.encode()) == ns


def test_cri_dialects() -> None:
    assert parts(
        f"2026-01-02T03:04:05.123456789Z stderr F {BATCH}\n"
        "2026-01-02T05:04:05.123456789+02:00 stdout F   indented\n"
        "2026-01-02T03:04:05.123456789Z stderr F \n"
        "2026-01-02T03:04:05.123456789Z stderr F\n"
        "2026-01-02T03:04:05.123456789Z stderr P:tag first \n"
        "2026-01-02T03:04:05.123456780Z stderr F:tag last\n"
    ) == [("", BATCH, NS), ("", "  indented", NS), ("", "", NS), ("", "", NS),
          ("", "first last", NS)]


def test_docker_with_colour_windows_line_ends_and_pod_names() -> None:
    rows = [
        {"log": f"\x1b[2m{BATCH}\x1b[0m\r\n", "stream": "stderr", "attrs": {"tag": "x"},
         "time": "2026-01-02T03:04:05.123456789Z"},
        {"log": "two\nlines\n", "stream": "stdout", "time": "2026-01-02T03:04:05.123456789Z"},
        {"date": 1.5, "log": BATCH, "stream": "stderr",
         "kubernetes": {"pod_name": "prefill-0", "container_name": "engine"}},
    ]
    data = "".join(json.dumps(row) + "\r\n" for row in rows)
    assert parts(data) == [
        ("", BATCH, NS), ("", "two", NS), ("", "lines", NS), ("prefill-0/engine", BATCH, None)]
    offsets = [line.byte_offset for line in peel(data)]
    assert len(set(offsets)) == 4


def test_docker_with_bytes_that_are_not_utf_8() -> None:
    row = b'{"log":"[1] a\xff b\\n","stream":"stderr","time":"2026-01-02T03:04:05.123456789Z"}\n'
    assert [line.raw for line in peel(row)] == [b"[1] a\xff b"]
    row = row.replace(b"\xff", b"\\ud83d")
    assert [line.raw for line in peel(row)] == ["[1] a\ud83d b".encode("utf-8", "surrogatepass")]


def test_compose_dialects() -> None:
    assert parts(
        f"\x1b[36mprefill-1  | \x1b[0m{BATCH}\nrouter_1        | 2026-01-02 03:04:05  INFO smg: x\n"
        f"prefill-1  |\ndecode.x  | a | b\nprefill-1 exited with code 0\n"
    ) == [("prefill-1", BATCH, None), ("router_1", "2026-01-02 03:04:05  INFO smg: x", None),
          ("prefill-1", "", None), ("decode.x", "a | b", None),
          ("", "prefill-1 exited with code 0", None)]


def test_journal_export() -> None:
    base = {"__REALTIME_TIMESTAMP": "1767323045123456", "_HOSTNAME": "node-a", "_PID": "812"}
    rows = [
        {**base, "MESSAGE": BATCH, "_SYSTEMD_UNIT": "sglang.service"},
        {**base, "MESSAGE": list(f"\x1b[2m{BATCH}\x1b[0m".encode()), "CONTAINER_NAME": "decode-0",
         "_SYSTEMD_UNIT": "docker.service"},
        {**base, "MESSAGE": "two\nlines", "SYSLOG_IDENTIFIER": "python3"},
        {**base, "MESSAGE": ["first", "second"]},
        {**base, "MESSAGE": "cut ", "_LINE_BREAK": "line-max", "_STREAM_ID": "7"},
        {**base, "MESSAGE": "other", "_STREAM_ID": "8"},
        {**base, "MESSAGE": "off", "_STREAM_ID": "7"},
        {**base, "MESSAGE": "a", "CONTAINER_NAME": "c", "CONTAINER_PARTIAL_MESSAGE": "true",
         "CONTAINER_PARTIAL_ID": "z"},
        {**base, "MESSAGE": "b", "CONTAINER_NAME": "c", "CONTAINER_PARTIAL_ID": "z"},
    ]
    outer = 1767323045123456000
    assert parts("".join(json.dumps(row) + "\n" for row in rows)) == [
        ("node-a/sglang.service", BATCH, outer), ("node-a/decode-0", BATCH, outer),
        ("node-a/python3", "two", outer), ("node-a/python3", "lines", outer),
        ("node-a", "first", outer), ("node-a", "second", outer), ("node-a", "other", outer),
        ("node-a", "cut off", outer), ("node-a/c", "ab", outer)]


def test_journal_entry_without_message_passes_as_it_is() -> None:
    row = json.dumps({"__REALTIME_TIMESTAMP": "1", "MESSAGE": None, "_HOSTNAME": "a"})
    good = json.dumps({"__REALTIME_TIMESTAMP": "1000", "MESSAGE": BATCH, "_HOSTNAME": "a"})
    assert parts(f"{good}\n{row}\n") == [("a", BATCH, 1000000), ("", row, None)]


def test_journal_text_and_its_indented_lines() -> None:
    prefix = "2026-01-02T03:04:05+00:00 node-a python3[812]: "
    text = (f"-- Journal begins at Thu 2026-01-01 --\n{prefix}{BATCH}\n{prefix}Traceback:\n"
            f"{' ' * len(prefix)}  File x\n{' ' * len(prefix)}Error\n"
            "2026-01-02T03:04:05+0000 node-a kernel: mlx5_core 0000:03:00.0: up\n   odd indent\n")
    ns = NS // 10**9 * 10**9
    assert parts(text) == [
        ("", "-- Journal begins at Thu 2026-01-01 --", None),
        ("node-a/python3", BATCH, ns), ("node-a/python3", "Traceback:", ns),
        ("node-a/python3", "  File x", ns), ("node-a/python3", "Error", ns),
        ("node-a/kernel", "mlx5_core 0000:03:00.0: up", ns), ("", "   odd indent", None)]
    assert parts(f"Jan  2 03:04:05 node-a sglang[8]: {BATCH}\n") == [("node-a/sglang", BATCH, None)]


def test_loki_lines_and_their_streams() -> None:
    rows = [
        ({"pod": "prefill-0", "container": "engine", "level": "info"}, "prefill-0/engine"),
        ({"hostname": "node-a"}, "node-a"),
        ({"job": "x", "app": "decode", "detected_level": "warn"}, "app=decode,job=x"),
        ({}, ""),
    ]
    # Newest first: the order of the file is kept.
    text = "".join(
        json.dumps({"labels": labels, "line": BATCH,
                    "timestamp": f"2026-01-02T03:04:0{5 - n}.123456789Z"}) + "\n"
        for n, (labels, _) in enumerate(rows))
    assert parts(text) == [(stream, BATCH, NS - n * 10**9) for n, (_, stream) in enumerate(rows)]


def test_loki_rows_with_blank_lines_and_tracebacks() -> None:
    row = "1767323045123\t2026-01-02T03:04:05.123Z\t"
    ns = 1767323045123000000
    text = f"{row}{BATCH}\n\n{row}Traceback (most recent call last):\n\n{row}\n\n" \
           f"1767323045123456789\t2026-01-02T03:04:05.123456Z\t  File x\n"
    assert parts(text) == [("", BATCH, ns), ("", "Traceback (most recent call last):", ns),
                           ("", "", ns), ("", "  File x", NS)]


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_loki_document(indent: int | None) -> None:
    document = {
        "status": "success",
        "data": {"resultType": "streams", "result": [
            {"stream": {"pod": "p-0", "level": "info"},
             "values": [[str(NS), BATCH], [str(NS - 1), 'quo"te \\ two\nlines'],
                        [str(NS - 2), "with metadata", {"trace": "x", "values": "y"}],
                        [str(NS - 2), "after metadata"]]},
            {"stream": {"pod": "d-0"}, "values": [[str(NS - 3), "größe"]]},
            {"stream": {}, "values": [[str(NS - 4), "unnamed"], ["bad", "stampless"]]},
        ], "stats": {"values": [["1", "x"]][:0], "summary": {"bytes": 12}}},
    }
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    expected = [("p-0", BATCH, NS), ("p-0", 'quo"te \\ two', NS - 1), ("p-0", "lines", NS - 1),
                ("p-0", "with metadata", NS - 2), ("p-0", "after metadata", NS - 2),
                ("d-0", "größe", NS - 3), ("result 3", "unnamed", NS - 4),
                ("result 3", "stampless", None)]
    assert parts(text) == expected
    # Pages of a query, one document per line, and text behind them.
    if indent is None:
        assert parts(f"{text}\n{text}\nbehind\n") == [*expected, *expected, ("", "behind", None)]
        lines = peel(text)
        assert text.encode()[lines[0].byte_offset :].startswith(b'"[2026-01-02')
        assert len({line.byte_offset for line in lines}) == len(lines)


def test_loki_document_that_was_cut() -> None:
    text = ('{"status":"success","data":{"resultType":"streams","result":[{"stream":{"pod":"p"},'
            f'"values":[["{NS}","whole"],["{NS}","cu')
    assert parts(text) == [("p", "whole", NS), ("", '"cu', None)]


def test_loki_document_over_several_blocks_is_pending_from_its_start() -> None:
    text = json.dumps({"status": "success", "data": {"resultType": "streams", "result": [
        {"stream": {"pod": "p"}, "values": [[str(NS), f"line {n}"] for n in range(50)]}]}},
        indent=1).encode() + b"\n"
    wrapper = detect_wrapper(text)
    raws = []
    for block in read_blocks(io.BytesIO(text), Limits(block_bytes=100)):
        raws += [line.raw for line in wrapper.peel(block)]
        if block.byte_offset + len(block.data) < len(text):
            assert wrapper.pending() == (0, 1)
    assert raws == [b"line %d" % n for n in range(50)]
    assert wrapper.pending() is None


def test_ray_dialects() -> None:
    assert parts(
        "\x1b[36m(SGLangEngine pid=812, ip=10.0.0.7)\x1b[0m " + BATCH + "\n"
        f"(RayTrainWorker(rank=0) pid=9) {BATCH}\n(raylet) note\n{BATCH}\n(not ray) text\n"
        "(pid=77)\n"
    ) == [("SGLangEngine pid=812 ip=10.0.0.7", BATCH, None),
          ("RayTrainWorker(rank=0) pid=9", BATCH, None), ("raylet", "note", None),
          ("", BATCH, None), ("", "(not ray) text", None), ("pid=77", "", None)]


def test_grep_dialects() -> None:
    assert parts(
        f"node-a/sglang.log-6-context before\nnode-a/sglang.log:7:{BATCH}\n"
        "node-a/sglang.log-8-12-34 after\n--\nnode-b_0.log.2026-01-02_03:1:[1] rotated\n"
    ) == [("node-a/sglang.log", "context before", None), ("node-a/sglang.log", BATCH, None),
          ("node-a/sglang.log", "12-34 after", None),
          ("node-b_0.log.2026-01-02_03", "[1] rotated", None)]
    assert parts(
        f"a.log-context before\na.log:{BATCH}\na.log:2026-01-02 03:04:05  INFO x\na.log:12: y\n"
        f"a.log-after\nno prefix\n"
    ) == [("a.log", "context before", None), ("a.log", BATCH, None),
          ("a.log", "2026-01-02 03:04:05  INFO x", None), ("a.log", "12: y", None),
          ("a.log", "after", None), ("", "no prefix", None)]


def test_dynamo_prefix_and_bare_stamps() -> None:
    ns = NS // 1000 * 1000
    stamp = "2026-01-02T03:04:05.123456Z"
    assert parts(
        f"\x1b[2m{stamp}\x1b[0m \x1b[32m INFO\x1b[0m \x1b[2mdynamo_llm::kv\x1b[0m: Decode batch\n"
        f"{stamp} ERROR engine.main: failed\n{stamp}  WARN no target here\n{BATCH}\n"
    ) == [("", "Decode batch", ns), ("", "failed", ns), ("", "no target here", ns),
          ("", BATCH, None)]
    assert parts(f"\x1b[2m{stamp}\x1b[0m {BATCH}\n{stamp} Traceback:\n") == [
        ("", BATCH, ns), ("", "Traceback:", ns)]


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"**[2026-01-02 03:04:05] x**", b"[2026-01-02 03:04:05] x"),
     (b"**[2026-01-02 03:04:05 TP0]** Decode", b"[2026-01-02 03:04:05 TP0] Decode"),
     (b"** note **", b"** note **"), (b"**", b"**"),
     (b"2026-01-02 03:04:05 TP0] Decode", b"[2026-01-02 03:04:05 TP0] Decode"),
     (b"2026-01-02 03:04:05.123 DP1 PP0 ATTN_CP2 MOE_DP0 TP3 EP4] x",
      b"[2026-01-02 03:04:05.123 DP1 PP0 ATTN_CP2 MOE_DP0 TP3 EP4] x"),
     (b"2026-01-02 03:04:05] x\r", b"[2026-01-02 03:04:05] x"),
     (b"2026-01-02 03:04:05  INFO a] b", b"2026-01-02 03:04:05  INFO a] b"),
     (b"\x1b[2m\x1b[32ma\x1b[0m\x1b]8;;http://x\x07b\x1b]8;;\x1b\\\x1b[K", b"ab"),
     (b"\x1b[1;31", b"\x1b[1;31"), (b"\r", b""), (b"a\rb\r\r", b"a\rb")],
)
def test_lines_are_given_back_as_they_were_logged(raw: bytes, text: bytes) -> None:
    assert clean(raw) == text
    data = b"first\n" + raw + b"\n"
    assert [line.raw for line in detect_wrapper(b"").peel(Block(data, 0, 1))] == [b"first", text]


def test_utf_16_beginnings_are_looked_at_as_text() -> None:
    text = f"2026-01-02T03:04:05.1Z stderr F {BATCH}\r\n" * 3
    assert detect_wrapper(text.encode("utf-16")).name == "cri"


NOT_WRAPPED = {
    "request log": '{"timestamp": "2026-01-02T03:04:05.1", "event": "request.received", "rid": "a",'
                   ' "obj": {"log": "x", "stream": true}}',
    "prefixed request log": '[2026-01-02 03:04:05] {"timestamp": "x", "event": "request.finished"}',
    "export": '{"request_parameters": "{}", "log": null, "time": 3}',
    "prefill line": "[2026-01-02 03:04:05 TP0] Prefill batch [7], #new-seq: 1",
    "router": "2026-01-02 03:04:05  INFO smg::server: src/server.rs:7: Starting on a:1 | mode: b",
    "coloured router": "\x1b[2m2026-01-02 03:04:05\x1b[0m \x1b[32m INFO\x1b[0m smg: a | b",
    "router with zone": "2026-01-02T03:04:05.123456Z  INFO smg::request: started processing",
    "router span": '2026-01-02T03:04:05.1Z  INFO http_request{method=POST}: smg::response: done',
    "glog": "I0102 03:04:05.758273 26021 transfer_engine_impl.cpp:219] a | b",
    "ucx": "[1767323045.335545] [host-a:22069:0]   | Range  | Description |",
    "table": "Range  | Description |",
    "names": "alice.log:\nbob.txt: a description\nnotes.md: text",
    "spans": '{"resourceSpans":[{"resource":{"attributes":[{"key":"stream","value":"x"}]}}]}',
    "page trace": '{"t":1767323045,"ev":"alloc","room":5,"rid":"x","pages":[[1,2]],"log":"x"}',
    "metrics": "# HELP sglang:num_running_reqs x\nsglang:num_running_reqs{a=\"b\"} 1.0",
    "csv": "key_name,key_value,account\nrid,a,b",
    "snapshot": '{"status": "ready", "data": {"result": [1, 2]}}',
    "python": "x = (1, 2)\n(pid) = 3\n(a b) c",
    "binary": "\0\0\1\0" * 30,
}


@pytest.mark.parametrize("name", NOT_WRAPPED)
def test_text_of_engines_and_routers_is_no_wrapper(name: str) -> None:
    data = (NOT_WRAPPED[name] + "\n") * 3
    assert detect_wrapper(data.encode()).name == PLAIN
    assert b"\n".join(line.raw for line in peel(data)) == b"\n".join(
        clean(raw) for raw in data.encode().splitlines())
