"""The gate itself: listens for clients, dials the broker, keeps the one timer.

All limits, counters and queues live in the pure modules; this one owns what only a running process
has: sockets, the clock, the log. Everything runs on one event loop and nothing here is thread-safe.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from coordinator.core.model import NANOS_PER_SECOND, Attachments, Rates, Traffic
from coordinator.gate.admission import AdmissionQueue
from coordinator.gate.connection import BrokerSide, Connection
from coordinator.gate.counters import GateListener
from coordinator.gate.frames import MalformedFrame
from coordinator.gate.groups import GroupTable
from coordinator.gate.limiter import BURST_NS
from coordinator.gate.session import HELD_BYTES_MAX, REPLICATOR_PREFIX, Session
from coordinator.gate.tally import Tally
from coordinator.ports import Clock

CONNECT_TIMEOUT_S: Final = 5.0
"""The broker is next door: if it takes longer than this, it is not there."""

_WARN_INTERVAL_NS: Final = 60 * NANOS_PER_SECOND
_MILLISECOND_NS: Final = 1_000_000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GateFigures:
    """The gate at one moment, and what happened since its start.

    Args:
        connections: clients connected now.
        producers: producers connected now.
        consumers: consumers connected now.
        waiting_producers: producers that wait for tokens now.
        held_frames: frames held now.
        held_bytes: bytes held now.
        pauses: how often a connection was not read because it could hold no more.
        keep_alive_replies: PONGs that the gate sent on behalf of a paused peer.
        dropped_frames: held frames dropped because their producer was closed; clients resend them.
        replicated_messages: messages of geo-replication, which is exempt.
        replicated_bytes: bytes of geo-replication.
        upstream_failures: how often the broker could not be reached.
        malformed_closes: connections closed for a malformed frame, by reason.
    """

    connections: int
    producers: int
    consumers: int
    waiting_producers: int
    held_frames: int
    held_bytes: int
    pauses: int
    keep_alive_replies: int
    dropped_frames: int
    replicated_messages: int
    replicated_bytes: int
    upstream_failures: int
    malformed_closes: Mapping[str, int]


class Gate:
    """A proxy between clients and one broker that enforces the limits of resource groups.

    Args:
        listen_host: address to listen on.
        listen_port: port to listen on; 0 takes a free one, see ``port``.
        upstream_host: the broker's address.
        upstream_port: the broker's port.
        listener: told about participants and throttling; called on the event loop, must not block.
        clock: monotonic time.
        held_bytes_max: how much one connection may hold, in bytes; beyond it, it is not read.
        burst_ns: how much a limit can save up, as time.
        replicator_prefix: the broker's ``replicatorPrefix``.
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
        burst_ns: int = BURST_NS,
        replicator_prefix: str = REPLICATOR_PREFIX,
    ) -> None:
        self._listen_host = listen_host
        self._listen_port = listen_port
        self._upstream_host = upstream_host
        self._upstream_port = upstream_port
        self._held_bytes_max = held_bytes_max
        self._replicator_prefix = replicator_prefix
        self.now_ns: Callable[[], int] = clock.now_ns
        self._groups = GroupTable(listener, burst_ns=burst_ns)
        self._queue = AdmissionQueue()
        self._tally = Tally()
        self._malformed_closes: Counter[str] = Counter()
        self._upstream_failures = 0
        self._warned_ns: int | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._dialling: set[asyncio.Task[None]] = set()
        self._wake: asyncio.TimerHandle | None = None
        self._wake_ns: int | None = None

    @property
    def port(self) -> int:
        """The port that the gate listens on, or is to listen on."""
        if self._server is not None and self._server.sockets:
            return int(self._server.sockets[0].getsockname()[1])
        return self._listen_port

    async def start(self) -> None:
        """Accept clients.

        Raises:
            OSError: the port cannot be had.
        """
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), self._listen_host, self._listen_port
        )
        self._listen_port = self.port
        _log.info("gate listens", host=self._listen_host, port=self._listen_port)

    async def drain(self, timeout_s: float) -> None:
        """Accept nobody, let nothing new through, and close when everything is answered.

        Held messages never reached the broker and are discarded: the client sends them again, to
        wherever it finds its topic then. Messages that did reach the broker get their receipts first.
        So none is lost and none is doubled, unless the broker takes longer than the timeout.
        """
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.drain()
        try:
            async with asyncio.timeout(timeout_s):
                for connection in tuple(self._connections):
                    await connection.ended.wait()
        except TimeoutError:
            _log.warning("drain ran out of time", connections=len(self._connections))
        await self.close()

    async def close(self) -> None:
        """Stop at once, whatever is under way."""
        if self._server is not None:
            self._server.close()
        for task in self._dialling:
            task.cancel()
        if self._wake is not None:
            self._wake.cancel()
        open_now = tuple(self._connections)
        for connection in open_now:
            connection.abort()
        for connection in open_now:
            await connection.ended.wait()

    def set_limits(self, group: str, limits: Rates) -> None:
        """Enforce these limits for a group from now on."""
        now_ns = self.now_ns()
        self._queue.serve_limiter(self._groups.set_limits(group, limits, now_ns), now_ns)
        self.plan_wake()

    def remove_limits(self, group: str) -> None:
        """Enforce no limits for a group any more; its traffic is counted while it is attached."""
        now_ns = self.now_ns()
        self._queue.serve_limiter(self._groups.remove_limits(group, now_ns), now_ns)
        self.plan_wake()

    def set_attachments(self, attachments: Attachments) -> None:
        """Count and limit by these attachments from now on, connected participants included."""
        if attachments == self._groups.attachments:
            return
        self._groups.attachments = attachments
        for connection in tuple(self._connections):
            connection.reattach()

    def collect(self) -> tuple[Traffic, ...]:
        """What was counted since the last time, for groups with news or participants."""
        return self._groups.collect(self.now_ns())

    def figures(self) -> GateFigures:
        """The gate at this moment."""
        sessions = [connection.session for connection in self._connections]
        return GateFigures(
            connections=len(sessions),
            producers=sum(session.producers for session in sessions),
            consumers=sum(session.consumers for session in sessions),
            waiting_producers=self._queue.waiting,
            held_frames=sum(session.held_frames for session in sessions),
            held_bytes=sum(session.held_bytes for session in sessions),
            pauses=self._tally.pauses,
            keep_alive_replies=self._tally.keep_alive_replies,
            dropped_frames=self._tally.dropped_frames,
            replicated_messages=self._tally.replicated_messages,
            replicated_bytes=self._tally.replicated_bytes,
            upstream_failures=self._upstream_failures,
            malformed_closes=dict(self._malformed_closes),
        )

    # What connections ask for

    def new_session(self, released: Callable[[], None]) -> Session:
        """The engine of a new connection."""
        return Session(
            self._groups,
            self._queue,
            self._tally,
            released=released,
            held_bytes_max=self._held_bytes_max,
            replicator_prefix=self._replicator_prefix,
        )

    def opened(self, connection: Connection) -> None:
        """A client connected: dial the broker."""
        self._connections.add(connection)
        task = asyncio.get_running_loop().create_task(self._dial(connection))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    def closed(self, connection: Connection) -> None:
        """A client is gone."""
        self._connections.discard(connection)

    def malformed(self, side: str, peer: str, error: MalformedFrame) -> None:
        """A connection is closed because one side sent what is no frame."""
        self._malformed_closes[error.fault.value] += 1
        _log.warning("malformed frame, connection closed", side=side, peer=peer, reason=str(error))

    def plan_wake(self) -> None:
        """Set the timer to when the next producer can pass."""
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
            self._wake = asyncio.get_running_loop().call_later(wait_ms / 1000, self._serve)

    def _serve(self) -> None:
        self._wake = self._wake_ns = None
        self._queue.serve(self.now_ns())
        self.plan_wake()

    async def _dial(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await loop.create_connection(
                    lambda: BrokerSide(connection), self._upstream_host, self._upstream_port
                )
        except OSError as error:  # TimeoutError is one
            self._upstream_failed(error)
            connection.broker_lost()

    def _upstream_failed(self, error: OSError) -> None:
        self._upstream_failures += 1
        now_ns = self.now_ns()
        if self._warned_ns is None or now_ns - self._warned_ns >= _WARN_INTERVAL_NS:
            self._warned_ns = now_ns
            _log.warning(
                "broker cannot be reached, client turned away",
                host=self._upstream_host,
                port=self._upstream_port,
                reason=str(error) or type(error).__name__,
                failures=self._upstream_failures,
            )
