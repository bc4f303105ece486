"""Compressed files and archives: every kind reads the same, and hostile ones do no harm."""

from __future__ import annotations

import gc
import gzip
import io
import os
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from packing import (
    CODECS,
    LOG,
    NOISE,
    SMALL,
    drain,
    look,
    partial_read,
    read,
    tar,
    tar_entry,
    zipped,
)

from ingest import stored as stored_module
from ingest import tar_reading
from ingest.archives import look_into
from ingest.errors import EvidenceTooLarge, IngestError
from ingest.limits import Limits

TARS: dict[str, Callable[[bytes], bytes]] = {"tar": lambda data: data, **CODECS}
DEEP = "node-a/" + "long-folder-name/" * 12 + "sglang.log"
MEMBERS = {"./node-a/sglang.log": LOG, "node-b/größe.log": NOISE, DEEP: b"deep\n", "empty": b""}
NAMES = ["node-a/sglang.log", "node-b/größe.log", DEEP, "empty"]


@pytest.mark.parametrize("codec", TARS)
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_tar_members_are_streams(tmp_path: Path, codec: str, form: int) -> None:
    found = look(tmp_path, TARS[codec](tar(MEMBERS, form=form)))
    assert list(found) == NAMES
    # In any order, again, and several at a time.
    for name, data in zip(NAMES[::-1] + NAMES, list(MEMBERS.values())[::-1] + list(
            MEMBERS.values()), strict=True):
        assert read(found[name]) == data
    opener, other = found[NAMES[0]].opener, found[NAMES[1]].opener
    assert opener is not None
    assert other is not None
    with opener(Limits()) as first, other(Limits()) as second:
        assert (first.read(10), second.read(10)) == (LOG[:10], NOISE[:10])
        assert (first.read(10), second.read(10)) == (LOG[10:20], NOISE[10:20])


def test_listing_and_reading_in_turn_decompresses_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    real = tar_reading.decompressed
    monkeypatch.setattr(tar_reading, "decompressed",
                        lambda file, codec: opened.append(codec) or real(file, codec))
    path = tmp_path / "a.tar.gz"
    members = {f"{n}.log.gz" if n % 2 else f"{n}.log": gzip.compress(LOG) if n % 2 else LOG
               for n in range(20)}
    path.write_bytes(gzip.compress(tar(members)))
    for found in look_into(path, Limits()):
        assert read(found) == LOG
    assert opened == ["gzip"]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2,
                                    zipfile.ZIP_LZMA])
def test_zip_members_are_streams(tmp_path: Path, method: int) -> None:
    found = look(tmp_path, zipped(MEMBERS, method))
    assert list(found) == NAMES
    assert [read(found[name]) for name in NAMES[::-1]] == list(MEMBERS.values())[::-1]
    # A compressed zip has to be set aside first.
    found = look(tmp_path, gzip.compress(zipped(MEMBERS, method)))
    assert [read(found[name]) for name in NAMES] == list(MEMBERS.values())


def test_archives_in_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = gzip.compress(tar({"decode.log": LOG, "old.log.zst": CODECS["zst"](NOISE)}))
    middle = zipped({"node-a/logs.tar.gz": inner, "plain.log": b"p\n"})
    outer = tar({"bundle.zip": middle, "twice.gz": gzip.compress(gzip.compress(b"2\n"))})
    for memory in (1 << 24, 100):
        monkeypatch.setattr(stored_module, "_IN_MEMORY_BYTES", memory)
        found = look(tmp_path, outer)
        assert list(found) == [
            "bundle.zip!node-a/logs.tar.gz!decode.log",
            "bundle.zip!node-a/logs.tar.gz!old.log.zst", "bundle.zip!plain.log", "twice.gz"]
        assert [read(f) for f in found.values()] == [LOG, NOISE, b"p\n", b"2\n"]


def test_copies_have_no_name_that_could_stay_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_module, "_IN_MEMORY_BYTES", 100)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    found = look(tmp_path, tar({"a.tar": tar({"x": NOISE}), "b.zip": zipped({"y": NOISE})}))
    assert os.listdir(tmp_path / "tmp") == []
    assert read(found["a.tar!x"]) == read(found["b.zip!y"]) == NOISE
    assert len(os.listdir("/proc/self/fd")) > before
    found.clear()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_nesting_is_bounded(tmp_path: Path) -> None:
    data = tar({"log": b"bottom\n"})
    for _ in range(3):
        data = tar({"in.tar": data})
    assert read(look(tmp_path, data)["in.tar!in.tar!in.tar!log"]) == b"bottom\n"
    found = look(tmp_path, tar({"in.tar": data, "beside": b"b"}))
    assert "nested more than 4 deep" in found["!".join(["in.tar"] * 4)].reason
    assert read(found["beside"]) == b"b"
    again = b"x"
    for _ in range(6):
        again = gzip.compress(again)
    assert "nested more than 4 deep" in look(tmp_path, again)[""].reason


def test_names_that_lead_out_are_refused(tmp_path: Path) -> None:
    evil = ["../up", "a/../../up", "/etc/passwd", "C:\\boot", "..\\up", "//host/share"]
    harmless = {"a/good.log": b"good"}
    for data in (tar({**dict.fromkeys(evil, b"evil"), **harmless}),
                 zipped({**dict.fromkeys(evil, b"evil"), **harmless})):
        found = look(tmp_path, data)
        assert read(found.pop("a/good.log")) == b"good"
        assert len(found) == len(evil)
        assert all("leads out of the archive" in f.reason for f in found.values())
        assert os.listdir(tmp_path) == ["evidence"]


def test_hidden_members_are_left_out_and_names_are_printable(tmp_path: Path) -> None:
    data = tar({".git/config": b"x", "a/._b.log": b"x", "__MACOSX/c": b"x", "dir/": b"",
                "esc\x1b[2Jape\n.log": b"y"})
    assert list(look(tmp_path, data)) == ["esc\\x1b[2Jape\\n.log"]


def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    data = tar({"a.log": b"1"})[:1024] + tar({"a.log": b"2"})[:1024] + tar({"a.log~2": b"3"})
    found = look(tmp_path, data)
    assert [read(f) for f in found.values()] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE,
                                  tarfile.BLKTYPE, tarfile.FIFOTYPE, b"Z"])
def test_links_and_devices_are_named_not_followed(tmp_path: Path, kind: bytes) -> None:
    data = tar_entry("bad", kind, target="/etc/passwd") + tar({"good": b"g"})
    found = look(tmp_path, data)
    assert "link or device" in found["bad"].reason
    assert read(found["good"]) == b"g"


def test_zip_links_and_encrypted_members(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        link = zipfile.ZipInfo("link")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("good", b"g")
        archive.writestr("secret", b"s")
    data = bytearray(out.getvalue())
    # The encryption flag of the last member, in its local header and in the directory.
    data[data.rindex(b"PK\x03\x04") + 6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    found = look(tmp_path, bytes(data))
    assert "link" in found["link"].reason
    assert "encrypted" in found["secret"].reason
    assert read(found["good"]) == b"g"


@pytest.mark.parametrize("codec", ["tar", "gz", "zst"])
def test_cut_tar_gives_its_members_and_says_so(tmp_path: Path, codec: str) -> None:
    whole = tar({"a": NOISE, "b": NOISE[::-1]})
    for cut in (512 + len(NOISE) // 2, len(NOISE) + 1024 + 300_000 // 2, len(NOISE) + 700):
        packed = TARS[codec](whole)
        found = look(tmp_path, packed[:cut])
        assert "ends early" in found.pop("").reason
        data, reason = partial_read(found["a"])
        assert NOISE.startswith(data)
        assert data == NOISE or "ends early" in reason
        assert "a" in found
    # Cut behind a member's end, without the end mark.
    found = look(tmp_path, TARS[codec](tar({"a": b"1"})[:1024]))
    assert read(found["a"]) == b"1"
    assert "ends early" in found[""].reason


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    data = bytearray(tar({"a": b"1", "b": b"2"}))
    data[1024 + 5] ^= 1
    found = look(tmp_path, bytes(data))
    assert read(found["a"]) == b"1"
    assert "damaged" in found[""].reason
    whole = bytearray(zipped({"a": NOISE, "b": b"2"}))
    whole[5000] ^= 0xFF
    found = look(tmp_path, bytes(whole))
    assert "damaged" in partial_read(found["a"])[1]
    assert read(found["b"]) == b"2"
    assert "damaged" in look(tmp_path, bytes(whole[: len(whole) // 2]))[""].reason


@given(st.binary(min_size=1, max_size=40), st.integers(0, 3000), st.sampled_from("tzg"))
@settings(max_examples=150, deadline=None)
def test_no_archive_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int, kind: str
) -> None:
    whole = {"t": tar(dict.fromkeys("abc", b"1" * 600)), "z": zipped(dict.fromkeys("abc", b"1")),
             "g": gzip.compress(tar({"a": NOISE[:2000]}))}[kind]
    at %= len(whole)
    data = whole[:at] + noise + whole[at + len(noise):]
    path = tmp_path_factory.mktemp("noise") / "e"
    path.write_bytes(data)
    for found in look_into(path, SMALL):
        if not found.reason:
            partial_read(found, SMALL)


def test_bombs_are_refused(tmp_path: Path) -> None:
    zeros = bytes(1 << 20)
    for data in (gzip.compress(zeros), CODECS["zst"](zeros), CODECS["bz2"](zeros),
                 CODECS["xz"](zeros)):
        data_read, reason = partial_read(look(tmp_path, data, SMALL)[""], SMALL)
        assert "bomb" in reason
        assert len(data_read) < 1 << 17
    found = look(tmp_path, zipped({"a": zeros, "b": b"2"}), SMALL)
    assert "bomb" in found[""].reason
    found = look(tmp_path, gzip.compress(tar({"a": zeros, "b": b"2"})), SMALL)
    assert "bomb" in found[""].reason
    layered = gzip.compress(gzip.compress(bytes(1 << 24)))
    assert "bomb" in partial_read(look(tmp_path, layered, SMALL)[""], SMALL)[1]
    layered = gzip.compress(tar({"a.zip": zipped({"b": bytes(1 << 22)})}))
    assert "bomb" in look(tmp_path, layered, SMALL)["a.zip"].reason


def test_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    engine = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(engine.compress(bytes(1 << 20)) for _ in range(100)) + engine.flush()
    zst = zstandard.ZstdCompressor(level=19).compress(bytes(100 << 20))
    for data in (packed, zst):
        opener = look(tmp_path, data)[""].opener
        assert opener is not None
        tracemalloc.start()
        with opener(SMALL) as stream, pytest.raises(EvidenceTooLarge):
            drain(stream, 1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4 << 20


def test_size_and_member_limits(tmp_path: Path) -> None:
    found = look(tmp_path, gzip.compress(NOISE))
    assert "more than 1000 bytes" in partial_read(found[""], Limits(max_file_bytes=1000))[1]
    many = Limits(max_members=3)
    for data in (tar(dict.fromkeys("abcde", b"1")), zipped(dict.fromkeys("abcde", b"1"))):
        found = look(tmp_path, data, many)
        assert [read(found[name]) for name in "abc"] == [b"1"] * 3
        assert "more than 3 members" in found[""].reason
        assert "d" not in found
    # The members of an archive inside count too.
    found = look(tmp_path, tar({"x.zip": zipped(dict.fromkeys("abcde", b"1"))}), many)
    assert "more than 3 members" in found["x.zip"].reason
    # A directory that is too large is not even read.
    big = zipped(dict.fromkeys(("n" * 3000 + str(n) for n in range(3)), b"1"))
    assert "more than 2 members" in look(tmp_path, big, Limits(max_members=2))[""].reason


def test_huge_tar_headers_are_not_read(tmp_path: Path) -> None:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 33
    assert "too large" in look(tmp_path, info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))[""].reason
    pax = tar_entry("x", tarfile.XHDTYPE, data=b"-5 path=a\n") + bytes(1024)
    assert "damaged" in look(tmp_path, pax)[""].reason


def test_foreign_archives_name_the_way_out(tmp_path: Path) -> None:
    for head, name in ((b"7z\xbc\xaf\x27\x1c", "7-Zip"), (b"Rar!\x1a\x07\x00", "RAR")):
        assert name in look(tmp_path, head + NOISE)[""].reason
        assert name in look(tmp_path, tar({"a": head + NOISE}))["a"].reason


def test_archive_that_changes_while_it_is_read(tmp_path: Path) -> None:
    found = look(tmp_path, gzip.compress(tar({"a": b"1"})))
    path = tmp_path / "evidence"
    path.write_bytes(path.read_bytes() + b"\0" * 512)
    opener = found["a"].opener
    assert opener is not None
    with pytest.raises(IngestError, match="changed"):
        opener(Limits())


def test_no_room_for_a_copy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stored_module, "_IN_MEMORY_BYTES", 100)
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    found = look(tmp_path, tar({"a.zip": zipped({"x": NOISE}), "b": b"2"}))
    assert "TMPDIR" in found["a.zip"].reason
    assert read(found["b"]) == b"2"


def test_limits_are_errors_of_their_own(tmp_path: Path) -> None:
    found = look(tmp_path, gzip.compress(bytes(1 << 20)))
    opener = found[""].opener
    assert opener is not None
    with opener(SMALL) as stream, pytest.raises(EvidenceTooLarge):
        drain(stream, 1 << 16)
