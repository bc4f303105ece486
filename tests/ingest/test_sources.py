"""Arguments -> files: deterministic names, every obstacle named, nothing followed in circles."""

from __future__ import annotations

import errno
import gzip
import inspect
import os
import socket
import sys
from pathlib import Path

import pytest
from packing import content, tar, zipped

from ingest import stored
from ingest.errors import EvidenceTooLarge, IngestError
from ingest.limits import Limits
from ingest.sources import Source, Unreadable, expand


def put(path: Path, data: bytes = b"log\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(*arguments: str | Path) -> list[str]:
    return [found.name for found in expand(arguments)]


def reasons(*arguments: str | Path) -> dict[str, str]:
    return {found.name: found.reason for found in expand(arguments)
            if isinstance(found, Unreadable)}


def read(source: Source | Unreadable) -> bytes:
    assert isinstance(source, Source)
    return content(source.open(Limits()))


def test_folders_are_walked_in_a_fixed_order(tmp_path: Path) -> None:
    for name in ("b.log", "a/z.log", "a/ä.log", "a/b/c.log", "B.log", "a.log", "Z/1"):
        put(tmp_path / "case-7" / name)
    expected = ["case-7/B.log", "case-7/Z/1", "case-7/a/b/c.log", "case-7/a/z.log",
                "case-7/a/ä.log", "case-7/a.log", "case-7/b.log"]
    assert names(tmp_path / "case-7") == expected
    assert names(str(tmp_path / "case-7") + "/") == expected
    first, *_ = expand([tmp_path / "case-7"])
    assert first == Source("case-7/B.log", tmp_path / "case-7" / "B.log", None, 4, plain=True)


def test_the_working_folder_is_named_by_its_last_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "bundle" / "x.log")
    monkeypatch.chdir(tmp_path / "bundle")
    assert names(".") == ["bundle/x.log"]
    assert names("x.log") == ["x.log"]
    assert names("../bundle/x.log") == ["x.log"]


def test_kinds_go_by_content_not_by_name(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.log", gzip.compress(b"packed\n"))
    put(tmp_path / "in" / "b.gz", b"not packed\n")
    put(tmp_path / "in" / "c.txt", gzip.compress(tar({"n/s.log": b"member\n"})))
    put(tmp_path / "in" / "d", zipped({"z.log": b"zipped\n"}))
    put(tmp_path / "in" / "e.log", b"")
    found = list(expand([tmp_path / "in"]))
    assert [(f.name, read(f)) for f in found] == [
        ("in/a.log", b"packed\n"), ("in/b.gz", b"not packed\n"),
        ("in/c.txt!n/s.log", b"member\n"), ("in/d!z.log", b"zipped\n"), ("in/e.log", b"")]
    assert [(f.member, f.plain, f.size == f.path.stat().st_size)
            for f in found if isinstance(f, Source)] == [
        (None, False, True), (None, True, True), ("n/s.log", False, True),
        ("z.log", False, True), (None, True, True)]
    # Read long after the listing has ended, and twice.
    assert [read(f) for f in found][::-1] == [b"", b"zipped\n", b"member\n", b"not packed\n",
                                              b"packed\n"]


def test_equal_last_parts_take_more_of_the_path(tmp_path: Path) -> None:
    for node in ("run-1/node-a", "run-1/node-b", "run-2/node-a"):
        put(tmp_path / node / "sglang.log")
    given = [tmp_path / node / "sglang.log"
             for node in ("run-1/node-a", "run-1/node-b", "run-2/node-a")]
    assert names(*given) == ["run-1/node-a/sglang.log", "node-b/sglang.log",
                             "run-2/node-a/sglang.log"]
    assert names(*(path.parent for path in given)) == [
        "run-1/node-a/sglang.log", "node-b/sglang.log", "run-2/node-a/sglang.log"]


def test_a_path_is_given_once(tmp_path: Path) -> None:
    file = put(tmp_path / "in" / "a.log")
    put(tmp_path / "in" / "b.log")
    assert names(file, tmp_path / "in", file, str(file)) == ["a.log", "in/b.log"]
    assert names(tmp_path / "in", tmp_path / "in") == ["in/a.log", "in/b.log"]


def test_names_are_distinct_whatever_is_given(tmp_path: Path) -> None:
    put(tmp_path / "1" / "a" / "b" / "x.log")
    put(tmp_path / "2" / "b" / "x.log")
    put(tmp_path / "3" / "a")
    # 'a' is a folder in one place and a file in another.
    given = [tmp_path / "1" / "a", tmp_path / "2" / "b", tmp_path / "3" / "a", "gone", "./gone"]
    found = names(*given)
    assert len(set(found)) == len(found) == 5


def test_globs_that_no_shell_expanded(tmp_path: Path) -> None:
    for name in ("n1/s.log", "n2/s.log", "n2/t.log", "deep/er/s.log"):
        put(tmp_path / name)
    assert names(str(tmp_path / "n*" / "s.log")) == ["n1/s.log", "n2/s.log"]
    assert names(str(tmp_path / "**" / "s.log")) == ["er/s.log", "n1/s.log", "n2/s.log"]
    assert "matches" in reasons(str(tmp_path / "x*.log"))["x*.log"]
    put(tmp_path / "[1].log", b"named like a pattern")
    assert names(str(tmp_path / "[1].log")) == ["[1].log"]


def test_missing_paths_are_named(tmp_path: Path) -> None:
    file = put(tmp_path / "a.log")
    found = list(expand([tmp_path / "gone", file]))
    assert [type(f) for f in found] == [Unreadable, Source]
    assert "no such file" in reasons(tmp_path / "gone")["gone"]


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    root = tmp_path / "in"
    put(root / "z.log")
    os.mkfifo(root / "fifo")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(root / "socket"))
    (root / "broken").symlink_to("nowhere")
    (root / "null").symlink_to("/dev/null")
    (root / "self").symlink_to("self")
    found = reasons(root)
    server.close()
    assert names(root)[-1] == "in/z.log"
    for name in ("fifo", "socket", "null"):
        assert "device, pipe or socket" in found[f"in/{name}"]
    assert "leads nowhere" in found["in/broken"]
    assert "cannot be read" in found["in/self"]
    assert reasons(root / "fifo")


def test_linked_folders_are_followed_but_never_in_circles(tmp_path: Path) -> None:
    put(tmp_path / "in" / "pods" / "p1" / "0.log")
    put(tmp_path / "elsewhere" / "far.log")
    (tmp_path / "in" / "a-current").symlink_to("pods")
    (tmp_path / "in" / "b-far").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "pods" / "up").symlink_to("../..")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "file.log").symlink_to("pods/p1/0.log")
    assert names(tmp_path / "in") == ["in/file.log", "in/pods/p1/0.log", "in/b-far/far.log"]


def test_cases_and_hidden_files_are_no_evidence(tmp_path: Path) -> None:
    root = tmp_path / "in"
    for name in ("a.log", ".git/config", ".DS_Store", "palimpsest-case/case.duckdb",
                 "palimpsest-case/out/summary.json", "sub/.hidden.log", "__MACOSX/x"):
        put(root / name)
    assert names(root) == ["in/a.log"]
    assert reasons(root) == {}
    assert "case of this program" in reasons(root / "palimpsest-case")["palimpsest-case"]
    # What is named itself is read.
    assert names(root / ".git" / "config") == ["config"]


def test_permission_and_other_errors_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "in"
    for name in ("a.log", "secret.log", "locked/x.log", "torn.log", "z.log"):
        put(root / name)
    real_open, real_scan = os.open, os.scandir

    def refusing_open(path: str | Path, flags: int, *rest: int) -> int:
        if str(path).endswith("secret.log"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        if str(path).endswith("torn.log"):
            raise OSError(errno.EIO, "Input/output error", str(path))
        return real_open(path, flags, *rest)

    def refusing_scan(path: Path) -> object:
        if path.name == "locked":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real_scan(path)

    monkeypatch.setattr(stored.os, "open", refusing_open)
    monkeypatch.setattr("ingest.sources.os.scandir", refusing_scan)
    found = reasons(root)
    assert list(found) == ["in/locked", "in/secret.log", "in/torn.log"]
    assert "run as a user who may read it" in found["in/locked"]
    assert "run as a user who may read it" in found["in/secret.log"]
    assert "Input/output error" in found["in/torn.log"]
    assert names(root) == ["in/a.log", *found, "in/z.log"]
    assert not any(str(tmp_path) in reason for reason in found.values())


def test_a_file_that_vanishes_or_turns_into_a_pipe(tmp_path: Path) -> None:
    file = put(tmp_path / "a.log")
    [source] = expand([file])
    assert isinstance(source, Source)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        source.open(Limits())
    os.mkfifo(file)
    with pytest.raises(IngestError, match="regular file"):
        source.open(Limits())


def test_a_growing_plain_file_is_read_to_its_present_end(tmp_path: Path) -> None:
    file = put(tmp_path / "a.log", b"")
    [source] = expand([file])
    with file.open("ab") as sink:
        sink.write(bytes(1 << 20))
    limits = Limits(ratio_from_bytes=10)
    assert isinstance(source, Source)
    assert len(content(source.open(limits))) == 1 << 20
    with source.open(Limits(max_file_bytes=1000)) as stream, pytest.raises(EvidenceTooLarge):
        stream.read()


def test_deep_folders_do_not_exhaust_the_stack(tmp_path: Path) -> None:
    put(tmp_path.joinpath(*["d"] * 300, "x.log"))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 100)
    try:
        found = list(expand([tmp_path]))
    finally:
        sys.setrecursionlimit(limit)
    assert len(found) == 1


def test_names_are_fit_for_a_terminal(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a\x1b[2J\n.log")
    put(tmp_path / "in" / os.fsdecode(b"b\xff.log"))
    assert names(tmp_path / "in") == ["in/a\\x1b[2J\\n.log", "in/b\\udcff.log"]
    assert [read(f) for f in expand([tmp_path / "in"])] == [b"log\n"] * 2


def test_empty_archives_are_named(tmp_path: Path) -> None:
    assert "holds no file" in reasons(put(tmp_path / "e.tar", tar({"d/": b""})))["e.tar"]
    assert "holds no file" in reasons(put(tmp_path / "e.zip", zipped({})))["e.zip"]


def test_unreadable_members_stand_beside_readable_ones(tmp_path: Path) -> None:
    put(tmp_path / "in" / "x.tar", tar({"../evil": b"e", "good.log": b"g"}))
    put(tmp_path / "in" / "y.log", b"y")
    found = list(expand([tmp_path / "in"]))
    assert [(f.name, type(f)) for f in found] == [
        ("in/x.tar!../evil", Unreadable), ("in/x.tar!good.log", Source), ("in/y.log", Source)]
    assert all(f.path == tmp_path / "in" / f.name.split("/", 1)[1].split("!")[0] for f in found)
