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

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from coordinator.core.decisions import Decision
from coordinator.core.events import ConnectionState, Event
from coordinator.core.model import (
    Attachments,
    Dimension,
    LedgerRecord,
    Member,
    Rates,
    ResourceGroup,
    Traffic,
    UsageReport,
)
from coordinator.core.state import CoordinatorState


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
    """A group definition with the version that a compare-and-set write must name.

    Versions are those of the whole store, so the version of a group that was deleted and created again
    is another one.
    """

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


class Anything(Enum):
    """Says of an expectation that there is none; None is taken: it means "not attached"."""

    ANYTHING = "anything"


ANYTHING = Anything.ANYTHING


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a change comes from.

    Args:
        actor: the role of whoever made it.
        address: the host it came from, if it came over the network.
        undoes: the audit entry that it rolls back, if it does.
    """

    actor: str = "anonymous"
    address: str = ""
    undoes: int | None = None


NOBODY = Origin()


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change of a definition or an attachment.

    Args:
        id: grows with every change.
        at_ms: when, in milliseconds since 1970, by the store's own clock.
        origin: who made it.
        subject: ``groups/G``, ``tenants/T`` or ``namespaces/T/N``.
        before: what was there: a definition, or the name of the group that was attached to; None when
            there was nothing, or nothing that could be read.
        after: what is there since.
    """

    id: int
    at_ms: int
    origin: Origin
    subject: str
    before: ResourceGroup | str | None
    after: ResourceGroup | str | None


AUDIT_LENGTH = 1_000
"""Entries that the store keeps; the oldest are dropped."""


class GroupStore(Protocol):
    """The durable definitions of groups and attachments, and the trail of their changes.

    A change and its audit entry are written together: there is none without the other. A write that
    changes nothing leaves no entry.
    """

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

    async def create_group(self, group: ResourceGroup, *, by: Origin = NOBODY) -> Versioned:
        """Create a group.

        Raises:
            AlreadyExists: there is one of that name.
            StoreUnreachable: the store did not answer.
        """
        ...

    async def update_group(
        self, group: ResourceGroup, version: int, *, by: Origin = NOBODY
    ) -> Versioned:
        """Replace a group's definition if it still has that version.

        Raises:
            NotFound: there is no such group.
            VersionConflict: it has another version.
            StoreUnreachable: the store did not answer.
        """
        ...

    async def delete_group(
        self, name: str, *, version: int | None = None, by: Origin = NOBODY
    ) -> None:
        """Delete a group, if a version is given only that one; atomic against an attachment.

        Raises:
            NotFound: there is no such group.
            InUse: something is attached to it.
            VersionConflict: it has another version.
            StoreUnreachable: the store did not answer.
        """
        ...

    async def attach_tenant(
        self,
        tenant: str,
        group: str,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = NOBODY,
    ) -> None:
        """Attach a tenant, replacing an earlier attachment, if one is expected only that one.

        Raises:
            NotFound: there is no such group.
            VersionConflict: it was attached to something else than expected.
            StoreUnreachable: the store did not answer.
        """
        ...

    async def attach_namespace(
        self,
        tenant: str,
        namespace: str,
        group: str,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = NOBODY,
    ) -> None:
        """Attach a namespace, replacing an earlier attachment; raises as attach_tenant."""
        ...

    async def detach_tenant(
        self, tenant: str, *, expected: str | Anything | None = ANYTHING, by: Origin = NOBODY
    ) -> None:
        """Detach a tenant; not attached is fine, unless something else is expected.

        Raises:
            VersionConflict: it was attached to something else than expected.
            StoreUnreachable: the store did not answer.
        """
        ...

    async def detach_namespace(
        self,
        tenant: str,
        namespace: str,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = NOBODY,
    ) -> None:
        """Detach a namespace; raises as detach_tenant."""
        ...

    async def audit_entries(self, limit: int, before: int | None = None) -> tuple[AuditEntry, ...]:
        """The newest entries, newest first; with ``before`` only those with a smaller id.

        Raises:
            StoreUnreachable: the store did not answer.
        """
        ...

    async def audit_entry(self, entry_id: int) -> AuditEntry:
        """One entry.

        Raises:
            NotFound: there is none of this id, or none any more.
            StoreUnreachable: the store did not answer.
        """
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


@dataclass(frozen=True, slots=True)
class RecorderHealth:
    """How recording goes: counts since the start, and why nothing can be written now.

    Args:
        recording: whether the last attempt to write succeeded.
        reason: of the failure; empty while recording.
        failures: attempts to write that failed.
        rows_written: rows that stand in files.
        rows_waiting: rows in memory.
        rows_dropped: rows that found no room.
        files_written: files.
        bytes_written: their size.
    """

    recording: bool
    reason: str = ""
    failures: int = 0
    rows_written: int = 0
    rows_waiting: int = 0
    rows_dropped: int = 0
    files_written: int = 0
    bytes_written: int = 0


class Recorder(Protocol):
    """Keeps what happened for later analysis.

    Nobody waits for it: no method blocks or raises, and what cannot be kept is counted.
    """

    def report_sent(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        """This sidecar published a report."""
        ...

    def report_received(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        """A report arrived from the bus, possibly an own one."""
        ...

    def limits_set(self, group: str, decisions: Mapping[Dimension, Decision], now_ns: int) -> None:
        """The local limits of a group came into force, for these reasons."""
        ...

    def handled(self, event: Event, state: CoordinatorState, now_ns: int) -> None:
        """The core handled an event; the state is only read."""
        ...

    def health(self) -> RecorderHealth:
        """How recording goes."""
        ...


@dataclass(frozen=True, slots=True)
class RelayedRequest:
    """A request for the broker as it arrived.

    Args:
        method: the verb.
        target: path and query as they were sent, still encoded.
        headers: names and values in order.
        body: its pieces as they arrive; None when there is no body.
    """

    method: str
    target: bytes
    headers: Sequence[tuple[bytes, bytes]]
    body: AsyncIterator[bytes] | None


@dataclass(frozen=True, slots=True)
class RelayedAnswer:
    """The broker's answer.

    Args:
        status: its code.
        headers: names and values in order.
        body: its pieces; StoreUnreachable when the broker goes away in the middle.
        close: gives the connection back; to be called in any case.
    """

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: AsyncIterator[bytes]
    close: Callable[[], Awaitable[None]]


class BrokerRelay(Protocol):
    """Requests handed on to the own broker's web service, unchanged both ways."""

    async def relay(self, request: RelayedRequest) -> RelayedAnswer:
        """Send a request and return as soon as the head of the answer is there.

        Raises:
            StoreUnreachable: the broker cannot be reached, or did not answer.
        """
        ...
