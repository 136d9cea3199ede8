"""Ends connections whose deadline has passed; the one timer over all of them.

======================  ====================  =======================================================
waited for              how long              and then
======================  ====================  =======================================================
CONNECT                 ``connect_s``         closed, unless it came
CONNECTED               ``connect_s``         closed, unless it came; the client tries again
a client that reads     ``stalled_s``         closed, if it took nothing in all that time
a broker that reads     ``stalled_s``         closed, if it took nothing; the client tries again
the rest of a frame     ``stalled_s``         closed, unless it came or the client was not read
the rest to be taken    ``END_S``             what is left is dropped
an allowance            each look             read again, if it has grown
a sign of life          ``SIGN_OF_LIFE_S``    given, and again after the same time
======================  ====================  =======================================================

Only time in which the gate runs counts; see ``deadlines``. A peer that takes nothing is closed after one
to two times ``stalled_s``: its progress is checked once in that time.

When all clients together have more than ``UNREAD_BYTES_MAX`` to take, those that take nothing have
``HURRY_S`` instead: memory is scarce then, and slow clients take some bytes in that time, too.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.gate.engine.close_reason import CloseReason
from coordinator.gate.engine.deadlines import SWEEP_S, Awaited, Deadlines
from coordinator.gate.server.closes import Closes
from coordinator.gate.server.connection import Connection
from coordinator.gate.server.log_ration import LogRation

END_S: Final = 30.0
SIGN_OF_LIFE_S: Final = 10.0
"""A paused client gets a sign of life this often; clients give up after twice 30 s of silence."""

UNREAD_BYTES_MAX: Final = 256 * 1024 * 1024
HURRY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Patience:
    """The deadlines of peers.

    Args:
        connect_s: for CONNECT, and as long again for the answer to it. Brokers give 30 s for both.
        stalled_s: for a peer that takes nothing of what is sent to it, and for the rest of a large frame
            that is kept until it is complete. At least twice the 30 s of Pulsar's keep-alive, so that
            clients leave a broker that has stopped reading before the gate closes them; a client gives
            up a publish after 30 s, too.
    """

    connect_s: float = 15.0
    stalled_s: float = 60.0

    @property
    def silent_s(self) -> float:
        """The system's deadline for a peer that is gone: longer than the gate's, which is reported."""
        return 2 * self.stalled_s + END_S


DEFAULT_PATIENCE: Final = Patience()


class DeadlineSupervisor:
    """Checks all deadlines once a second.

    Args:
        deadlines: the waiting connections.
        closes: counts and logs closed connections.
        log: told of each sweep.
        patience: the deadlines of peers.
    """

    def __init__(
        self,
        deadlines: Deadlines[Connection],
        closes: Closes,
        log: LogRation,
        patience: Patience,
    ) -> None:
        self._deadlines = deadlines
        self._closes = closes
        self._log = log
        self._timer: asyncio.TimerHandle | None = None
        self._when_over: Mapping[Awaited, tuple[float, Callable[[Connection], None]]] = {
            Awaited.CONNECT: (patience.connect_s, self._connect_is_over),
            Awaited.CONNECTED: (patience.connect_s, self._connected_is_over),
            Awaited.CLIENT_READS: (patience.stalled_s, self._client_reads_is_over),
            Awaited.BROKER_READS: (patience.stalled_s, self._broker_reads_is_over),
            Awaited.FRAME: (patience.stalled_s, self._frame_is_over),
            Awaited.END: (END_S, self._end_is_over),
            Awaited.ALLOWANCE: (0.0, self._allowance_has_grown),
            Awaited.SIGN_OF_LIFE: (SIGN_OF_LIFE_S, self._sign_of_life_is_due),
        }

    def start(self) -> None:
        """Start the timer."""
        self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._look)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.start()
        self.sweep()

    def sweep(self) -> None:
        """Count one sweep and close overdue connections; called every `SWEEP_S`."""
        self._deadlines.sweep()
        for awaited, (wait_s, act) in self._when_over.items():
            if awaited is Awaited.CLIENT_READS and self._is_in_a_hurry():
                wait_s = HURRY_S  # noqa: PLW2901 - for this look only
            for connection in self._deadlines.take_over(awaited, math.ceil(wait_s / SWEEP_S)):
                act(connection)
        self._log.sweep()

    def _is_in_a_hurry(self) -> bool:
        unread = (each.unread_bytes for each in self._deadlines.waiting(Awaited.CLIENT_READS))
        return sum(unread) > UNREAD_BYTES_MAX

    def _connect_is_over(self, connection: Connection) -> None:
        if not connection.session.is_introduced:
            self._close(connection, CloseReason.NO_CONNECT)
        elif not connection.session.is_established:
            self._deadlines.begin(Awaited.CONNECTED, connection)

    def _connected_is_over(self, connection: Connection) -> None:
        session = connection.session
        if not session.is_established:
            owes = session.owes_answer
            self._close(
                connection, CloseReason.CLIENT_SILENT if owes else CloseReason.BROKER_SILENT
            )

    def _client_reads_is_over(self, connection: Connection) -> None:
        if connection.client_took_some():
            self._deadlines.begin(Awaited.CLIENT_READS, connection)
        else:
            self._close(connection, CloseReason.CLIENT_STALLED)

    def _broker_reads_is_over(self, connection: Connection) -> None:
        if connection.broker_took_some():
            self._deadlines.begin(Awaited.BROKER_READS, connection)
        else:
            self._close(connection, CloseReason.BROKER_STALLED)

    def _frame_is_over(self, connection: Connection) -> None:
        self._close(connection, CloseReason.FRAME_UNFINISHED)

    def _end_is_over(self, connection: Connection) -> None:
        self._close(connection, CloseReason.END_NOT_TAKEN)

    def _allowance_has_grown(self, connection: Connection) -> None:
        self._deadlines.begin(Awaited.ALLOWANCE, connection)
        connection.look_again()

    def _sign_of_life_is_due(self, connection: Connection) -> None:
        self._deadlines.begin(Awaited.SIGN_OF_LIFE, connection)
        connection.keep_alive()

    def _close(self, connection: Connection, reason: CloseReason) -> None:
        self._closes.add(reason, connection.peer)
        connection.abort()
