"""The gate itself: what a sidecar sets and asks, over the engine, the connections and the one timer.

All limits, counters and queues live in the pure modules; this one and connections.py own the resources
of a running process: sockets, the clock, the log. Everything runs on one event loop and nothing here is
thread-safe.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import structlog

from coordinator.backlog.rules.guard import Block
from coordinator.core.addresses import AddressMap, ways_to
from coordinator.core.handling import Handling
from coordinator.core.model import AnyRates, Attachments, Rates, TrafficKey
from coordinator.core.topics import TopicName
from coordinator.core.traffic import NamespaceTraffic, Traffic
from coordinator.gate.engine.addresses import AddressBook
from coordinator.gate.engine.connection_limits import ConnectionLimits
from coordinator.gate.engine.counters import GateCounters
from coordinator.gate.engine.identity import NO_IDENTITIES, IdentityRules
from coordinator.gate.engine.replication import ReplicationPeers
from coordinator.gate.engine.session import NO_PEERS, ConnectionAudit, Session
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.counters import GateListener
from coordinator.gate.limits.group import Group
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.metering import BURST_NS
from coordinator.gate.limits.modes import DEFAULT_MODES, Modes
from coordinator.gate.limits.publish_buffer import PublishBuffer
from coordinator.gate.limits.throttle import (
    HELD_BYTES_MAX,
    ThrottleBounds,
)
from coordinator.gate.protocol.connect_policy import ConnectPolicy
from coordinator.gate.server import figures
from coordinator.gate.server.connections import Connections
from coordinator.gate.server.listening import Entrance
from coordinator.gate.server.supervisor import DEFAULT_PATIENCE, Patience
from coordinator.gate.server.tls import TlsListener
from coordinator.gate.server.turns import TURN_DECISIONS
from coordinator.gate.server.upstream import Upstream, UpstreamTls
from coordinator.gate.server.wake_timer import WakeTimer
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.model.gate_views import (
    ConnectionFigures,
    GateFigures,
    GateLimits,
    HoldView,
    RoleView,
    UnknownTopicsView,
)
from coordinator.ports import Clock

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
        identities: what proves a client's role.
        unknown_topics_pass: whether topics pass whose names are not known.
        reserved_topics: the topics that no client publishes to, by their full names.
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
        identities: IdentityRules = NO_IDENTITIES,
        unknown_topics_pass: bool = False,
        reserved_topics: Collection[str] = (),
        tls: TlsListener | None = None,
        upstream_tls: UpstreamTls | None = None,
        proxy_protocol: int = 0,
        kept_sockets: Sequence[socket.socket] = (),
        connections: ConnectionLimits | None = None,
        patience: Patience = DEFAULT_PATIENCE,
    ) -> None:
        self._entrance = Entrance(listen_host, listen_port, tls, kept_sockets)
        self._bounds = ThrottleBounds(held_bytes_max, pending_requests_max)
        self._buffer = PublishBuffer(publish_buffer_bytes_max)
        self._replication = replication
        self._identities = identities
        self._now_ns: Callable[[], int] = clock.now_ns
        self._upstream = Upstream(
            upstream_host,
            upstream_port,
            self._now_ns,
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
            unknown_topics_pass=unknown_topics_pass,
            reserved_topics=reserved_topics,
        )
        self._addresses = AddressBook(AddressMap(own_broker=ways_to(self._upstream.address)))
        self._queue = AdmissionQueue()
        self._wake_timer = WakeTimer(self._queue, self._now_ns)
        self._counters = GateCounters()
        self._connections = Connections(
            self._new_session,
            self._handled,
            self._upstream,
            self._now_ns,
            connections or ConnectionLimits(),
            patience,
        )
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
            ConfigError: an address is in use.
            OSError: a port cannot be had.
            TlsError: the certificate cannot be used.
        """
        await self._entrance.open(self._connections)
        self._connections.start()
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
        await self._connections.drain(timeout_s)
        await self.close()

    async def close(self) -> None:
        """Stop at once, whatever is under way."""
        self._entrance.close()
        self._wake_timer.cancel()
        await self._connections.close()

    def set_limits(self, group: str, limits: AnyRates, *, leased: bool = False) -> None:
        """Enforce these limits for a group from now on, leased ones until the end of the lease."""
        with self._serving_change(group) as now_ns:
            self._groups.set_limits(group, limits, now_ns, leased=leased)

    def set_handling(self, group: str, handling: Handling) -> None:
        """Handle a group's traffic below and above its limits in this way from now on."""
        now_ns = self._now_ns()
        if (changed := self._groups.set_handling(group, handling, now_ns)) is not None:
            self._queue.patience_changed(changed.publish_limiter, now_ns)
            self._serve(changed, now_ns)

    def hold_lease(self, until_ns: int) -> None:
        """Extend leased limits to this time, by the gate's clock."""
        now_ns = self._now_ns()
        for group in self._groups.hold_lease(until_ns, now_ns):
            self._serve(group, now_ns)

    def remove_limits(self, group: str) -> None:
        """Remove a group's limits; its traffic is counted while it is attached."""
        with self._serving_change(group) as now_ns:
            self._groups.remove_limits(group, now_ns)

    @contextmanager
    def _serving_change(self, name: str) -> Iterator[int]:
        """Apply a change of a group's limits at once; yield the time of the change."""
        group, now_ns = self._groups.group(name), self._now_ns()
        was_limited = group.dispatch_limiter.limited
        yield now_ns
        self._serve(group, now_ns)
        if group.dispatch_limiter.limited != was_limited:
            # Consumers that do not wait may have permits to withhold from now on, or to release.
            self._connections.reattach()

    def set_broker_limits(self, limits: Rates) -> None:
        """Limit all traffic of this gate, beside the limits of groups; no rates, no limit."""
        self._scope_changed(self._groups.scopes.set_broker(limits, self._now_ns()))

    def set_topic_limits(self, topic: TopicName, limits: Rates, *, partitions: int = 1) -> None:
        """Limit a topic, beside the limits of its groups; no rates, no limit.

        The rates are those of all partitions together; each gets its part.

        Raises:
            ValueError: there are fewer than one partition.
        """
        if partitions < 1:
            raise ValueError(f"partitions is {partitions}: use 1 for a topic without partitions")
        changed = self._groups.scopes.set_topic(topic, limits, partitions, self._now_ns())
        self._scope_changed(changed)

    def set_partition_limits(self, limits: Rates) -> None:
        """Limit every partition of every topic, each for itself; no rates, no limit."""
        self._scope_changed(self._groups.scopes.partitions.set_rates(limits, self._now_ns()))

    def partition_limits(self) -> Rates:
        """Return the limit of every partition."""
        return self._groups.scopes.partitions.rates

    def partition_traffic(self) -> tuple[Traffic, ...]:
        """Return the counts of each partition since the last call, under its topic's name."""
        return self._groups.scopes.partitions.collect(self._now_ns())

    def namespace_traffic(self, *, whole: bool = False) -> tuple[NamespaceTraffic, ...]:
        """Return the counts of namespaces since the last call; of many, those whose turn it is."""
        self._groups.roles.settle()
        return self._groups.namespaces.collect(self._now_ns(), whole=whole)

    def passed_totals(self) -> dict[TrafficKey, tuple[int, int]]:
        """Return the messages and bytes that passed since the start, by namespace and class."""
        return self._groups.passed_totals()

    def role_traffic(self) -> tuple[RoleView, ...]:
        """Return the counts of each role; empty while no role is attached."""
        return tuple(self._groups.roles.views(self._now_ns()))

    def set_topic_block(self, topic: str, block: Block | None) -> None:
        """Hold publishes to a topic or refuse them; None lets them pass again."""
        self._scope_changed(self._groups.scopes.set_block(topic, block, self._now_ns()))

    def published_topics(self) -> frozenset[str]:
        """Return the full names of the topics that producers are connected to."""
        return figures.published_topics(self._connections.sessions())

    def set_subscribe_rate(self, rate: int | None, *, period_s: int = 1) -> None:
        """Let each consumer subscribe this often per period; refuse one that comes more often.

        Raises:
            ValueError: a negative rate, or a period of less than a second.
        """
        self._groups.subscribe_rate.set_rate(rate, period_s)

    def _scope_changed(self, changed: Iterable[Group]) -> None:
        now_ns = self._now_ns()
        for group in changed:
            self._serve(group, now_ns)
        self._connections.reattach()

    def _serve(self, group: Group, now_ns: int) -> None:
        self._queue.serve_limiter(group.publish_limiter, now_ns)
        self._queue.serve_limiter(group.dispatch_limiter, now_ns)
        self._wake_timer.plan()

    def set_attachments(self, attachments: Attachments) -> None:
        """Count and limit by these attachments from now on, connected participants included."""
        if attachments == self._groups.attachments:
            return
        self._groups.attachments = attachments
        self._connections.reattach()

    def set_addresses(self, addresses: AddressMap) -> None:
        """Tell clients the addresses of these gates from now on."""
        own_broker = self._addresses.map.own_broker
        self._addresses.map = replace(addresses, own_broker=own_broker)

    def collect(self) -> tuple[Traffic, ...]:
        """Return the counts since the last call, of groups with news or participants."""
        counted = self._groups.collect(self._now_ns())
        self._collected_nothing = all(traffic.is_quiet for traffic in counted)
        return counted

    def watch_traffic(self, resumed: Callable[[], None]) -> None:
        """Call this when traffic passes or waits again after a `collect` that found none."""
        self._resumed = resumed

    def figures(self) -> GateFigures:
        """Return the gate's figures at this moment."""
        return figures.gate_figures(
            list(self._connections.sessions()),
            self._queue,
            self._counters,
            malformed_closes=self._connections.malformed_closes,
            closes=self._connections.closes.counts,
            upstream_failures=self._upstream.failures,
            now_ns=self._now_ns(),
        )

    def limits(self) -> GateLimits:
        """Return the gate's own limits in force, beside those of groups."""
        return figures.gate_limits(self._groups)

    def holds(self) -> tuple[HoldView, ...]:
        """Return the hold times of every group, topic and class that had to wait."""
        return tuple(self._groups.holds(self._now_ns()))

    def unknown_topics(self) -> UnknownTopicsView:
        """Return the counts of topics with unknown names."""
        return self._groups.unknown_topics.view()

    def delayed(self) -> DelayedView | None:
        """Return the counts of delayed messages since the start; None while they are not counted."""
        sessions = self._connections.sessions()
        return figures.delayed_view(self._groups.delayed, sessions)

    def connection_figures(self) -> tuple[ConnectionFigures, ...]:
        """Return the figures of every connection, the one that holds most first."""
        return figures.connection_figures((c.peer, c.session) for c in self._connections)

    def _new_session(self, released: Callable[[], None], audit: ConnectionAudit) -> Session:
        return Session(
            self._groups,
            self._queue,
            self._counters,
            released=released,
            bounds=self._bounds,
            buffer=self._buffer,
            replication=self._replication,
            connect_policy=self._connect_policy,
            identities=self._identities,
            addresses=self._addresses,
            audit=audit,
            turn=TURN_DECISIONS,
        )

    def _handled(self) -> None:
        """Take the news that bytes were handled: the wait may be shorter, and traffic has passed."""
        self._wake_timer.plan()
        if self._resumed and self._collected_nothing and not self._groups.is_quiet():
            self._collected_nothing = False
            self._resumed()
