"""What the coordinator needs from the world, as protocols; adapters implement them.

Three rules hold for every port. A port *answers or raises*: "refused" and "unreachable" are never one
value. Listeners are called on the event loop's thread, in the order in which things happened, and
must not block. Nothing of a library (no kazoo or pulsar type) passes through a port.

Errors::

    PortError
    +-- StoreUnreachable      the store did not answer in time; nothing is known about the outcome
    +-- Refused               the store answered no
        +-- NotFound          there is no such entry
        +-- AlreadyExists     there is one already
        +-- VersionConflict   somebody else changed it in between (compare-and-set failed)
        +-- InUse             a group cannot be deleted while something is attached to it
        +-- Unreadable        there is an entry, but this release cannot understand it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from coordinator.core.events import ConnectionState
from coordinator.core.model import Attachments, LedgerRecord, Member, Rates, ResourceGroup, Traffic


class PortError(Exception):
    """Base of all errors of a port; never raised itself."""


class StoreUnreachable(PortError):
    """The store did not answer in time; nothing is known about the outcome."""


class Refused(PortError):
    """The store answered no."""


class NotFound(Refused):
    """There is no such entry."""


class AlreadyExists(Refused):
    """There is such an entry already."""


class VersionConflict(Refused):
    """Somebody else changed the entry in between."""


class InUse(Refused):
    """The group still has attachments."""


class Unreadable(Refused):
    """There is an entry, but this release cannot understand it."""


class Clock(Protocol):
    """Monotonic time."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start; never goes back."""
        ...


@dataclass(frozen=True, slots=True)
class Versioned:
    """A group definition with the version that a compare-and-set write must name."""

    group: ResourceGroup
    version: int


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that the store holds, as one consistent-enough snapshot.

    ``faults`` names entries that could not be read (path to reason); an unreadable group keeps the
    last definition that could be read, so that a corrupt entry disturbs nothing else.
    """

    groups: Mapping[str, Versioned] = field(default_factory=dict)
    attachments: Attachments = field(default_factory=Attachments)
    faults: Mapping[str, str] = field(default_factory=dict)


class GroupStore(Protocol):
    """The durable definitions of groups and attachments."""

    def watch(self, listener: Callable[[Catalogue], None]) -> None:
        """Call the listener with the whole catalogue now and after every change."""
        ...

    async def read_group(self, name: str) -> Versioned:
        """Read one group from the store itself, not from a cache.

        Raises:
            NotFound: there is no such group.
            StoreUnreachable: the store did not answer.
        """
        ...

    async def create_group(self, group: ResourceGroup) -> Versioned:
        """Create a group.

        Raises:
            AlreadyExists: there is one of that name.
            StoreUnreachable: the store did not answer.
        """
        ...

    async def update_group(self, group: ResourceGroup, version: int) -> Versioned:
        """Replace a group's definition if it still has that version.

        Raises:
            NotFound: there is no such group.
            VersionConflict: it has another version.
            StoreUnreachable: the store did not answer.
        """
        ...

    async def delete_group(self, name: str) -> None:
        """Delete a group; atomic against a concurrent attachment.

        Raises:
            NotFound: there is no such group.
            InUse: something is attached to it.
            StoreUnreachable: the store did not answer.
        """
        ...

    async def attach_tenant(self, tenant: str, group: str) -> None:
        """Attach a tenant, replacing an earlier attachment.

        Raises:
            NotFound: there is no such group.
            StoreUnreachable: the store did not answer.
        """
        ...

    async def attach_namespace(self, tenant: str, namespace: str, group: str) -> None:
        """Attach a namespace, replacing an earlier attachment; raises as attach_tenant."""
        ...

    async def detach_tenant(self, tenant: str) -> None:
        """Detach a tenant; not attached is fine. Raises StoreUnreachable."""
        ...

    async def detach_namespace(self, tenant: str, namespace: str) -> None:
        """Detach a namespace; not attached is fine. Raises StoreUnreachable."""
        ...


class LedgerStore(Protocol):
    """The ledgers of the groups that are strict, or were (coordinator.core.escrow).

    A ledger is founded only for a group that there is, and removed only when the group is gone.
    """

    def watch(self, listener: Callable[[tuple[LedgerRecord, ...]], None]) -> None:
        """Call the listener with all records, sorted by group, now and after every change."""
        ...

    async def write(self, record: LedgerRecord) -> LedgerRecord:
        """Replace a record if it still has this one's version; create it if that is negative.

        The store counts versions, and generations: a record that is created gets a higher one than
        any before.

        Raises:
            NotFound: there is no such group, or no record to replace.
            AlreadyExists: there is a record to be created already.
            VersionConflict: the record has another version.
            StoreUnreachable: the store did not answer.
            ValueError: nobody could read such a record.
        """
        ...

    async def remove(self, record: LedgerRecord) -> None:
        """Remove the record of a group that is gone, if it still has this one's version.

        Raises:
            NotFound: there is no such record.
            InUse: there is such a group again.
            VersionConflict: the record has another version.
            StoreUnreachable: the store did not answer.
        """
        ...


class Membership(Protocol):
    """Who is alive."""

    def watch_connection(self, listener: Callable[[ConnectionState], None]) -> None:
        """Call the listener with every change of the connection's state."""
        ...

    def watch_members(self, listener: Callable[[tuple[Member, ...]], None]) -> None:
        """Call the listener with all members, sorted by broker, now and after every change."""
        ...

    async def join(self, broker: str, api_address: str) -> int:
        """Register a broker until its session ends; return its incarnation.

        Joining again replaces the registration of this broker's earlier incarnation. A registration
        that the session lost is not renewed by itself: the core asks again.

        Raises:
            StoreUnreachable: the store did not answer.
        """
        ...

    async def leave(self) -> None:
        """Deregister at once; not registered is fine. Raises StoreUnreachable."""
        ...


class ReportBus(Protocol):
    """Broadcast of usage reports among sidecars: best effort, unordered, possibly duplicated."""

    def watch(self, listener: Callable[[bytes], None]) -> None:
        """Call the listener with every payload that arrives, the own ones included."""
        ...

    def publish(self, payload: bytes) -> None:
        """Send to everybody; returns at once, drops when not connected and counts what it dropped."""
        ...

    def health(self) -> BusHealth:
        """How the bus topics are doing."""
        ...


@dataclass(frozen=True, slots=True)
class BusHealth:
    """State of the report bus: per bus topic whether it is connected, and what was lost."""

    connected: Mapping[str, bool]
    sent: int
    received: int
    dropped: int


class TrafficGate(Protocol):
    """The gate in front of the broker: it counts, and enforces local limits.

    It tells of participants that appear or leave through the listener it was built with.
    """

    def set_limits(self, group: str, limits: Rates) -> None:
        """Enforce these local limits from now on; balances are kept."""
        ...

    def remove_limits(self, group: str) -> None:
        """Enforce nothing for this group any more."""
        ...

    def set_attachments(self, attachments: Attachments) -> None:
        """Count every topic against the groups of these attachments from now on."""
        ...

    def collect(self) -> tuple[Traffic, ...]:
        """What was counted since the last call."""
        ...

    async def drain(self, timeout_s: float) -> None:
        """Accept nothing new and return when what is under way is answered, or at the timeout."""
        ...


class BrokerAdmin(Protocol):
    """The own broker's admin REST, as far as the coordinator needs it."""

    async def is_answering(self) -> bool:
        """Whether the broker answers that it is ready; never raises."""
        ...

    async def namespace_exists(self, tenant: str, namespace: str) -> bool:
        """Whether the namespace exists. Raises StoreUnreachable when the broker does not say."""
        ...

    async def tenant_exists(self, tenant: str) -> bool:
        """Whether the tenant exists. Raises StoreUnreachable when the broker does not say."""
        ...
