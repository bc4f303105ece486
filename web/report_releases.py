"""Which release settles a mechanism, by the knowledge base and by the published checklist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forensics.knowledge import DEFERRED_RELEASE, Knowledge
from forensics.versions import Version, VersionRange

Worker = dict[str, Any]


def _range(worker: Worker) -> VersionRange:
    bounds: list[Version | None] = []
    for end in ("low", "high"):
        try:
            bounds.append(Version.parse(str(worker["version"].get(end))))
        except ValueError:
            bounds.append(None)
    return VersionRange(bounds[0], bounds[1], False, ())


def switch_helps(knowledge: Knowledge, worker: Worker) -> bool:
    """Whether deferred release is not known to be on, and turning it on changes the state."""
    if worker["switches"].get(DEFERRED_RELEASE) is True:
        return False
    build, backend = _range(worker), worker.get("backend")
    default = knowledge.switch_default(DEFERRED_RELEASE, build, backend)
    if default is True and worker["switches"].get(DEFERRED_RELEASE) is None:
        return False
    turned_on = knowledge.lookup_late_write(build, build, backend, True).state
    return turned_on in ("closed", "reduced")


def first_settled(knowledge: Knowledge, mechanism: str, workers: Sequence[Worker]) -> str:
    """Name the first release from which on the knowledge base calls a mechanism settled."""
    found = _first_release(knowledge, mechanism, workers)
    return f"release {found}" if found else "no release known to the knowledge base"


def target(knowledge: Knowledge, mechanism: str, workers: Sequence[Worker]) -> str:
    """Name the release to upgrade to: the later one of the source's and the checklist's."""
    found = _first_release(knowledge, mechanism, workers)
    checklist = Version.parse(_checklist_release(workers))
    return f"{max(found, checklist) if found else checklist} or later"


def _first_release(
    knowledge: Knowledge, mechanism: str, workers: Sequence[Worker]
) -> Version | None:
    needed: list[Version] = []
    backends: list[str | None] = sorted({w["backend"] for w in workers if w.get("backend")})
    for backend in backends or [None]:
        settled: Version | None = None
        for version in reversed(knowledge.known):
            if not _settled(knowledge, mechanism, version, backend):
                break
            settled = version
        if settled is None:
            return None
        needed.append(settled)
    return max(needed)


def _settled(
    knowledge: Knowledge, mechanism: str, version: Version, backend: str | None
) -> bool:
    if mechanism != "late_write":
        return knowledge.lookup(mechanism, version, backend).state == "closed"
    # Nothing closes late writes for good; what counts is deferred release without being asked.
    state = knowledge.lookup_late_write(version, version, backend, True).state
    return state in ("closed", "reduced") and knowledge.switch_default(
        DEFERRED_RELEASE, version, backend) is True


def _checklist_release(workers: Sequence[Worker]) -> str:
    """Return what the published operator checklist asks for (incident account, 2026-10-26)."""
    failed_send = any(w.get("backend") in ("nixl", "mori") for w in workers)
    return "0.5.23" if failed_send else "0.5.22"


def checklist(workers: Sequence[Worker]) -> str:
    release = _checklist_release(workers)
    return f"The published checklist asks for {release} or later" + (
        " with NIXL or MORI." if release == "0.5.23" else ".")
