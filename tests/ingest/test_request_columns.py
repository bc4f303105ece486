"""Columns and whole blocks of JSON request records: the same rows as record by record."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from request_dialects import PREFIX, STAMP_NS, json_line

from ingest.formats.request_log_json import LINE_FORMATS
from ingest.records import Batch, Line, to_json
from ingest.requests.block import parse_block
from ingest.requests.column import epochs
from ingest.requests.identity import identity_keys
from ingest.requests.moment import epoch_ns
from ingest.requests.payload import decode_usual
from ingest.requests.row import Source, add_rows

FORMAT = LINE_FORMATS[0]


@given(
    st.lists(
        st.fixed_dictionaries({
            "rid": st.text(max_size=5), "room": st.none() | st.integers(0, 2**64 - 1),
            "key": st.none() | st.text(max_size=5), "labels": st.none() | st.just({"a": "b"}),
            "headers": st.none() | st.dictionaries(
                st.sampled_from(["x-request-id", "X-Request-Id", "x-tenant"]), st.text(max_size=4)),
            "seconds": st.none() | st.floats(0, 4e9), "text": st.none() | st.text(max_size=9),
            "stamp": st.sampled_from(["2026-12-01T04:22:17.669894", "2026-12-01T04:22:17", "x"]),
        }),
        min_size=1, max_size=5,
    )
)
def test_columns_and_rows_agree(items: list[dict[str, Any]]) -> None:
    columns, rows = Batch(), Batch()
    for number, item in enumerate(items, 1):
        text = json_line(
            "request.finished",
            {"rid": item["rid"], "bootstrap_room": item["room"], "text": item["text"],
             "routing_key": item["key"], "custom_labels": item["labels"]},
            item["headers"],
            {"meta_info": {"request_received_ts": item["seconds"]}}, timestamp=item["stamp"],
        )
        line = Line(text.encode("utf-8", "surrogatepass"), number, 0)
        assert FORMAT.parse(line, columns)
        payload = decode_usual(line.raw[len(PREFIX):])
        assert payload is not None
        stamp = {26: (STAMP_NS + 669_894_000, 1000), 19: (STAMP_NS, 10**9)}.get(
            len(item["stamp"]), (STAMP_NS, 10**9))
        assert add_rows(rows, line, Source("finished", "json", True, *stamp), payload) == []
    assert [table.to_pylist() for _, table in columns.arrow()] == [
        table.to_pylist() for _, table in rows.arrow()
    ]


_BLOCK_LINES = st.sampled_from(
    [
        json_line("request.received", {"rid": "a", "bootstrap_room": 2**64 - 1}),
        json_line("request.finished", {"rid": "b", "text": "x\ny"}, out={"meta_info": {"id": "b"}}),
        json_line("request.received.openai", {"model": "m", "prompt": "p"}, {"x-tenant": "t"}),
        json_line("request.received", {"rid": ["c", "d"], "bootstrap_room": [1, 2]}),
        json_line("request.received", {"rid": "big", "bootstrap_room": 2**64}),
        json_line("request.received", {"rid": "odd"}, timestamp="yesterday"),
        json_line("request.received", {"rid": "a"}) + "," + json_line("request.received", {}),
        json_line("request.received", {"rid": "cut", "text": "[{"})[:-30],
        json_line("scheduler.status", {}), json_line("request.received", {"rid": "e"}) + "\r",
    ]
)


@given(st.lists(_BLOCK_LINES, min_size=1, max_size=8), st.booleans(), st.booleans())
def test_a_block_gives_the_same_rows_as_its_lines(
    texts: list[str], bare: bool, ends: bool
) -> None:
    if bare:
        texts = [text.removeprefix(PREFIX) for text in texts]
    data = ("\n".join(texts) + ("\n" if ends else "")).encode()
    whole, single = Batch(), Batch()
    others = parse_block(FORMAT, data, 11, 1000, whole)
    assert others is not None
    lines, offset = [], 1000
    for number, text in enumerate(texts, 11):
        lines.append(Line(text.removesuffix("\r").encode(), number, offset))
        offset += len(text.encode()) + 1
    assert others == [line for line in lines if not FORMAT.parse(line, single)]
    assert _rows(whole) == _rows(single)
    assert sorted(map(repr, whole.rejects)) == sorted(map(repr, single.rejects))


def test_a_block_of_other_lines_is_left_alone() -> None:
    line = json_line("request.received", {"rid": "a"})
    for text in ("", "\n", "x", f"{line}\n\n", f"{line}\n{line.removeprefix(PREFIX)}\n",
                 f"{line}\n[2026-12-01 04:22:17] server_args={{}} and more of the same\n"):
        batch = Batch()
        assert parse_block(FORMAT, text.encode(), 1, 0, batch) is None
        assert _rows(batch) == batch.rejects == []


def _rows(batch: Batch) -> list[str]:
    return sorted(
        repr(row) for name, table in batch.arrow() if name != "reject" for row in table.to_pylist()
    )


@given(st.lists(st.none() | st.floats(9e8, 4e9) | st.integers(946_684_800, 4 * 10**9).map(float)))
def test_epochs_are_exact(seconds: list[float | None]) -> None:
    one_by_one = [epoch_ns(value) for value in seconds]
    assert epochs(seconds).to_pylist() == one_by_one
    for value, found in zip(seconds, one_by_one, strict=True):
        if value is not None and value >= 946_684_800:
            assert found == int(Decimal(repr(value)) * 10**9)


@given(st.dictionaries(st.text(max_size=5), st.integers(0, 9) | st.text(min_size=1, max_size=9)))
def test_keys_are_canonical_json(fields: dict[str, Any]) -> None:
    assert identity_keys({}, fields) == (to_json(fields) if fields else None)
