"""Page queries on rows small enough to check by hand."""

from __future__ import annotations

from typing import Any

import pytest

import queries
from tests.queries.page_tables import answer, fetch, header, load

EVENT = dict[str, Any]


def ev(t: int, name: str, room: int, pages: list[list[int]] | None = None, **more: Any) -> EVENT:
    found: EVENT = {"t": t, "ev": name, "room": room, "rid": f"r{room}", **more}
    return found if pages is None else found | {"pages": pages}


def send(t: int, end: int, room: int, pages: list[list[int]], tokens: int, *, ok: bool = True,
         chunk: int = 0) -> list[EVENT]:
    shared = {"tokens": tokens, "chunk": chunk, "dst_session": "d"}
    return [ev(t, "send_begin", room, pages, **shared),
            ev(end, "send_end", room, pages, ok=ok, **shared)]


def life(t: int, room: int, pages: list[list[int]], tokens: int, end: int, *, output: int = 2,
         commit: int | None = None) -> list[EVENT]:
    return [ev(t, "alloc", room, pages, tokens=tokens, why="prealloc"),
            ev(commit or end - 10, "commit", room, pages, tokens=tokens),
            ev(end, "finish", room, tokens=output), ev(end, "free", room, pages, why="finish")]


def test_request_extent_and_growth() -> None:
    trace = [header("decode"), ev(10, "alloc", 7, [[1, 2], [5, 1]], tokens=3, why="prealloc"),
             ev(20, "commit", 7, tokens=3), ev(30, "alloc", 7, [[9, 1]], tokens=1, why="growth"),
             ev(40, "finish", 7, tokens=2), ev(40, "free", 7, [[1, 2], [5, 1], [9, 1]],
                                               why="finish")]
    con = answer(trace)
    assert fetch(con, "SELECT host, role, dp_rank, boot, room, rid, use_no, t_alloc, t_commit, "
                 "t_free, why_free, n_pages, n_prompt_pages, prompt_tokens, output_tokens, "
                 "attended FROM page_request") == [
        ("decode", "decode", 0, 0, 7, "r7", 0, 10, 20, 40, "finish", 4, 3, 3, 2, True)]
    assert fetch(con, "SELECT start_page, n_pages, t_alloc, t_free, is_growth "
                 "FROM page_extent") == [
        (1, 2, 10, 40, False), (5, 1, 10, 40, False), (9, 1, 30, 40, True)]
    assert fetch(con, "SELECT kind, start_page, t_start, t_end, ok FROM page_write") == [
        ("growth", 9, 30, 40, True)]
    # Nothing was sent in any trace: that is no coverage, and no finding either.
    assert fetch(con, "SELECT stale, late, coverage FROM page_suspect") == [
        (None, None, "untraced")]
    assert fetch(con, "FROM page_stale") == []


def test_room_is_used_twice_and_touches() -> None:
    trace = [header("decode"), *life(10, 7, [[1, 2]], 2, 30), *life(30, 7, [[1, 2]], 2, 60)]
    con = answer(trace)
    assert fetch(con, "SELECT use_no, t_alloc, t_free FROM page_request") == [
        (0, 10, 30), (1, 30, 60)]
    assert fetch(con, "SELECT t_alloc, t_free FROM page_extent") == [(10, 30), (30, 60)]


def test_sends_go_to_the_use_that_began_before_them() -> None:
    decode = [header("decode"), *life(10, 7, [[1, 1]], 1, 30), *life(50, 7, [[1, 1]], 1, 80)]
    prefill = [header("prefill"), *send(12, 14, 7, [[1, 1]], 1), *send(52, 54, 7, [[1, 1]], 1)]
    con = answer(decode, prefill)
    assert fetch(con, "SELECT r.use_no, w.t_start, w.t_end, w.placed, w.n_candidates "
                 "FROM page_write AS w JOIN page_request AS r USING (owner_id)") == [
        (0, 12, 14, "room", 2), (1, 52, 54, "room", 2)]
    # Two uses fit by room: that is said, not hidden.
    assert fetch(con, "SELECT stale, coverage FROM page_suspect") == [(False, "events lost")] * 2


def test_open_ends_stay_open() -> None:
    con = answer([header("decode"), ev(10, "alloc", 7, [[1, 1]], tokens=1, why="prealloc")],
                 [header("prefill"), send(12, 14, 7, [[1, 1]], 1)[0]])
    assert fetch(con, "SELECT t_free, attended FROM page_request") == [(None, None)]
    assert fetch(con, "SELECT t_free FROM page_extent") == [(None,)]
    assert fetch(con, "SELECT t_start, t_end, ok FROM page_write") == [(12, None, None)]


def test_pages_freed_one_by_one() -> None:
    con = answer([header("decode"), ev(10, "alloc", 7, [[1, 3]], tokens=3, why="prealloc"),
                  ev(20, "free", 7, [[2, 1]], why="evict"), ev(30, "free", 7, [[1, 1]])])
    assert fetch(con, "SELECT start_page, n_pages, t_free FROM page_extent") == [
        (1, 1, 30), (2, 1, 20), (3, 1, None)]
    assert fetch(con, "SELECT t_free, n_frees FROM page_request") == [(None, 2)]


def test_free_without_pages_frees_all() -> None:
    con = answer([header("decode"), ev(10, "alloc", 7, [[1, 3]], tokens=3, why="prealloc"),
                  ev(20, "free", 7, why="abort")])
    assert fetch(con, "SELECT t_free FROM page_extent") == [(20,)]


def test_stub_names_the_last_writer_and_the_prefill_page() -> None:
    """Room 3 takes pages 1-3; prefill sends a stub of one token into the first (page size 4)."""
    sized = {"page_size": 4}
    decode = [header("decode", **sized), *life(10, 1, [[1, 2]], 8, 40, output=2),
              *life(50, 2, [[3, 1]], 4, 90, output=2),
              *life(100, 3, [[1, 3]], 10, 200, output=5)]
    prefill = [
        header("prefill", **sized),
        ev(11, "alloc", 1, [[5, 2]], tokens=8, why="prefill"), *send(20, 25, 1, [[1, 2]], 8),
        ev(26, "free", 1, [[5, 2]], why="finish"),
        ev(51, "alloc", 2, [[7, 1]], tokens=4, why="prefill"), *send(60, 65, 2, [[3, 1]], 4),
        ev(66, "free", 2, [[7, 1]], why="finish"),
        ev(101, "alloc", 3, [[5, 1]], tokens=1, why="prefill"), *send(110, 115, 3, [[1, 1]], 1),
        ev(116, "free", 3, [[5, 1]], why="finish")]
    con = answer(decode, prefill)
    assert fetch(con, "SELECT room, n_prompt_pages, pages_on_time, sent_tokens, prompt_tokens, "
                 "stale, late, coverage FROM page_suspect") == [
        (3, 3, 1, 1, 10, True, None, "whole")]
    assert fetch(con, "SELECT page_no, page_index, via, held_page_no, depth, source_room, tokens, "
                 "definite FROM page_stale") == [
        (1, 0, "prefill_stub", 5, 1, 1, 3, True), (2, 1, "decode_pool", 2, 1, 1, 4, True),
        (3, 2, "decode_pool", 3, 1, 2, 2, True)]


def test_a_page_that_nobody_wrote_has_no_source() -> None:
    decode = [header("decode"), *life(10, 3, [[1, 2]], 2, 90)]
    con = answer(decode, [header("prefill"), *send(20, 25, 3, [[1, 1]], 1)])
    assert fetch(con, "SELECT page_no, source_room, tokens FROM page_stale") == [(2, None, 1)]


def test_an_owner_that_wrote_nothing_is_no_source() -> None:
    """Room 1 wrote page 2, room 2 owned it and was aborted before its transfer: the source is 1."""
    decode = [header("decode"), *life(10, 1, [[2, 1]], 1, 30),
              ev(35, "alloc", 2, [[2, 1]], tokens=1, why="prealloc"),
              ev(40, "free", 2, [[2, 1]], why="abort"), *life(50, 3, [[1, 2]], 2, 90)]
    prefill = [header("prefill"), *send(12, 15, 1, [[2, 1]], 1), *send(60, 65, 3, [[1, 1]], 1)]
    con = answer(decode, prefill)
    assert fetch(con, "SELECT page_no, source_room FROM page_stale") == [(2, 1)]


def test_the_later_of_two_writers_is_the_source_for_certain() -> None:
    decode = [header("decode"), *life(10, 1, [[2, 1]], 1, 30), *life(32, 2, [[2, 1]], 1, 48),
              *life(50, 3, [[1, 2]], 2, 90)]
    prefill = [header("prefill"), *send(12, 15, 1, [[2, 1]], 1), *send(34, 36, 2, [[2, 1]], 1),
               *send(60, 65, 3, [[1, 1]], 1)]
    rows = "SELECT page_no, depth, source_room, tokens, definite FROM page_stale"
    assert fetch(answer(decode, prefill), rows) == [(2, 1, 2, 1, True)]
    # Sends 19 ns apart on one clock stay in order; against the commit the slack counts.
    assert fetch(answer(decode, prefill, slack_ns=20), rows)[-1][2:] in {
        (2, 1, False), (1, None, False)}


def test_full_token_counts_do_not_hide_a_missing_page() -> None:
    decode = [header("decode"), *life(10, 3, [[1, 2]], 2, 90)]
    for sends in (send(20, 25, 3, [[1, 1]], 2),  # the count says more than the pages
                  [*send(20, 25, 3, [[1, 1]], 1), *send(30, 35, 3, [[7, 1]], 1, chunk=1)]):
        con = answer(decode, [header("prefill"), *sends])
        assert fetch(con, "SELECT pages_on_time, n_prompt_pages, stale FROM page_suspect") == [
            (1, 2, True)]
        assert fetch(con, "SELECT page_no FROM page_stale") == [(2,)]


def test_a_chunk_sent_twice_does_not_stand_for_a_missing_one() -> None:
    decode = [header("decode"), *life(10, 3, [[1, 2]], 2, 90)]
    con = answer(decode, [header("prefill"), *send(20, 25, 3, [[1, 1]], 1),
                          *send(30, 35, 3, [[1, 1]], 1, chunk=1)])
    assert fetch(con, "SELECT resent, stale FROM page_suspect") == [(True, True)]
    assert fetch(con, "SELECT page_no FROM page_stale") == [(2,)]


def test_failed_own_send_does_not_count_as_on_time() -> None:
    decode = [header("decode"), *life(50, 3, [[1, 2]], 2, 90)]
    con = answer(decode, [header("prefill"), *send(60, 65, 3, [[1, 1]], 1),
                          *send(66, 68, 3, [[2, 1]], 1, ok=False, chunk=1)])
    assert fetch(con, "SELECT pages_on_time, stale, late FROM page_suspect") == [(1, True, "open")]
    assert fetch(con, "SELECT page_no, definite FROM page_stale") == [(2, False)]


@pytest.mark.parametrize(("end", "found"), [
    (55, "repaired"), (69, "before_attend"), (72, "during_decode"), (95, "after_last_read"),
])
def test_late_write_by_when_it_lands(end: int, found: str) -> None:
    """Room 1 is freed at 30; room 2 owns its page from 40, writes it at 60-65, commits at 70."""
    decode = [header("decode"), ev(10, "alloc", 1, [[1, 1]], tokens=1, why="prealloc"),
              ev(30, "free", 1, [[1, 1]], why="abort"),
              ev(40, "alloc", 2, [[1, 1]], tokens=1, why="prealloc"),
              ev(70, "commit", 2, tokens=1), ev(90, "finish", 2, tokens=5),
              ev(100, "free", 2, [[1, 1]], why="finish")]
    prefill = [header("prefill"), *send(20, end, 1, [[1, 1]], 1), *send(60, 65, 2, [[1, 1]], 1)]
    con = answer(decode, prefill)
    assert fetch(con, "SELECT room, late FROM page_suspect") == [(1, "definite")]
    assert fetch(con, "SELECT room, source_room, page_no, class, possible, definite "
                 "FROM page_late_write") == [(2, 1, 1, found, found != "repaired", False)]


def test_late_write_is_definite_if_it_cannot_have_landed_otherwise() -> None:
    decode = [header("decode"), ev(10, "alloc", 1, [[1, 1]], tokens=1, why="prealloc"),
              ev(30, "free", 1, [[1, 1]], why="abort"), *life(40, 2, [[1, 1]], 1, 100, commit=70)]
    prefill = [header("prefill"), *send(72, 80, 1, [[1, 1]], 1), *send(60, 65, 2, [[1, 1]], 1)]
    rows = "SELECT room, class, possible, definite FROM page_late_write"
    assert fetch(answer(decode, prefill), rows) == [(2, "during_decode", True, True)]
    assert fetch(answer(decode, prefill, slack_ns=5), rows) == [(2, "during_decode", True, False)]


def test_failed_send_has_an_open_end_and_an_unread_page_no_harm() -> None:
    decode = [header("decode"), ev(10, "alloc", 1, [[1, 2]], tokens=2, why="prealloc"),
              ev(30, "free", 1, [[1, 2]], why="transfer_failed"),
              *life(40, 2, [[1, 1]], 1, 100), *life(110, 3, [[1, 1]], 1, 200),
              ev(40, "alloc", 4, [[2, 1]], tokens=1, why="prealloc"),
              ev(50, "free", 4, [[2, 1]], why="abort")]
    prefill = [header("prefill"), *send(20, 25, 1, [[1, 2]], 2, ok=False),
               *send(60, 65, 2, [[1, 1]], 1), *send(120, 125, 3, [[1, 1]], 1)]
    con = answer(decode, prefill)
    assert fetch(con, "SELECT room, page_no, class, possible, definite FROM page_late_write") == [
        (2, 1, "open_end", True, False), (3, 1, "open_end", True, False),
        (4, 2, "unread", False, False)]


def test_growth_pages_are_vulnerable_at_once() -> None:
    decode = [header("decode"), ev(10, "alloc", 1, [[1, 1]], tokens=1, why="prealloc"),
              ev(30, "free", 1, [[1, 1]], why="abort"),
              ev(11, "alloc", 2, [[2, 1]], tokens=1, why="prealloc"), ev(30, "commit", 2, tokens=1),
              ev(40, "alloc", 2, [[1, 1]], tokens=1, why="growth"),
              ev(90, "finish", 2, tokens=9), ev(90, "free", 2, [[2, 1], [1, 1]], why="finish")]
    prefill = [header("prefill"), *send(15, 18, 2, [[2, 1]], 1), *send(20, 50, 1, [[1, 1]], 1)]
    con = answer(decode, prefill)
    assert fetch(con, "SELECT room, class, is_growth FROM page_late_write") == [
        (2, "during_decode", True)]


def test_slack_makes_more_possible_never_less() -> None:
    decode = [header("decode"), ev(10, "alloc", 1, [[1, 1]], tokens=1, why="prealloc"),
              ev(30, "free", 1, [[1, 1]], why="abort"), *life(32, 2, [[1, 1]], 1, 100)]
    prefill = [header("prefill"), *send(20, 28, 1, [[1, 1]], 1), *send(60, 65, 2, [[1, 1]], 1)]
    late = "SELECT room, late FROM page_suspect WHERE late IS NOT NULL"
    assert fetch(answer(decode, prefill), late) == []
    assert fetch(answer(decode, prefill, slack_ns=3), late) == [(1, "possible")]


def test_what_no_trace_covers_is_said() -> None:
    decode = [header("decode"), *life(10, 1, [[1, 1]], 1, 40)]
    prefill = [header("prefill"), *send(20, 25, 1, [[1, 1]], 1)]
    coverage = "SELECT room, stale, coverage FROM page_suspect"
    assert fetch(answer(decode, prefill), coverage) == []
    for traces, said in (
        ((decode,), (1, None, "untraced")),
        ((decode[1:], prefill), (1, False, "rejects or no header")),
        ((decode, prefill[1:]), (1, False, "rejects or no header")),
        ((decode, [*prefill, {"ev": 5}]), (1, False, "rejects or no header")),
        ((decode, [*prefill, *send(30, 35, 9, [[3, 1]], 1)]), (1, False, "events lost")),
        (([*decode, ev(50, "commit", 8)], prefill), (1, False, "events lost")),
    ):
        assert said in fetch(answer(*traces), coverage), said


def test_missing_token_counts_leave_it_open() -> None:
    decode = [header("decode"), *life(10, 1, [[1, 1]], 1, 40)]
    bare = [{k: v for k, v in event.items() if k != "tokens"}
            for event in send(20, 25, 1, [[1, 1]], 1)]
    assert fetch(answer(decode, [header("prefill"), *bare]),
                 "SELECT stale, coverage FROM page_suspect") == [(None, "no token counts")]


def test_restart_and_second_rank_are_pools_of_their_own() -> None:
    trace = [header("decode"), *life(10, 1, [[1, 1]], 1, 40), header("decode", start_ts_ns=50),
             *life(60, 1, [[1, 1]], 1, 90)]
    other = [header("decode", dp_rank=1, tp_rank=2), *life(10, 5, [[1, 1]], 1, 40)]
    copy = [header("decode", tp_rank=1), *life(10, 1, [[1, 1]], 1, 40)]
    con = answer(trace, other, copy)
    assert fetch(con, "SELECT dp_rank, boot, room, use_no FROM page_request") == [
        (0, 0, 1, 0), (0, 1, 1, 0), (1, 0, 5, 0)]
    assert len(fetch(con, "SELECT DISTINCT pool_id FROM page_request")) == 3


def test_replaced_evidence_does_not_count() -> None:
    con = load([header("decode"), *life(10, 1, [[1, 1]], 1, 40)])
    con.execute('UPDATE evidence SET "current" = false')
    queries.run(con, "page_stretch")
    assert fetch(con, "FROM page_stretch") == []
