"""The raises of other brokers that wait for this one, and the content of its answers."""

from __future__ import annotations

import pytest

from coordinator.core.allocation.forest import Forest, resolve
from coordinator.core.model import (
    GroupUsage,
    Member,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Usage,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.acknowledgements import Answers, answers_to_all
from coordinator.core.usage.map import UsageMap

OWN, ASKER = "b0", "b1"
KEY = ("orders", MonitoringClass.PUBLISH)
SETTINGS = CoreSettings(broker=OWN)
LIMIT = 1_000
RESERVE = LIMIT * SETTINGS.arrival_reserve_permille // 1000
ORDERS = ResourceGroup("orders", Rates(publish_messages=LIMIT))


def answers(
    limit: int | None, *, takes_part: bool = False, group: ResourceGroup | None = ORDERS
) -> Answers:
    """Answer to one broker that holds a limit and has announced that it will raise it to 900."""
    usage = UsageMap(OWN)
    usage.set_members({name: Member(name, 7) for name in (OWN, ASKER)})
    raising = Usage(messages=100, participants=1, messages_limit=limit, messages_ceiling=900)
    usage.take(report(ASKER, raising), 0)
    if takes_part:
        usage.take(report(OWN, Usage(messages=1, participants=1)), 0)
    return answers_to_all(usage, {} if group is None else {"orders": group}, SETTINGS, Forest())


def report(broker: str, usage: Usage) -> UsageReport:
    """A report on orders; the fifth of the broker's seventh registration."""
    published = GroupUsage("orders", 1, {MonitoringClass.PUBLISH: usage})
    return UsageReport(broker, 7, 5, 1_000_000_000, (published,))


def test_an_answer_names_the_newest_report_of_the_asker_and_where_it_raises() -> None:
    """By the asker's incarnation, which tells its registrations apart."""
    assert answers(500, takes_part=True) == Answers({7: 5}, {KEY})


@pytest.mark.parametrize("limit", [None, 0, RESERVE])
def test_the_first_raise_of_an_asker_waits_for_brokers_without_clients_too(
    limit: int | None,
) -> None:
    """It holds a reserve at most."""
    assert answers(limit) == Answers({7: 5}, {KEY})


def test_a_later_raise_waits_for_the_participants_only() -> None:
    """A limit above the reserve shows that the asker has raised itself before."""
    assert answers(RESERVE + 1) == Answers({}, set())


@pytest.mark.parametrize("group", [None, ResourceGroup("orders", Rates(dispatch_messages=LIMIT))])
def test_a_raise_of_what_is_not_limited_here_waits_for_no_broker_without_clients(
    group: ResourceGroup | None,
) -> None:
    """The group is unknown, or none of the class's rates is limited."""
    assert answers(RESERVE, group=group) == Answers({}, set())


def test_in_a_tree_a_broker_answers_for_all_groups_of_it() -> None:
    """It takes part in a sibling of the group that the asker raises, and tells its limits in both."""
    shop = ResourceGroup("shop", Rates(publish_messages=LIMIT))
    groups, forest = resolve(
        [shop, *(ResourceGroup(name, Rates(), parent="shop") for name in ("orders", "web"))]
    )
    usage = UsageMap(OWN)
    usage.set_members({name: Member(name, 7) for name in (OWN, ASKER)})
    raising = Usage(messages=100, participants=1, messages_limit=500, messages_ceiling=900)
    usage.take(report(ASKER, raising), 0)
    assert answers_to_all(usage, groups, SETTINGS, forest) == Answers({}, set())

    published = {MonitoringClass.PUBLISH: Usage(messages=1, participants=1)}
    own = (GroupUsage("web", 1, published),)
    usage.take(UsageReport(OWN, 7, 6, 1_000_000_000, own), 0)
    both = {("orders", MonitoringClass.PUBLISH), ("web", MonitoringClass.PUBLISH)}
    assert answers_to_all(usage, groups, SETTINGS, forest) == Answers({7: 5}, both)
