"""Evidence that lies, contradicts itself or lost its decisive line: nothing exposed is excluded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forensics.late_write import survival
from forensics.stale_handoff import weigh_stale
from forensics.tiers import Tier
from forensics.worker_facts import _limit
from tests import damage
from tests.forensics.build import log, response, side
from tests.forensics.test_bundles import FIXTURES, assert_sound, clean_share, truth, unpack

DECODES, PREFILLS = ("node-c5", "node-h7"), ("node-c6", "node-h1")


def state(folder: Path, workers: dict[str, str]) -> None:
    """Write an evidence.toml with further lines for every worker's folder."""
    (folder / "evidence.toml").write_text("".join(
        f'[[worker]]\nname = "{name}"\nfiles = ["{name}/*"]\n{lines}\n'
        for name, lines in workers.items()), encoding="utf-8")


def lose(folder: Path, pattern: str, text: str) -> None:
    damage.rewrite(folder, pattern, lambda lines: [x for x in lines if not re.search(text, x)])


@pytest.mark.parametrize("role_of", [
    dict.fromkeys(DECODES, "prefill") | dict.fromkeys(PREFILLS, "decode"),
    dict.fromkeys(DECODES + PREFILLS, "decode"),
    dict.fromkeys(DECODES + PREFILLS, "prefill"),
], ids=["swapped", "all decode", "all prefill"])
def test_a_stated_role_never_overrules_the_records(judge, tmp_path, role_of):
    folder = unpack("a-l2", tmp_path)
    state(folder, {name: f'role = "{role}"' for name, role in role_of.items()})
    judged = judge(folder)
    counts = assert_sound(judged, truth("a-l2"))
    assert counts["A", "confirmed"] == 7
    fleet = {w["worker"]: w for w in judged.summary["fleet"]}
    assert {fleet[name]["role"] for name in DECODES} == {"decode"}
    assert {fleet[name]["role"] for name in PREFILLS} == {"prefill"}


def test_one_stated_worker_of_one_role_is_still_told_apart(judge, tmp_path):
    folder = unpack("a-l2", tmp_path)
    state(folder, {"all": 'role = "decode"'})
    text = (folder / "evidence.toml").read_text(encoding="utf-8").replace("all/*", "*")
    (folder / "evidence.toml").write_text(text, encoding="utf-8")
    assert assert_sound(judge(folder), truth("a-l2"))["A", "confirmed"] == 7


def test_a_stated_backend_fills_gaps_only(judge, tmp_path):
    folder = unpack("ab-l4", tmp_path)
    damage.remove(folder, "kv-page-trace*")
    state(folder, dict.fromkeys(
        ("node-a6", "node-c3", "node-f6", "node-g6"), 'backend = "fake"'))
    counts = assert_sound(judge(folder), truth("ab-l4"))
    assert counts["B", "possible"] == 22


def test_a_backend_that_writes_nothing_lands_nothing_late():
    assert survival(0, transfer_ns=10, tail=1.0, reach_ns=0) == 0.0


def test_a_wrongly_stated_build_does_not_clear_what_it_cannot_have_answered(judge, tmp_path):
    """0.5.23 answers no refused prompt: tokens after a refusal show that the build is wrong."""
    folder = unpack("a-l2", tmp_path)
    state(folder, dict.fromkeys(DECODES + PREFILLS, 'version = "0.5.23"'))
    damage.remove(folder, "server_info.json")
    for name in PREFILLS:
        damage.remove(folder / name, "requests.log")
        lose(folder / name, "sglang.log", "ReqTimeStats")
    assert_sound(judge(folder), truth("a-l2"))


def test_a_fixed_build_that_answered_over_the_limit_is_in_doubt():
    fixed = side(version="0.5.23", stale_state="closed")
    assert weigh_stale(response(n=3000, out=64), fixed).tier is Tier.POSSIBLE
    assert weigh_stale(response(n=30, out=64, p_validator="finish_abort"),
                       fixed).tier is Tier.POSSIBLE
    assert weigh_stale(response(n=30, out=64), fixed).tier is Tier.EXCLUDED


def test_lost_failure_lines_show_by_what_failed_on_prefill(judge, tmp_path):
    folder = unpack("ab-l4", tmp_path)
    damage.remove(folder, "kv-page-trace*")
    damage.remove(folder, "requests.log")
    lose(folder, "sglang.log", "Decode transfer failed")
    assert_sound(judge(folder), truth("ab-l4"))


def test_a_stray_refusal_does_not_clear_an_answer_that_lost_its_end(judge, tmp_path):
    """A malformed request prints 400 beside a stream that its client cut: no sign of an end."""
    folder, facts = unpack("a-l2", tmp_path), truth("a-l2")
    for room in [room for room, row in facts.items() if row["exposed_A"] == "1"]:
        host = folder / facts[room]["decode_host"]
        received = next(
            x for x in (host / "requests.log").read_text(encoding="utf-8").splitlines()
            if room in x and "request.received" in x)
        rid = re.search(r'"rid": "(\w+)"', received)
        assert rid
        lose(host, "requests.log", rest := f"{rid[1]}.*request.finished|finished.*{rid[1]}")
        lose(host, "sglang.log", f"{rid[1]}|{room}|{rest}")
        stray = f'{received[:21]} INFO:     10.9.9.9:1 - "POST /generate HTTP/1.1" 400 Bad Request'
        damage.rewrite(host, "sglang.log", lambda lines, line=stray: [
            *[x for x in lines if x[:21] <= line[:21]], line,
            *[x for x in lines if x[:21] > line[:21]]])
    counts = assert_sound(judge(folder), facts)
    assert counts["A", "confirmed"] == 0


def test_a_refusal_that_names_no_room_leaves_every_response_open():
    covered = {"log": log(0, 100), "prints_every_refusal": True}
    life = {"n": 30, "out": 64, "received_lo": 10 * 10**9, "ended_hi": 20 * 10**9}
    assert weigh_stale(response(**life), side(**covered)).tier is Tier.EXCLUDED
    for gap in ("unlinked_refusal", "records_ends"):
        found = weigh_stale(response(**life), side(**covered, **{gap: True}))
        assert found.tier is Tier.NOT_ASSESSABLE, gap


def test_a_logged_timeout_outweighs_counters_scraped_before_it(judge, tmp_path):
    source = FIXTURES / "drained-0.5.23"
    for path in source.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    text = (tmp_path / "decode.log").read_text(encoding="utf-8")
    room = re.search(r"Decode transfer failed.*?(\d{15,20})", text)
    stamp = re.findall(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", text, re.MULTILINE)[-1]
    assert room
    (tmp_path / "decode.log").write_text(
        f"{text}[{stamp}] Deferred KV release for room {room[1]} timed out after 30.0s without a "
        "full drain ack from prefill; releasing anyway.\n", encoding="utf-8")
    judged = judge(tmp_path)
    assert not any("all_drained" in [x["code"] for x in r["reasons"]] for r in judged.responses)
    assert judged.tiers().get("possible", 0) >= 1


def test_a_limit_of_another_boot_raises_none():
    assert _limit(None, 131066, 2042) == 2042
    assert _limit(None, 2042, 131066) == 2042
    assert _limit(2042, 131066, None) == 2042
    # A refusal names its own limit; what the start-up line implies is an interpretation.
    assert _limit(4090, None, 2042) == 4090
    assert _limit(None, None, None) is None


@pytest.mark.parametrize("with_ids", [True, False], ids=["with request ids", "without"])
def test_a_room_that_two_requests_share_at_once_is_not_paired_by_order(judge, tmp_path, with_ids):
    folder, facts = unpack("a-l2", tmp_path), truth("a-l2")
    rooms = list(facts)
    exposed = [room for room in rooms if facts[room]["exposed_A"] == "1"]
    logs = "".join(path.read_text(encoding="utf-8") for path in folder.rglob("sglang.log"))
    rids = {rid for rid, room in re.findall(
        r"rid=(\w+), bootstrap_room=(\d+), input_len=\d+.*type=decode", logs) if room in exposed}
    taken: dict[str, str] = {}
    for room in exposed:
        other = next(x for x in rooms[rooms.index(room) + 1 :] if x not in exposed
                     and x not in taken
                     and facts[x]["prefill_host"] != facts[room]["prefill_host"])
        taken[other] = room
    swap = re.compile("|".join(taken))
    damage.rewrite(folder, "*.log", lambda lines: [
        swap.sub(lambda match: taken[match.group()], line) for line in lines])
    # A host whose clock is an hour ahead turns the order of arrival round.
    damage.shift_zone(folder / PREFILLS[0], "*.log", 1)
    damage.rewrite(folder / PREFILLS[0], "*.log", lambda lines: [
        re.sub(r"\b1791\d{6}(?=\.\d)", lambda match: str(int(match.group()) + 3600), line)
        for line in lines])
    if not with_ids:
        damage.remove(folder, "requests.log")
    judged = judge(folder)
    mine = [r for r in judged.responses if r["rid"] in rids]
    assert len(mine) == 7
    assert not [r for r in mine if r["recipient_tier"] == "excluded"]
    if with_ids:
        assert all(r["recipient_tier"] == "confirmed" for r in mine)


def test_the_whole_bundle_keeps_its_clean_share(judge, tmp_path):
    """Each rule above is a narrowing: together they must not drown what is clean."""
    counts = assert_sound(judge(FIXTURES / "a-l2.tar.xz"), truth("a-l2"))
    assert clean_share(counts) == 1.0
