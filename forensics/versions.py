"""Versions of the serving engine: parsing, order, and ranges that evidence proves.

A worker's build is rarely stated. What its own lines look like (the dialect) bounds it; a nightly
image bounds it by date. All bounds are inclusive and never narrower than what was proven: a marker
that first shipped in 0.5.16 also admits the development builds before 0.5.16.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import total_ordering
from typing import Final

from forensics.version_data import dialect_markers, release_dates

# Longest build text that is looked at; real image references are below 200 characters.
MAX_BUILD_CHARS: Final = 300
# Order of the stages of one release (PEP 440).
_STAGES: Final = {"dev": -4, "a": -3, "b": -2, "rc": -1, "": 0, "post": 1}
# Number of the artificial last pre-release of a version; see Version.last_before.
_LAST: Final = 10**9

_VERSION = re.compile(
    r"v?(?P<release>\d{1,4}(?:\.\d{1,4}){1,3})"
    r"(?:[.-]?(?P<stage>dev|post|rc|a|b)\.?(?P<number>\d{1,9}))?"
    r"(?:\+(?P<local>[a-z0-9.]{1,60}))?",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"[0-9a-f]{7,40}", re.IGNORECASE)
_TREE_LOCAL = re.compile(r"(?:^|\.)g[0-9a-f]{4,40}(?:\.|$)", re.IGNORECASE)
_NIGHTLY = re.compile(r"nightly[a-z0-9.-]{0,40}?-(?P<day>\d{8})(?:-(?P<commit>[0-9a-f]{7,40}))?")
# Image tag suffixes that name a platform, not a changed tree: -cu126, -rocm720-mi30x, -arm64 ...
_PLATFORM = re.compile(
    r"(?:-(?:cu\d{2,4}|cuda[\d.]*|rocm[\d.]*|mi\d+x?|cann[\d.]*|npu|a[23]|910b|xpu|cpu|xeon|gb?\d+"
    r"|b\d{3}|h\d{3}|blackwell|hopper|amd64|arm64|aarch64|x86_64|x86|runtime|slim|srt"
    r"|ubuntu[\d.]*|py3\d+))*"
)
# Image names of the engine: lmsysorg/sglang, rocm/sgl-dev, ...
_ENGINE_NAME = re.compile(r"sgl", re.IGNORECASE)
# v0.5.9-rocm720-mi30x-20260301: built on that day from a later tree than the release it names.
_DATED_SUFFIX = re.compile(r"-(?P<day>20\d{6})(?:-[0-9a-z.-]{0,60})?$")


@total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """One version: release numbers, stage ('' for a release) and the stage's number.

    ``local`` (what follows '+') names the tree and does not take part in the order.
    """

    release: tuple[int, ...]
    stage: str = ""
    number: int = 0
    local: str = ""

    @staticmethod
    def parse(text: str) -> Version:
        """Parse '0.5.10.post1', 'v0.5.9', '0.5.12.dev3+g1234', '0.5.10rc0'; else ValueError."""
        version = _parse_version(text)
        if version is None:
            raise ValueError("not a version")
        return version

    @staticmethod
    def first_of(base: Version) -> Version:
        """The earliest build that counts as before ``base``: its first development build."""
        return Version(base.release, "dev", 0)

    @staticmethod
    def last_before(base: Version) -> Version:
        """The last possible build before the release ``base`` (renders as 'before 0.5.12')."""
        return Version(base.release, "rc", _LAST)

    @property
    def base(self) -> Version:
        """The release that this build is a stage of."""
        return Version(self.release)

    @property
    def post(self) -> int | None:
        """Number of the post-release, None if this is not one."""
        return self.number if self.stage == "post" else None

    @property
    def is_release(self) -> bool:
        """True for a release or post-release, False for anything before a release."""
        return self.stage in ("", "post")

    def _key(self) -> tuple[tuple[int, ...], int, int]:
        padded = self.release + (0,) * (4 - len(self.release))
        return padded, _STAGES[self.stage], self.number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key() == other._key()

    def __lt__(self, other: Version) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        text = ".".join(map(str, self.release))
        if self.number == _LAST:
            return f"before {text}" if self.stage == "rc" else f"{text} with its post-releases"
        if self.stage in ("dev", "post"):
            text = f"{text}.{self.stage}{self.number}"
        elif self.stage:
            text = f"{text}{self.stage}{self.number}"
        return f"{text}+{self.local}" if self.local else text


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions between two inclusive bounds; None is unbounded. ``low > high``: contradictory.

    ``exact``: the range was stated by the process itself for a released tree, not inferred.
    """

    low: Version | None = None
    high: Version | None = None
    exact: bool = False
    why: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """True if the bounds contradict each other; then nothing is certain."""
        return self.low is not None and self.high is not None and self.high < self.low

    @property
    def unknown(self) -> bool:
        """True if nothing bounds the version."""
        return self.low is None and self.high is None

    def certainly_below(self, version: Version) -> bool:
        """True only if every version of the range is below ``version``."""
        return not self.empty and self.high is not None and self.high < version

    def certainly_at_least(self, version: Version) -> bool:
        """True only if every version of the range is ``version`` or later."""
        return not self.empty and self.low is not None and self.low >= version

    def contains(self, version: Version) -> bool:
        """True if ``version`` is inside the bounds."""
        return (self.low is None or self.low <= version) and (
            self.high is None or version <= self.high
        )

    def intersect(self, other: VersionRange) -> VersionRange:
        """Return what both ranges allow; a contradiction is an ``empty`` range that says so."""
        low = max((v for v in (self.low, other.low) if v is not None), default=None)
        high = min((v for v in (self.high, other.high) if v is not None), default=None)
        why = self.why + tuple(text for text in other.why if text not in self.why)
        result = VersionRange(low, high, self.exact or other.exact, why)
        if result.empty:
            note = f"contradictory: {self} and {other}"
            return VersionRange(low, high, False, (*why, note))
        return result

    def __str__(self) -> str:
        if self.empty:
            return "contradictory"
        if self.low is not None and self.low == self.high:
            return str(self.low)
        low = "" if self.low is None else str(self.low)
        if self.low is not None and self.low == Version.first_of(self.low):
            low = f"{self.low.base} (or a development build of it)"
        if self.high is None:
            return f"{low} or later" if low else "unknown"
        if low:
            return f"{low} to {self.high}"
        return str(self.high) if self.high.number == _LAST else f"{self.high} or earlier"


@dataclass(frozen=True, slots=True)
class Build:
    """What a worker runs, as far as its text says.

    kind: release | post | dev | nightly | image | commit | unknown. ``released_tree`` is False
    where patches may have been picked on top (nightly, commit, local version, own image suffix).
    """

    raw: str
    kind: str
    version: Version | None = None
    tag: str | None = None
    day: date | None = None
    commit: str | None = None
    released_tree: bool = False

    def range(self) -> VersionRange:
        """Return the versions that this build can be; unbounded when the text does not say."""
        if self.version is not None:
            why: tuple[str, ...] = (f"stated as {self.version}",)
            if not self.released_tree:
                why += ("not a released tree: patches on top are not known",)
            return VersionRange(self.version, self.version, self.released_tree, why)
        if self.day is None:
            return VersionRange(why=("the build text names no version",) if self.raw else ())
        low = max((v for v, day in release_dates() if day and day < self.day), default=None)
        high = min((v for v, day in release_dates() if day and day >= self.day), default=None)
        return VersionRange(
            _version(low), _version(high), False,
            (f"nightly of {self.day.isoformat()}: between releases by date, not a released tree: "
             "patches on top are not known",),
        )


def parse_build(text: str | None) -> Build:
    """Parse a version, image reference, nightly tag or commit hash; anything else is unknown."""
    raw = (text or "").strip()
    if not raw or len(raw) > MAX_BUILD_CHARS:
        return Build(raw[:MAX_BUILD_CHARS], "unknown")
    name, tag = _split_image(raw)
    # A version tag of an image that is not named after the engine counts something else.
    if name and not _ENGINE_NAME.search(name):
        return Build(raw, "unknown", tag=tag)
    if nightly := _NIGHTLY.fullmatch(tag.lower()):
        return Build(raw, "nightly", None, tag, _day(nightly["day"]), nightly["commit"])
    if _COMMIT.fullmatch(tag) and (any(c.isalpha() for c in tag) or len(tag) >= 40):
        return Build(raw, "commit", tag=tag if name else None, commit=tag.lower())
    match = _VERSION.match(tag)
    version = _parse_version(match.group()) if match else None
    if version is None or match is None:
        return Build(raw, "image" if name else "unknown", tag=tag or None)
    suffix = tag[match.end():]
    if suffix and not suffix.startswith("-"):
        return Build(raw, "image" if name else "unknown", tag=tag)
    if dated := _DATED_SUFFIX.search(suffix):
        return Build(raw, "nightly", None, tag, _day(dated["day"]))
    local = _TREE_LOCAL.search(version.local)
    commit = local.group().strip(".")[1:] if local else None
    clean = commit is None and _PLATFORM.fullmatch(suffix.lower()) is not None
    kind = "image" if name or suffix else {"": "release", "post": "post"}.get(version.stage, "dev")
    return Build(raw, kind, version, tag if name else None, None, commit,
                 clean and version.is_release)


def infer_range(markers: Iterable[str]) -> VersionRange:
    """Bound a worker's version by the dialect markers of its own evidence (one boot at a time).

    Names that the knowledge base does not list say nothing. Two markers that exclude each other
    give an ``empty`` range: the lines come from more than one build.
    """
    table = dialect_markers()
    result = VersionRange()
    for name in sorted(set(markers)):
        if name not in table:
            continue
        since, until, next_release = table[name]
        low = Version.first_of(Version(since)) if since else None
        high = Version.last_before(Version(next_release)) if until and next_release else None
        bounds = " ".join(
            part for part in (f"since {_version(since)}" if since else "",
                              f"until {_version(until)}" if until else "") if part)
        result = result.intersect(VersionRange(low, high, False, (f"{name} ({bounds})",)))
    return result


def released_by(day: date) -> VersionRange:
    """Bound a version by a day on which it ran: releases published later are impossible.

    The clock that stamped the day must be trusted. Beyond the newest known release the bound is
    that release: it holds while no newer one was published (date in ``releases.toml``).
    """
    dated = [(v, d) for v, d in release_dates() if d is not None]
    past = [v for v, d in dated if d <= day]
    future = [v for v, d in dated if d > day]
    why = (f"ran on {day.isoformat()}",)
    if future:
        return VersionRange(None, Version.last_before(Version(min(future))), False, why)
    newest = max(past, default=None)
    high = Version(newest, "post", _LAST) if newest else None
    return VersionRange(None, high, False, (*why, "no newer release is known"))


def _parse_version(text: str) -> Version | None:
    match = _VERSION.fullmatch(text.strip()) if len(text) <= MAX_BUILD_CHARS else None
    if match is None:
        return None
    return Version(
        tuple(int(part) for part in match["release"].split(".")),
        (match["stage"] or "").lower(), int(match["number"] or 0), (match["local"] or "").lower(),
    )


def _split_image(raw: str) -> tuple[str, str]:
    """Split 'registry:5000/name:tag' into (name, tag); a bare tag or version has no name."""
    text = re.sub(r"^sglang\s*(?:==)?\s*(?=v?\d)", "", raw, flags=re.IGNORECASE)
    text = text.split("@", 1)[0]
    head, slash, last = text.rpartition("/")
    name, colon, tag = last.partition(":")
    if colon:
        return f"{head}{slash}{name}", tag
    return (text, "") if slash else ("", text)


def _day(text: str) -> date | None:
    try:
        return date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        return None


def _version(release: tuple[int, ...] | None) -> Version | None:
    return None if release is None else Version(release)
