"""The gate itself: listens for clients, dials the broker, keeps the one timer.

All limits, counters and queues live in the pure modules; this one owns the resources of a running
process: sockets, the clock, the log. Everything runs on one event loop and nothing here is thread-safe.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import structlog

from coordinator.backlog.rules.guard import Block
from coordinator.core.addresses import AddressMap, ways_to
from coordinator.core.model import Attachments, NamespaceTraffic, Rates, Traffic
from coordinator.core.topics import TopicName
from coordinator.gate.engine.addresses import AddressBook
from coordinator.gate.engine.close_reason import CloseReason
from coordinator.gate.engine.connection_limits import ConnectionLimits
from coordinator.gate.engine.counters import GateCounters
from coordinator.gate.engine.deadlines import Deadlines
from coordinator.gate.engine.replication import ReplicationPeers
from coordinator.gate.engine.session import NO_PEERS, ConnectionAudit, Session
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.counters import GateListener
from coordinator.gate.limits.group import Group
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.metering import BURST_NS
from coordinator.gate.limits.modes import DEFAULT_MODES, Modes
from coordinator.gate.limits.throttle import (
    HELD_BYTES_MAX,
    PARTICIPANTS_MAX,
    PublishBuffer,
    ThrottleBounds,
)
from coordinator.gate.protocol.commands import ProducerCommand
from coordinator.gate.protocol.connect_policy import ConnectPolicy
from coordinator.gate.protocol.frames import MalformedFrame
from coordinator.gate.protocol.refusals import RefusalReason
from coordinator.gate.server import figures
from coordinator.gate.server.closes import Closes
from coordinator.gate.server.connection import BrokerSide, Connection
from coordinator.gate.server.listening import Entrance
from coordinator.gate.server.log_ration import LogRation
from coordinator.gate.server.supervisor import DEFAULT_PATIENCE, DeadlineSupervisor, Patience
from coordinator.gate.server.tls import TlsListener
from coordinator.gate.server.upstream import Address, Upstream, UpstreamTls
from coordinator.gate.server.wake_timer import WakeTimer
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.model.gate_views import (
    ConnectionFigures,
    GateFigures,
    GateLimits,
    HoldView,
    StrandedClient,
    UnknownTopicsView,
)
from coordinator.ports import Clock

STRANDED_MAX: Final = 20
"""Stranded clients in one answer."""

_log = structlog.get_logger(__name__)


class Gate:
    """A proxy between clients and one broker that enforces the limits of resource groups.

    Args:
        listen_host: address to listen on.
        listen_port: port to listen on; 0 takes a free one, see ``port``.
        upstream_host: the broker's address.
        upstream_port: the broker's port.
        listener: told of first and last participants; called on the event loop, must not block.
        clock: monotonic time.
        held_bytes_max: bound of one connection's held bytes; beyond it, it is not read.
        publish_buffer_bytes_max: the same for all connections together; None is no further bound.
        pending_requests_max: publishes of one connection that may wait for the broker's answer; beyond
            it, it is not read; None leaves that to the broker.
        burst_ns: how much a limit can save up, as time.
        modes: how limits are enforced, and the groups that traffic counts against without an attachment.
        replication: the clients whose producers replicate and are exempt.
        own_topics: topics of the coordinators themselves, which count for no group.
        participants_max: producers and consumers of one connection; any more are refused.
        tls: listens with TLS as well, if given; see ``TlsListener``.
        upstream_tls: how to speak TLS to the broker; None is plain.
        proxy_protocol: version of the PROXY header that tells the broker who the client is; 0 is none.
        kept_sockets: sockets that listen already, on the gate's ports; see ``Entrance``.
        connections: the bounds on connections.
        patience: the deadlines of peers.

    Raises:
        TlsError: a file of ``upstream_tls`` cannot be used.
    """

    def __init__(  # noqa: PLR0913 - keyword-only, each one explained above
        self,
        *,
        listen_host: str,
        listen_port: int,
        upstream_host: str,
        upstream_port: int,
        listener: GateListener,
        clock: Clock,
        held_bytes_max: int = HELD_BYTES_MAX,
        publish_buffer_bytes_max: int | None = None,
        pending_requests_max: int | None = None,
        burst_ns: int = BURST_NS,
        modes: Modes = DEFAULT_MODES,
        replication: ReplicationPeers = NO_PEERS,
        own_topics: frozenset[TopicName] = frozenset(),
        unknown_topics_pass: bool = False,
        participants_max: int = PARTICIPANTS_MAX,
        tls: TlsListener | None = None,
        upstream_tls: UpstreamTls | None = None,
        proxy_protocol: int = 0,
        kept_sockets: Sequence[socket.socket] = (),
        connections: ConnectionLimits | None = None,
        patience: Patience = DEFAULT_PATIENCE,
    ) -> None:
        self._entrance = Entrance(listen_host, listen_port, tls, kept_sockets)
        self._bounds = ThrottleBounds(held_bytes_max, pending_requests_max, participants_max)
        self._buffer = PublishBuffer(publish_buffer_bytes_max)
        self._replication = replication
        self.now_ns: Callable[[], int] = clock.now_ns
        self._upstream = Upstream(
            upstream_host,
            upstream_port,
            self.now_ns,
            tls=upstream_tls,
            proxy_protocol=proxy_protocol,
        )
        self._connect_policy = ConnectPolicy(
            frozenset({self._upstream.address}),
            vouches=upstream_tls is not None and upstream_tls.client.certificate is not None,
        )
        self._groups = GroupTable(
            listener,
            burst_ns=burst_ns,
            modes=modes,
            own_topics=own_topics,
            unknown_topics_pass=unknown_topics_pass,
        )
        self._addresses = AddressBook(AddressMap(own_broker=ways_to(self._upstream.address)))
        self._queue = AdmissionQueue()
        self._wake_timer = WakeTimer(self._queue, self.now_ns)
        self._counters = GateCounters()
        self._malformed_closes: Counter[str] = Counter()
        self._limits = connections or ConnectionLimits()
        self._log = LogRation()
        self._closes = Closes(self._log)
        #: The deadlines of all connections.
        self.deadlines: Deadlines[Connection] = Deadlines()
        self.silent_s = patience.silent_s
        self._supervisor = DeadlineSupervisor(self.deadlines, self._closes, self._log, patience)
        self._connections: set[Connection] = set()
        #: Connections whose client is gone, while the broker reads its last bytes.
        self._leaving: set[Connection] = set()
        self._dialling: set[asyncio.Task[None]] = set()
        self._resumed: Callable[[], None] | None = None
        self._collected_nothing = False

    @property
    def port(self) -> int:
        """The port that the gate listens on, or will listen on."""
        return self._entrance.port

    @property
    def tls_port(self) -> int | None:
        """The port that the gate listens on with TLS; None while it does not."""
        return self._entrance.tls_port

    async def start(self) -> int:
        """Accept clients; return the plain port.

        Raises:
            OSError: a port cannot be had.
            TlsError: the certificate cannot be used.
        """
        await self._entrance.open(self)
        self._supervisor.start()
        return self.port

    def refresh_certificate(self) -> None:
        """Use the certificate that is in the files now for new connections."""
        self._entrance.refresh_certificate()

    async def drain(self, timeout_s: float) -> None:
        """Accept no client, let no new publish through, and close when the others are answered.

        Held messages never reached the broker and are dropped: the client sends them again, to the broker
        that then has its topic. Messages that did reach the broker get their receipts first. So none is
        lost and none is doubled, unless the broker takes longer than the timeout.
        """
        self._entrance.close()
        for connection in tuple(self._connections):
            connection.drain()
        try:
            async with asyncio.timeout(timeout_s):
                for connection in self._not_ended():
                    await connection.ended.wait()
        except TimeoutError:
            _log.warning("drain ran out of time", connections=len(self._not_ended()))
        await self.close()

    async def close(self) -> None:
        """Stop at once, whatever is under way."""
        self._entrance.close()
        for task in self._dialling:
            task.cancel()
        self._wake_timer.cancel()
        not_ended = self._not_ended()
        for connection in not_ended:
            connection.abort()
        for connection in not_ended:
            await connection.ended.wait()
        self._supervisor.stop()

    def set_limits(self, group: str, limits: Rates, *, leased: bool = False) -> None:
        """Enforce these limits for a group from now on, leased ones until the end of the lease."""
        with self._serving_change(group) as now_ns:
            self._groups.set_limits(group, limits, now_ns, leased=leased)

    def hold_lease(self, until_ns: int) -> None:
        """Extend leased limits to this time, by the gate's clock."""
        now_ns = self.now_ns()
        for group in self._groups.hold_lease(until_ns, now_ns):
            self._serve(group, now_ns)

    def remove_limits(self, group: str) -> None:
        """Remove a group's limits; its traffic is counted while it is attached."""
        with self._serving_change(group) as now_ns:
            self._groups.remove_limits(group, now_ns)

    @contextmanager
    def _serving_change(self, name: str) -> Iterator[int]:
        """Apply a change of a group's limits at once; yield the time of the change."""
        group, now_ns = self._groups.group(name), self.now_ns()
        was_limited = group.dispatch_limiter.limited
        yield now_ns
        self._serve(group, now_ns)
        if group.dispatch_limiter.limited != was_limited:
            # Consumers that do not wait may have permits to withhold from now on, or to release.
            self._reattach()

    def set_broker_limits(self, limits: Rates) -> None:
        """Limit all traffic of this gate, beside the limits of groups; no rates, no limit."""
        now_ns = self.now_ns()
        self._scope_changed(self._groups.scopes.set_broker(limits, now_ns), now_ns)

    def set_topic_limits(self, topic: TopicName, limits: Rates, *, partitions: int = 1) -> None:
        """Limit a topic, beside the limits of its groups; no rates, no limit.

        The rates are those of all partitions together; each gets its part.

        Raises:
            ValueError: there are fewer than one partition.
        """
        if partitions < 1:
            raise ValueError(f"partitions is {partitions}: use 1 for a topic without partitions")
        now_ns = self.now_ns()
        changed = self._groups.scopes.set_topic(topic, limits, partitions, now_ns)
        self._scope_changed(changed, now_ns)

    def set_partition_limits(self, limits: Rates) -> None:
        """Limit every partition of every topic, each for itself; no rates, no limit."""
        now_ns = self.now_ns()
        self._scope_changed(self._groups.scopes.partitions.set_rates(limits, now_ns), now_ns)

    def partition_limits(self) -> Rates:
        """Return the limit of every partition."""
        return self._groups.scopes.partitions.rates

    def partition_traffic(self) -> tuple[Traffic, ...]:
        """Return the counts of each partition since the last call, under its topic's name."""
        return self._groups.scopes.partitions.collect(self.now_ns())

    def namespace_traffic(self) -> tuple[NamespaceTraffic, ...]:
        """Return the counts of each namespace since the last call."""
        return self._groups.namespaces.collect(self.now_ns())

    def published_totals(self) -> dict[str, tuple[int, int]]:
        """Return the messages and bytes published to each namespace since the start."""
        return self._groups.published_totals()

    def broker_side_addresses(self) -> frozenset[Address]:
        """Return the addresses that the broker sees of this gate's connections."""
        found = (connection.broker_side_address for connection in self._connections)
        return frozenset(address for address in found if address is not None)

    def set_topic_block(self, topic: str, block: Block | None) -> None:
        """Hold publishes to a topic or refuse them; None lets them pass again."""
        now_ns = self.now_ns()
        self._scope_changed(self._groups.scopes.set_block(topic, block, now_ns), now_ns)

    def published_topics(self) -> frozenset[str]:
        """Return the full names of the topics that producers are connected to."""
        return figures.published_topics(connection.session for connection in self._connections)

    def stranded(self) -> tuple[StrandedClient, ...]:
        """Return clients that look a topic up again and again and never open it here."""
        return self._counters.trails.stranded(self.now_ns())[:STRANDED_MAX]

    def set_subscribe_rate(self, rate: int | None, *, period_s: int = 1) -> None:
        """Let each consumer subscribe this often per period; refuse one that comes more often.

        Raises:
            ValueError: a negative rate, or a period of less than a second.
        """
        self._groups.subscribe_rate.set_rate(rate, period_s)

    def _scope_changed(self, changed: Iterable[Group], now_ns: int) -> None:
        for group in changed:
            self._serve(group, now_ns)
        self._reattach()

    def _serve(self, group: Group, now_ns: int) -> None:
        self._queue.serve_limiter(group.publish_limiter, now_ns)
        self._queue.serve_limiter(group.dispatch_limiter, now_ns)
        self._wake_timer.plan()

    def _reattach(self) -> None:
        for connection in tuple(self._connections):
            connection.reattach()

    def set_attachments(self, attachments: Attachments) -> None:
        """Count and limit by these attachments from now on, connected participants included."""
        if attachments == self._groups.attachments:
            return
        self._groups.attachments = attachments
        self._reattach()

    def set_addresses(self, addresses: AddressMap) -> None:
        """Tell clients the addresses of these gates from now on."""
        own_broker = self._addresses.map.own_broker
        self._addresses.map = replace(addresses, own_broker=own_broker)

    def collect(self) -> tuple[Traffic, ...]:
        """Return the counts since the last call, of groups with news or participants."""
        counted = self._groups.collect(self.now_ns())
        self._collected_nothing = all(traffic.is_quiet for traffic in counted)
        return counted

    def watch_traffic(self, resumed: Callable[[], None]) -> None:
        """Call this when traffic passes or waits again after a `collect` that found none."""
        self._resumed = resumed

    def figures(self) -> GateFigures:
        """Return the gate's figures at this moment."""
        return figures.gate_figures(
            [connection.session for connection in self._connections],
            self._queue,
            self._counters,
            malformed_closes=self._malformed_closes,
            closes=self._closes.counts,
            upstream_failures=self._upstream.failures,
            now_ns=self.now_ns(),
        )

    def limits(self) -> GateLimits:
        """Return the gate's own limits in force, beside those of groups."""
        scopes, subscribing = self._groups.scopes, self._groups.subscribe_rate
        return GateLimits(
            broker=scopes.broker,
            subscribe_rate=subscribing.rate,
            subscribe_period_s=subscribing.period_s,
            topics=scopes.topics,
        )

    def holds(self) -> tuple[HoldView, ...]:
        """Return the hold times of every group, topic and class that had to wait."""
        return tuple(self._groups.holds())

    def unknown_topics(self) -> UnknownTopicsView:
        """Return the counts of topics with unknown names."""
        return self._groups.unknown_topics.view()

    def delayed(self) -> DelayedView | None:
        """Return the counts of delayed messages since the start; None while they are not counted."""
        counted = self._groups.delayed
        sessions = (connection.session for connection in self._connections)
        return None if counted is None else counted.view(figures.hasty_subscriptions(sessions))

    def connection_figures(self) -> tuple[ConnectionFigures, ...]:
        """Return the figures of every connection, the one that holds most first."""
        return figures.connection_figures((c.peer, c.session) for c in self._connections)

    # Calls of the entrance

    def admits(self, address: Address) -> CloseReason | None:
        """Count one more client; return the reason if there is no room for it."""
        return self._limits.enter(address[0])

    def welcome(self, address: Address) -> Connection:
        """Return the connection of a client that was admitted."""
        return Connection(self, address)

    def turned_away(self, reason: CloseReason, address: Address | None, detail: str = "") -> None:
        """Count a client that was not admitted."""
        self._closes.add(reason, _peer(address), **({"reason": detail} if detail else {}))

    def not_made(self, address: Address, error: OSError | None) -> None:
        """Take the news that an admitted client failed in its TLS handshake, or left before it."""
        self._limits.leave(address[0])
        if error is not None:
            detail = str(error) or type(error).__name__
            self._closes.add(CloseReason.TLS_HANDSHAKE, _peer(address), reason=detail)

    # Calls of connections

    def new_session(self, released: Callable[[], None], audit: ConnectionAudit) -> Session:
        """Return the engine of a new connection."""
        return Session(
            self._groups,
            self._queue,
            self._counters,
            released=released,
            bounds=self._bounds,
            buffer=self._buffer,
            replication=self._replication,
            connect_policy=self._connect_policy,
            addresses=self._addresses,
            audit=audit,
        )

    def upstream_header(self, client: Address | None, gate: Address | None) -> bytes:
        """Return the PROXY header that the broker gets before a client's own bytes."""
        return self._upstream.header(client, gate)

    def opened(self, connection: Connection) -> None:
        """Take the news that a client connected."""
        self._connections.add(connection)

    def introduced(self, connection: Connection) -> None:
        """Dial the broker, because a client's first command is complete."""
        task = asyncio.get_running_loop().create_task(self._dial(connection))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    def closed(self, connection: Connection) -> None:
        """Take the news that a client is gone."""
        self._connections.discard(connection)
        self._leaving.add(connection)

    def ended(self, connection: Connection) -> None:
        """Take the news that the broker's side is closed, too."""
        self._leaving.discard(connection)
        self._limits.leave(connection.address)

    def malformed(self, side: str, peer: str, error: MalformedFrame) -> None:
        """Count and log a connection that is closed for a malformed frame."""
        self._malformed_closes[error.fault.value] += 1
        self._closes.add(CloseReason.MALFORMED, peer, side=side, reason=str(error))

    def refused(self, peer: str, reason: RefusalReason, detail: str) -> None:
        """Log the first refusal of this reason on the client's connection."""
        self._log.warn("request refused", peer=peer, reason=reason.value, detail=detail)

    def exempted(self, peer: str, producer: ProducerCommand) -> None:
        """Log a producer of geo-replication, which is not limited."""
        self._log.tell(
            "producer of geo-replication, not limited",
            peer=peer,
            topic=producer.topic,
            producer=producer.producer_name,
        )

    def migrated(self, peer: str, url: str) -> None:
        """Log that the broker sends a client to another cluster."""
        self._log.tell("topic migrated to another cluster", peer=peer, url=url)

    def handled(self) -> None:
        """See `Host.handled`."""
        self._wake_timer.plan()
        if self._collected_nothing and not self._groups.is_quiet():
            self._collected_nothing = False
            if self._resumed is not None:
                self._resumed()

    def _not_ended(self) -> tuple[Connection, ...]:
        return (*self._connections, *self._leaving)

    async def _dial(self, connection: Connection) -> None:
        reached = False
        try:
            reached = await self._upstream.dial(lambda: BrokerSide(connection))
        finally:
            if not reached:
                connection.broker_lost()


def _peer(address: Address | None) -> str:
    return "unknown" if address is None else f"{address[0]}:{address[1]}"
