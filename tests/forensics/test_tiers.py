"""Tiers and the combination of probabilities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.reasons import REASONS, reason
from forensics.tiers import Tier, Weighing, combine, excluded, highest, unknown


def possible(p: float, low: float = 0.0, high: float = 1.0) -> Weighing:
    return Weighing("late_write", Tier.POSSIBLE, p, low, high, ())


def test_order_of_tiers():
    assert highest([Tier.EXCLUDED, Tier.NOT_ASSESSABLE]) is Tier.NOT_ASSESSABLE
    assert highest([Tier.NOT_ASSESSABLE, Tier.POSSIBLE]) is Tier.POSSIBLE
    assert highest([Tier.PROBABLE, Tier.CONFIRMED, Tier.POSSIBLE]) is Tier.CONFIRMED
    assert highest([]) is Tier.NOT_ASSESSABLE


def test_independent_mechanisms_combine():
    p, low, high = combine([possible(0.5, 0.25, 0.75), possible(0.5, 0.0, 0.5), excluded("x")])
    assert (p, low, high) == (0.75, 0.25, 0.875)


def test_an_unassessed_mechanism_leaves_the_interval_open():
    assert combine([possible(0.1, 0.0, 0.2), unknown("x")])[2] == 1.0
    assert combine([unknown("x"), unknown("y")]) == (None, None, None)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)), max_size=4))
def test_bounds_always_hold_the_value(bounds):
    weighed = [possible(*(sorted(b)[1], sorted(b)[0], sorted(b)[2])) for b in bounds]
    p, low, high = combine(weighed)
    if weighed:
        assert low - 1e-12 <= p <= high + 1e-12


def test_a_weighing_refuses_impossible_numbers():
    with pytest.raises(ValueError, match="fails"):
        Weighing("late_write", Tier.POSSIBLE, 0.5, 0.6, 1.0, ())
    with pytest.raises(ValueError, match="assessable"):
        Weighing("late_write", Tier.NOT_ASSESSABLE, 0.5, 0.0, 1.0, ())


def test_a_reason_needs_its_values():
    text = reason("counts_equal", d=7).text
    assert text == "Both roles counted the same 7 prompt tokens for this room."
    with pytest.raises(KeyError):
        reason("counts_equal")
    assert all(text.endswith((".", "decide.")) for text in REASONS.values())
