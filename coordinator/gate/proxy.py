"""The gate itself: listens for clients, dials the broker, keeps the one timer.

All limits, counters and queues live in the pure modules; this one owns what only a running process
has: sockets, the clock, the log. Everything runs on one event loop and nothing here is thread-safe.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import structlog

from coordinator.core.backlog.guard import Block
from coordinator.core.delayed import DelayedView
from coordinator.core.gate_views import ConnectionFigures, GateFigures, GateLimits, HoldView
from coordinator.core.model import Attachments, NamespaceTraffic, Rates, Traffic
from coordinator.core.topics import TopicName
from coordinator.gate.admission import AdmissionQueue
from coordinator.gate.connection import BrokerSide, Connection
from coordinator.gate.counters import GateListener
from coordinator.gate.frames import MalformedFrame
from coordinator.gate.group import DEFAULT_MODES, Group, Modes
from coordinator.gate.groups import GroupTable
from coordinator.gate.introduction import Introduction
from coordinator.gate.listening import Entrance
from coordinator.gate.metering import BURST_NS
from coordinator.gate.session import REPLICATOR_PREFIX, Session
from coordinator.gate.tally import Tally
from coordinator.gate.throttle import HELD_BYTES_MAX, Bounds, PublishBuffer, ThrottleReason
from coordinator.gate.tls import TlsListener
from coordinator.gate.upstream import Address, Upstream, UpstreamTls
from coordinator.ports import Clock

_MILLISECOND_NS: Final = 1_000_000

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
        held_bytes_max: how much one connection may hold, in bytes; beyond it, it is not read.
        publish_buffer_bytes_max: the same for all connections together; None is no further bound.
        pending_requests_max: publishes of one connection that may wait for the broker's answer; beyond
            it, it is not read; None leaves that to the broker.
        burst_ns: how much a limit can save up, as time.
        modes: how limits are enforced.
        cluster_group: the resource group that everything counts against; empty is none.
        delayed_group: the one that delayed messages count against; empty is none.
        replicator_prefix: the broker's ``replicatorPrefix``.
        tls: listens with TLS as well, if given; see ``TlsListener``.
        upstream_tls: how to speak TLS to the broker; None is plain.
        proxy_protocol: version of the PROXY header that tells the broker who the client is; 0 is none.
        kept_sockets: listen already, on the ports to listen on; see ``Entrance``.

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
        cluster_group: str = "",
        delayed_group: str = "",
        replicator_prefix: str = REPLICATOR_PREFIX,
        tls: TlsListener | None = None,
        upstream_tls: UpstreamTls | None = None,
        proxy_protocol: int = 0,
        kept_sockets: Sequence[socket.socket] = (),
    ) -> None:
        self._entrance = Entrance(listen_host, listen_port, tls, kept_sockets)
        self._bounds = Bounds(held_bytes_max, pending_requests_max)
        self._buffer = PublishBuffer(publish_buffer_bytes_max)
        self._replicator_prefix = replicator_prefix
        self.now_ns: Callable[[], int] = clock.now_ns
        self._upstream = Upstream(
            upstream_host,
            upstream_port,
            self.now_ns,
            tls=upstream_tls,
            proxy_protocol=proxy_protocol,
        )
        self._introduction = Introduction(
            frozenset({self._upstream.address}),
            vouches=upstream_tls is not None and upstream_tls.client.certificate is not None,
        )
        self._groups = GroupTable(
            listener,
            burst_ns=burst_ns,
            modes=modes,
            cluster_group=cluster_group,
            delayed_group=delayed_group,
        )
        self._queue = AdmissionQueue()
        self._tally = Tally()
        self._malformed_closes: Counter[str] = Counter()
        self._connections: set[Connection] = set()
        #: Those whose client is gone, while the broker reads what it left behind.
        self._leaving: set[Connection] = set()
        self._dialling: set[asyncio.Task[None]] = set()
        self._wake: asyncio.TimerHandle | None = None
        self._resumed: Callable[[], None] | None = None
        self._wake_ns: int | None = None

    @property
    def port(self) -> int:
        """The port that the gate listens on, or is to listen on."""
        return self._entrance.port

    @property
    def tls_port(self) -> int | None:
        """The port that the gate listens on with TLS; None while it does not."""
        return self._entrance.tls_port

    async def start(self) -> None:
        """Accept clients.

        Raises:
            OSError: a port cannot be had.
            TlsError: the certificate cannot be used.
        """
        await self._entrance.open(lambda: Connection(self))

    def refresh_certificate(self) -> None:
        """Use the certificate that is in the files now for whoever connects from now on."""
        self._entrance.refresh_certificate()

    async def drain(self, timeout_s: float) -> None:
        """Accept nobody, let nothing new through, and close when everything is answered.

        Held messages never reached the broker and are discarded: the client sends them again, to
        wherever it finds its topic then. Messages that did reach the broker get their receipts first.
        So none is lost and none is doubled, unless the broker takes longer than the timeout.
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
        if self._wake is not None:
            self._wake.cancel()
        not_ended = self._not_ended()
        for connection in not_ended:
            connection.abort()
        for connection in not_ended:
            await connection.ended.wait()

    def set_limits(self, group: str, limits: Rates, *, leased: bool = False) -> None:
        """Enforce these limits for a group from now on, leased ones until the end of the lease."""
        with self._serving_change(group) as now_ns:
            self._groups.set_limits(group, limits, now_ns, leased=leased)

    def hold_lease(self, until_ns: int) -> None:
        """Leased limits hold until then, by the gate's clock."""
        now_ns = self.now_ns()
        for group in self._groups.hold_lease(until_ns, now_ns):
            self._serve(group, now_ns)

    def remove_limits(self, group: str) -> None:
        """Enforce no limits for a group any more; its traffic is counted while it is attached."""
        with self._serving_change(group) as now_ns:
            self._groups.remove_limits(group, now_ns)

    @contextmanager
    def _serving_change(self, name: str) -> Iterator[int]:
        """A change of a group's limits takes effect at once; gives the time of it."""
        group, now_ns = self._groups.group(name), self.now_ns()
        was_limited = group.dispatch_limiter.limited
        yield now_ns
        self._serve(group, now_ns)
        if group.dispatch_limiter.limited != was_limited:
            # Consumers that wait for nothing have permits to withhold from now on, or to let go.
            self._reattach()

    def set_broker_limits(self, limits: Rates) -> None:
        """Limit everything that passes this gate, beside the limits of groups; no rates, no limit."""
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

    @property
    def partition_limits(self) -> Rates:
        """The limit of every partition."""
        return self._groups.scopes.partitions.rates

    def partition_traffic(self) -> tuple[Traffic, ...]:
        """What was counted of each partition since the last time, under its topic's name."""
        return self._groups.scopes.partitions.collect(self.now_ns())

    def namespace_traffic(self) -> tuple[NamespaceTraffic, ...]:
        """What was counted of each namespace since the last time."""
        return self._groups.namespaces.collect(self.now_ns())

    def set_topic_block(self, topic: str, block: Block | None) -> None:
        """Hold publishes to a topic or refuse them; None lets them pass again."""
        now_ns = self.now_ns()
        self._scope_changed(self._groups.scopes.set_block(topic, block, now_ns), now_ns)

    def published_topics(self) -> frozenset[str]:
        """The topics that producers are connected to, by their full names."""
        named = (c.session.published_topics for c in self._connections)
        parsed = (TopicName.parse(topic) for topics in named for topic in topics)
        return frozenset(str(name) for name in parsed if name is not None)

    def set_subscribe_rate(self, rate: int | None, *, period_s: int = 1) -> None:
        """Let each consumer subscribe so often per period; who comes more often is refused.

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
        self._plan_wake()

    def _reattach(self) -> None:
        for connection in tuple(self._connections):
            connection.reattach()

    def set_attachments(self, attachments: Attachments) -> None:
        """Count and limit by these attachments from now on, connected participants included."""
        if attachments == self._groups.attachments:
            return
        self._groups.attachments = attachments
        self._reattach()

    def collect(self) -> tuple[Traffic, ...]:
        """What was counted since the last time, for groups with news or participants."""
        return self._groups.collect(self.now_ns())

    def when_traffic(self, resumed: Callable[[], None]) -> None:
        """Call once, as soon as something has passed or waits that was not collected."""
        self._resumed = resumed

    def figures(self) -> GateFigures:
        """The gate at this moment."""
        sessions = [connection.session for connection in self._connections]
        waiting_consumers = sum(session.waiting_consumers for session in sessions)
        now_ns = self.now_ns()
        held_since_ns = [s.held_since_ns for s in sessions if s.held_since_ns is not None]
        return GateFigures(
            connections=len(sessions),
            producers=sum(session.producers for session in sessions),
            consumers=sum(session.consumers for session in sessions),
            waiting_producers=self._queue.waiting - waiting_consumers,
            waiting_consumers=waiting_consumers,
            withheld_permits=sum(session.withheld_permits for session in sessions),
            held_frames=sum(session.held_frames for session in sessions),
            held_bytes=sum(session.held_bytes for session in sessions),
            longest_hold_ns=now_ns - min(held_since_ns, default=now_ns),
            throttles=_by_name(self._tally.throttles),
            refused_publishes=self._tally.refused_publishes,
            refused_subscribes=self._tally.refused_subscribes,
            pauses=self._tally.pauses,
            keep_alive_replies=self._tally.keep_alive_replies,
            dropped_frames=self._tally.dropped_frames,
            replicated_messages=self._tally.replicated_messages,
            replicated_bytes=self._tally.replicated_bytes,
            upstream_failures=self._upstream.failures,
            malformed_closes=dict(self._malformed_closes),
        )

    def limits(self) -> GateLimits:
        """The limits of the gate's own that are in force, beside those of groups."""
        scopes, subscribing = self._groups.scopes, self._groups.subscribe_rate
        return GateLimits(
            broker=scopes.broker,
            subscribe_rate=subscribing.rate,
            subscribe_period_s=subscribing.period_s,
            topics=scopes.topics,
        )

    def holds(self) -> Iterator[HoldView]:
        """What was held and for how long, of every group, topic and class that had to wait."""
        return self._groups.holds()

    def delayed(self) -> DelayedView | None:
        """What was published with a time of delivery since the start; None while nobody looks."""
        if self._groups.delayed is None:
            return None
        hasty: dict[str, set[str]] = {}
        for connection in self._connections:
            for topic, subscription in connection.session.hasty_subscriptions:
                hasty.setdefault(topic, set()).add(subscription)
        return self._groups.delayed.view(hasty)

    def connection_figures(self) -> tuple[ConnectionFigures, ...]:
        """Every connection at this moment, the one that holds most first."""
        found = [
            ConnectionFigures(
                peer=connection.peer,
                producers=connection.session.producers,
                consumers=connection.session.consumers,
                held_bytes=connection.session.held_bytes,
                withheld_permits=connection.session.withheld_permits,
                held_frames=connection.session.held_frames,
                unanswered=connection.session.unanswered,
                throttles=_by_name(connection.session.throttle.counts),
                paused_for=tuple(r.value for r in connection.session.throttle.pausing),
            )
            for connection in self._connections
        ]
        return tuple(sorted(found, key=lambda figures: -figures.held_bytes))

    # What connections ask for

    def new_session(self, released: Callable[[], None]) -> Session:
        """The engine of a new connection."""
        return Session(
            self._groups,
            self._queue,
            self._tally,
            released=released,
            bounds=self._bounds,
            buffer=self._buffer,
            replicator_prefix=self._replicator_prefix,
            introduction=self._introduction,
        )

    def upstream_header(self, client: Address | None, gate: Address | None) -> bytes:
        """What the broker is told before a client's own bytes."""
        return self._upstream.header(client, gate)

    def opened(self, connection: Connection) -> None:
        """A client connected: dial the broker."""
        self._connections.add(connection)
        task = asyncio.get_running_loop().create_task(self._dial(connection))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    def closed(self, connection: Connection) -> None:
        """A client is gone."""
        self._connections.discard(connection)
        self._leaving.add(connection)

    def ended(self, connection: Connection) -> None:
        """The broker's side is gone, too."""
        self._leaving.discard(connection)

    def malformed(self, side: str, peer: str, error: MalformedFrame) -> None:
        """A connection is closed because one side sent what is no frame."""
        self._malformed_closes[error.fault.value] += 1
        _log.warning("malformed frame, connection closed", side=side, peer=peer, reason=str(error))

    def handled(self) -> None:
        """See `Host.handled`."""
        self._plan_wake()
        if self._resumed is not None and not self._groups.is_quiet():
            resumed, self._resumed = self._resumed, None
            resumed()

    def _plan_wake(self) -> None:
        # The timer is for when time alone lets somebody pass that waits.
        due_ns = self._queue.next_wake_ns()
        if due_ns == self._wake_ns:
            return
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self._wake_ns = due_ns
        if due_ns is not None:
            # In whole milliseconds, rounded up: event loops round, and early would be in vain.
            wait_ms = -(-max(0, due_ns - self.now_ns()) // _MILLISECOND_NS)
            self._wake = asyncio.get_running_loop().call_later(wait_ms / 1000, self._wake_up)

    def _wake_up(self) -> None:
        self._wake = self._wake_ns = None
        self._queue.serve(self.now_ns())
        self._plan_wake()

    def _not_ended(self) -> tuple[Connection, ...]:
        return (*self._connections, *self._leaving)

    async def _dial(self, connection: Connection) -> None:
        if not await self._upstream.dial(lambda: BrokerSide(connection)):
            connection.broker_lost()


def _by_name(counts: Mapping[ThrottleReason, int]) -> dict[str, int]:
    return {reason.value: count for reason, count in counts.items()}
