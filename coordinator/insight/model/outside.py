"""The ports for operations and for Pulsar's own inventory, as protocols; adapters implement them.

The rules are those of ``coordinator.ports``: answer or raise, no type of a library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.insight.model.operations import Operation

OPERATIONS_LENGTH = 1_000
"""Ended operations of super-users that the store keeps; of a tenant's admins a share (ports.shares)."""


@dataclass(frozen=True, slots=True)
class RecordedOperation:
    """An operation as it was written last, and when it was accepted.

    Args:
        operation: the operation.
        at_ms: when it was accepted, in milliseconds since 1970, by the store's own clock.
    """

    operation: Operation
    at_ms: int


class OperationStore(Protocol):
    """The durable record of operations, open ones and ended ones.

    Open ones are few, one a group, and are listed as a whole; of the ended ones the last are kept.
    """

    async def open(self, operation: Operation) -> RecordedOperation:
        """Record a change that was accepted; the store gives it its id.

        Raises:
            StoreUnreachable: the store did not answer.
        """

    async def end(self, recorded: RecordedOperation) -> None:
        """Record how an open one ended.

        Raises:
            NotFound: it is not open; another sidecar has ended it.
            StoreUnreachable: the store did not answer.
        """

    async def opened(self) -> tuple[RecordedOperation, ...]:
        """All open ones, oldest first; raises StoreUnreachable."""

    async def ended(self, limit: int) -> tuple[RecordedOperation, ...]:
        """The newest ended ones, newest first; raises StoreUnreachable."""


class Inventory(Protocol):
    """The tenants, namespaces and resource groups that Pulsar has.

    Each raises BrokerUnreachable when the broker does not answer, Refused when it may not.
    """

    async def tenants(self) -> Sequence[str]:
        """Return all tenants."""

    async def namespaces(self, tenant: str) -> Sequence[str]:
        """Return a tenant's namespaces, as ``tenant/namespace``; of an unknown tenant, none."""

    async def groups(self) -> Sequence[str]:
        """Return the names of Pulsar's own resource groups."""

    async def group_of(self, namespace: str) -> str | None:
        """Return the one that Pulsar attaches a namespace to; empty without one, None without it."""
