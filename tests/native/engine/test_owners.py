"""The names of topics and subscriptions that have rates of their own."""

from __future__ import annotations

import pytest

from coordinator.core.owners import subscription_owner
from coordinator.native.engine.owners import (
    base_of,
    home_of,
    is_replication,
    is_topic,
    owner_of,
    remote_home,
    subscription_in,
    topic_of,
)

TOPIC, SUBSCRIPTION = "persistent://t/n/a", "persistent/t/n/a/s/1"
REPLICATION = "-->west/persistent://t/n/a"


def test_a_subscription_has_the_name_of_its_attachment() -> None:
    """That of its topic with all partitions; a slash in its own name is no place."""
    for topic in (TOPIC, f"{TOPIC}-partition-3"):
        assert owner_of(topic, "s/1") == SUBSCRIPTION == subscription_owner(SUBSCRIPTION).name
    assert owner_of(f"{TOPIC}-partition-3") == TOPIC


def test_an_owner_tells_its_topic_its_home_and_its_subscription() -> None:
    """The home of a topic is its namespace, that of a subscription is itself."""
    assert (topic_of(TOPIC), home_of(TOPIC), subscription_in(TOPIC)) == (TOPIC, "t/n", "")
    found = topic_of(SUBSCRIPTION), home_of(SUBSCRIPTION), subscription_in(SUBSCRIPTION)
    assert found == (TOPIC, SUBSCRIPTION, "s/1")
    assert is_topic(TOPIC)
    assert not is_topic(SUBSCRIPTION)


def test_the_replication_of_a_topic_has_the_remote_cluster_for_its_home() -> None:
    """A topic whose name looks like one is a topic."""
    assert owner_of(f"{TOPIC}-partition-3", remote="west") == REPLICATION
    assert (topic_of(REPLICATION), home_of(REPLICATION)) == (TOPIC, remote_home("west"))
    assert is_replication(REPLICATION)
    assert not is_topic(REPLICATION)
    assert subscription_in(REPLICATION) == ""
    named = "persistent://t/n/-->west/x"
    assert is_topic(named)
    assert not is_replication(named)


@pytest.mark.parametrize(
    "topic",
    ["non-persistent://t/n/a", "persistent://t/n/__change_events", "persistent://t/n/..", ""],
)
def test_what_has_no_policies_has_no_owner(topic: str) -> None:
    """Topics that are not persistent, brokers' own ones, and namespaces that are not told by topic."""
    owners = owner_of(topic), owner_of(topic, "s"), owner_of(topic, remote="west")
    assert (base_of(topic), *owners) == ("", "", "", "")


@pytest.mark.parametrize("name", ["t/cluster/n", "t", ""])
def test_a_name_of_another_form_is_no_owner(name: str) -> None:
    """As of a namespace of old releases."""
    for read in (topic_of, subscription_in):
        with pytest.raises(ValueError, match="unpack"):
            read(name)
