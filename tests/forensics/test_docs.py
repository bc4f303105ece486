"""The documentation names every reason code and tier with the sentence that verdicts print."""

from __future__ import annotations

from pathlib import Path

from forensics.reasons import REASONS
from forensics.tiers import MECHANISMS, Tier

README = (Path(__file__).parents[2] / "forensics" / "README.md").read_text(encoding="utf-8")


def test_every_reason_is_documented_as_it_is_printed():
    for code, text in REASONS.items():
        assert f"| `{code}` | {text} |" in README, code


def test_no_documented_reason_is_gone():
    documented = {line.split("`")[1] for line in README.split("## Reason codes")[1].splitlines()
                  if line.startswith("| `")}
    assert documented == set(REASONS)


def test_every_tier_and_mechanism_is_documented():
    assert all(f"`{name}`" in README for name in (*Tier, *MECHANISMS))
