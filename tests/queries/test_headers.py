"""Every named query says what it answers, and what it says is true of the sample case."""

from __future__ import annotations

import json
import re

import pytest

import queries
from forensics.fleet import SILENCE_NS
from forensics.late_write import LONGEST_WAIT_NS, NEVER
from tests.conftest import Judged
from tests.queries.page_tables import ORDER

PAGE_QUERIES = (*ORDER, "page_use", "page_source", "page_hit")

PARAMETERS = {"never": NEVER, "longest_wait": LONGEST_WAIT_NS, "silence_ns": SILENCE_NS,
              "listed": 50, "slack_ns": 0}
_COLUMN = re.compile(
    r"^--(?: columns:)? +([a-z_]\w*) +([A-Z][A-Z0-9_]*(?:\(.*?\))?(?:\[\])?)(?: |$)")


def header(name: str) -> list[str]:
    return [line for line in queries.text(name).splitlines() if line.startswith("--")]


def declared(name: str) -> dict[str, str]:
    found = {}
    inside = False
    for line in header(name):
        if re.match(r"^-- \w+:", line):
            inside = line.startswith("-- columns:")
        if inside and (match := _COLUMN.match(line)):
            found[match[1]] = match[2]
    return found


def actual(con, name: str) -> dict[str, str]:
    sql = queries.body(name)
    used = {key: value for key, value in PARAMETERS.items() if f"${key}" in sql}
    rows = con.execute(f"DESCRIBE {sql}", used).fetchall()
    return {row[0]: row[1] for row in rows}


@pytest.fixture
def prepared(sample: Judged):
    """The sample case with the tables that are there only with traces or during a step."""
    for name in PAGE_QUERIES:
        queries.run(sample.con, name, slack_ns=0)
    sample.con.execute(
        "CREATE OR REPLACE TEMP TABLE stale_recipient (response_id BIGINT, use_id BIGINT, "
        "pool_pages BIGINT, page_size BIGINT)")
    return sample.con


@pytest.mark.parametrize("name", queries.names())
def test_header_is_complete(name):
    text = "\n".join(header(name))
    for key in queries.HEADER_KEYS:
        assert re.search(rf"^-- {key}: +\S", text, re.MULTILINE), key
    parameters = set(re.findall(r"\$([a-z_]+)", queries.body(name)))
    assert all(f"${parameter}" in text for parameter in parameters)


@pytest.mark.parametrize("name", queries.names())
def test_declared_columns_are_the_real_ones(prepared, name):
    real = actual(prepared, name)
    for column, kind in declared(name).items():
        assert column in real, column
        expected = {"STRUCT": real[column]}.get(kind.split("(")[0], kind)
        assert real[column].replace(" ", "") == expected.replace(" ", ""), (column, real[column])
    if not any("..." in line for line in header(name)):
        assert set(real) == set(declared(name))


@pytest.mark.parametrize("name", queries.names())
def test_declared_grain_has_no_duplicates(prepared, name):
    grain = next(line for line in header(name) if line.startswith("-- grain:"))
    match = re.search(r"one row per \(?([a-z_, ]+?)\)?(?:$| that| is|;|,? plus)", grain)
    columns = [c.strip() for c in (match[1].split(",") if match else [])]
    # A grain told in words (recipient, source, ...) names no columns to check.
    if not columns or not set(columns) <= set(actual(prepared, name)):
        assert grain != "-- grain:"
        return
    sql = queries.body(name)
    used = {key: value for key, value in PARAMETERS.items() if f"${key}" in sql}
    keys = ", ".join(f'"{c}"' for c in columns)
    doubled = prepared.execute(
        f"SELECT count(*) FROM (SELECT {keys} FROM ({sql}) GROUP BY {keys} HAVING count(*) > 1)",
        used).fetchall()
    assert doubled == [(0,)], columns


def test_no_query_uses_a_partial_match_operator():
    """``~`` became a partial match in DuckDB 2.0; the functions say which one is meant."""
    assert not [name for name in queries.names() if " ~ " in queries.body(name)]


def test_heavy_joins_do_not_fall_back_to_nested_loops(sample: Judged):
    """The trigger join is an equality on the pool with residual times: a hash join."""
    for name in ("late_candidate", "handoff", "response"):
        sql = queries.body(name)
        used = {key: value for key, value in PARAMETERS.items() if f"${key}" in sql}
        rows = sample.con.execute(f"EXPLAIN (FORMAT json) {sql}", used).fetchall()
        operators = {node["name"].strip() for row in rows for node in walk(json.loads(row[1]))}
        assert operators & {"HASH_JOIN", "HASH_JOIN "}, (name, operators)
        assert not operators & {"NESTED_LOOP_JOIN", "PIECEWISE_MERGE_JOIN"}, (name, operators)


def walk(nodes):
    """Yield every node of a JSON plan."""
    for node in nodes:
        yield node
        yield from walk(node.get("children", []))
