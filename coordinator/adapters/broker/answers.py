"""Parse a broker's answers about backlogs, for `backlog`; an answer of another form raises.

It raises ValueError, KeyError, TypeError, AttributeError, IndexError or OverflowError: the code parses
the answer by its expected form.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote_plus

from coordinator.backlog.rules.model import (
    BacklogQuota,
    Cursor,
    Glance,
    Ledger,
    Position,
    QuotaPolicy,
    QuotaType,
    TopicStorage,
)

Bounds = dict[QuotaType, tuple[int | None, QuotaPolicy]]
"""The bound of each type of backlog quota, in bytes or seconds, and its policy; None is no bound."""


_GIGABYTE: Final = 1 << 30
_NO_LEDGER: Final = -1
_CAUGHT_UP: Final = -1


class NoPublishTime(ValueError):
    """The oldest message of a backlog has none: its producer gave it none, or the broker knows none."""


def glance_in(body: Any) -> Glance:
    """Read a glance at a topic from its statistics."""
    size_bytes = max(0, int(body["backlogSize"]))
    # Of the oldest durable cursor; -1 means that it has caught up meanwhile.
    published_ms = int(body["earliestMsgPublishTimeInBacklogs"]) if size_bytes else _CAUGHT_UP
    without_quota = body.get("backlogQuotaLimitSize") == body.get("backlogQuotaLimitTime") == -1
    if published_ms == _CAUGHT_UP:
        return Glance(0, None, None, without_quota)
    if not published_ms:
        raise NoPublishTime("no publish time of the oldest message")
    oldest = sorted(
        name
        for name, stats in body["subscriptions"].items()
        if stats["isDurable"] and int(stats["earliestMsgPublishTimeInBacklog"]) == published_ms
    )
    return Glance(size_bytes, published_ms, oldest[0] if oldest else None, without_quota)


def storage_in(body: Any) -> TopicStorage:
    """Read a topic's storage from its internal statistics."""
    ledgers = [
        Ledger(int(item["ledgerId"]), int(item["entries"]), int(item["size"]))
        for item in body["ledgers"]
    ]
    if ledgers:  # the open one does not count itself
        last = ledgers[-1].number
        ledgers[-1] = Ledger(
            last, int(body["currentLedgerEntries"]), int(body["currentLedgerSize"])
        )
    opened = body.get("lastLedgerCreatedTimestamp")
    return TopicStorage(
        ledgers=tuple(ledgers),
        cursors=tuple(_cursor(name, item) for name, item in body["cursors"].items()),
        opened_ms=None if opened is None else millis_of(opened),
    )


def _cursor(encoded: str, item: Any) -> Cursor:
    ledger, entry = item["markDeletePosition"].split(":")
    # A durable cursor is open once it has a ledger of its own; a reader's is open without one.
    is_reader = item["state"] == "Open" and int(item["cursorLedger"]) == _NO_LEDGER
    return Cursor(unquote_plus(encoded), Position(int(ledger), int(entry)), durable=not is_reader)


def closings_in(body: Any) -> dict[int, int]:
    """Read the time at which each closed ledger was closed, from a topic's internal information."""
    # The last one is open, and its time is that of the request.
    return {int(item["ledgerId"]): int(item["timestamp"]) for item in body["ledgers"][:-1]}


def bounds_in(body: Any) -> Bounds:
    """Read the bound and policy of each type of quota that a topic or namespace has."""
    found: Bounds = {}
    if size := body.get("destination_storage"):
        size_bytes = int(size.get("limitSize", size.get("limit", -1)))
        found[QuotaType.SIZE] = _size(size_bytes), _policy(size.get("policy"))
    if age := body.get("message_age"):
        found[QuotaType.TIME] = _age(int(age.get("limitTime", -1))), _policy(age.get("policy"))
    return found


def default_bounds_in(body: Any) -> Bounds:
    """Read both bounds and their policy from the configuration of a broker.

    The older setting, in gigabytes, comes first, as it does at the broker.
    """
    gigabytes = float(body.get("backlogQuotaDefaultLimitGB", -1))
    size_bytes = int(body.get("backlogQuotaDefaultLimitBytes", -1))
    if gigabytes > 0:
        size_bytes = int(gigabytes * _GIGABYTE)
    policy = _policy(body.get("backlogQuotaDefaultRetentionPolicy"))
    age_s = int(body.get("backlogQuotaDefaultLimitSecond", -1))
    return {QuotaType.SIZE: (_size(size_bytes), policy), QuotaType.TIME: (_age(age_s), policy)}


def quota_of(bounds: Bounds) -> BacklogQuota:
    """Return the quota that has these bounds, one of each type."""
    size_bytes, size_policy = bounds[QuotaType.SIZE]
    age_s, age_policy = bounds[QuotaType.TIME]
    return BacklogQuota(size_bytes, age_s, size_policy, age_policy)


def _size(size_bytes: int) -> int | None:
    return None if size_bytes < 0 else size_bytes


def _age(age_s: int) -> int | None:
    return None if age_s <= 0 else age_s


def _policy(name: str | None) -> QuotaPolicy:
    return QuotaPolicy.HOLD if name is None else QuotaPolicy(name)


def millis_of(stamp: str) -> int:
    """Return milliseconds of the epoch, given these or a time in any zone."""
    if stamp.lstrip("-").isdecimal():
        return int(stamp)
    moment = datetime.fromisoformat(stamp)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
