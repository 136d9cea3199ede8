"""Clock, membership, bus and broker in memory: deterministic.

Each thing that several sidecars share is an object of its own here. A `MemoryEnsemble` stands for
ZooKeeper's membership and a `MemoryTopic` for the bus topic: give the same one to several adapters and
their sidecars meet. Tests cause faults through methods that the ports do not have: a session is
suspended or expires, a bus is cut off, a broker falls silent.

The membership calls its listeners before the write returns. The bus delivers through the event loop, as
the real one does, so that publishing never re-enters a listener. The store: `store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from coordinator.core.events import ConnectionState
from coordinator.core.model import NANOS_PER_SECOND, Member
from coordinator.core.topics import TopicName
from coordinator.ports import (
    AlreadyExists,
    BrokerUnreachable,
    BusHealth,
    Clock,
    Confirmation,
    StoreUnreachable,
)
from coordinator.wire.documents import validate_name


class ManualClock:
    """`coordinator.ports.Clock` that stands still until it is told to move."""

    def __init__(self, now_ns: int = 0) -> None:
        self._now_ns = now_ns

    def now_ns(self) -> int:
        """Return nanoseconds since an arbitrary start."""
        return self._now_ns

    def advance(self, duration_ns: int) -> None:
        """Move forward.

        Raises:
            ValueError: the duration is negative; a monotonic clock never goes back.
        """
        if duration_ns < 0:
            raise ValueError(f"duration must be >= 0 ns, got {duration_ns}")
        self._now_ns += duration_ns


class MemoryEnsemble:
    """The membership of several sidecars, in place of ZooKeeper."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._listeners: list[Callable[[tuple[Member, ...]], None]] = []
        self._zxid = 0

    @property
    def members(self) -> tuple[Member, ...]:
        """Return all registered sidecars, sorted by broker."""
        return tuple(member for _, member in sorted(self._members.items()))

    def member(self, broker: str) -> Member | None:
        """Return the registered sidecar of a broker."""
        return self._members.get(broker)

    def watch(self, listener: Callable[[tuple[Member, ...]], None]) -> None:
        """Call the listener with all members now and after every change."""
        self._listeners.append(listener)
        listener(self.members)

    def register(self, broker: str, api_address: str, report_key: bytes = b"") -> Member:
        """Register a broker under a new incarnation, in place of an earlier one."""
        self._zxid += 1
        member = Member(broker, self._zxid, api_address, report_key)
        self._members[broker] = member
        self._tell()
        return member

    def unregister(self, member: Member) -> None:
        """Remove exactly this registration; a later one of the same broker stays."""
        if self._members.get(member.broker) == member:
            del self._members[member.broker]
            self._tell()

    def _tell(self) -> None:
        members = self.members
        for listener in tuple(self._listeners):
            listener(members)


class MemoryMembership:
    """`coordinator.ports.Membership` of one sidecar; not connected until `connect`.

    Args:
        ensemble: the membership that it joins.
        clock: the sidecar's clock.
        session_timeout_s: the granted timeout; tests end sessions by hand all the same.
    """

    def __init__(
        self,
        ensemble: MemoryEnsemble,
        clock: Clock | None = None,
        *,
        session_timeout_s: float = 4.0,
    ) -> None:
        self._ensemble = ensemble
        self._clock = clock or ManualClock()
        self._timeout_ns = round(session_timeout_s * NANOS_PER_SECOND)
        self._connected_ns = 0
        self._listeners: list[Callable[[ConnectionState], None]] = []
        #: LOST is also kazoo's word for "never connected".
        self._state = ConnectionState.LOST
        self._registration: Member | None = None

    def connect(self) -> None:
        """Connect, for the first time or again."""
        self._connected_ns = self._clock.now_ns()
        self._report(ConnectionState.CONNECTED)

    def suspend(self) -> None:
        """Interrupt the connection; the session, and with it the registration, lives on."""
        self._report(ConnectionState.SUSPENDED)

    def expire(self) -> None:
        """End the session: the others lose this member, and the sidecar is told."""
        if self._registration is not None:
            self._ensemble.unregister(self._registration)
            self._registration = None
        self._report(ConnectionState.LOST)

    def watch_connection(self, listener: Callable[[ConnectionState], None]) -> None:
        """See `Membership`."""
        self._listeners.append(listener)

    def watch_members(self, listener: Callable[[tuple[Member, ...]], None]) -> None:
        """See `Membership`."""
        self._ensemble.watch(listener)

    async def join(self, broker: str, api_address: str, report_key: bytes = b"") -> int:
        """See `Membership`."""
        self._check_connected()
        other = self._ensemble.member(validate_name(broker))
        is_own = other is None or other == self._registration or other.api_address == api_address
        if other is not None and not is_own:
            raise AlreadyExists(f"the sidecar at {other.api_address} is registered for {broker}")
        self._registration = self._ensemble.register(broker, api_address, report_key)
        return self._registration.incarnation

    async def leave(self) -> None:
        """See `Membership`."""
        if self._registration is None:
            return
        self._check_connected()
        self._ensemble.unregister(self._registration)
        self._registration = None

    async def confirm(self) -> Confirmation:
        """See `Membership`."""
        self._check_connected()
        return Confirmation(self._connected_ns, self._timeout_ns)

    def _check_connected(self) -> None:
        if self._state is not ConnectionState.CONNECTED:
            raise StoreUnreachable(f"the session is {self._state.value}")

    def _report(self, state: ConnectionState) -> None:
        if state is self._state:
            return
        self._state = state
        for listener in tuple(self._listeners):
            listener(state)


class MemoryTopic:
    """A bus topic that several sidecars share."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[bytes], None]] = []

    def subscribe(self, subscriber: Callable[[bytes], None]) -> None:
        """Call the subscriber with every payload from now on."""
        self._subscribers.append(subscriber)

    def send(self, payload: bytes) -> None:
        """Hand a payload to all subscribers, in the next turn of the event loop."""
        loop = asyncio.get_running_loop()
        for subscriber in self._subscribers:
            loop.call_soon(subscriber, payload)


class MemoryBus:
    """`coordinator.ports.ReportBus` over one shared topic; connected until `disconnect`."""

    def __init__(self, topic: MemoryTopic, *, name: str = "memory") -> None:
        self._topic = topic
        self._name = name
        self._listeners: list[Callable[[bytes], None]] = []
        self._connected = True
        self._sent = 0
        self._received = 0
        self._dropped = 0
        topic.subscribe(self._receive)

    def connect(self) -> None:
        """Let payloads pass again."""
        self._connected = True

    def disconnect(self) -> None:
        """Lose payloads in both directions until `connect`."""
        self._connected = False

    def watch(self, listener: Callable[[bytes], None]) -> None:
        """See `ReportBus`."""
        self._listeners.append(listener)

    def publish(self, payload: bytes) -> None:
        """See `ReportBus`."""
        if not self._connected:
            self._dropped += 1
            return
        self._sent += 1
        self._topic.send(payload)

    def health(self) -> BusHealth:
        """See `ReportBus`."""
        return BusHealth({self._name: self._connected}, self._sent, self._received, self._dropped)

    def _receive(self, payload: bytes) -> None:
        if not self._connected:
            return
        self._received += 1
        for listener in tuple(self._listeners):
            listener(payload)


class MemoryBrokerAdmin:
    """`coordinator.ports.BrokerAdmin` of a broker that exists in these attributes only.

    Attributes:
        answering: whether the broker answers at all.
        tenants: the tenants there are.
        namespaces: the namespaces there are, as ``tenant/namespace``.
        partitions: partitions by topic, of those that have any.
    """

    def __init__(self) -> None:
        self.answering = True
        self.tenants: set[str] = set()
        self.namespaces: set[str] = set()
        self.partitions: dict[TopicName, int] = {}

    async def is_answering(self) -> bool:
        """Return whether the broker answers that it is ready."""
        return self.answering

    async def namespace_exists(self, tenant: str, namespace: str) -> bool:
        """Return whether the namespace exists; raises BrokerUnreachable."""
        self._check_answering()
        return f"{validate_name(tenant)}/{validate_name(namespace)}" in self.namespaces

    async def tenant_exists(self, tenant: str) -> bool:
        """Return whether the tenant exists; raises BrokerUnreachable."""
        self._check_answering()
        return validate_name(tenant) in self.tenants

    async def partitions_of(self, topic: TopicName) -> int:
        """Return the number of a topic's partitions, at least 1; raises BrokerUnreachable."""
        self._check_answering()
        return self.partitions.get(topic, 1)

    async def ensure_bus_namespace(self, tenant: str, namespace: str) -> None:
        """Create the tenant and the namespace if they are missing; raises BrokerUnreachable."""
        self._check_answering()
        self.tenants.add(tenant)
        self.namespaces.add(f"{tenant}/{namespace}")

    def _check_answering(self) -> None:
        if not self.answering:
            raise BrokerUnreachable("the broker was made to fall silent")
