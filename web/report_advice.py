"""What to do now: steps that follow from the mechanism and from what is known of each build.

Every step rests on the summary's fleet and on the knowledge base; nothing is advised that the
knowledge base does not say of these builds. The order is that of an incident: stop, keep, close,
prove, tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from forensics.knowledge import DEFERRED_RELEASE, Knowledge, load_knowledge
from web.report_releases import checklist, first_settled, switch_helps, target
from web.report_rows import EXPOSED
from web.report_text import count, joined, name, sentence

Summary = dict[str, Any]
Worker = dict[str, Any]
# States of the knowledge base that leave a mechanism open.
OPEN: Final = ("exposed", "unknown", "reduced")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. ``phase``: 'stop', 'keep', 'close', 'prove', 'tell'.

    ``brief`` is the step in a few words, for the first screen.
    """

    phase: str
    brief: str
    title: str
    text: str
    mechanism: str | None = None
    workers: tuple[str, ...] = ()


def steps(summary: Summary) -> list[Step]:
    """Return the steps for a case, in order."""
    knowledge = load_knowledge()
    found: list[Step] = []
    for mechanism, advise in _ADVICE.items():
        workers = open_workers(summary, mechanism)
        if concerned(summary, mechanism) or any(_state(w, mechanism) != "reduced" for w in workers):
            found.extend(advise(summary, workers, knowledge))
    for mechanism in summary["mechanisms"]:
        if mechanism not in _ADVICE and exposed(summary, mechanism):
            found.append(_take_out(mechanism))
    if not summary["fleet"]:
        found.append(Step(
            "keep", "Builds are unknown: treat the fleet as open",
            "Find out which builds run",
            "No worker is described in this evidence. An unknown build is never a closed one: take "
            "GET /server_info of every worker, or its start-up log, and analyse again."))
    found.append(Step(
        "keep", "Copy the logs before any restart",
        "Copy the evidence before you restart anything",
        "Process logs, request logs, router logs and GET /server_info of every worker, metrics. "
        "Container logs are gone after a restart, request logs rotate by the hour."))
    high = summary["exposed_responses"]["high"]
    if summary["exposed_responses"]["not_assessable"] or not summary["responses"]["total"]:
        wanted = "; ".join(f"{sentence(gap['what'])}: {sentence(gap['switch'])}"
                           for gap in summary["missing"][:3])
        found.append(Step(
            "keep", "Get the missing records",
            "Get the missing records and analyse again",
            (wanted or "Logs of every worker of both roles, over the whole time, and of the router")
            + ". What cannot be assessed is not clean."))
    found.append(Step(
        "prove", "Test with canary prompts",
        "Prove with canary prompts that it stopped" if high else "Test with canary prompts",
        "Send prompts that each carry a unique string, as long as the longest in use, some of them "
        "cut off in mid-transfer: no string may appear in another answer. HTTP 200 and finish "
        "reasons prove nothing. Then analyse the new logs."))
    if high or summary["exposed_responses"]["not_assessable"]:
        found.append(Step(
            "tell", "Give the account list to whoever decides on notices",
            "Give the account list to whoever decides on notices",
            "Accounts are concerned in two ways: their answers may hold foreign text (recipient), "
            "their prompts may have been shown (source). Statutory clocks (72 hours under GDPR "
            "Article 33) run from the day you became aware, not from the end of the analysis."))
    order = ("stop", "keep", "close", "prove", "tell")
    return sorted(found, key=lambda step: order.index(step.phase))


def concerned(summary: Summary, mechanism: str) -> int:
    """Return how many responses a mechanism may have exposed or could not be judged for."""
    tiers = summary["mechanisms"].get(mechanism, {})
    return sum(int(tiers.get(tier, 0)) for tier in (*EXPOSED, "not_assessable"))


def exposed(summary: Summary, mechanism: str) -> int:
    """Return how many responses a mechanism may have exposed."""
    tiers = summary["mechanisms"].get(mechanism, {})
    return sum(int(tiers.get(tier, 0)) for tier in EXPOSED)


def open_workers(summary: Summary, mechanism: str) -> list[Worker]:
    """Return the workers whose last build leaves a mechanism open and whose role decides it."""
    decides = load_knowledge().mechanisms[mechanism].decides
    roles = ("prefill", "decode") if decides == "both" else (decides,)
    return [worker for worker in summary["fleet"]
            if worker["role"] in (*roles, "unknown") and _state(worker, mechanism) in OPEN]


def _until_assessed(summary: Summary, mechanism: str, title: str) -> str:
    """Return the title of a stop that only responses that cannot be assessed call for."""
    if exposed(summary, mechanism):
        return title
    return f"Until it can be assessed: {title[:1].lower()}{title[1:]}"


def _state(worker: Worker, mechanism: str) -> str | None:
    known = worker["knowledge"].get(mechanism)
    return known["state"] if known else None


def _names(workers: Sequence[Worker]) -> tuple[str, ...]:
    return tuple(name(worker["worker"]) for worker in workers)


def _who(workers: Sequence[Worker], role: str) -> str:
    if not workers:
        return f"the {role} workers"
    names = joined(_names(workers))
    return f"{role} worker{'s' if len(workers) > 1 else ''} {names}"


def _limit(workers: Sequence[Worker], role: str) -> list[int]:
    return [int(pool["max_req_input_len"]) for worker in workers
            if worker["role"] in (role, "unknown") for pool in worker["pools"]
            if pool.get("max_req_input_len") is not None]


def _stale(summary: Summary, workers: list[Worker], knowledge: Knowledge) -> Iterator[Step]:
    prefill, names = _who(workers, "prefill"), _names(workers)
    acute = concerned(summary, "stale_handoff") > 0
    if acute:
        title = _until_assessed(summary, "stale_handoff", f"Stop hand-offs from {prefill}")
        yield Step(
            "stop", title, title,
            "Serve this model without prefill/decode disaggregation, or not at all. "
            + ("When these builds" if workers else "No prefill worker that is known is open to it, "
               "but others may exist: when builds before the fix")
            + " refuse a prompt (length, grammar, multimodal input), they still hand one token "
            "over, and decode answers HTTP 200 over pages of other requests.",
            "stale_handoff", names)
    limits = _limit(workers or summary["fleet"], "prefill")
    decode = _limit([w for w in summary["fleet"] if w["role"] == "decode"], "decode")
    if limits and decode and max(decode) <= min(limits):
        yield Step(
            "close", "", "Prompt length alone does not open this here",
            f"Decode refuses from {count(max(decode))} tokens on, prefill only from "
            f"{count(min(limits))}, by the recorded limits. Other refusals (grammar, multimodal "
            "input) still do.", "stale_handoff", names)
    else:
        number = count(min(limits)) if limits else "(limit of prefill)"
        yield Step(
            "stop" if acute else "close",
            f"At the least, refuse prompts of {number} tokens and more at the gateway"
            if limits else "",
            f"{'If the model must stay up: refuse' if acute else 'Refuse'} prompts of {number} "
            "tokens and more at the gateway",
            ("That is the smallest limit of a prefill worker here. " if limits else
             "No prefill limit is recorded: it is max_total_num_tokens of the start-up log, less 6 "
             "tokens. ")
            + "It stops the refusals by length only; the others stay open. Then set "
            "--context-length so that every prefill pool holds it, and advertise no more.",
            "stale_handoff", names)
    yield Step(
        "close", "", f"Upgrade {prefill} to {target(knowledge, 'stale_handoff', workers)}",
        f"By the source, {first_settled(knowledge, 'stale_handoff', workers)} retires a refused "
        "request and hands nothing over (decode then waits up to 300 s for it). "
        + checklist(workers),
        "stale_handoff", names)


def _truncated(summary: Summary, workers: list[Worker], knowledge: Knowledge) -> Iterator[Step]:
    prefill = _who(workers, "prefill")
    title = _until_assessed(summary, "truncated_handoff",
                            f"Run {prefill} without --allow-auto-truncate")
    yield Step(
        "stop" if concerned(summary, "truncated_handoff") else "close", title, title,
        "With it, prefill cuts the prompt, decode reserves pages for all of it and attends the "
        "tail that nobody wrote. No release known to the knowledge base closes this while the "
        "switch is on.",
        "truncated_handoff", _names(workers))


def _late(summary: Summary, workers: list[Worker], knowledge: Knowledge) -> Iterator[Step]:
    decode = [w for w in workers if w["role"] == "decode"] or workers
    names = _names(decode)
    # The workers are also concerned as long as nothing was exposed: then draining is too much.
    if exposed(summary, "late_write"):
        reach = max((knowledge.reach_seconds(w.get("backend")) for w in decode),
                    default=knowledge.reach_seconds())
        yield Step(
            "stop", f"Drain {_who(decode, 'decode')}",
            f"Drain {_who(decode, 'decode')} and serve without disaggregation",
            "A transfer that runs cannot be cancelled: pages of an aborted request are given away "
            "while its data may still land. Send no new request, then wait at least "
            f"{count(reach)} s (a planning bound, no proof) before its pages are used again.",
            "late_write", names)
    yield Step(
        "stop" if exposed(summary, "late_write") else "close", "",
        "Until the upgrade, make aborts rare",
        "Every client disconnect, router timeout and cancel in mid-transfer opens a window: raise "
        "these timeouts, and never cancel only one half of a pair: prefill and decode together.",
        "late_write", names)
    helped = [w for w in decode if switch_helps(knowledge, w)]
    if helped:
        yield Step(
            "close", "", f"Turn deferred release on for {joined(_names(helped))}",
            f"{DEFERRED_RELEASE}=1 on decode, and restart. It reduces this mechanism, it does not "
            "close it: a release that times out gives pages away without proof.",
            "late_write", _names(helped))
    pair = [w for w in summary["fleet"] if w["role"] in ("prefill", "decode", "unknown")]
    yield Step(
        "close", "", f"Upgrade both roles together to {target(knowledge, 'late_write', pair)}",
        f"By the source, {first_settled(knowledge, 'late_write', pair)} holds the pages of an "
        "aborted request until prefill says that nothing is outstanding. Builds that differ turn "
        f"every abort into a timed-out release. {checklist(pair)} Watch "
        "sglang:decode_deferred_kv_release_total: mostly 'drained' is healthy.",
        "late_write", names)


def _take_out(mechanism: str) -> Step:
    """Return the stop that holds whatever the mechanism is."""
    return Step(
        "stop", "Take the workers of the exposed responses out of service",
        "Take the workers of the exposed responses out of service",
        f"The knowledge base has no narrower stop for {sentence(mechanism.replace('_', ' '))}. "
        "Serve without prefill/decode disaggregation until it is understood.", mechanism)


def _metadata(summary: Summary, workers: list[Worker], knowledge: Knowledge) -> Iterator[Step]:
    if workers:
        yield Step(
            "close", f"Upgrade {_who(workers, 'decode')}",
            f"Upgrade {_who(workers, 'decode')} to "
            f"{target(knowledge, 'metadata_collision', workers)}",
            "These builds do not check whose metadata row they read; no log can tell what they "
            "read.", "metadata_collision", _names(workers))


_ADVICE: Final[dict[str, Callable[[Summary, list[Worker], Knowledge], Iterator[Step]]]] = {
    "stale_handoff": _stale, "truncated_handoff": _truncated, "late_write": _late,
    "metadata_collision": _metadata,
}
