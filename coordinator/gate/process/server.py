"""The gate's process: follows commands, answers questions, and ends with its coordinator."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import select
import socket
from collections.abc import Sequence
from typing import Any, Final

import structlog

from coordinator.adapters.clock import MonotonicClock
from coordinator.config import Config, ConfigError
from coordinator.core.events import ParticipantsChanged
from coordinator.core.model import MonitoringClass
from coordinator.gate.process import build
from coordinator.gate.process.channel import Answer, Call, Channel, TrafficResumed, receive_now
from coordinator.gate.server.proxy import Gate
from coordinator.runtime.gc_tuning import keep_what_is_loaded
from coordinator.runtime.logs import LogLevel, configure_logs

STANDS_STILL_S: Final = 1.0
"""The gate stops after this time without a message of the coordinator, which sends two a second."""

STANDS_STILL_OF_SESSION: Final = 0.35
"""The same as a part of the ZooKeeper session, if that is less. A stopped client's session ends at the
earliest after another two thirds of its time."""

_WORTH_TELLING_S: Final = 0.2

log = structlog.get_logger(__name__)


async def serve(end: socket.socket, kept_sockets: Sequence[socket.socket] = ()) -> None:
    """Run the gate until the coordinator closes the channel.

    Args:
        end: the socket that leads to the coordinator.
        kept_sockets: sockets that listen already, on the ports that the configuration names.
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
    gate.watch_traffic(lambda: channel.send(TrafficResumed()))
    server = GateServer(channel, gate, log_level, end, config.zookeeper_session_timeout_seconds)
    try:
        await server.run()
    finally:
        await gate.close()


class _Listener:
    """Tells the coordinator of participants as they come and go.

    Args:
        channel: leads to the coordinator.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def participants_changed(
        self, group: str, monitoring_class: MonitoringClass, count: int
    ) -> None:
        """Send the news that a group's first participant appeared here, or that its last one left."""
        self._channel.send(ParticipantsChanged(group, monitoring_class, count))


class GateServer:
    """Carries out the coordinator's calls.

    Args:
        channel: brings the calls.
        gate: the gate, whose methods are called.
        log_level: the level of this process's log.
        end: the channel's socket.
        session_s: the timeout of the coordinator's ZooKeeper session.
    """

    def __init__(
        self,
        channel: Channel,
        gate: Gate,
        log_level: LogLevel,
        end: socket.socket,
        session_s: float,
    ) -> None:
        self._channel = channel
        self._gate = gate
        self._log_level = log_level
        self._end = end
        self._stands_still_s = min(STANDS_STILL_S, STANDS_STILL_OF_SESSION * session_s)
        self._loop = asyncio.get_running_loop()
        self._silence: asyncio.TimerHandle | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Run until the coordinator has ended.

        Raises:
            EOFError: the coordinator has ended.
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
            self._carry_out(call)

    def _carry_out(self, call: Call) -> Any:
        match call.name:
            case "confirm":  # the answer to it says that all earlier commands are in force
                return None
            case "set_log_level":
                return self._log_level.set(*call.positional)
            case name:
                return getattr(self._gate, name)(*call.positional, **call.named)

    async def _answer(self, call: Call, number: int) -> None:
        try:
            value = self._carry_out(call)
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:  # noqa: BLE001 - the caller gets it as the answer
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
        # Not a coroutine's wait: all other work of this process must stop, too.
        select.select([self._end], [], [])
        if (waited_s := self._loop.time() - began_s) > _WORTH_TELLING_S:
            log.warning("stood still with the coordinator", seconds=round(waited_s, 1))
        self._expect_a_word()
