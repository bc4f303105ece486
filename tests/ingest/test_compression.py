"""Compressed files: all codecs read the same; damage is named after what is good was given."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from packing import CODECS, LOG, NOISE, drain, look, partial_read, read

from ingest.compression import codec_of, decompressed
from ingest.errors import IngestError


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", LOG, NOISE], ids=["empty", "byte", "log", "noise"])
def test_compressed_files_are_recognised_by_content(
    tmp_path: Path, codec: str, data: bytes
) -> None:
    found = look(tmp_path, CODECS[codec](data))
    assert list(found) == [""]
    assert found[""].packed
    assert read(found[""]) == data


@pytest.mark.parametrize("codec", CODECS)
def test_joined_frames_are_read_to_the_last(tmp_path: Path, codec: str) -> None:
    pack = CODECS[codec]
    joined = pack(LOG) + pack(b"") + pack(NOISE) + pack(b"end\n")
    assert read(look(tmp_path, joined)[""]) == LOG + NOISE + b"end\n"


@pytest.mark.parametrize("codec", CODECS)
def test_cut_data_gives_what_is_readable_then_says_so(tmp_path: Path, codec: str) -> None:
    packed = CODECS[codec](NOISE)
    for cut in (len(packed) // 2, len(packed) - 1):
        data, reason = partial_read(look(tmp_path, packed[:cut])[""])
        assert NOISE.startswith(data)
        # bzip2 gives nothing before a whole block.
        assert codec in ("bz2", "xz") or len(data) > cut // 2
        assert "ends early" in reason
    first, second = CODECS[codec](LOG), CODECS[codec](LOG)
    data, reason = partial_read(look(tmp_path, first + second[:-1])[""])
    assert data.startswith(LOG)
    assert "ends early" in reason


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_data_is_named(tmp_path: Path, codec: str) -> None:
    pack = {**CODECS, "zst": zstandard.ZstdCompressor(write_checksum=True).compress}[codec]
    packed = bytearray(pack(NOISE))
    packed[len(packed) // 2] ^= 0xFF
    data, reason = partial_read(look(tmp_path, bytes(packed))[""])
    assert "damaged" in reason
    assert len(data) <= len(NOISE)


def test_padding_and_garbage_behind_gzip(tmp_path: Path) -> None:
    assert read(look(tmp_path, gzip.compress(LOG) + bytes(5000))[""]) == LOG
    data, reason = partial_read(look(tmp_path, gzip.compress(LOG) + b"garbage behind")[""])
    assert (data, reason) == (LOG, "Other data follows the gzip data")


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=4), st.integers(1, 900),
       st.sampled_from(["level", "checksum", "skippable", "unsized"]))
@settings(max_examples=60, deadline=None)
def test_zstd_frames_are_followed_exactly(parts: list[bytes], step: int, kind: str) -> None:
    packed = b""
    for part in parts:
        if kind == "unsized":
            engine = zstandard.ZstdCompressor(write_content_size=False).compressobj()
            packed += engine.compress(part) + engine.flush()
        else:
            packed += zstandard.ZstdCompressor(
                level=19 if kind == "level" else 1, write_checksum=kind == "checksum"
            ).compress(part)
        if kind == "skippable":
            packed += b"\x51\x2a\x4d\x18\x05\x00\x00\x00extra"
    stream = decompressed(io.BytesIO(packed), "zstd")
    assert b"".join(iter(lambda: stream.read(step), b"")) == b"".join(parts)
    stream = decompressed(io.BytesIO(packed[:-1]), "zstd")
    with pytest.raises(IngestError, match="ends early"):
        drain(stream, step)


def test_text_is_no_codec() -> None:
    assert [codec_of(head) for head in (b"", b"BZh9 is how it begins", b"PK", b"\x1f\x8b")] == (
        [None] * 4)
