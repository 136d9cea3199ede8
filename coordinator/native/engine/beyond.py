"""The limits that no broker's own limiter can hold.

Pulsar's limiter counts what is published to namespaces, and rates of topics, subscriptions and
replication what is sent; none who does it. They save up no credit beyond a bucket, and refuse nothing.
Below a few messages a second for each broker they let more pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from coordinator.core.handling import REFUSE
from coordinator.core.model import Attachments, ResourceGroup
from coordinator.core.owners import OwnerKind, in_words
from coordinator.native.engine.owners import base_of, topic_of
from coordinator.native.engine.rate_policy import LEAST

_LEAST_PER_BROKER: Final = 2
"""Pulsar's least quota is 1 a second, and the bucket at each interval adds up to as much again."""


def beyond_brokers(
    groups: Mapping[str, ResourceGroup],
    attachments: Attachments,
    brokers: int,
    *,
    topic_policies: bool,
) -> Iterator[str]:
    """Yield them in words.

    Args:
        groups: the groups, by name.
        attachments: what is attached to them.
        brokers: the number of brokers.
        topic_policies: whether topics may have policies, which hold dispatch.
    """
    for name, group in groups.items():
        limits = group.limits_rounded_up
        dispatch = [
            each for each in (limits.dispatch_messages, limits.dispatch_bytes) if each is not None
        ]
        if dispatch and not topic_policies:
            yield f"dispatch of {name}"
        elif any(limit < brokers * LEAST for limit in dispatch):
            yield f"dispatch of {name} below {brokers * LEAST} a second"
        if group.on_limit == REFUSE:
            yield f"refusing publishes of {name}"
        if group.burst_seconds:
            yield f"the burst of {name}"
        least = brokers * _LEAST_PER_BROKER
        for limit in (limits.publish_messages, limits.publish_bytes):
            if limit is not None and limit < least:
                yield f"publishing of {name} below {least} a second"
    yield from _attached_beyond(groups, attachments, topic_policies=topic_policies)


def _attached_beyond(
    groups: Mapping[str, ResourceGroup], attachments: Attachments, *, topic_policies: bool
) -> Iterator[str]:
    for role, name in attachments.roles.items():
        yield f"{in_words(OwnerKind.ROLE, role)} of {name}"
    for subscription, name in attachments.subscriptions.items():
        if not (topic_policies and base_of(topic_of(subscription))):
            yield f"{in_words(OwnerKind.SUBSCRIPTION, subscription)} of {name}"
    for cluster, name in attachments.clusters.items():
        if name not in groups or _limits_publishing(groups[name]):
            yield f"replication from {cluster} of {name}"


def _limits_publishing(group: ResourceGroup) -> bool:
    limits = group.limits
    return limits.publish_messages is not None or limits.publish_bytes is not None
