"""A and A2 on hand-made responses: the verdict table of leak-mechanisms.md, section 9."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.stale_handoff import weigh_stale, weigh_truncated
from forensics.tiers import Tier
from tests.forensics.build import log, response, side


def codes(weighing):
    return [reason.code for reason in weighing.reasons]


def test_two_counts_of_one_room_that_returned_tokens_confirm():
    found = weigh_stale(response(n=2743, p=1, out=64), side())
    assert found.tier is Tier.CONFIRMED
    assert codes(found) == ["counts_differ_stub"]
    assert "attended 2742 positions" in found.reasons[0].text
    assert set(found.reasons[0].evidence) == {"1:100", "0:200"}


@pytest.mark.parametrize(("fields", "code"), [
    ({"n": 900, "p": 900, "out": 10}, "counts_equal"),
    ({"n": 900, "p": 950, "out": 10}, "prefill_not_stub"),
    ({"n": None, "p": 8499, "out": None}, "prefill_not_stub"),
    ({"n": 2743, "p": 1, "out": 0}, "no_tokens_returned"),
    ({"n": 2743, "p": 1, "out": 1}, "only_prefill_token"),
    ({"n": 1, "p": 1, "out": 9}, "one_token_prompt"),
])
def test_recorded_facts_exclude(fields, code):
    found = weigh_stale(response(**fields), side())
    assert found.tier is Tier.EXCLUDED
    assert codes(found) == [code]


def test_a_failed_transfer_returned_nothing():
    found = weigh_stale(response(n=2743, p=1, failed_lo=5), side())
    assert codes(found) == ["no_tokens_returned"]


def test_a_stub_whose_answer_has_no_end_on_record_is_never_excluded():
    """The client may have read a stream before it left: no Finish line is not no tokens."""
    found = weigh_stale(response(n=2743, p=1), side())
    assert found.tier is Tier.POSSIBLE
    assert codes(found) == ["counts_differ_unended"]


def test_one_recorded_token_without_an_end_is_no_proof_of_one_token():
    found = weigh_stale(response(n=2743, p=1, out=1, has_end=False), side())
    assert found.tier is not Tier.EXCLUDED


def test_a_fixed_build_excludes_a_refusal_without_tokens():
    fixed = side(stale_state="closed", version="0.5.23")
    assert codes(weigh_stale(response(n=2743, p=1), fixed)) == ["fixed_build"]
    assert codes(weigh_stale(response(n=2743), fixed)) == ["fixed_build"]


def test_counts_outrank_the_stated_build():
    found = weigh_stale(response(n=2743, p=1, out=64), side(stale_state="closed", version="0.5.23"))
    assert found.tier is Tier.CONFIRMED
    assert "fixed_build_contradicted" in codes(found)


def test_limits_and_build_make_it_probable_without_a_prefill_count():
    found = weigh_stale(response(n=2743, out=64), side())
    assert (found.tier, codes(found)) == (Tier.PROBABLE, ["over_limit_vulnerable"])
    assert weigh_stale(response(n=2041, out=64), side()).tier is Tier.NOT_ASSESSABLE
    assert weigh_stale(response(n=2042, out=64), side()).tier is Tier.PROBABLE


def test_an_unknown_prefill_over_a_known_limit_is_possible():
    found = weigh_stale(
        response(n=2743, out=64, prefill_worker_id=None), side(known=False, stale_state="unknown"))
    assert (found.tier, codes(found)) == (Tier.POSSIBLE, ["over_limit_unknown"])


def test_absence_of_a_refusal_excludes_only_with_a_covering_log_that_prints_it():
    short = response(n=900, out=64, received_lo=100 * 10**9, ended_hi=110 * 10**9)
    covering = side(log=log(0, 200), prints_every_refusal=True)
    assert codes(weigh_stale(short, covering)) == ["under_limit_covered"]
    for broken in (
        side(log=log(0, 200), prints_every_refusal=False),
        side(log=log(0, 105), prints_every_refusal=True),
        side(log=log(101, 200), prints_every_refusal=True),
        side(log=log(0, 200, has_boot=False), prints_every_refusal=True),
        # A log with one record per request would name this room: that it does not is a gap.
        side(log=log(0, 200, has_stats=True), prints_every_refusal=True),
    ):
        assert weigh_stale(short, broken).tier is Tier.NOT_ASSESSABLE


def test_reused_rooms_are_not_compared():
    found = weigh_stale(response(n=2743, p=2743, out=64, ambiguous=True), side())
    assert (found.tier, codes(found)) == (Tier.NOT_ASSESSABLE, ["pairing_ambiguous"])


def test_contradicting_prefill_counts_do_not_exclude():
    found = weigh_stale(
        response(n=2743, p_prompt_low=1, p_prompt_high=2743, out=64, prefill_seen=True), side())
    assert (found.tier, codes(found)) == (Tier.POSSIBLE, ["counts_contradict"])


def test_only_prefill_recorded():
    orphan = {"decode_worker_id": None, "use_id": None, "refs": None}
    assert codes(weigh_stale(response(p=900, **orphan), side())) == ["prefill_not_stub"]
    assert weigh_stale(response(p=1, **orphan), side()).tier is Tier.POSSIBLE
    assert weigh_stale(response(**orphan), side()).tier is Tier.NOT_ASSESSABLE


def test_truncation_is_confirmed_by_counts_and_excluded_by_the_switch():
    cut = response(n=5000, p=2042, out=64)
    assert weigh_truncated(cut, side(truncates=True)).tier is Tier.CONFIRMED
    assert weigh_truncated(cut, side(truncates=None)).tier is Tier.CONFIRMED
    assert weigh_truncated(cut, side(truncates=False)).tier is Tier.POSSIBLE
    unknown = response(n=5000, out=64)
    assert codes(weigh_truncated(unknown, side(truncates=False))) == ["truncate_off"]
    assert weigh_truncated(unknown, side(truncates=True)).tier is Tier.PROBABLE
    assert weigh_truncated(unknown, side(truncates=None)).tier is Tier.POSSIBLE
    assert codes(weigh_truncated(response(n=900, out=64), side(truncates=None))) == ["under_limit"]


COUNT = st.one_of(st.none(), st.integers(1, 6000))


@given(n=COUNT, p=COUNT, out=st.one_of(st.none(), st.integers(0, 200)), known=st.booleans(),
       state=st.sampled_from(["exposed", "closed", "unknown"]),
       limit=st.one_of(st.none(), st.integers(2, 5000)),
       truncates=st.sampled_from([True, False, None]))
def test_what_is_truly_stale_is_never_excluded(n, p, out, known, state, limit, truncates):
    """Hide any of the facts of a real stub hand-off: no hiding may turn it into 'excluded'.

    A fixed or closed build is a fact that refutes; with it a stub cannot have been handed over.
    """
    if state == "closed":
        return
    shown = response(n=3000 if n else None, p=1 if p else None, out=50 if out else None)
    found = weigh_stale(shown, side(
        known=known, stale_state=state, lowest_limit=2042 if limit else None, truncates=truncates))
    assert found.tier is not Tier.EXCLUDED
