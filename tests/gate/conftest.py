"""A gate without sockets: sessions, groups and a queue under a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from ipaddress import ip_network

import pytest
import uvloop

from coordinator.core.addresses import AddressMap
from coordinator.core.handling import Handling
from coordinator.core.model import AnyRates, Attachments, MonitoringClass, Rates
from coordinator.core.topics import TopicName
from coordinator.gate.engine.addresses import AddressBook
from coordinator.gate.engine.counters import GateCounters
from coordinator.gate.engine.identity import NO_IDENTITIES, IdentityRules
from coordinator.gate.engine.replication import ReplicationPeers
from coordinator.gate.engine.session import NO_PEERS, NOWHERE_ELSE, ConnectionAudit, Session
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.group import Group
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.metering import Advance, MeteredLimiter
from coordinator.gate.limits.publish_buffer import PublishBuffer
from coordinator.gate.limits.throttle import (
    HELD_BYTES_MAX,
    PARTICIPANTS_MAX,
    ThrottleBounds,
)
from coordinator.gate.protocol.commands import ProducerCommand
from coordinator.gate.protocol.connect_policy import Client as Address
from coordinator.gate.protocol.connect_policy import ConnectPolicy
from coordinator.gate.protocol.frames import FrameFault, MalformedFrame
from coordinator.gate.protocol.refusals import RefusalReason
from coordinator.gate.protocol.stream import ENDLESS
from tests.gate import peer
from tests.gate.helper import deciding

START_NS = 100_000_000_000
MILLISECOND_NS = 1_000_000
TOPIC = "persistent://tenant/ns/topic"


BUS = "non-persistent://pulsar/system/quota-usage"
"""The sidecars' own bus topic."""

PEER = ReplicationPeers((ip_network("10.0.0.0/24"),))
"""Clients of these addresses replicate from another cluster."""


@dataclass
class Story:
    """A listener that remembers what it was told."""

    participants: list[tuple[str, MonitoringClass, int]] = field(default_factory=list)

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, count: int
    ) -> None:
        self.participants.append((group, monitoring_class, count))


class Client(ConnectionAudit):
    """One connection: what is sent and received, as whole frames."""

    def __init__(
        self,
        bench: Bench,
        bounds: ThrottleBounds,
        connect_policy: ConnectPolicy,
        replication: ReplicationPeers,
        identities: IdentityRules,
    ) -> None:
        self._bench = bench
        #: What was refused, and which producers were exempt, as the session told it.
        self.refusals: list[tuple[RefusalReason, str]] = []
        self.exemptions: list[str] = []
        self.migrations: list[str] = []
        self.debts: list[tuple[str, Advance]] = []
        self.session = Session(
            bench.groups,
            bench.queue,
            bench.counters,
            released=lambda: bench.released.append(self),
            bounds=bounds,
            buffer=bench.buffer,
            connect_policy=connect_policy,
            replication=replication,
            identities=identities,
            addresses=bench.addresses,
            audit=self,
            turn=bench.turn,
        )

    def refused(self, reason: RefusalReason, detail: str) -> None:
        """See `ConnectionAudit`."""
        self.refusals.append((reason, detail))

    def exempted(self, producer: ProducerCommand) -> None:
        """See `ConnectionAudit`."""
        self.exemptions.append(producer.producer_name)

    def migrated(self, url: str) -> None:
        """See `ConnectionAudit`."""
        self.migrations.append(url)

    def indebted(self, limiter: MeteredLimiter, advance: Advance) -> None:
        """See `ConnectionAudit`."""
        self.debts.append((limiter.counter.group, advance))

    def sends(self, *frames: bytes) -> list[bytes]:
        """The client sends this in one piece; returned is what reaches the broker by it."""
        self.session.receive_from_client(b"".join(frames), self._bench.now_ns)
        return self.broker_got()

    def ends(self, *frames: bytes) -> FrameFault:
        """Return why the last of these ends the connection; the broker gets the others only."""
        with pytest.raises(MalformedFrame) as raised:
            self.sends(*frames)
        assert self.broker_got() == list(frames[:-1])
        return raised.value.fault

    def opens(self, *requests: bytes) -> None:
        """The client asks for producers and consumers, and the broker accepts them."""
        for request in requests:
            assert self.sends(request) == [request]
            assert self.is_sent(peer.granted(request)) == [peer.granted(request)]

    def sends_on(self, *frames: bytes) -> None:
        """The client sends this in one piece; what reaches the broker is left for the next look."""
        self.session.receive_from_client(b"".join(frames), self._bench.now_ns)

    def is_sent(self, *frames: bytes) -> list[bytes]:
        """The broker sends this in one piece; returned is what reaches the client by it."""
        self.is_sent_on(*frames)
        return self.client_got()

    def is_sent_on(self, *frames: bytes) -> None:
        """The broker sends this in one piece; what reaches the client is left for the next look."""
        self.session.receive_from_broker(b"".join(frames), self._bench.now_ns)

    def broker_got(self) -> list[bytes]:
        """Return the bytes that the broker received since the last call."""
        return _take(self.session.to_broker)

    def client_got(self) -> list[bytes]:
        """Return the bytes that the client received since the last call."""
        return _take(self.session.to_client)


class Bench:
    """The pure gate: one clock, one queue, any number of connections."""

    def __init__(self) -> None:
        self.now_ns = START_NS
        self.story = Story()
        self.groups = GroupTable(self.story)
        self.queue = AdmissionQueue()
        self.counters = GateCounters()
        self.buffer = PublishBuffer()
        self.addresses = AddressBook(AddressMap())
        self.turn = ENDLESS
        self.released: list[Client] = []
        self.clients: list[Client] = []

    def client(
        self,
        held_bytes_max: int = HELD_BYTES_MAX,
        pending_requests_max: int | None = None,
        connect_policy: ConnectPolicy = NOWHERE_ELSE,
        *,
        replication: ReplicationPeers = NO_PEERS,
        participants_max: int = PARTICIPANTS_MAX,
        identities: IdentityRules = NO_IDENTITIES,
        connected: bool = True,
        version: str = "test",
    ) -> Client:
        """A new connection, which the broker has accepted unless the test is about that."""
        bounds = ThrottleBounds(held_bytes_max, pending_requests_max, participants_max)
        client = Client(self, bounds, connect_policy, replication, identities)
        self.clients.append(client)
        if connected:
            client.sends(peer.connect(version))
            client.is_sent(peer.connected())
        return client

    def replicating(self, topic: str = TOPIC) -> Client:
        """A new connection of a broker of another cluster, with one producer."""
        client = self.client(replication=PEER)
        client.session.connected(Address("10.0.0.7"))
        client.opens(peer.producer(topic, name="pulsar.repl.west-->east"))
        return client

    def producing(
        self,
        topic: str = TOPIC,
        producer_id: int = 1,
        held_bytes_max: int = HELD_BYTES_MAX,
        version: str = "test",
    ) -> Client:
        """A new connection with one producer."""
        client = self.client(held_bytes_max, version=version)
        client.opens(peer.producer(topic, producer_id, request_id=producer_id))
        return client

    def attach(self, tenants: dict[str, str] | None = None, **namespaces: str) -> None:
        """Attach tenants, and namespaces of the tenant named tenant."""
        self.groups.attachments = Attachments(
            tenants or {}, {f"tenant/{name}": group for name, group in namespaces.items()}
        )
        for client in self.clients:
            client.session.reattach(self.now_ns)

    def attach_topics(self, *topics: str) -> None:
        """Let scalable topics be groups by themselves."""
        self.groups.attachments = replace(self.groups.attachments, topics=frozenset(topics))
        for client in self.clients:
            client.session.reattach(self.now_ns)

    def limit(self, group: str, messages: int | None = None, size: int | None = None) -> None:
        """Limit a group's publishes."""
        self.set_limits(group, Rates(publish_messages=messages, publish_bytes=size))

    def limited(self, messages: int | None = None, size: int | None = None) -> None:
        """Attach the namespace of `TOPIC` to the group named limited, and limit its publishes."""
        self.attach(ns="limited")
        self.limit("limited", messages, size)

    def dispatch_limited(self, messages: int | None = None, size: int | None = None) -> None:
        """Attach the same namespace to the same group, and limit what its consumers are sent."""
        self.attach(ns="limited")
        self.limit_dispatch("limited", messages, size)

    def limit_dispatch(
        self, group: str, messages: int | None = None, size: int | None = None
    ) -> None:
        """Limit what a group's consumers are sent."""
        self.set_limits(group, Rates(dispatch_messages=messages, dispatch_bytes=size))

    def limit_broker(self, rates: Rates) -> None:
        """Limit everything."""
        self._scope_changed(self.groups.scopes.set_broker(rates, self.now_ns))

    def limit_topic(self, topic: str, rates: Rates, partitions: int = 1) -> None:
        """Limit a topic."""
        name = TopicName.parse(topic)
        assert name is not None
        self._scope_changed(self.groups.scopes.set_topic(name, rates, partitions, self.now_ns))

    def _scope_changed(self, changed: tuple[Group, ...]) -> None:
        for group in changed:
            self.queue.serve_limiter(group.publish_limiter, self.now_ns)
            self.queue.serve_limiter(group.dispatch_limiter, self.now_ns)
        for client in self.clients:
            client.session.reattach(self.now_ns)

    def set_limits(self, group: str, rates: AnyRates) -> None:
        """Set all limits of a group, as the gate does."""
        changed = self.groups.set_limits(group, rates, self.now_ns)
        self.queue.serve_limiter(changed.publish_limiter, self.now_ns)
        self.queue.serve_limiter(changed.dispatch_limiter, self.now_ns)
        for client in self.clients:
            client.session.reattach(self.now_ns)

    def handle(self, group: str, handling: Handling) -> None:
        """Handle a group's traffic in this way, as the gate does."""
        changed = self.groups.set_handling(group, handling, self.now_ns)
        if changed is not None:
            self.queue.patience_changed(changed.publish_limiter, self.now_ns)
            self.queue.serve_limiter(changed.publish_limiter, self.now_ns)

    def wait(self, milliseconds: int) -> None:
        """Let time pass, waking the queue whenever it asks for that."""
        until_ns = self.now_ns + milliseconds * MILLISECOND_NS
        self._advance()
        while (due_ns := self.queue.next_wake_ns()) is not None and due_ns <= until_ns:
            self.now_ns = max(self.now_ns, due_ns)
            self.queue.serve(self.now_ns)
            self._advance()
        self.now_ns = until_ns

    def _advance(self) -> None:
        """Let the connections go on of which something was released."""
        while self.released:
            client = self.released.pop(0)
            client.session.advance(self.now_ns)


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests with sockets run on the event loop that sidecars have."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(params=["frames", "runs"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A gate, with and without its compiled helper, whose books must balance when the test is over."""
    bench = Bench()
    with deciding(by_runs=request.param == "runs"):
        yield bench
    for client in bench.clients:
        client.session.close(bench.now_ns)
        assert client.session.held_bytes == 0
        assert client.session.producers == client.session.consumers == 0
    assert (bench.buffer.held_bytes, bench.buffer.waiting, bench.buffer.shares) == (0, 0, 0)
    for memory in (bench.buffer.deliveries, bench.buffer.first_deliveries):
        assert (memory.held_bytes, len(memory.shares)) == (0, 0)
    assert bench.queue.waiting == 0
    assert bench.queue.next_wake_ns() is None
    assert all(traffic.participants == 0 for traffic in bench.groups.collect(bench.now_ns))
    assert bench.groups.collect(bench.now_ns) == ()


def _take(buffers: list[bytes | memoryview]) -> list[bytes]:
    taken = peer.split(b"".join(buffers))
    buffers.clear()
    return taken
