"""Line dispatch: who claims a line, joined continuations, and blocks cut anywhere."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from toy_formats import TOYS

from ingest.dispatch import MAX_GAP_LINES, MAX_JOINS, Tail, parse_lines, stitch
from ingest.records import Batch, Line

FORMATS = TOYS.lines


def _lines(texts: list[tuple[str, str]]) -> list[Line]:
    lines, offset = [], 0
    for number, (stream, text) in enumerate(texts, start=1):
        lines.append(Line(text.encode(), number, offset, stream))
        offset += len(text) + 1
    return lines


def _rows(batches: list[Batch]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        for name, table in batch.rows.items():
            rows += [(r["byte_offset"], name, r["stream"], r.get("rid"), r.get("path"))
                     for r in table]
        rows += [(r.byte_offset, "reject", r.stream, r.reason, None) for r in batch.rejects]
    return sorted(rows, key=repr)


def _in_blocks(lines: list[Line], cuts: list[int]) -> tuple[list[tuple[Any, ...]], int]:
    """Parse block by block as the pipeline does; rows and the number of other lines."""
    edges = sorted({0, len(lines), *(cut for cut in cuts if cut < len(lines))})
    carried: dict[str, Tail] = {}
    batches: list[Batch] = []
    for start, end in pairwise(edges):
        parsed = parse_lines(FORMATS, lines[start:end])
        for line, replacement in stitch(FORMATS, carried, parsed, lines[end - 1].line_no):
            for batch in batches:
                place = (line.byte_offset, line.stream)
                for rows in batch.rows.values():
                    rows[:] = [r for r in rows if (r["byte_offset"], r["stream"]) != place]
                batch.rejects = [r for r in batch.rejects if (r.byte_offset, r.stream) != place]
            batches.append(replacement)
        batches.append(parsed.batch)
    return _rows(batches), sum(batch.other_lines for batch in batches)


def test_first_format_that_knows_the_line_claims_it() -> None:
    parsed = parse_lines(FORMATS, _lines([("", "[1] a 5"), ("", "GET /x 200"), ("", "hello")]))
    assert parsed.batch.formats == {"event": 1, "access": 1}
    assert parsed.batch.other_lines == 1
    assert [r["n1"] for r in parsed.batch.rows["engine_event"]] == [5]


def test_wrapped_line_replaces_its_first_part() -> None:
    parsed = parse_lines(FORMATS, _lines([("", "[1] a "), ("", "  b 7"), ("", "[2] c 1")]))
    rows = parsed.batch.rows["engine_event"]
    assert [(r["rid"], r["n1"], r["line_no"]) for r in rows] == [("ab", 7, 1), ("c", 1, 3)]
    assert parsed.batch.formats == {"event": 2}
    assert parsed.batch.other_lines == 0


def test_rejected_part_becomes_a_record_and_a_record_no_reject() -> None:
    parsed = parse_lines(FORMATS, _lines([("", "[1] a"), ("", "  b 7"), ("", "  c 8")]))
    assert [r["rid"] for r in parsed.batch.rows["engine_event"]] == ["ab"]
    assert parsed.batch.rejects == []
    assert parsed.batch.other_lines == 1


def test_nul_is_a_reject_and_ends_a_record() -> None:
    lines = [Line(b"[1] a ", 1, 0), Line(b"\0\0", 2, 7), Line(b"  b 7", 3, 9)]
    parsed = parse_lines(FORMATS, lines)
    assert [r.reason for r in parsed.batch.rejects] == ["NUL byte in line"]
    assert parsed.batch.other_lines == 1


def test_joins_are_bounded() -> None:
    texts = [("", "[1] a ")] + [("", "  b ")] * (MAX_JOINS + 2)
    rows, other = _in_blocks(_lines(texts), [])
    assert other == 2
    assert len(rows) == 1


def test_tail_that_comes_too_late_is_no_tail() -> None:
    near = [("a", "[1] a "), *[("b", "x")] * (MAX_GAP_LINES - 1), ("a", "  b 7")]
    far = [("a", "[1] a "), *[("b", "x")] * MAX_GAP_LINES, ("a", "  b 7")]
    assert _in_blocks(_lines(near), [])[1] == MAX_GAP_LINES - 1
    assert _in_blocks(_lines(far), [])[1] == MAX_GAP_LINES + 1


def test_leading_tail_without_its_record_is_an_other_line() -> None:
    assert _in_blocks(_lines([("", "  b 7"), ("", "[1] a 5")]), []) == (
        [(6, "engine_event", "", "a", None)], 1)


_TEXT = st.sampled_from(["[1] a ", "[2] bb 3", "  c ", "  d 9", "GET /p 200", "noise", "[bad", ""])


@settings(max_examples=400)
@given(st.lists(st.tuples(st.sampled_from(["", "s", "t"]), _TEXT), min_size=1, max_size=40),
       st.lists(st.integers(1, 39), max_size=6))
def test_rows_do_not_depend_on_where_blocks_are_cut(
    texts: list[tuple[str, str]], cuts: list[int]
) -> None:
    lines = _lines(texts)
    assert _in_blocks(lines, cuts) == _in_blocks(lines, [])
