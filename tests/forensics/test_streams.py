"""What file names say, and what they do not."""

from __future__ import annotations

import pytest

from forensics.streams import directory, folder_label, path_parts, stem


@pytest.mark.parametrize(("name", "expected"), [
    ("decode.log", "decode"), ("decode.log.1", "decode"), ("decode.log.2.gz", "decode"),
    ("decode.stderr.log", "decode"), ("decode.out", "decode"), ("prefill2.log", "prefill2"),
    ("vm_0.log.2026-12-01_04", "vm_0"), ("sglang.log-20261201.gz", "sglang"),
    ("pods/ns_pod_uid/engine/0.log", ""), ("0.log.20261005-215831.gz", ""),
    ("bundle.tar.gz!node-a/sglang.log", "sglang"),
    ("server_info_decode.json", "server_info_decode"),
])
def test_stem_drops_rotation_and_channels(name, expected):
    assert stem(name) == expected


def test_archive_members_are_folders():
    parts = path_parts("bundle.tar.gz!node-a/sglang.log")
    assert parts == ["bundle.tar.gz", "node-a", "sglang.log"]
    assert directory("bundle.tar.gz!node-a/sglang.log") == "bundle.tar.gz/node-a"


def test_generic_folders_name_nobody():
    assert folder_label("case/node-7/logs") == "node-7"
    assert folder_label("logs") == ""
