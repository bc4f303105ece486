"""What the report says without a finding, and what it advises with one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from report_case import (
    FIXED_FLEET,
    OPEN_FLEET,
    response,
    summary,
    worker,
)
from report_page import Page, render

from web.report_advice import steps


@pytest.mark.parametrize("fleet", [OPEN_FLEET, FIXED_FLEET, []])
def test_no_finding_is_an_explicit_result_and_no_all_clear(fleet: list[dict[str, Any]]) -> None:
    page = Page(render([response(n, "excluded") for n in range(7)], fleet=fleet))
    text = page.text("main")
    assert "No exposure was found: recorded facts exclude all 7 responses in this evidence." in text
    assert "That says nothing of any other response." in text
    assert "later traffic is not covered" in text
    for tier in ("confirmed", "probable", "possible", "not_assessable"):
        assert page.text(f"tier-{tier}").endswith(": 0")
    assert page.text("excluded").endswith(": 7")
    assert "counts_equal Both roles counted the same … prompt tokens for this room. 7" in text
    words = text.lower()
    assert not re.search(r"\b(safe|all clear|no risk|unaffected|secure)\b", words)
    going_on = {"exposed": "None found; builds are open", "closed": "None found "}[
        fleet[0]["knowledge"]["stale_handoff"]["state"]] if fleet else "None found; builds are open"
    assert going_on in text


def test_nothing_to_read_is_not_assessable() -> None:
    text = Page(render([], fleet=[], missing=[], findings=[], evidence=[])).text("main")
    assert "No response was found in this evidence: nothing is assessable." in text
    assert "This is not an all-clear." in text
    assert "Cannot be told" in text
    assert "No exposure was found" not in text
    assert "That is no proof that nothing is missing" in text
    assert "Get the missing records and analyse again" in text


def test_what_cannot_be_assessed_is_never_called_clean() -> None:
    records = [response(1, "not_assessable"), response(2, "excluded")]
    text = Page(render(records, fleet=FIXED_FLEET)).text("main")
    assert "No exposure was found, but 1 of 2 responses cannot be assessed: this is not an " \
           "all-clear." in text
    assert "Is it still going on? Cannot be told" in text
    assert "Since when? (UTC) Not known" in text


def test_it_goes_on_as_long_as_the_builds_allow_it() -> None:
    records = [response(1, "confirmed"), response(50, "excluded")]
    text = Page(render(records)).text("main")
    assert "Assume yes At the last evidence, prefill-a runs a build open to stale hand-off." in text
    assert "ended at 2026-09-08 00:01:30 UTC, 49 min before its end" in text
    fixed = Page(render(records, fleet=FIXED_FLEET)).text("main")
    assert "Not seen at the end" in fixed
    assert "Assume yes" not in fixed
    unknown = Page(render(records, fleet=[])).text("main")
    assert "Assume yes At the last evidence, no worker's build is known." in unknown


def titles(records: list[dict[str, Any]], fleet: list[dict[str, Any]]) -> list[str]:
    return [step.title for step in steps(summary(records, fleet))]


def test_advice_follows_mechanism_and_build() -> None:
    stale = titles([response(1, "confirmed")], OPEN_FLEET)
    assert stale[:2] == [
        "Stop hand-offs from prefill worker prefill-a",
        "If the model must stay up: refuse prompts of 681,274 tokens and more at the gateway"]
    assert "Upgrade prefill worker prefill-a to 0.5.22 or later" in stale
    assert not any("Drain" in title for title in stale)
    late = titles([response(1, "possible", "late_write")], OPEN_FLEET)
    assert late[0] == "Drain decode worker decode-b and serve without disaggregation"
    assert "Upgrade both roles together to 0.5.22 or later" in late
    fixed = titles([response(1, "excluded")], FIXED_FLEET)
    assert fixed == ["Copy the evidence before you restart anything", "Test with canary prompts"]


def test_deferred_release_is_advised_only_where_it_helps() -> None:
    def advised(version: str, backend: str) -> bool:
        fleet = [worker("d", "decode", version, {"late_write": "exposed"}, backend=backend)]
        return any("deferred release" in t for t in titles(
            [response(1, "possible", "late_write")], fleet))

    assert advised("0.5.19", "mooncake")
    assert not advised("0.5.18", "mooncake")  # the switch does not exist
    assert not advised("0.5.21", "mori")  # the build ignores it
    assert not advised("0.5.22", "mooncake")  # it is on unless it was turned off


def test_a_length_limit_is_not_advised_where_length_cannot_open_it() -> None:
    fleet = [OPEN_FLEET[0], worker("decode-b", "decode", "0.5.18", {"late_write": "exposed"},
                                   pools=[{"max_req_input_len": 1000}])]
    found = titles([response(1, "confirmed")], fleet)
    assert "Prompt length alone does not open this here" in found
    assert not any("refuse prompts" in title for title in found)


def test_a_mechanism_without_advice_of_its_own_still_has_a_stop() -> None:
    shared = summary([response(1, "possible", "late_write")], FIXED_FLEET)
    shared["mechanisms"] = {"offload_race": shared["mechanisms"]["late_write"]}
    assert steps(shared)[0].title == "Take the workers of the exposed responses out of service"
    assert "offload race" in steps(shared)[0].text


def test_the_context_length_switch_is_named() -> None:
    texts = " ".join(step.text for step in steps(summary([response(1, "confirmed")], OPEN_FLEET)))
    assert "--context-length" in texts
    assert "prefill and decode together" in " ".join(
        step.text for step in steps(summary([response(1, "possible", "late_write")], OPEN_FLEET)))
