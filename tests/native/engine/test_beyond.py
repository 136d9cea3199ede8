"""The limits that no broker's own limiter can hold."""

from __future__ import annotations

from coordinator.core.model import Attachments, Rates, ResourceGroup
from coordinator.native.engine.beyond import beyond_brokers

GROUPS = {
    "plain": ResourceGroup("plain", Rates(publish_messages=100)),
    "child": ResourceGroup("child", Rates(dispatch_bytes=7), parent="plain"),
    "small": ResourceGroup("small", Rates(publish_bytes=5)),
}


def test_each_is_named_in_words() -> None:
    """Dispatch, a few messages a second for each broker, and roles; a tree is held."""
    attached = Attachments(
        roles={"alice": "plain", "team-*": "small", "": "plain"},
        subscriptions={"persistent/t/n/a/s": "child"},
        clusters={"west": "plain"},
    )
    assert sorted(beyond_brokers(GROUPS, attached, 3, topic_policies=False)) == [
        "dispatch of child",
        "publishing of small below 6 a second",
        "replication from west of plain",
        "role alice of plain",
        "role team-* of small",
        "roles without an attachment of plain",
        "subscription persistent/t/n/a/s of child",
    ]
    plain = {"plain": GROUPS["plain"]}
    assert list(beyond_brokers(plain, Attachments(), 3, topic_policies=False)) == []


def test_subscriptions_are_held_where_topics_have_policies() -> None:
    """Of persistent topics alone."""
    attached = Attachments(
        subscriptions={"persistent/t/n/a/s": "child", "non-persistent/t/n/a/s": "child"}
    )
    below = list(beyond_brokers({}, attached, 3, topic_policies=True))
    assert below == ["subscription non-persistent/t/n/a/s of child"]


def test_what_a_cluster_is_sent_is_held_and_what_it_replicates_here_is_not() -> None:
    """A group without a publish limit asks for nothing that brokers cannot hold."""
    for group, below in (("child", []), ("plain", ["replication from west of plain"])):
        attached, groups = Attachments(clusters={"west": group}), {group: GROUPS[group]}
        assert list(beyond_brokers(groups, attached, 3, topic_policies=True)) == below


def test_dispatch_is_held_where_topics_have_policies() -> None:
    """Down to one a second at each broker."""
    child = {"child": GROUPS["child"]}
    assert list(beyond_brokers(child, Attachments(), 7, topic_policies=True)) == []
    below = list(beyond_brokers(child, Attachments(), 8, topic_policies=True))
    assert below == ["dispatch of child below 8 a second"]
