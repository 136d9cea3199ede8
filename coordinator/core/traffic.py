"""Traffic as a gate counts it: by group and class, and by namespace.

A count is what passed since the gate was last asked, and how long clients waited meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from coordinator.core.model import MonitoringClass


class Traffic(NamedTuple):
    """The gate's counts of one group and class since it was last asked.

    A tuple, for it is made and passed between two processes twenty times a second for every group
    in use.

    Args:
        messages: messages admitted.
        bytes: bytes admitted, as Pulsar counts them (headers and payload of the entry).
        messages_held_ns: how long at least one producer waited for message tokens.
        bytes_held_ns: how long at least one producer waited for byte tokens.
        participants: producers (Publish) or consumers (Dispatch) connected now.
        topics: distinct topics with a participant now.
        messages_owed: message tokens that were used in advance and are not paid for yet.
        bytes_owed: the same in byte tokens.
        messages_refused: messages that the limit refused; they were not admitted.
        bytes_refused: bytes of these.
    """

    group: str
    monitoring_class: MonitoringClass
    messages: int = 0
    bytes: int = 0
    messages_held_ns: int = 0
    bytes_held_ns: int = 0
    participants: int = 0
    topics: int = 0
    messages_owed: int = 0
    bytes_owed: int = 0
    messages_refused: int = 0
    bytes_refused: int = 0

    @property
    def is_quiet(self) -> bool:
        """Return whether no traffic passed, no participant waited and no token is owed."""
        return not (
            self.messages
            or self.bytes
            or self.messages_held_ns
            or self.bytes_held_ns
            or self.messages_owed
            or self.bytes_owed
            or self.messages_refused
        )


class NamespaceKey(NamedTuple):
    """A namespace in one class, with the groups that limit it, narrowest first."""

    tenant: str
    namespace: str
    groups: tuple[str, ...]
    monitoring_class: MonitoringClass


@dataclass(frozen=True, slots=True)
class NamespaceTraffic:
    """The gate's counts of one namespace and class since it was last asked.

    Args:
        key: the namespace and class.
        messages: messages admitted.
        bytes: bytes admitted, as `Traffic` counts them.
        held_ns: how long at least one of its producers or consumers waited, for any limit.
    """

    key: NamespaceKey
    messages: int = 0
    bytes: int = 0
    held_ns: int = 0
