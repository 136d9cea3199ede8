"""Limits of scalable topics as groups of the core."""

from __future__ import annotations

from coordinator.app.topic_groups import TopicGroups
from coordinator.core.model import Rates
from coordinator.core.topics import TopicName
from coordinator.ports import TopicLimit, TopicLimits

SCALABLE = TopicName("topic", "shop", "eu", "orders")
CLASSIC = TopicName("persistent", "shop", "eu", "orders")
NAME = "topic://shop/eu/orders"


def limits(*found: TopicLimit) -> TopicLimits:
    """The limits in the store."""
    return {str(limit.topic): limit for limit in found}


def test_a_scalable_topic_with_a_limit_is_a_group_of_its_name() -> None:
    """Its version is that of its limit, by which reports name it."""
    groups = TopicGroups()

    assert groups.set_limits(limits(TopicLimit(SCALABLE, Rates(100), 7)))

    (group,) = groups
    assert (group.name, group.limits, group.configuration_version) == (NAME, Rates(100), 7)
    assert groups.names == {NAME}


def test_partitioned_topics_are_no_groups() -> None:
    """Their partitions have parts of the limit, and a change of theirs changes no group."""
    groups = TopicGroups()

    assert not groups.set_limits(limits(TopicLimit(CLASSIC, Rates(100), 7)))
    assert not list(groups)


def test_a_limit_that_stays_keeps_its_group() -> None:
    """The core compares other objects only."""
    groups = TopicGroups()
    other = TopicName("topic", "shop", "eu", "returns")
    groups.set_limits(limits(TopicLimit(SCALABLE, Rates(100), 7), TopicLimit(other, Rates(1), 8)))
    before = {group.name: group for group in groups}

    groups.set_limits(limits(TopicLimit(SCALABLE, Rates(100), 7), TopicLimit(other, Rates(2), 9)))

    after = {group.name: group for group in groups}
    assert after[NAME] is before[NAME]
    assert after[str(other)].limits == Rates(2)


def test_a_removed_limit_removes_the_group() -> None:
    """The core and the gate are told so."""
    groups = TopicGroups()
    groups.set_limits(limits(TopicLimit(SCALABLE, Rates(100), 7)))

    assert groups.set_limits({})
    assert not groups.names
