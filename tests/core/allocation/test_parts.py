"""All members together want of a leaf what their reports add up to."""

from __future__ import annotations

from coordinator.core.allocation.forest import resolve
from coordinator.core.allocation.parts import Parts
from coordinator.core.allocation.tree import Want
from coordinator.core.model import (
    NANOS_PER_SECOND,
    GroupUsage,
    Member,
    MonitoringClass,
    Usage,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.map import UsageMap
from tests.core.tree_groups import group

PUBLISH = MonitoringClass.PUBLISH


def want_of(*usages: Usage) -> Want:
    """Return the want of a leaf in which one member has each of these usages."""
    groups, forest = resolve((group("shop", 1_000), group("orders", None, "shop")))
    members = {f"b{number}": Member(f"b{number}", 1) for number in range(len(usages))}
    usage = UsageMap("b0")
    usage.set_members(members)
    for broker, told in zip(members, usages, strict=True):
        entries = (GroupUsage("orders", 1, {PUBLISH: told}),)
        usage.take(UsageReport(broker, 1, 1, NANOS_PER_SECOND, entries), 0)
    return Parts(forest, groups, members, usage, CoreSettings("b0")).want("orders", PUBLISH)


def throttled(message_size: int) -> Usage:
    """Return the usage of a broker whose demand of messages is hidden."""
    return Usage(messages_demand=None, message_size=message_size, participants=1)


def test_a_message_of_a_hidden_demand_has_the_mean_size_in_whole_bytes() -> None:
    """A broker that knows no size, or whose demand is known, counts for nothing in it."""
    known = Usage(messages_demand=7, message_size=9_000, participants=1)

    assert want_of(throttled(100), throttled(101), throttled(0), known).message_size == 100


def test_a_leaf_wants_the_demands_of_all_members_or_what_it_may_have_at_most() -> None:
    """A broker that wants less than its reserve holds that; a demand that is hidden has no bound."""
    few, many = (Usage(messages_demand=demand, participants=1) for demand in (0, 70))

    assert want_of(few, many).demand[0] == 2 + 70
    assert want_of(few, throttled(0)).demand[0] is None
