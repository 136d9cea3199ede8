"""The names of what has a rate of its own in Pulsar, and of what is attached to groups.

An *owner* of a rate is a topic, by its full name (``persistent://t/n/topic``), one of its
subscriptions, by the name of its attachment (``persistent/t/n/topic/name``), or its replication to a
remote cluster (``-->west/persistent://t/n/topic``); of a topic with partitions, all of them together. A
*home* is attached to groups: a namespace (``t/n``) with all its topics, a subscription, or a remote
cluster (``-->west``, as brokers write it in the names of their replicators).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from coordinator.core.owners import subscription_key
from coordinator.core.topics import TopicName, namespace_in

_NAMES_KEPT: Final = 20_000
_TO: Final = "-->"


@lru_cache(_NAMES_KEPT)
def base_of(topic: str) -> str:
    """Return the topic whose policy a topic, or a partition, has; empty if it can have none.

    Non-persistent topics have no dispatch limiter, and brokers' own topics no policies. Of a topic named
    as a step of a path, no broker could be asked.
    """
    name = TopicName.parse(topic)
    if name is None or name.domain != "persistent" or name.local_name.startswith("__"):
        return ""
    return "" if name.whole.local_name in (".", "..") else str(name.whole)


@lru_cache(_NAMES_KEPT)
def owner_of(topic: str, subscription: str = "", remote: str = "") -> str:
    """Return the owner whose rate holds a topic, or a part of what it is sent; empty if it can have none.

    Args:
        topic: the topic, or one of its partitions.
        subscription: the subscription that is meant; empty for none.
        remote: the remote cluster to which it is replicated; empty for none.
    """
    base = base_of(topic)
    if base and remote:
        return f"{remote_home(remote)}/{base}"
    if not base or not subscription:
        return base
    name = TopicName.parse(base)
    return "" if name is None else subscription_key(name, subscription)


def home_of(owner: str) -> str:
    """Return what is attached to groups: a topic's namespace, a subscription, or a remote cluster."""
    if is_replication(owner):
        return owner.partition("/")[0]
    return namespace_in(owner) if is_topic(owner) else owner


def remote_home(cluster: str) -> str:
    """Return the home of all that is replicated to a remote cluster."""
    return f"{_TO}{cluster}"


def is_replication(owner: str) -> bool:
    """Return whether an owner is the replication of a topic."""
    return owner.startswith(_TO)


def is_topic(owner: str) -> bool:
    """Return whether an owner is a topic as a whole."""
    return "://" in owner and not is_replication(owner)


def topic_of(owner: str) -> str:
    """Return the full name of an owner's topic."""
    if is_replication(owner):
        return owner.partition("/")[2]
    if is_topic(owner):
        return owner
    domain, tenant, namespace, topic, _ = owner.split("/", 4)
    return f"{domain}://{tenant}/{namespace}/{topic}"


def subscription_in(owner: str) -> str:
    """Return the name of the subscription that an owner is; empty if it is none."""
    if is_topic(owner) or is_replication(owner):
        return ""
    _, _, _, _, name = owner.split("/", 4)
    return name
