"""The knowledge files, their checks, and how they are printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import forensics.version_data as version_data
from forensics.knowledge import (
    MECHANISMS,
    load_knowledge,
    schema,
)
from forensics.knowledge_text import WIDTH, knowledge_as_dict, render_knowledge
from ingest.errors import KnowledgeError, UsageError


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A writable copy of the knowledge files that the loader reads instead."""
    for name in version_data.knowledge_files():
        (tmp_path / name).write_bytes(version_data.knowledge_bytes(name))
    monkeypatch.setattr(version_data, "files", lambda _: _Package(tmp_path))
    load_knowledge.cache_clear()
    yield tmp_path
    load_knowledge.cache_clear()


class _Package:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def joinpath(self, _: str, *names: str) -> Path:
        return self.folder.joinpath(*names)


def test_the_version_is_a_hash_of_the_files(copied: Path) -> None:
    before = load_knowledge().version
    load_knowledge.cache_clear()
    assert load_knowledge().version == before
    (copied / "gates.toml").write_bytes((copied / "gates.toml").read_bytes() + b"\n")
    load_knowledge.cache_clear()
    assert load_knowledge().version != before
    assert before.startswith("1+")


@pytest.mark.parametrize(("name", "old", "new", "complaint"), [
    ("late_write.toml", 'until = "0.5.12"', 'until = "0.5.13"', "overlaps .* in late_write.toml"),
    ("late_write.toml", 'state = "exposed"', 'state = "bad"', "state: not one of"),
    ("late_write.toml", 'window = "none"', 'window = "wide"', "window: not one of"),
    ("late_write.toml", 'window = "none"\n', "", "window: missing"),
    ("late_write.toml", "gates = [27372, 31357]", "gates = [1]", "gates: 1 is not described"),
    ("stale_handoff.toml", 'since = "0.4.6"', 'since = "0.4"', "since: range"),
    ("stale_handoff.toml", 'since = "0.4.6"', 'since = "new"', "since: not a version"),
    ("stale_handoff.toml", 'since = "0.4.6"', 'since = "0.4.6rc1"', "since: not a plain release"),
    ("stale_handoff.toml", 'backends = ["nixl"]', 'backends = ["nix"]', "backends: not out of"),
    ("stale_handoff.toml", 'letter = "A"', 'letter = "A"\ncolour = "red"', "colour: unknown key"),
    ("stale_handoff.toml", "[[row]]", "[[rule]]", "rule: unknown table"),
    ("stale_handoff.toml", 'name = "stale_handoff"', "name = 5", "name: not of type str"),
    ("truncated_handoff.toml", "allow_auto_truncate = ", "allow_truncate = ",
     "when: allow_truncate is not described"),
    ("gates.toml", "pull/8133", "pull/8134", "url: not the address"),
    ("gates.toml", 'date = "2025-08"', 'date = "soon"', "date: not a day"),
    ("gates.toml", 'date = "2025-08"\n', "", "date: missing"),
    ("dialect.toml", 'until = "0.5.11"', 'what_else = "x"', "unknown key|neither since"),
    ("releases.toml", 'version = "0.5.10"', 'version = "0.5.2"', "version: not in ascending"),
    ("quantities.toml", "value = 60", 'value = "long"', "value: not a number"),
    ("switches.toml", 'kind = "env"', 'kind = "knob"', "kind: not one of"),
    ("findings.toml", 'letter = "F"', "letter = ", "not readable as TOML"),
])
def test_a_broken_file_is_refused_by_name_and_key(
    copied: Path, name: str, old: str, new: str, complaint: str
) -> None:
    text = (copied / name).read_text()
    assert old in text
    count = -1 if old in ("[[row]]", "allow_auto_truncate = ") else 1
    (copied / name).write_text(text.replace(old, new, count))
    with pytest.raises(KnowledgeError, match=complaint) as caught:
        load_knowledge()
    assert name in str(caught.value)


def test_a_missing_or_foreign_file_is_refused(copied: Path) -> None:
    (copied / "extra.toml").write_text("")
    with pytest.raises(KnowledgeError, match=r"not a file of the knowledge base in extra\.toml"):
        load_knowledge()
    (copied / "extra.toml").unlink()
    (copied / "gates.toml").unlink()
    with pytest.raises(KnowledgeError, match=r"missing in gates\.toml"):
        load_knowledge()


def test_the_files_on_disk_are_the_ones_that_are_described() -> None:
    assert set(version_data.knowledge_files()) == set(schema.TOP_LEVEL)
    readme = Path(schema.__file__).with_name("README.md").read_text()
    assert all(name in readme for name in schema.TOP_LEVEL if name[:-5] not in MECHANISMS)


@pytest.mark.parametrize("version", [None, "0.5.18", "0.5.20", "0.5.23", "0.7.0",
                                     "nightly-dev-20260706-8673e85e"])
@pytest.mark.parametrize("backend", [None, "mooncake", "nixl", "fake"])
def test_text_names_every_mechanism_and_keeps_its_width(
    version: str | None, backend: str | None
) -> None:
    text = render_knowledge(version, backend)
    assert all(name in text for name in MECHANISMS)
    assert load_knowledge().version in text
    assert all(len(line) <= WIDTH for line in text.splitlines() if "https://" not in line)


def test_text_shows_source_and_advisory_where_they_differ() -> None:
    text = render_knowledge("0.5.20", "mooncake")
    stale = text.split("stale_handoff", 1)[1].split("\n\n", 1)[0]
    assert "source: CLOSED" in stale
    assert "advisory (differs): EXPOSED" in stale
    assert "Release 0.5.22: wheel 2026-10-15, advisory 2026-10-19" in render_knowledge("0.5.22")
    held = render_knowledge("0.5.23", "mooncake").split("late_write", 1)[1].split("\n\n", 1)[0]
    assert "with every switch at its default: reduced, window timeout_release" in held


def test_text_says_that_a_newer_build_was_not_read() -> None:
    text = render_knowledge("0.7.0", "mooncake")
    assert "Nothing was read about some or all of these builds" in text
    assert "CLOSED" not in text


def test_dictionary_is_plain_json_with_the_same_states() -> None:
    found = json.loads(json.dumps(knowledge_as_dict("0.5.21", "mori")))
    assert found["schema"] == "palimpsest/knowledge/1"
    late = next(m for m in found["mechanisms"] if m["name"] == "late_write")
    assert late["assessment"]["state"] == "exposed"
    assert late["advisory"]["state"] == "exposed"
    assert all("mori" in rule["backends"] for rule in late["rules"])
    assert found["build"]["not_read"] is False
    assert "assessment" not in knowledge_as_dict()["mechanisms"][0]


def test_an_unknown_backend_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown transfer backend"):
        render_knowledge("0.5.20", "carrier-pigeon")
