"""The limits that no broker's own limiter can hold.

Pulsar's limiter counts what is published to namespaces: neither what is dispatched, nor who publishes it.
It saves up no credit beyond its bucket, and refuses nothing. Below a few messages a second for each
broker it lets more pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from coordinator.core.handling import REFUSE
from coordinator.core.model import Attachments, ResourceGroup
from coordinator.core.owners import OwnerKind, attached, in_words

_LEAST_PER_BROKER: Final = 2
"""Pulsar's least quota is 1 a second, and the bucket at each interval adds up to as much again."""


def beyond_brokers(
    groups: Mapping[str, ResourceGroup], attachments: Attachments, brokers: int
) -> Iterator[str]:
    """Yield them in words.

    Args:
        groups: the groups, by name.
        attachments: what is attached to them.
        brokers: the number of brokers.
    """
    for name, group in groups.items():
        limits = group.limits
        if (limits.dispatch_messages, limits.dispatch_bytes) != (None, None):
            yield f"dispatch of {name}"
        if group.on_limit == REFUSE:
            yield f"refusing publishes of {name}"
        if group.burst_seconds:
            yield f"the burst of {name}"
        least = brokers * _LEAST_PER_BROKER
        for limit in (limits.publish_messages, limits.publish_bytes):
            if limit is not None and limit < least:
                yield f"publishing of {name} below {least} a second"
    for kind in OwnerKind:
        for owner, name in attached(attachments, kind).items():
            yield f"{in_words(kind, owner)} of {name}"
