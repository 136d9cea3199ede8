"""The gate's process: does what it is told, answers what it is asked, lives with its coordinator."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import Sequence
from typing import Final

import structlog

from coordinator.adapters.clock import MonotonicClock
from coordinator.collector import keep_what_is_loaded
from coordinator.config import Config, ConfigError
from coordinator.core.events import ParticipantsChanged
from coordinator.core.model import MonitoringClass
from coordinator.gate.desk import GateDesk
from coordinator.gate.proxy import Gate
from coordinator.gate_process import build
from coordinator.gate_process.channel import Answer, Call, Channel, TrafficResumed, receive_now
from coordinator.logs import LogLevel, configure_logs

STANDS_STILL_S: Final = 1.0
"""After so long without a word of the coordinator, which speaks twice a second, nothing moves."""

STANDS_STILL_OF_SESSION: Final = 0.35
"""The same as a part of the ZooKeeper session, should that be less. A stopped client's session ends two
thirds of its time later at the earliest."""

_WORTH_TELLING_S: Final = 0.2

log = structlog.get_logger(__name__)


async def serve(end: socket.socket, kept_sockets: Sequence[socket.socket] = ()) -> None:
    """Be the gate of whoever holds the other socket, until he lets go of it.

    Args:
        end: leads to him.
        kept_sockets: listen already, on the ports that his configuration names.
    """
    with contextlib.suppress(EOFError):  # the coordinator has ended
        config: Config = receive_now(end)
        channel = await Channel.over(end)
        try:
            await _serve(config, channel, end, kept_sockets)
        finally:
            await channel.close()


async def _serve(
    config: Config, channel: Channel, end: socket.socket, kept_sockets: Sequence[socket.socket]
) -> None:
    log_level = configure_logs(config.log_level)
    try:
        gate = build.gate(config, _Listener(channel), MonotonicClock(), kept_sockets)
    except ConfigError as error:
        channel.send(Answer(0, error=error))
        return
    channel.send(Answer(0))
    keep_what_is_loaded()
    desk = _LoggingDesk(gate, log_level)
    desk.watch_traffic(lambda: channel.send(TrafficResumed()))
    try:
        await Keeper(channel, desk, end, config.zookeeper_session_timeout_seconds).run()
    finally:
        await desk.close()


class _Listener:
    """Tells the coordinator of participants as they come and go.

    Args:
        channel: leads there.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, count: int
    ) -> None:
        """The first participant of a group appeared at this broker, or its last one left."""
        self._channel.send(ParticipantsChanged(group, monitoring_class, count))


class _LoggingDesk(GateDesk):
    """Is told from which level on to log, like the rest.

    Args:
        gate: does what it is told.
        log_level: of this process.
    """

    def __init__(self, gate: Gate, log_level: LogLevel) -> None:
        super().__init__(gate)
        self.set_log_level = log_level.set


class Keeper:
    """Does what the coordinator wants of its gate.

    Args:
        channel: what it wants.
        desk: the gate.
        end: the channel's socket.
        session_s: the timeout of the coordinator's ZooKeeper session.
    """

    def __init__(
        self,
        channel: Channel,
        desk: GateDesk,
        end: socket.socket,
        session_s: float,
    ) -> None:
        self._channel = channel
        self._desk = desk
        self._end = end
        self._stands_still_s = min(STANDS_STILL_S, STANDS_STILL_OF_SESSION * session_s)
        self._loop = asyncio.get_running_loop()
        self._silence: asyncio.TimerHandle | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the coordinator has ended.

        Raises:
            EOFError: that is how it ends.
        """
        self._expect_a_word()
        self._channel.listen(self._heard)
        try:
            await self._channel.ended()
        finally:
            self._expect_no_word()
            for task in self._answering:
                task.cancel()

    def _heard(self, call: Call) -> None:
        self._expect_a_word()
        self._obey(call)

    def _obey(self, call: Call) -> None:
        if call.number is not None:
            task = self._loop.create_task(self._answer(call, call.number))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        else:
            getattr(self._desk, call.name)(*call.positional, **call.named)

    async def _answer(self, call: Call, number: int) -> None:
        try:
            value = await getattr(self._desk, call.name)(*call.positional, **call.named)
        except Exception as error:  # noqa: BLE001 - whoever asked hears of it
            self._channel.send(Answer(number, error=error))
            return
        self._channel.send(Answer(number, value))

    def _expect_a_word(self) -> None:
        self._expect_no_word()
        self._silence = self._loop.call_later(self._stands_still_s, self._stand_still)

    def _expect_no_word(self) -> None:
        if self._silence is not None:
            self._silence.cancel()

    def _stand_still(self) -> None:
        began_s = self._loop.time()
        # Not a coroutine's wait: nothing else of this process may go on either.
        select.select([self._end], [], [])
        if (waited_s := self._loop.time() - began_s) > _WORTH_TELLING_S:
            log.warning("stood still with the coordinator", seconds=round(waited_s, 1))
        self._expect_a_word()
