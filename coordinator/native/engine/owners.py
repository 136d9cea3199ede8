"""The names of what has a rate of its own in Pulsar, and of what is attached to groups.

An *owner* of a rate is a topic, by its full name (``persistent://t/n/topic``), or one of its
subscriptions, by the name of its attachment (``persistent/t/n/topic/name``); of a topic with partitions,
all of them together. A *home* is attached to groups: a namespace (``t/n``) with all its topics, or a
subscription.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from coordinator.core.owners import subscription_key
from coordinator.core.topics import TopicName, namespace_in

_NAMES_KEPT: Final = 20_000


@lru_cache(_NAMES_KEPT)
def base_of(topic: str) -> str:
    """Return the topic whose policy a topic, or a partition, has; empty if it can have none.

    Non-persistent topics have no dispatch limiter, and brokers' own topics no policies.
    """
    name = TopicName.parse(topic)
    if name is None or name.domain != "persistent" or name.local_name.startswith("__"):
        return ""
    return str(name.whole)


@lru_cache(_NAMES_KEPT)
def owner_of(topic: str, subscription: str = "") -> str:
    """Return the owner whose rate holds a topic, or a subscription of it; empty if it can have none."""
    base = base_of(topic)
    if not base or not subscription:
        return base
    name = TopicName.parse(base)
    return "" if name is None else subscription_key(name, subscription)


def home_of(owner: str) -> str:
    """Return what is attached to groups: the namespace of a topic, or the subscription itself."""
    return namespace_in(owner) if is_topic(owner) else owner


def is_topic(owner: str) -> bool:
    """Return whether an owner is a topic, and no subscription."""
    return "://" in owner


def topic_of(owner: str) -> str:
    """Return the full name of an owner's topic."""
    if is_topic(owner):
        return owner
    domain, tenant, namespace, topic, _ = owner.split("/", 4)
    return f"{domain}://{tenant}/{namespace}/{topic}"


def subscription_in(owner: str) -> str:
    """Return the name of the subscription that an owner is; empty if it is a topic."""
    return "" if is_topic(owner) else owner.split("/", 4)[4]
