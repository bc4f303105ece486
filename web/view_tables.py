"""The tables of the report that link counts to rows: mechanisms, accounts, excluded reasons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from web.report_rows import EXPOSED, AccountTally, Record, Rows, key_of
from web.report_text import Estimate, amount, name, slug
from web.view_rows import Anchors, Chip
from web.view_terms import (
    LABELS,
    TIERS,
    mechanism_line,
    mechanism_title,
    reason_sentence,
    tier_anchor,
)

# Accounts that are listed, and links per account and role.
MAX_ACCOUNTS: Final = 300
MAX_CHIPS: Final = 200


@dataclass(frozen=True, slots=True)
class Cell:
    """A count with the anchor of what is behind it, None where nothing is."""

    tier: str
    label: str
    total: int
    anchor: str | None


@dataclass(frozen=True, slots=True)
class Index:
    """The shown responses behind one count."""

    anchor: str
    tier: str
    label: str
    total: int
    chips: tuple[Chip, ...]


@dataclass(frozen=True, slots=True)
class MechanismView:
    """One mechanism, its counts by tier, and the responses behind them."""

    anchor: str
    title: str
    one_line: str
    cells: tuple[Cell, ...]
    indexes: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class AccountView:
    """One account in both roles."""

    anchor: str
    name: str
    recipient: Estimate
    recipient_tiers: str
    recipient_chips: tuple[Chip, ...]
    source: Estimate
    source_tiers: str
    source_chips: tuple[Chip, ...]


def mechanisms(
    summary: Mapping[str, Any], rows: Rows, anchors: Anchors
) -> tuple[MechanismView, ...]:
    """Return all weighed mechanisms with links to the responses of each tier."""
    behind: dict[tuple[str, str], list[Record]] = {}
    for kept in rows.shown.values():
        for record in kept:
            for item in record["mechanisms"]:
                behind.setdefault((item["mechanism"], item["tier"]), []).append(record)
    views = []
    for key, counts in summary["mechanisms"].items():
        cells, indexes = [], []
        for tier in TIERS:
            total = int(counts.get(tier, 0))
            place = tier_anchor(tier) if tier == "excluded" else f"m-{slug(key)}-{tier}"
            cells.append(Cell(tier, LABELS[tier], total, place if total else None))
            if total and tier != "excluded":
                indexes.append(Index(place, tier, LABELS[tier], total, tuple(
                    anchors.chip(record) for record in behind.get((key, tier), ()))))
        views.append(MechanismView(f"m-{slug(key)}", mechanism_title(key), mechanism_line(key),
                                   tuple(cells), tuple(indexes)))
    return tuple(views)


def accounts(rows: Rows, anchors: Anchors) -> tuple[tuple[AccountView, ...], int]:
    """Return the accounts that are concerned, worst first, and how many are left out."""
    as_recipient: dict[str, list[Chip]] = {}
    as_source: dict[str, dict[str, Chip]] = {}
    for kept in rows.shown.values():
        for record in kept:
            chip = anchors.chip(record)
            if record.get("account") is not None:
                as_recipient.setdefault(record["account"], []).append(chip)
            for exposure in rows.sources.get(key_of(record), ()):
                if exposure.get("source_account") is not None:
                    as_source.setdefault(exposure["source_account"], {})[chip.anchor] = chip
    order = sorted(anchors.accounts, key=lambda account: _worst_first(account, rows))
    listed = order[:MAX_ACCOUNTS]
    for account in order[MAX_ACCOUNTS:]:
        # Nothing may link to a row that is not there.
        del anchors.accounts[account]
    return tuple(
        _account(account, rows.accounts[account], anchors, as_recipient.get(account, ()),
                 as_source.get(account, {}).values())
        for account in listed), len(order) - len(listed)


def _account(
    account: str, tally: AccountTally, anchors: Anchors, as_recipient: Iterable[Chip],
    as_source: Iterable[Chip],
) -> AccountView:
    return AccountView(
        anchors.accounts[account], name(account),
        Estimate(tally.recipient["confirmed"], amount(tally.expected),
                 math.ceil(round(tally.high, 6)), tally.recipient["not_assessable"]),
        _by_tier(tally.recipient), tuple(as_recipient)[:MAX_CHIPS],
        Estimate(tally.source["confirmed"], amount(tally.source_expected),
                 sum(tally.source[tier] for tier in EXPOSED), tally.source["not_assessable"]),
        _by_tier(tally.source), tuple(as_source)[:MAX_CHIPS])


def _by_tier(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[tier]} {LABELS[tier]}" for tier in TIERS[:4] if counts.get(tier))


def _worst_first(account: str, rows: Rows) -> tuple[int, int, int, int, int, str]:
    tally = rows.accounts[account]
    recipient, source = tally.recipient, tally.source
    return (-recipient["confirmed"], -recipient["probable"], -recipient["possible"],
            -source["confirmed"], -source["probable"] - source["possible"], account)


def excluded_reasons(rows: Rows) -> tuple[tuple[str, str, int], ...]:
    """Return (code, sentence, responses) of what refutes the excluded responses."""
    return tuple((name(code), reason_sentence(code), total) for code, total in sorted(
        rows.excluded_codes.items(), key=lambda item: (-item[1], item[0])))
