"""Recordings of real 0.5.18 and 0.5.23 deployments: what is known of them must come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Judged

FIXTURES = Path(__file__).parents[1] / "fixtures"
# Rooms whose prompt prefill refused and handed over as a stub, with decode's output tokens.
STALE = {
    4096703817223315620: 64, 3379316174086149503: 16, 322188606466812695: 64,
    846620329879769444: 2, 7427497421158284398: 32, 968482477274352679: 32,
    5829171492952696727: 32, 4575858579253962786: 2, 185390467897706801: 2,
    5579570679042649471: 32,
}
# Refused as well, but the one token that was returned came from prefill's stub.
ONE_TOKEN = (4434411351201108165, 9142488770331527103)
# Refused, never generated: the client gave up while decode waited.
NO_TOKEN = 1631192732615713931


def codes(record) -> set[str]:
    return {reason["code"] for reason in record["reasons"]}


def mechanism(record, name: str) -> dict:
    return next(m for m in record["mechanisms"] if m["mechanism"] == name)


def test_every_stale_handoff_is_confirmed_by_its_two_counts(sample: Judged):
    for room, tokens in STALE.items():
        record = sample.room(room)
        assert record["recipient_tier"] == "confirmed"
        assert record["recipient_probability"] == 1.0
        assert record["completion_tokens"] == tokens
        assert record["prefill_prompt_tokens"] == 1
        assert record["prompt_tokens"] >= 2042
        assert "counts_differ_stub" in codes(record)


def test_what_attended_nothing_is_excluded(sample: Judged):
    for room in ONE_TOKEN:
        assert sample.room(room)["recipient_tier"] == "excluded"
        assert "only_prefill_token" in codes(sample.room(room))
    assert sample.room(NO_TOKEN)["recipient_tier"] == "excluded"
    assert "no_tokens_returned" in codes(sample.room(NO_TOKEN))


def test_nothing_else_of_the_sample_is_exposed(sample: Judged):
    assert sample.tiers() == {"confirmed": 10, "excluded": 148}
    assert sample.summary["exposed_responses"] == {
        "low": 10, "expected": 10.0, "high": 10, "not_assessable": 0}


def test_warm_up_and_health_checks_are_no_responses(sample: Judged):
    assert all(r["room"] != "0" for r in sample.responses)
    assert not any((r["rid"] or "").startswith("HEALTH_CHECK") for r in sample.responses)


def test_every_reason_leads_to_a_line_of_the_evidence(sample: Judged):
    offsets = {}
    for record in sample.responses:
        assert record["reasons"], record["room"]
        for reason in record["reasons"]:
            for ref in reason["evidence"]:
                file, _, offset = ref.partition(":")
                offsets.setdefault(int(file), set()).add(int(offset))
    paths = dict(sample.con.execute(
        "SELECT evidence_id, path FROM evidence ORDER BY 1").fetchall())
    for file, starts in offsets.items():
        data = Path(paths[file]).read_bytes()
        assert all(start == 0 or data[start - 1 : start] == b"\n" for start in starts)


def test_workers_builds_and_limits_of_the_sample(sample: Judged):
    fleet = {w["worker"]: w for w in sample.summary["fleet"]}
    assert {name: w["role"] for name, w in fleet.items()} == {
        "decode": "decode", "prefill": "prefill"}
    assert fleet["prefill"]["version"]["text"] == "0.5.18"
    assert fleet["prefill"]["knowledge"]["stale_handoff"]["state"] == "exposed"
    assert [p["max_req_input_len"] for p in fleet["prefill"]["pools"]] == [2042]
    assert [p["max_req_input_len"] for p in fleet["decode"]["pools"]] == [8186]


def test_candidate_sources_are_weighed_and_never_one_name(sample: Judged):
    rows = [x for x in sample.exposures if x["recipient_room"] == "185390467897706801"]
    named = [x for x in rows if x["source_room"]]
    assert len(named) > 5
    assert all(x["tier"] == "possible" for x in rows)
    assert all(0.0 <= x["probability"] <= 1.0 for x in rows)


@pytest.fixture
def late(judge) -> Judged:
    return judge(FIXTURES / "late-write-0.5.18")


def test_a_late_write_leaves_the_following_answers_possible(late: Judged):
    """347889770019814917 was corrupted; the logs alone cannot tell it from the other four."""
    following = [347889770019814917, 2521375227419169392, 767476737988405887,
                 4425750316995128141, 293107513512053754]
    for room in following:
        record = late.room(room)
        assert record["recipient_tier"] == "possible"
        assert mechanism(record, "late_write")["tier"] == "possible"
        assert mechanism(record, "stale_handoff")["tier"] == "excluded"
        assert 0 < record["recipient_probability"] < 0.5
        assert record["recipient_probability_high"] == 1.0
    pairs = {(x["recipient_room"], x["source_room"]) for x in late.exposures}
    assert ("347889770019814917", "3375543413484649733") in pairs


def test_aborted_requests_and_the_one_before_them_are_excluded(late: Judged):
    for room in (911419354677805700, 2991843570714408984, 2492774020808593552,
                 4066575629037645165, 3375543413484649733, 4444222114002045415):
        assert late.room(room)["recipient_tier"] == "excluded"
    assert late.room(3375543413484649733)["source_tier"] == "possible"


def test_the_build_is_bounded_by_the_lines_alone(late: Judged):
    """No file of this case states a version."""
    for worker in late.summary["fleet"]:
        assert worker["version"]["low"].startswith("0.5.18")
        assert worker["version"]["basis"].startswith("spelling of its own lines")


def test_drained_holds_exclude_by_the_engine_s_own_counter(judge, tmp_path):
    judged = judge(FIXTURES / "drained-0.5.23")
    assert judged.tiers() == {"excluded": 9}
    following = judged.room(3596910533742750064)
    assert "all_drained" in codes(following)


def test_without_the_counter_a_default_is_no_proof(judge, tmp_path):
    for path in (FIXTURES / "drained-0.5.23").glob("*.log"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    judged = judge(tmp_path)
    following = judged.room(3596910533742750064)
    assert following["recipient_tier"] == "possible"
    assert "late_switch_unknown" in codes(following)
