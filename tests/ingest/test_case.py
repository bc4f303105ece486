"""Opening a case: what is created, and which error each unusable directory gives."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from ingest import case as case_module
from ingest.case import open_case
from ingest.errors import CaseError, CaseForeign, CaseLocked, CaseTooNew, DiskFull
from ingest.records import TABLES


def test_new_case_has_every_table_and_private_modes(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "case"
    with open_case(root) as case:
        tables = {row[0] for row in case.con.execute("SHOW TABLES").fetchall()}
        assert tables == {*TABLES, "evidence", "case_meta", "audit_log"}
        columns = [row[0] for row in case.con.execute("DESCRIBE engine_event").fetchall()]
        assert columns == ["evidence_id", *TABLES["engine_event"].names]
        room = {row[0]: row[1] for row in case.con.execute("DESCRIBE engine_event").fetchall()}
        assert room["room"] == "UBIGINT"
    assert root.stat().st_mode & 0o777 == 0o700
    assert (root / "case.duckdb").stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in root.iterdir()) == ["case.duckdb", "evidence", "out"]


def test_settings_keep_results_and_files_safe(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with open_case(tmp_path / "case") as case:
        setting = case.con.execute("SELECT current_setting('TimeZone')").fetchone()
        assert setting == ("UTC",)
        with pytest.raises(duckdb.Error):
            case.con.execute(f"SELECT * FROM '{secret}'")
        with pytest.raises(duckdb.Error):
            case.con.execute("SET enable_external_access = true")
        secret_rows = [1]
        assert secret_rows
        with pytest.raises(duckdb.CatalogException):
            case.con.execute("SELECT * FROM secret_rows")


def test_missing_case_is_not_created_for_a_reader(tmp_path: Path) -> None:
    for options in ({"create": False}, {"read_only": True}):
        with pytest.raises(CaseError, match="No case in"):
            open_case(tmp_path / "none", **options)
    assert not (tmp_path / "none").exists()


def test_read_only_case_refuses_writes(tmp_path: Path) -> None:
    open_case(tmp_path / "case").close()
    with open_case(tmp_path / "case", read_only=True) as case, pytest.raises(duckdb.Error):
        case.con.execute("DELETE FROM evidence")


def test_case_of_another_process_is_locked(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ingest.case import open_case\n"
        "case = open_case(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "case")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(case_module.__file__).parents[1],
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(CaseLocked) as caught:
            open_case(tmp_path / "case")
        assert f"process {holder.pid}" in caught.value.message
        assert "stop it" in caught.value.way_out
        assert caught.value.exit_code == 2
    finally:
        holder.communicate("")
    open_case(tmp_path / "case").close()


def test_same_process_in_another_mode_is_locked(tmp_path: Path) -> None:
    with open_case(tmp_path / "case"), pytest.raises(CaseLocked):
        open_case(tmp_path / "case", read_only=True)


@pytest.mark.parametrize("content", [b"", b"hello\n", b"x" * 20_000], ids=["empty", "text", "long"])
def test_file_that_is_no_database_is_foreign(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "case.duckdb").write_bytes(content)
    with pytest.raises(CaseForeign):
        open_case(tmp_path)
    assert (tmp_path / "case.duckdb").read_bytes() == content


def test_database_of_another_program_is_foreign_and_untouched(tmp_path: Path) -> None:
    con = duckdb.connect(str(tmp_path / "case.duckdb"))
    con.execute("CREATE TABLE mine (a INTEGER)")
    con.close()
    before = (tmp_path / "case.duckdb").read_bytes()
    with pytest.raises(CaseForeign, match="not a case of this program"):
        open_case(tmp_path)
    assert (tmp_path / "case.duckdb").read_bytes() == before


@pytest.mark.parametrize("damage", ["cut", "scramble"])
def test_damaged_database_is_foreign(tmp_path: Path, damage: str) -> None:
    open_case(tmp_path / "case").close()
    file = tmp_path / "case" / "case.duckdb"
    data = bytearray(file.read_bytes())
    if damage == "cut":
        del data[9000:]
    else:
        data[4096:12288] = bytes(range(256)) * 32
    file.write_bytes(data)
    with pytest.raises(CaseForeign, match="damaged"):
        open_case(tmp_path / "case")


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    with open_case(tmp_path / "case") as case:
        case.con.execute("UPDATE case_meta SET value = '99' WHERE key = 'schema_version'")
    with pytest.raises(CaseTooNew, match="99"):
        open_case(tmp_path / "case")


def test_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "case").write_text("x")
    with pytest.raises(CaseError):
        open_case(tmp_path / "case")


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [(errno.ENOSPC, DiskFull, "full"), (errno.EROFS, CaseError, "not writable"),
     (errno.EACCES, CaseError, "not writable")],
)
def test_system_errors_while_creating(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[CaseError], text: str
) -> None:
    def refuse(self: Path, *args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(kind, match=text) as caught:
        open_case(tmp_path / "case")
    assert caught.value.way_out


def test_creation_that_was_killed_leaves_no_half_case(tmp_path: Path) -> None:
    root = tmp_path / "case"
    root.mkdir()
    (root / "case.duckdb.new").write_bytes(b"half")
    (root / "case.duckdb.new.wal").write_bytes(b"half")
    with open_case(root) as case:
        assert case.con.execute("SELECT count(*) FROM evidence").fetchone() == (0,)
    assert not (root / "case.duckdb.new").exists()


def test_foreign_directory_keeps_its_mode(tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    (root / "letter.txt").write_text("x")
    open_case(root).close()
    assert root.stat().st_mode & 0o777 == 0o755
    assert (root / "case.duckdb").stat().st_mode & 0o777 == 0o600
