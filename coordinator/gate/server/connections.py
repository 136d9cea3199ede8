"""The connections of a gate: who may come in, how a connection begins, and how it ends.

It is the host of the entrance, which asks it for room, and of every connection, which tells it of its
begin, its end and its audit. The engine of a connection comes from the gate.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

import structlog

from coordinator.gate.engine.close_reason import CloseReason
from coordinator.gate.engine.connection_limits import ConnectionLimits
from coordinator.gate.engine.deadlines import Deadlines
from coordinator.gate.engine.session import ConnectionAudit, Session
from coordinator.gate.protocol.frames import MalformedFrame
from coordinator.gate.server.closes import Closes, peer_of
from coordinator.gate.server.connection import BrokerSide, Connection
from coordinator.gate.server.letting_go import RefusedClients
from coordinator.gate.server.log_ration import LogRation
from coordinator.gate.server.supervisor import DeadlineSupervisor, Patience
from coordinator.gate.server.turns import Turns
from coordinator.gate.server.upstream import Address, Upstream

_log = structlog.get_logger(__name__)


class NewSession(Protocol):
    """Make the engine of a new connection."""

    def __call__(self, released: Callable[[], None], audit: ConnectionAudit) -> Session:
        """Return it.

        Args:
            released: called when it has bytes to send, or reads again.
            audit: is told what is refused, exempted and migrated.
        """


class Connections:
    """All connections of a gate; iteration yields those whose client is there.

    Args:
        new_session: makes the engine of a connection.
        handled: called after a read, and when a client has left; looks for traffic that passed, and for
            producers or consumers that wait.
        upstream: the broker.
        now_ns: monotonic time.
        bounds: how many there may be.
        patience: the deadlines of peers.
    """

    def __init__(
        self,
        new_session: NewSession,
        handled: Callable[[], None],
        upstream: Upstream,
        now_ns: Callable[[], int],
        bounds: ConnectionLimits,
        patience: Patience,
    ) -> None:
        self.new_session = new_session
        self.handled = handled
        self.now_ns = now_ns
        self.bounds = bounds
        #: The time without an acknowledgement after which the system closes a connection.
        self.silent_s = patience.silent_s
        self.turns = Turns()
        #: The clients that sent a malformed frame.
        self.refused_clients = RefusedClients(asyncio.get_running_loop)
        #: The deadlines of all connections.
        self.deadlines: Deadlines[Connection] = Deadlines()
        self.malformed_closes: Counter[str] = Counter()
        #: Takes the lines of all connections.
        self.log = LogRation()
        self.closes = Closes(self.log)
        self.supervisor = DeadlineSupervisor(self.deadlines, self.closes, self.log, patience)
        self._upstream = upstream
        self._present: set[Connection] = set()
        #: Connections whose client is gone or refused, while the broker reads its last bytes.
        self._leaving: set[Connection] = set()
        self._dialling: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._present)

    def sessions(self) -> Iterator[Session]:
        """Yield the engine of every connection."""
        return (connection.session for connection in self._present)

    def start(self) -> None:
        """Begin to hold peers to their deadlines."""
        self.supervisor.start()

    def reattach(self) -> None:
        """Let every connection find its groups anew."""
        for connection in tuple(self._present):
            connection.reattach()

    async def drain(self, timeout_s: float) -> None:
        """Let no new publish through; return when all connections have ended, or the time is over."""
        self.refused_clients.close_all()
        for connection in tuple(self._present):
            connection.drain()
        try:
            async with asyncio.timeout(timeout_s):
                for connection in self._not_ended():
                    await connection.ended.wait()
        except TimeoutError:
            _log.warning("drain ran out of time", connections=len(self._not_ended()))

    async def close(self) -> None:
        """End all connections at once."""
        for task in self._dialling:
            task.cancel()
        self.refused_clients.close_all()
        not_ended = self._not_ended()
        for connection in not_ended:
            connection.abort()
        for connection in not_ended:
            await connection.ended.wait()
        self.supervisor.stop()

    def _not_ended(self) -> tuple[Connection, ...]:
        return (*self._present, *self._leaving)

    # Calls of the entrance

    def admits(self, address: Address) -> CloseReason | None:
        """Count one more client; return the reason if there is no room for it."""
        return self.bounds.enter(address[0])

    def accept(self, address: Address) -> Connection:
        """Return the connection of a client that was admitted."""
        return Connection(self, address)

    def turned_away(self, reason: CloseReason, address: Address | None, detail: str = "") -> None:
        """Count a client that was not admitted."""
        self.closes.add(reason, peer_of(address), **({"reason": detail} if detail else {}))

    def handshake_failed(self, address: Address, error: OSError | None) -> None:
        """Take the news that an admitted client failed in its TLS handshake, or left before it."""
        self.bounds.leave(address[0])
        if error is not None:
            detail = str(error) or type(error).__name__
            self.closes.add(CloseReason.TLS_HANDSHAKE, peer_of(address), reason=detail)

    # Calls of connections

    def upstream_header(self, client: Address | None, gate: Address | None) -> bytes:
        """Return the PROXY header that the broker gets before a client's own bytes."""
        return self._upstream.header(client, gate)

    def opened(self, connection: Connection) -> None:
        """Take the news that a client connected."""
        self._present.add(connection)

    def dial_broker(self, connection: Connection) -> None:
        """Dial the broker, because a client's first command is complete."""
        task = asyncio.get_running_loop().create_task(self._dial(connection))
        self._dialling.add(task)
        task.add_done_callback(lambda done: self._dialled(connection, done))

    def _dialled(self, connection: Connection, task: asyncio.Task[None]) -> None:
        self._dialling.discard(task)
        if task.cancelled():  # perhaps before it began, and then it has told the connection nothing
            connection.broker_lost()

    def closed(self, connection: Connection) -> None:
        """Take the news that a client is gone or refused; the broker may need its last bytes."""
        self._present.discard(connection)
        self._leaving.add(connection)
        self.handled()  # what it gives back may be for others, who waited longer for it

    def ended(self, connection: Connection) -> None:
        """Take the news that both sides of a connection are closed."""
        self._leaving.discard(connection)
        self.bounds.leave(connection.address)

    def malformed(self, side: str, peer: str, error: MalformedFrame) -> None:
        """Count and log a connection that is closed for a malformed frame."""
        self.malformed_closes[error.fault.value] += 1
        self.closes.add(CloseReason.MALFORMED, peer, side=side, reason=str(error))

    def failed(self, peer: str) -> None:
        """Count and log a connection at which the gate has failed; called where that is handled."""
        self.closes.add(CloseReason.FAULT, peer, exc_info=True)

    async def _dial(self, connection: Connection) -> None:
        reached = False
        try:
            reached = await self._upstream.dial(lambda: BrokerSide(connection))
        finally:
            if not reached:
                connection.broker_lost()
