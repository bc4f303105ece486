"""The incident report: its numbers, its links, its words, and that nothing gets out of its tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_case import (
    OPEN_FLEET,
    TIERS,
    excerpts,
    exposure,
    response,
    summary,
    worker,
)
from report_page import Page, case, render

from ingest.errors import ReportError
from ingest.excerpts import Excerpt, read_excerpts
from web.report import render_report, write_report
from web.report_rows import CAPS, collect


def test_numbers_are_those_of_the_records() -> None:
    page = Page(render(case()))
    text = page.text("main")
    assert "4 of 15 responses may contain another request's data: 2 confirmed, 1 probable, 1 " \
           "possible; 1 more cannot be assessed" in text
    # low, expected (2 + 0.7 + 0.2) and high (2 + 0.9 + 0.6, rounded up), n/a beside them
    assert "2 at least (proven), 2.9 expected" in text
    assert "4 at most (the sum of their upper ends), of 15 responses" in text
    assert "Beside these, never in them: 1 not assessable" in text
    for tier, number in zip(TIERS, (2, 1, 1, 1, 10), strict=True):
        anchor = "excluded" if tier == "excluded" else f"tier-{tier}"
        assert page.text(anchor).endswith(f": {number}")
    assert page.text("m-late_write") == "late write 0 0 1 possible 0 14 excluded"


def test_every_number_of_the_first_screen_leads_to_its_rows() -> None:
    page = Page(render(case()))
    linked = {(href, text.split()[0].replace(",", "")) for href, text in page.links if text}
    assert {("#tier-confirmed", "2"), ("#tier-probable", "1"), ("#tier-possible", "1"),
            ("#tier-not_assessable", "1"), ("#excluded", "10"), ("#how-many", "2.9"),
            ("#how-many", "4"), ("#m-stale_handoff", "3"), ("#m-late_write", "1"),
            ("#m-stale_handoff-confirmed", "2"), ("#m-late_write-possible", "1"),
            ("#worker-1-responses", "2"), ("#accounts", "2")} <= linked
    assert "7000000000000000003.0" in page.text("m-late_write-possible")
    assert page.text("m-stale_handoff-confirmed") == (
        "2 confirmed 7000000000000000000.0 7000000000000000001.0")


@pytest.mark.parametrize("records", [[], case(), [response(1, "excluded")],
                                     [response(n, t) for n, t in enumerate(TIERS)]])
def test_every_link_has_its_place_and_every_place_one_name(records: list[dict[str, Any]]) -> None:
    page = Page(render(records, [exposure(records[0], "123")] if records else []))
    assert [found for found, number in page.ids.items() if number > 1] == []
    hrefs = [href for href, _ in page.links]
    assert hrefs
    assert all(href.startswith("#") and href[1:] in page.ids for href in hrefs), [
        href for href in hrefs if href[1:] not in page.ids]


def test_expected_never_stands_without_its_bounds() -> None:
    page = Page(render(case()))
    text = page.text("main")
    for found in re.finditer(r"2\.9", text):
        around = text[max(0, found.start() - 60): found.end() + 60]
        assert "at least" in around, around
        assert "at most" in around, around


def test_tiers_are_defined_where_they_are_used() -> None:
    text = Page(render(case())).text("main")
    for definition in ("page-level or count-level records show it",
                       "every necessary condition was observed and the model puts it over",
                       "no necessary condition is refuted",
                       "a recorded fact refutes a necessary condition", "evidence is missing"):
        assert definition in text


def test_a_response_shows_reasons_lines_and_sources() -> None:
    records = case()
    pairs = [exposure(records[0], "4242"), exposure(records[0], None, probability=0.75)]
    page = Page(render(records, pairs))
    text = page.text("r-7000000000000000000-0")
    assert "Reason of 0. counts_differ_stub [1]" in text
    assert "logs/decode.log, line 17, byte 0" in text
    assert "cd" * 32 in text
    assert "[2026-09-08 00:00:00 TP0] ReqTimeStats(line of 3:0)" in text
    assert "4242.0 acct-source stale hand-off possible 0.25 12" in text
    assert "all others – stale hand-off possible 0.75" in text
    assert "HTTP status (proves nothing) 200" in text
    assert "decode rid rid-0" in text
    assert ("#r-7000000000000000000-0-l1", "[1]") in page.links


def test_a_source_that_a_page_trace_names_is_no_guess() -> None:
    records = case()
    named = exposure(records[0], "4242", tier="confirmed", probability=1.0, pages=5,
                     page_extents=[[193, 1], [720, 4]],
                     reasons=[{"code": "source_page", "text": "Named as last writer.",
                               "evidence": []}])
    guessed = exposure(records[1], "4243")
    page = Page(render(records, [named, guessed]))
    first = page.text("r-7000000000000000000-0")
    assert ("4242.0 acct-source stale hand-off confirmed 1 5 Named as last writer. "
            "Page numbers: 193, 720–723.") in first
    assert "never one owner" not in first
    second = page.text("r-7000000000000000001-0")
    assert "Logs name a set with weights, never one owner." in second
    assert "Page numbers" not in second


def test_accounts_stand_in_both_roles() -> None:
    records = case()
    records[5] = response(5, "excluded", account="acct-source", source_tier="possible",
                          source_probability=0.25)
    page = Page(render(records, [exposure(records[0], "4242")]))
    accounts = {page.text(found).split()[0]: page.text(found) for found in page.ids
                if found.startswith("account-")}
    assert accounts["acct-source"].startswith("acct-source 0 / 0 / 0")
    assert "0 / 0.25 / 1 (1 possible)" in accounts["acct-source"]
    assert "7000000000000000000.0" in accounts["acct-source"]
    assert accounts["acct-0"].startswith("acct-0 1 / 1.2 / 2 (1 confirmed, 1 possible)")
    assert "acct-2" in accounts  # a probable response


def test_unknown_accounts_are_said_to_be_unknown() -> None:
    records = [r | {"account": None} for r in case()]
    party = {"low": 0, "expected": 0.0, "high": 0, "not_assessable": 0}
    page = Page(render(records, accounts={"as_recipient": party, "as_source": party,
                                          "known": False}))
    assert "Nothing in the evidence says which account" in page.text("main")
    assert "Accounts are not known" in page.text("main")


HOSTILE = [
    "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "'--></style><script>",
    "{{ 7 * 7 }}{% raw %}", "\u202egnp.exe\u2066", "\x1b[31mred\x00\x07", "x" * 5000,
    "&lt;b&gt;", "\ud800lone", "Z\u0334\u0321\u0334\u0321algo", "]]><!--",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text: str, tmp_path: Path) -> None:
    records = [response(n, tier, rid=text, account=text, model=text, prefill_worker=text,
                        finish_reason=text, request_id=text)
               for n, tier in enumerate(TIERS)]
    records[0]["reasons"] = [{"code": text, "text": text, "evidence": ["3:1", text]}]
    records.append(response(9, "confirmed", room=text, decode_worker=text))
    pairs = [exposure(records[0], text, source_account=text)]
    fleet = [worker(text, "prefill", text, {"stale_handoff": "exposed"}, host=text, backend=text,
                    role_basis=text, switches={text: text}),
             *OPEN_FLEET]
    shared = summary(records, fleet)
    shared["findings"] = [{"code": text, "text": text, "evidence": [text]}]
    shared["missing"] = [{"what": text, "why": text, "switch": text}]
    shared["evidence"] = [shared["evidence"][0] | {"name": text, "format": text, "status": text}]
    lines = {"3:1": Excerpt(3, text, 1, 1, text, text, text)}
    target = tmp_path / "report.html"
    write_report(target, shared, records, pairs, lambda ids: lines)
    page = Page(target.read_text(encoding="utf-8"))
    plain = Page(render(case(), [exposure(case()[0], "1")]))
    assert not page.tags.keys() - plain.tags.keys()
    assert page.tags["script"] == page.tags["img"] == 0
    assert {name for _, name, _ in page.attributes} <= {name for _, name, _ in plain.attributes}
    assert all(href[1:] in page.ids for href, _ in page.links)
    whole = target.read_text(encoding="utf-8")
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\x00-\x08\x0b-\x1f\x7f]", whole)
    assert "x" * 2000 not in whole


def test_the_page_loads_nothing() -> None:
    text = render(case(), [exposure(case()[0], "1")])
    page = Page(text)
    assert page.tags["script"] == page.tags["link"] == page.tags["iframe"] == 0
    assert not [a for a in page.attributes if a[1] in ("src", "srcset", "style", "action", "poster")
                or a[1].startswith("on")]
    assert all((value or "").startswith("#") for _, name, value in page.attributes
               if name == "href")
    assert not re.search(r"url\(|@import|refresh", text)
    assert ("meta", "content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in (
        page.attributes)


def test_a_reader_without_eyes_finds_the_way() -> None:
    page = Page(render(case(), [exposure(case()[0], "1")]))
    assert page.tags["main"] == page.tags["header"] == page.tags["footer"] == page.tags["h1"] == 1
    assert page.tags["caption"] == page.tags["table"]
    assert ("html", "lang", "en") in page.attributes
    assert ("#main", "Skip to the report") in page.links
    scopes = sum(name == "scope" for _, name, _ in page.attributes)
    assert scopes == page.tags["th"]
    labelled = [value for _, name, value in page.attributes if name == "aria-labelledby"]
    assert len(labelled) > 8
    assert all(value in page.ids for value in labelled)


def test_rows_are_capped_and_the_cap_is_stated() -> None:
    total = CAPS["possible"] + 300

    def many() -> Iterator[dict[str, Any]]:
        for n in range(total):
            yield response(n, "possible", recipient_probability=(n % 100) / 100)

    page = Page(render(many()))
    shown = [found for found in page.ids if re.fullmatch(r"r-\d+-0", found)]
    # The first and the last exposed response are there beside those with the highest probability.
    assert CAPS["possible"] <= len(shown) <= CAPS["possible"] + 2
    for number in (0, 99, total - 1):
        assert f"r-{7_000_000_000_000_000_000 + number}-0" in page.ids
    text = page.text("main")
    assert f"the other {total - len(shown)} stand in responses.jsonl" in text
    assert f"at most {CAPS['possible']} per tier, highest probability first" in text
    assert page.text("tier-possible").endswith(f": {total}")


def test_a_million_excluded_responses_are_counted_not_kept() -> None:
    record = response(1, "excluded")
    rows = collect((record for _ in range(20_000)), iter(()))
    assert rows.excluded_codes == {"counts_equal": 20_000, "no_trigger": 20_000}
    assert not any(rows.shown.values())


def test_the_same_inputs_give_the_same_bytes_in_any_order() -> None:
    records = case()
    pairs = [exposure(records[0], str(n)) for n in range(3)]
    once = render(records, pairs)
    assert once == render(records, pairs)
    shuffled = [records[i] for i in (3, 0, 2, 1, *range(14, 3, -1))]
    again = render_report(summary(records), iter(shuffled), iter(pairs), excerpts)
    assert again == once


def test_a_room_that_was_used_twice_has_two_places() -> None:
    first = response(1, "confirmed")
    second = response(1, "confirmed", decode_worker="decode-c")
    page = Page(render([first, second]))
    assert {"r-7000000000000000001-0", "r-7000000000000000001-0-2"} <= page.ids.keys()


def test_unknown_clock_zone_is_said() -> None:
    fleet = [worker("decode-b", "decode", "0.5.18", {"late_write": "exposed"},
                    clock={"zone_offset_s": None, "basis": "nothing", "steps_back_s": 0.0})]
    text = Page(render(case(), fleet=fleet)).text("main")
    assert "The clock zone of decode-b is not recorded: times are bounds" in text


def test_coverage_may_carry_shares() -> None:
    records = case()
    coverage = {level: {"responses": 15 if level == "L4" else 0, "share": 0.0}
                for level in ("L0", "L1", "L2", "L3", "L4")}
    text = Page(render(records, coverage=coverage)).text("main")
    assert "15 of 15 responses: page traces (L4)" in text
    assert "L4 page traces 15 100.0 %" in text


def test_writing_is_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    write_report(target, summary(case()), case(), [], excerpts)
    before = target.read_bytes()
    assert before.startswith(b"<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(ZeroDivisionError):
        write_report(target, summary(case()), (1 / 0 for _ in "x"), [], excerpts)
    assert target.read_bytes() == before
    with pytest.raises(ReportError, match=r"report\.html could not be written"):
        write_report(tmp_path / "gone" / "report.html", summary(case()), case(), [], excerpts)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_colour_can_be_read_on_every_ground() -> None:
    css = re.sub(r"#([0-9a-f])([0-9a-f])([0-9a-f])(?![0-9a-f])", r"#\1\1\2\2\3\3", render([]))
    schemes = re.findall(r":root \{([^}]*--ground[^}]*)\}", css)
    assert len(schemes) == 3  # light, dark, print
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", scheme))
        for ground in ("ground", "panel", "code", "mark"):
            for ink in colours.keys() - {"ground", "panel", "code", "mark", "line"}:
                light, dark = sorted((luminance(colours[ink]), luminance(colours[ground])))[::-1]
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)


def test_the_sample_case(sample: Any) -> None:
    """The report of sample_logs/: real lines of a real stale hand-off, read again and redacted."""
    text = render_report(sample.summary, iter(sample.responses), iter(sample.exposures),
                         lambda ids: read_excerpts(sample.con, ids))
    page = Page(text)
    assert all(href[1:] in page.ids for href, _ in page.links)
    confirmed = [r for r in sample.responses if r["recipient_tier"] == "confirmed"]
    assert confirmed
    for record in confirmed:
        inside = page.text(f"r-{record['room']}-{record['attempt']}")
        assert f"input_len={record['prompt_tokens']}" in inside
        assert "input_len=1," in inside
        assert "self.rid=" in inside
    assert page.text("tier-confirmed").endswith(f": {len(confirmed)}")
    assert "Assume yes" in page.text("main")
    assert "was not read again" not in page.text("main")
    again = render_report(sample.summary, iter(sample.responses), iter(sample.exposures),
                          lambda ids: read_excerpts(sample.con, ids))
    assert again == text
