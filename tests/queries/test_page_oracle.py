"""Page queries against a brute-force pool: random lives, stubs, aborts and late writes."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import queries
from tests.oracle import Oracle
from tests.queries.page_tables import ORDER, answer, fetch, header, load
from tests.queries.test_headers import declared

PAGES = 10


def play(seed: int, steps: int) -> Oracle:
    """Random requests on ten pages; half of the sends of aborted requests end after the free."""
    rng, oracle, room = random.Random(seed), Oracle(), 0
    flying: list[tuple[int, list[int], int]] = []
    waiting: list[int] = []
    running: dict[int, int] = {}
    for _ in range(steps):
        free = [page for page in range(1, PAGES + 1) if page not in oracle.owner]
        act = rng.choice(("alloc", "alloc", "land", "land", "commit", "grow", "finish", "abort"))
        if act == "alloc" and free:
            room += 1
            pages = rng.sample(free, rng.randint(1, min(3, len(free))))
            oracle.alloc(room, pages)
            waiting.append(room)
            # A stub: the last pages are never sent.
            sent = pages[: rng.randint(1, len(pages))] if rng.random() < 0.5 else pages
            for chunk, page in enumerate(sent):
                oracle.begin(room, [page], chunk)
                flying.append((room, [page], chunk))
        elif act == "land" and flying:
            oracle.end(*flying.pop(rng.randrange(len(flying))))
        elif act == "commit" and waiting:
            ready = [r for r in waiting if all(r != f[0] for f in flying)]
            if ready:
                oracle.commit(ready[0])
                waiting.remove(ready[0])
                running[ready[0]] = 2
        elif act == "grow" and running and free:
            oracle.alloc(chosen := rng.choice(list(running)), [free[0]], "growth")
            running[chosen] += 1
        elif act == "finish" and running:
            chosen = rng.choice(list(running))
            oracle.free(chosen, "finish", running.pop(chosen))
        elif act == "abort" and waiting:
            chosen = waiting.pop(rng.randrange(len(waiting)))
            oracle.free(chosen, "abort")
    return oracle


def traces(oracle: Oracle) -> tuple[list[object], list[object]]:
    return [header("decode"), *oracle.decode], [header("prefill"), *oracle.prefill]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(5, 90))
def test_oracle(seed: int, steps: int) -> None:
    oracle = play(seed, steps)
    con = answer(*traces(oracle))
    done = {room for (room,) in fetch(
        con, "SELECT room FROM page_request WHERE attended IS NOT FALSE AND t_commit IS NOT NULL")}
    # Recipients and pages: exactly those that attended, or may have when the trace ends before
    # their answer, without an own write in time.
    stale = {row for row in oracle.stale if row[0] in done}
    found = fetch(con, "SELECT room, page_no, source_room, depth, definite FROM page_stale")
    assert {row[:2] for row in found} == {row[:2] for row in stale}
    # The true last writer is always among the rows; a definite row is never another.
    assert stale <= {row[:3] for row in found}
    assert {row[:3] for row in found if row[4]} <= stale
    # Late writes: every landing on another's page, in its class; none that the pool did not see.
    rows = fetch(con, "SELECT source_room, page_no, room, class, possible, definite, t_alloc, "
                 "t_end, t_free FROM page_late_write JOIN (SELECT owner_id AS id, t_free FROM "
                 "page_request) ON id = owner_id")
    at_end = {row[:4] for row in rows if row[7] is not None and row[6] <= row[7]
              and (row[8] is None or row[7] < row[8])}
    for source, page, owner, when in oracle.landed:
        kinds = {row[3] for row in at_end if row[:3] == (source, page, owner)}
        assert len(kinds) == 1
        if owner in done:
            expected = {"repaired"} if when == "early" else {when}
            # Nothing that would be repaired comes any more: the page stays as it landed.
            if when == "early" and (owner, page) in {row[:2] for row in stale}:
                expected = {"before_attend", "during_decode"}
            assert kinds <= expected, (source, page, owner, when)
    harmful = {(s, p, o) for s, p, o, when in oracle.landed if when != "early" and o in done}
    assert harmful <= {row[:3] for row in rows if row[4]}
    assert {row[:3] for row in rows if row[5]} <= {hit[:3] for hit in oracle.landed}


def test_oracle_meets_every_case() -> None:
    """The random lives are worth something: all outcomes come up."""
    stale, classes, none = 0, set(), 0
    for seed in range(60):
        oracle = play(seed, 150)
        stale += len(oracle.stale)
        none += sum(row[2] is None for row in oracle.stale)
        classes |= {hit[3] for hit in oracle.landed}
    assert stale > 50
    assert none > 5
    assert classes == {"early", "before_attend", "during_decode"}


@pytest.fixture(scope="module")
def con():
    """Answers for a history in which every table has rows."""
    return answer(*traces(play(7, 400)))


@pytest.mark.parametrize("name", ORDER)
def test_columns_are_as_declared(con, name: str) -> None:
    real = {row[0]: row[1] for row in con.execute(f"DESCRIBE {name}").fetchall()}
    assert con.execute(f"SELECT count(*) > 0 FROM {name}").fetchall() == [(True,)]
    assert real == declared(name)


@pytest.mark.parametrize("name", ORDER)
def test_grain_is_as_declared(con, name: str) -> None:
    grain = next(line for line in queries.text(name).splitlines() if line.startswith("-- grain:"))
    words = grain.partition("one row per ")[2].partition(":")[0].partition(" that")[0]
    keys = ", ".join(word.strip("() ") for word in words.split(","))
    doubled = f"SELECT {keys}, count(*) FROM {name} GROUP BY {keys} HAVING count(*) > 1"
    assert con.execute(doubled).fetchall() == []


@pytest.mark.parametrize("name", ["page_late_write", "page_stale", "page_suspect"])
def test_page_joins_are_hash_joins(con, name: str) -> None:
    rows = con.execute(f"EXPLAIN (FORMAT json) {queries.body(name)}", {"slack_ns": 0}).fetchall()
    names, nodes = set(), [node for row in rows for node in json.loads(row[1])]
    while nodes:
        node = nodes.pop()
        names.add(node["name"].strip())
        nodes += node.get("children", [])
    assert "HASH_JOIN" in names
    assert not names & {"NESTED_LOOP_JOIN", "PIECEWISE_MERGE_JOIN", "BLOCKWISE_NL_JOIN", "IE_JOIN"}


def test_no_trace_gives_empty_tables() -> None:
    empty = load()
    for name in ORDER:
        queries.run(empty, name, slack_ns=0)
        assert fetch(empty, f"FROM {name}") == []


def test_order_of_files_does_not_matter() -> None:
    decode, prefill = traces(play(11, 200))
    pairs = "SELECT room, page_no, source_room, via, tokens, definite FROM page_stale"
    assert fetch(answer(decode, prefill), pairs) == fetch(answer(prefill, decode), pairs)
