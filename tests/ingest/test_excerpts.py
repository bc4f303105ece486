"""Excerpts: the right line of the right bytes, redacted; and a note where it cannot be shown."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from excerpt_runs import LOG, ROOM, STAMP, all_ids, offset_of, one, opened, write
from request_dialects import Call, json_line, text_line

from ingest.case import open_case
from ingest.excerpt_text import MAX_CHARS, line_text, scrub
from ingest.excerpts import Excerpt, read_excerpts
from ingest.pipeline import ingest
from ingest.visible import visible


def test_an_engine_line_is_shown_as_it_stands(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "decode.log", LOG)
    with opened(tmp_path, path) as con:
        assert one(con, LOG, 2) == Excerpt(
            1, "decode.log", 3, offset_of(LOG, 2), hashlib.sha256(path.read_bytes()).hexdigest(),
            LOG[2], "")
        assert one(con, LOG, 3).text == LOG[3]


def test_the_configuration_is_shortened_to_what_matters(tmp_path: Path) -> None:
    with opened(tmp_path, write(tmp_path / "decode.log", LOG)) as con:
        text = one(con, LOG, 1).text
    assert text == (
        '[2026-12-01 04:24:46] server_args: disaggregation_mode="decode", '
        'disaggregation_transfer_backend="mooncake", context_length=8192, page_size=16, '
        "tp_size=2, dp_size=1, …")


def test_an_unknown_line_is_its_length_and_hash(tmp_path: Path) -> None:
    with opened(tmp_path, write(tmp_path / "decode.log", LOG)) as con:
        text = one(con, LOG, 0).text
    digest = hashlib.sha256(LOG[0].encode()).hexdigest()
    assert text == f"(a line that is not recognised: {len(LOG[0])} bytes, sha256 {digest})"


def test_request_lines_are_rebuilt_from_safe_fields(tmp_path: Path) -> None:
    obj = Call(rid="abc", text="CONTENT", input_ids=[424242] * 9, stream=True,
               bootstrap_host="10.0.0.1", bootstrap_port=8998, bootstrap_room=ROOM)
    out = {"text": "CONTENT", "meta_info": {
        "id": "abc", "finish_reason": {"type": "stop", "matched": 424242}, "prompt_tokens": 35,
        "completion_tokens": 2, "cached_tokens": 0}}
    lines = [json_line("request.finished", obj, {"x-smg-routing-key": "CONTENT"}, out),
             text_line("Finish", obj, {"x-smg-routing-key": "CONTENT"}, out),
             text_line("Receive OpenAI", {"model": "m", "messages": [{"content": "CONTENT"}],
                                          "bootstrap_room": ROOM})]
    with opened(tmp_path, write(tmp_path / "requests.log", lines)) as con:
        texts = [one(con, lines, number).text for number in range(3)]
    assert texts[0] == (
        '[2026-12-01 04:22:17] {"timestamp": "2026-12-01T04:22:17.669894", "event": '
        '"request.finished", "obj": {"rid": "abc", "bootstrap_host": "10.0.0.1", '
        f'"bootstrap_port": 8998, "bootstrap_room": {ROOM}, "stream": true, …}}, "out": '
        '{"meta_info": {"finish_reason": {"type": "stop", …}, "prompt_tokens": 35, '
        '"completion_tokens": 2, "cached_tokens": 0, …}, …}, …}')
    assert texts[1] == (
        "[2026-12-01 04:22:17] Finish: obj=GenerateReqInput(rid='abc', "
        f"bootstrap_host='10.0.0.1', bootstrap_port=8998, bootstrap_room={ROOM}, stream=True, …), "
        "out={'meta_info': {'finish_reason': {'type': 'stop', …}, 'prompt_tokens': 35, "
        "'completion_tokens': 2, 'cached_tokens': 0, …}, …}")
    assert texts[2] == (
        f"[2026-12-01 04:22:17] Receive OpenAI: obj={{'bootstrap_room': {ROOM}, …}}")


@pytest.mark.parametrize("version", ["0.5.18", "0.5.23"])
@pytest.mark.parametrize("dialect", ["request_log_json", "request_log_text", "metrics_export",
                                     "server_info", "model_info", "loads"])
def test_fixtures_of_the_formats_give_excerpts(
    tmp_path: Path, dialect: str, version: str
) -> None:
    suffix = "log" if dialect in ("request_log_json", "request_log_text", "metrics_export") else (
        "json")
    fixture = Path(__file__).parent / "fixtures" / f"{dialect}.{version}.{suffix}"
    with opened(tmp_path, fixture) as con:
        found = read_excerpts(con, all_ids(con))
    assert found
    for excerpt in found.values():
        assert excerpt.note == ""
        assert excerpt.line_no > 0
        assert 0 < len(excerpt.text) <= MAX_CHARS + 40
        assert "Filler" not in excerpt.text  # the word that the fixtures' prompts begin with


def test_page_events_say_what_their_lines_say(tmp_path: Path) -> None:
    fixture = Path(__file__).parent / "fixtures" / "page_trace.decode.jsonl"
    lines = fixture.read_text().splitlines()
    with opened(tmp_path, fixture) as con:
        texts = [one(con, lines, number).text for number in range(len(lines))]
    assert '"ev": "header"' in texts[0]
    assert '"host": "node-g6", "role": "decode", "dp_rank": 1' in texts[0]
    for line, text in zip(lines[1:6], texts[1:6], strict=True):
        assert json.loads(text.replace(", …}", "}")) == json.loads(line)


def test_long_and_hostile_lines_are_bounded_and_visible(tmp_path: Path) -> None:
    lines = [f"{STAMP}Session \u202e\x07{'y' * 60} failed. {'z' * 3000}",
             f"{STAMP}Session <script> failed."]
    with opened(tmp_path, write(tmp_path / "prefill.log", lines)) as con:
        first, second = one(con, lines, 0).text, one(con, lines, 1).text
    assert "\\u202e\\x07y" in first
    assert first.endswith(f"… (+{len(lines[0]) - MAX_CHARS} characters)")
    assert second == lines[1]  # escaping is the page's business


def test_visible_text_has_no_hidden_characters() -> None:
    assert visible("a\x1b[31m\u200b\u2066b\ud800", 40) == "a\\x1b[31m\\u200b\\u2066b\\ud800"
    assert visible("abcdef", 4) == "abcd… (+2 characters)"
    assert visible("naïve 页", 40) == "naïve 页"
    assert visible("Z" + "\u0334" * 5, 40) == "Z" + "\u0334" * 2 + "\\u0334" * 3


def test_secrets_in_engine_messages_are_redacted() -> None:
    assert scrub("run --api-key hunter2 on http://me:pw@host/") == (
        "run --api-key [redacted] on http://[redacted]@host/")


def test_a_file_that_is_gone_is_said_to_be_gone(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "decode.log", LOG)
    with opened(tmp_path, path) as con:
        path.unlink()
        excerpt = one(con, LOG, 2)
    assert excerpt.text == ""
    assert "no longer where it was read" in excerpt.note
    assert (excerpt.line_no, excerpt.byte_offset) == (3, offset_of(LOG, 2))


def test_a_changed_file_shows_nothing_of_the_new_content(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "decode.log", LOG)
    with opened(tmp_path, path) as con:
        path.write_bytes(path.read_bytes().replace(b"output_len=64", b"output_len=65"))
        excerpt = one(con, LOG, 2)
    assert excerpt.text == ""
    assert "no longer holds what it held" in excerpt.note


def test_what_is_proven_of_a_changed_file_is_still_shown(tmp_path: Path) -> None:
    lines = [*LOG, *(LOG[2].replace("abc", f"rid-{n}") for n in range(200))]
    path = write(tmp_path / "in" / "decode.log", lines)
    with opened(tmp_path, path) as con:
        with path.open("r+b") as file:
            file.seek(-3, io.SEEK_END)
            file.write(b"X")
        assert one(con, lines, 2).text == LOG[2]
        assert one(con, lines, 203).text == ""


def test_a_file_that_grew_is_read_as_it_was(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "decode.log", LOG)
    with opened(tmp_path, path) as con:
        with path.open("ab") as file:
            file.write(b"more\n")
        assert one(con, LOG, 3).text == LOG[3]


def test_a_file_without_a_last_line_end(tmp_path: Path) -> None:
    path = tmp_path / "decode.log"
    path.write_text("\n".join(LOG))
    with opened(tmp_path, path) as con:
        assert one(con, LOG, 3).text == LOG[3]


def test_a_kept_copy_stands_in_for_a_rotated_file(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "decode.log", LOG)
    ingest([str(path)], tmp_path / "case", workers=1, copy_evidence=True)
    path.unlink()
    with open_case(tmp_path / "case", read_only=True) as case:
        assert one(case.con, LOG, 3).text == LOG[3]


def test_members_of_archives_and_compressed_files_are_read(tmp_path: Path) -> None:
    content = "".join(f"{line}\n" for line in LOG).encode()
    packed = tmp_path / "decode.log.gz"
    packed.write_bytes(gzip.compress(content))
    archive = tmp_path / "bundle.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("a/prefill.log", "b/prefill.log"):
            data = content.replace(b"abc", name[0].encode() * 3).replace(b"'decode'", b"'prefill'")
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    with opened(tmp_path, packed, archive) as con:
        found = read_excerpts(con, all_ids(con))
    shown = {e.name: e.text for e in found.values() if "ReqTimeStats" in e.text}
    assert shown == {
        "decode.log.gz": LOG[2],
        "bundle.tar.gz!a/prefill.log": LOG[2].replace("abc", "aaa"),
        "bundle.tar.gz!b/prefill.log": LOG[2].replace("abc", "bbb")}
    assert all(e.note == "" for e in found.values())


def test_a_collectors_wrapping_is_taken_off(tmp_path: Path) -> None:
    lines = [json.dumps({"log": f"{line}\n", "stream": "stderr",
                         "time": f"2026-12-01T04:25:5{n}.000000001Z"})
             for n, line in enumerate(LOG)]
    with opened(tmp_path, write(tmp_path / "decode-json.log", lines)) as con:
        assert one(con, lines, 2).text == LOG[2]


def test_utf16_files_are_read_at_their_text_offsets(tmp_path: Path) -> None:
    path = tmp_path / "decode.log"
    path.write_bytes("".join(f"{line}\n" for line in LOG).encode("utf-16"))
    with opened(tmp_path, path) as con:
        row = con.execute("SELECT byte_offset FROM time_stats").fetchone()
        assert row is not None
        assert read_excerpts(con, [f"1:{row[0]}"])[f"1:{row[0]}"].text == LOG[2]


def test_ids_that_name_nothing_are_answered(tmp_path: Path) -> None:
    path = write(tmp_path / "decode.log", LOG)
    with opened(tmp_path, path) as con:
        found = read_excerpts(con, ["x", "9:0", "1:999999", "1:3", "1:" + "9" * 40, "1:-1"])
    assert found["x"].note == found["1:" + "9" * 40].note == found["1:-1"].note == (
        "This is no evidence id.")
    assert found["9:0"].note == "The case has no such file."
    # Beyond the end, and in the middle of a line.
    for name in ("1:999999", "1:3"):
        assert found[name].text == ""
        assert found[name].note
    assert found["1:3"].note == "No line that can be shown begins at this place of the file."


def test_no_ids_give_no_excerpts(tmp_path: Path) -> None:
    with opened(tmp_path, write(tmp_path / "decode.log", LOG)) as con:
        assert read_excerpts(con, []) == {}


def test_a_rejected_line_is_not_quoted() -> None:
    text = line_text(b"secret", b"secret", {"reject": [{"reason": "x"}]})
    assert text.startswith("(a line that could not be parsed: 6 bytes, sha256 ")
    assert "secret" not in text
