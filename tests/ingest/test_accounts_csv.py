"""accounts.csv: headers in every dress, one row per key, rooms exact."""

from __future__ import annotations

import pytest
from document_rows import read
from hypothesis import given
from hypothesis import strategies as st
from request_dialects import FIXTURES

from ingest.formats.accounts_csv import DOCUMENT_FORMATS
from ingest.records import Match

FORMAT = DOCUMENT_FORMATS[0]


def _keys(data: bytes) -> list[tuple[str, str, str]]:
    rows, rejects, _ = read(FORMAT, data, "account_key")
    assert rejects == []
    return [(row["key_name"], row["key_value"], row["account"]) for row in rows]


def test_one_row_in_full() -> None:
    rows, _, other = read(FORMAT, b"x_request_id,account\nreq-1,acct-1\n", "account_key")
    assert rows == [{
        "stream": "", "line_no": 2, "byte_offset": 21, "stamp_ns": None, "stamp_res_ns": None,
        "outer_ns": None, "key_name": "x_request_id", "key_value": "req-1", "account": "acct-1"}]
    assert other == 1


def test_fixture_with_other_names_and_quotes() -> None:
    data = (FIXTURES / "accounts_csv.semicolon.csv").read_bytes()
    assert FORMAT.sniff(data, "x") == Match(0.95, "rid,x_request_id")
    assert _keys(data) == [("x_request_id", "req-1", "a"), ("conversation_id", "conv-7", "a"),
                           ("rid", "r-2", "b;c")]


@pytest.mark.parametrize(("header", "names"), [
    (b"account,rid", ["rid"]), (b"\xef\xbb\xbfrid,account", ["rid"]),
    (b'"rid","account"', ["rid"]), (b"rid\taccount", ["rid"]), (b"rid;account\r", ["rid"]),
    (b"Room , ACCOUNT", ["room"]), (b"bootstrap-room,account", ["room"]),
    (b"X-Request-Id,account", ["x_request_id"]), (b"Lora_Path,account", ["Lora_Path"]),
])
def test_headers(header: bytes, names: list[str]) -> None:
    delimiter = next(mark for mark in (b",", b";", b"\t") if mark in header)
    data = header + b"\n7" + delimiter + b"7\n"
    assert FORMAT.sniff(data, "x") is not None
    assert [row[0] for row in _keys(data)] == names


@pytest.mark.parametrize("head", [
    b"", b"account\n", b"rid,room\nx,y", b"accounts,rid\n", b"account,account\n", b"account,\n",
    b'{"account": 1, "rid": 2}\n', b"the account, the rid\n", b"rid account\n",
    b"account," + b",".join(b"c%d" % n for n in range(20)) + b"\n", b"\xff\xfeaccount,rid\n",
])
def test_other_files(head: bytes) -> None:
    assert FORMAT.sniff(head, "accounts.csv") is None


def test_rooms_are_exact() -> None:
    data = b"room,account\n9065936072733175441,a\n007,a\n18446744073709551615,b\n"
    assert [row[1] for row in _keys(data)] == ["9065936072733175441", "7", "18446744073709551615"]


def test_duplicates_and_contradictions_are_kept() -> None:
    assert _keys(b"rid,account\nr,a\nr,a\nr,b\n") == [("rid", "r", "a")] * 2 + [("rid", "r", "b")]


def test_bad_lines_are_rejects() -> None:
    data = (b"room,rid,account\n9.1e18,r1,a\n18446744073709551616,,a\n1,r3,\n,,a\n1,2\n"
            b'"1,r5,a\n1,\xff,a\n1,' + b"x" * 600 + b",a\n2,r7,b\n\n")
    rows, rejects, other = read(FORMAT, data, "account_key")
    assert [(row["key_value"], row["line_no"]) for row in rows] == [
        ("r1", 2), ("2", 10), ("r7", 10)]
    assert rejects == [
        "room is not a whole number of 64 bits", "room is not a whole number of 64 bits",
        "no account", "no key", "another number of cells than the header",
        "malformed CSV or text that is not UTF-8", "malformed CSV or text that is not UTF-8",
        "a cell is too long"]
    assert other == 1


@given(st.binary(max_size=300))
def test_never_raises(data: bytes) -> None:
    FORMAT.sniff(data, "x")
    read(FORMAT, data, "account_key")
    read(FORMAT, b"rid;account;room\n" + data, "account_key")
