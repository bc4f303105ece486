"""Replay of page traces: who owned each page when, who wrote it last, which writes came late.

Ownership stands on the decode host's clock, sends on the prefill host's. Their offset is bounded by
cause and effect: a send begins after its page list was advertised, and a use commits after its last
send ended. A use's own sends count as on time by that order, never by comparing clocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Pages = npt.NDArray[np.int64]
NONE: Final = -1
FOREVER: Final = 2**62
# Share of failed sends that land late on a page anyway: the tail weight of a fleet that logged no
# failure (leak-mechanisms.md, section 4); a failed send gives no frequency of its own.
OPEN_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a page trace; see ``queries/trace_step.sql``."""

    t_ns: int
    ev: str
    room: int
    rid: str
    why: str | None
    chunk: int | None
    session: str | None
    ok: bool | None
    tokens: int | None
    extents: tuple[tuple[int, int], ...]
    ref: str


@dataclass(slots=True)
class Trace:
    """One recorder run of one rank."""

    worker_id: int | None
    role: str
    dp: int | None
    session: str | None
    num_pages: int
    page_size: int
    steps: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class Use:
    """One use of pages of a decode pool by one request."""

    number: int
    room: int
    rid: str
    alloc_ns: int
    prompt: list[tuple[int, int]] = field(default_factory=list)
    growth: list[tuple[int, int, int]] = field(default_factory=list)
    tokens: int | None = None
    commit_ns: int | None = None
    free_ns: int | None = None
    refs: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Send:
    """One RDMA write of a chunk into a decode pool, on the decode clock: [begin, end] bounds.

    ``end_hi`` is FOREVER when the send failed or never ended on record.
    """

    room: int
    begin_lo: int
    begin_hi: int
    end_lo: int
    end_hi: int
    ok: bool
    extents: tuple[tuple[int, int], ...]
    ref: str


@dataclass(slots=True)
class Stale:
    """Attended pages of one use that none of its own sends reached, by last writer."""

    use: Use
    n_pages: int
    by_writer: dict[tuple[int, str], list[int]]
    never_written: int


@dataclass(slots=True)
class Late:
    """A send that may have landed on pages of another use after that use's own write."""

    recipient: Use
    source: Use
    pages: list[int]
    certain: bool
    open_end: bool
    miss: float
    ref: str

    @property
    def probability(self) -> float:
        """Probability that at least one page was overwritten.

        A page of a chunk lands at some time between the chunk's begin and its end. Half the weight
        is spread evenly over that span, half sits at its end: a send that ends late does so because
        its last writes landed late.
        """
        return 1.0 - self.miss


@dataclass(slots=True)
class PoolResult:
    """What one decode pool's trace shows."""

    trace: Trace
    uses: list[Use]
    stale: list[Stale]
    late: list[Late]
    written: set[int]


def pages_of(extents: Iterable[tuple[int, int]]) -> Pages:
    """Return the page numbers of extents, in order."""
    parts = [np.arange(start, start + n, dtype=np.int64) for start, n in extents]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def uses_of(trace: Trace) -> list[Use]:
    """Collect the uses of a decode pool; a new prealloc of the same request is a new use."""
    uses: list[Use] = []
    current: dict[tuple[int, str], Use] = {}
    for step in trace.steps:
        key = step.room, step.rid
        if step.ev == "alloc" and step.why != "growth":
            use = Use(len(uses), step.room, step.rid, step.t_ns, list(step.extents),
                      tokens=step.tokens, refs=[step.ref])
            uses.append(use)
            current[key] = use
            continue
        use = current.get(key)  # type: ignore[assignment]
        if use is None:
            continue
        if step.ev == "alloc":
            use.growth.extend((step.t_ns, start, n) for start, n in step.extents)
        elif step.ev == "commit":
            use.commit_ns = step.t_ns
            use.refs.append(step.ref)
        elif step.ev == "free":
            use.free_ns = step.t_ns
            use.refs.append(step.ref)
    return uses


def clock_bounds(decode: Trace, prefill: Trace, advertised: dict[int, int],
                 committed: dict[int, int]) -> tuple[int, int] | None:
    """Return (low, high) of prefill clock minus decode clock in ns; None without shared rooms."""
    low, high = -FOREVER, FOREVER
    for step in prefill.steps:
        if step.ev == "send_begin" and step.room in advertised:
            high = min(high, step.t_ns - advertised[step.room])
        elif step.ev == "send_end" and step.ok and step.room in committed:
            low = max(low, step.t_ns - committed[step.room])
    if low == -FOREVER or high == FOREVER:
        return None
    # A crossing means that the offset moved: both ends stay, in order.
    return min(low, high), max(low, high)


def sends_to(decode: Trace, uses: list[Use], prefills: list[Trace]) -> list[Send]:
    """Pair the sends of all prefill traces that went into this pool, on the decode clock."""
    rooms = {use.room for use in uses}
    advertised = {s.room: s.t_ns for s in decode.steps if s.ev == "advertise"}
    committed = {s.room: s.t_ns for s in decode.steps if s.ev == "commit"}
    found: list[Send] = []
    for prefill in prefills:
        bounds = clock_bounds(decode, prefill, advertised, committed)
        if bounds is None:
            continue
        low, high = bounds
        for first, last in _paired(prefill, rooms, decode.session):
            whole = last is not None and last.ok is not False
            found.append(Send(
                first.room, first.t_ns - high, first.t_ns - low,
                (last.t_ns if last else first.t_ns) - high,
                last.t_ns - low if last and whole else FOREVER,
                whole, first.extents, first.ref))
    return found


def _paired(
    prefill: Trace, rooms: set[int], session: str | None
) -> Iterator[tuple[Step, Step | None]]:
    """Pair each send_begin with its send_end: the first later one of the same chunk and pages."""
    open_sends: dict[tuple[int, int | None, tuple[tuple[int, int], ...]], list[list[Step]]] = {}
    order: list[list[Step]] = []
    for step in prefill.steps:
        if step.room not in rooms or step.session != session:
            continue
        key = step.room, step.chunk, step.extents
        if step.ev == "send_begin":
            pair = [step]
            order.append(pair)
            open_sends.setdefault(key, []).append(pair)
        elif step.ev == "send_end" and open_sends.get(key):
            open_sends[key].pop(0).append(step)
    for pair in order:
        yield pair[0], pair[1] if len(pair) > 1 else None


def replay(decode: Trace, prefills: list[Trace]) -> PoolResult:
    """Replay one decode pool: stale pages with their last writers, and late writes."""
    uses = uses_of(decode)
    sends = sends_to(decode, uses, prefills)
    by_room: dict[int, list[Use]] = defaultdict(list)
    for use in uses:
        by_room[use.room].append(use)
    own: dict[int, list[Send]] = defaultdict(list)
    for send in sends:
        own[_owner(by_room[send.room], send).number].append(send)
    size = decode.num_pages + 1
    stale, written = _stale(uses, own, size)
    return PoolResult(decode, uses, stale, _late(uses, own), written)


def _owner(candidates: list[Use], send: Send) -> Use:
    """Return the use of the room that the send belongs to: the last one allocated before it."""
    before = [use for use in candidates if use.alloc_ns <= send.begin_hi]
    return before[-1] if before else candidates[0]


def _stale(
    uses: list[Use], own: dict[int, list[Send]], size: int
) -> tuple[list[Stale], set[int]]:
    """Find attended pages that no own send reached, and who wrote them last before the commit."""
    writer = np.full(size, NONE, dtype=np.int64)
    actions: list[tuple[int, int, Any]] = []
    for use in uses:
        if use.commit_ns is not None:
            actions.append((use.commit_ns, 1, use))
        for t_ns, start, n in use.growth:
            actions.append((t_ns, 0, (use.number, start, n)))
        for send in own.get(use.number, ()):
            # Own sends count from their end, and from the commit at the latest.
            end = send.end_lo if send.end_hi == FOREVER else send.end_hi
            if use.commit_ns is not None and send.ok:
                end = min(end, use.commit_ns)
            actions.extend((end, 0, (use.number, start, n)) for start, n in send.extents)
    actions.sort(key=lambda action: action[:2])
    stale, written = [], set()
    for _, kind, what in actions:
        if kind == 0:
            number, start, n = what
            writer[max(start, 0) : start + n] = number
            continue
        reader: Use = what
        covered = pages_of(
            extent for send in own.get(reader.number, ()) if send.ok
            for extent in send.extents)
        prompt = pages_of(reader.prompt)
        missing = prompt[~np.isin(prompt, covered)]
        missing = missing[(missing >= 0) & (missing < size)]
        if not len(missing):
            written.add(reader.number)
            continue
        groups: dict[tuple[int, str], list[int]] = defaultdict(list)
        never = 0
        for page, number in zip(missing.tolist(), writer[missing].tolist(), strict=True):
            if number == NONE:
                never += 1
            elif number != reader.number:
                groups[uses[number].room, uses[number].rid].append(page)
        stale.append(Stale(reader, len(missing), dict(groups), never))
    return stale, written


def _late(uses: list[Use], own: dict[int, list[Send]]) -> list[Late]:
    """Find sends that may land after their own request gave the pages back, and on whom."""
    holdings: dict[int, list[tuple[int, int, Use, int]]] = defaultdict(list)
    suspects = [
        (use, send) for use in uses if use.free_ns is not None
        for send in own.get(use.number, ()) if send.end_hi >= use.free_ns
        and (use.commit_ns is None or not send.ok)
    ]
    wanted = {p for _, send in suspects for p in pages_of(send.extents).tolist()}
    for use in uses if wanted else ():
        until = use.free_ns if use.free_ns is not None else FOREVER
        own_write = {
            p: send.end_hi for send in own.get(use.number, ()) if send.ok
            for p in pages_of(send.extents).tolist() if p in wanted}
        for p in pages_of(use.prompt).tolist():
            if p in wanted:
                written = min(own_write.get(p, FOREVER), use.commit_ns or FOREVER)
                holdings[p].append((use.alloc_ns, until, use, written))
        for t_ns, start, n in use.growth:
            for p in range(start, start + n):
                if p in wanted:
                    # Decode writes a growth page itself, from its allocation on.
                    holdings[p].append((t_ns, until, use, t_ns))
    found: dict[tuple[int, int], Late] = {}
    for source, send in suspects:
        free = source.free_ns or 0
        for page in pages_of(send.extents).tolist():
            for began, until, holder, written in holdings.get(page, ()):
                if holder.number == source.number or began < free:
                    continue
                share = _harm(send, written, until)
                if share <= 0.0:
                    continue
                key = holder.number, source.number
                entry = found.get(key)
                if entry is None:
                    entry = found[key] = Late(holder, source, [], False, True, 1.0, send.ref)
                entry.pages.append(page)
                entry.certain |= share >= 1.0
                entry.open_end &= not send.ok
                # Pages of one chunk land together or nearly so: the likeliest page decides.
                entry.miss = min(entry.miss, 1.0 - share)
    return sorted(found.values(), key=lambda late: (late.recipient.number, late.source.number))


def _harm(send: Send, written: int, until: int) -> float:
    """Return the share of a send's landing time after ``written`` and before ``until``.

    Harm: the write lands after the holder's own write of the page and before its last read. 1.0
    only if that holds at every time and every clock offset that the records allow.
    """
    if send.end_hi == FOREVER:
        return OPEN_SHARE if until > max(written, send.begin_lo) else 0.0
    low, high = send.begin_lo, send.end_hi
    if high <= written or until <= low:
        return 0.0
    if low > written and high < until:
        return 1.0
    part = min(high, until) - max(low, written)
    at_end = 1.0 if written < send.end_lo and high < until else 0.0
    return min(0.5 * at_end + 0.5 * part / max(high - low, 1), 0.999)
