"""The coordinator's handle of the gate: every port of it, over the channel to its process."""

# Only the other end knows the type of an answer (coordinator.gate.server.desk); tests compare the two.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from coordinator.backlog.rules.guard import Block
from coordinator.config import Config
from coordinator.core.events import ParticipantsChanged
from coordinator.core.model import Attachments, NamespaceTraffic, Rates, Traffic
from coordinator.core.topics import TopicName
from coordinator.gate.process.channel import Answer, Call, Channel, TrafficResumed
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.model.gate_views import (
    ConnectionFigures,
    GateFigures,
    GateLimits,
    HoldView,
)
from coordinator.ports import GateGone

if TYPE_CHECKING:
    from coordinator.gate.limits.counters import GateListener

ANSWERS_WITHIN_S: Final = 10.0
"""A gate that takes longer to answer is considered gone."""

_LOADS_WITHIN_S: Final = 60.0
_SLICES: Final = 10


class GateProcess:
    """A gate in another process.

    Instructions take effect in order and are not awaited. Questions are coroutines, and raise `GateGone`
    when the process is gone or does not answer.

    Args:
        channel: leads to the gate's process.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._listener: GateListener | None = None
        self._resumed: Callable[[], None] | None = None
        #: A gate that takes longer to answer is considered gone.
        self.answers_within_s = ANSWERS_WITHIN_S
        self._gone = asyncio.Event()
        self._why_gone = ""
        self._partition_limits = Rates()
        self._numbers = itertools.count(1)
        #: By number: the instructions sent before the question, and the future of the answer.
        self._questions: dict[int, tuple[int, asyncio.Future[Any]]] = {}
        #: Instructions sent; those sent before the last question; and those in force.
        self._told = self._told_before_question = self._in_force = 0
        #: The callbacks to call once this number of instructions is in force.
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @classmethod
    @asynccontextmanager
    async def over(cls, end: socket.socket, config: Config) -> AsyncIterator[Self]:
        """Set up the gate of a configuration in the process at the other end.

        Raises:
            ConfigError: a file that the configuration names cannot be used.
            GateGone: there is no process at the other end any more.
        """
        gate = cls(await Channel.over(end))
        following = asyncio.create_task(gate._follow())
        try:
            built = gate._expect(0)
            gate._channel.send(config)
            await gate._answer_to(built, _LOADS_WITHIN_S)
            yield gate
        finally:
            following.cancel()
            await gate._channel.close()

    def listen(self, listener: GateListener) -> None:
        """Tell this listener of participants from now on; called on the event loop, must not block."""
        self._listener = listener

    def watch_traffic(self, resumed: Callable[[], None]) -> None:
        """Call this when traffic passes or waits again after a `collect` that found none."""
        self._resumed = resumed

    async def ends(self) -> None:
        """Wait until the process is gone.

        Raises:
            GateGone: the process is gone.
        """
        await self._gone.wait()
        raise GateGone(self._why_gone)

    # Instructions.

    def set_limits(self, group: str, limits: Rates, *, leased: bool = False) -> None:
        """Enforce these local limits from now on, leased ones until the end of the lease."""
        self._tell("set_limits", group, limits, leased=leased)

    def hold_lease(self, until_ns: int) -> None:
        """Extend leased limits to this time, by the clock that both processes have."""
        self._tell("hold_lease", until_ns)

    def remove_limits(self, group: str) -> None:
        """Remove this group's limits."""
        self._tell("remove_limits", group)

    def set_attachments(self, attachments: Attachments) -> None:
        """Count every topic against the groups of these attachments from now on."""
        self._tell("set_attachments", attachments)

    def set_broker_limits(self, limits: Rates) -> None:
        """Limit all traffic of this broker, beside the limits of groups; no rates, no limit."""
        self._tell("set_broker_limits", limits)

    def set_topic_limits(self, topic: TopicName, limits: Rates, *, partitions: int = 1) -> None:
        """Limit a topic, all its partitions together; no rates, no limit."""
        self._tell("set_topic_limits", topic, limits, partitions=partitions)

    def set_partition_limits(self, limits: Rates) -> None:
        """Limit every partition of every topic, each for itself; no rates, no limit."""
        self._partition_limits = limits
        self._tell("set_partition_limits", limits)

    def set_topic_block(self, topic: str, block: Block | None) -> None:
        """Hold publishes to a topic or refuse them; None lets them pass again."""
        self._tell("set_topic_block", topic, block)

    def set_subscribe_rate(self, rate: int | None, *, period_s: int = 1) -> None:
        """Let each consumer subscribe this often per period; refuse one that comes more often."""
        self._tell("set_subscribe_rate", rate, period_s=period_s)

    def refresh_certificate(self) -> None:
        """Use the certificate that is in the files now for new connections."""
        self._tell("refresh_certificate")

    def set_log_level(self, name: str) -> None:
        """Set the level of the log in the gate's process."""
        self._tell("set_log_level", name)

    def when_in_force(self, then: Callable[[], None]) -> None:
        """Call this when all instructions so far are in force: at once, if they are known to be."""
        if self._in_force == self._told:
            then()
            return
        self._waiting.append((self._told, then))
        if self._told_before_question < self._told:
            self._question("confirm")

    # Questions.

    async def start(self) -> int:
        """Accept clients; return the plain port.

        Raises:
            OSError: a port cannot be had.
            TlsError: the certificate cannot be used.
        """
        return await self._ask("start")

    async def drain(self, timeout_s: float) -> None:
        """Accept nothing new and return when requests under way are answered, or at the timeout."""
        await self._ask("drain", timeout_s, longer_s=timeout_s)

    async def close(self) -> None:
        """Stop at once, whatever is under way, and even if the process is gone already."""
        with contextlib.suppress(GateGone):
            await self._ask("close")

    async def collect(self) -> tuple[Traffic, ...]:
        """Return the counts since the last call, of groups with news or participants."""
        return await self._ask("collect")

    async def partition_traffic(self) -> tuple[Traffic, ...]:
        """Return the counts of each partition since the last call, under its topic's name."""
        return await self._ask("partition_traffic")

    async def namespace_traffic(self) -> tuple[NamespaceTraffic, ...]:
        """Return the counts of each namespace since the last call."""
        return await self._ask("namespace_traffic")

    async def published_totals(self) -> dict[str, tuple[int, int]]:
        """Return the messages and bytes published to each namespace since the start."""
        return await self._ask("published_totals")

    async def broker_side_addresses(self) -> frozenset[tuple[str, int]]:
        """Return the addresses that the broker sees of the gate's connections."""
        return await self._ask("broker_side_addresses")

    async def published_topics(self) -> frozenset[str]:
        """Return the full names of the topics that producers are connected to."""
        return await self._ask("published_topics")

    async def figures(self) -> GateFigures:
        """Return the gate's figures at this moment."""
        return await self._ask("figures")

    async def limits(self) -> GateLimits:
        """Return the gate's own limits in force, beside those of groups."""
        return await self._ask("limits")

    async def partition_limits(self) -> Rates:
        """Return the limit of every partition."""
        return self._partition_limits

    async def holds(self) -> tuple[HoldView, ...]:
        """Return the hold times of every group, topic and class that had to wait."""
        return await self._ask("holds")

    async def delayed(self) -> DelayedView | None:
        """Return the counts of delayed messages since the start; None while they are not counted."""
        return await self._ask("delayed")

    async def connection_figures(self) -> tuple[ConnectionFigures, ...]:
        """Return the figures of every connection, the one that holds most first."""
        return await self._ask("connection_figures")

    # Instructions and questions on the channel.

    def _tell(self, name: str, *given: Any, **named: Any) -> None:
        self._told += 1
        self._channel.send(Call(name, given, named))

    async def _ask(self, name: str, *given: Any, longer_s: float = 0.0) -> Any:
        question = self._question(name, *given)
        return await self._answer_to(question, self.answers_within_s + longer_s)

    async def _answer_to(self, question: asyncio.Future[Any], within_s: float) -> Any:
        # In slices: if this process itself was stopped meanwhile, the next slice finds the answer.
        for _ in range(_SLICES):
            answered, _ = await asyncio.wait([question], timeout=within_s / _SLICES)
            if answered:
                return question.result()
        self._lost(f"has not answered for {within_s:g} s")
        return question.result()

    def _question(self, name: str, *given: Any) -> asyncio.Future[Any]:
        number = next(self._numbers)
        question = self._expect(number)
        self._told_before_question = self._told
        self._channel.send(Call(name, given, number=number))
        return question

    def _expect(self, number: int) -> asyncio.Future[Any]:
        question: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._questions[number] = self._told, question
        if self._gone.is_set():
            self._answer_none()
        return question

    def _heard(self, message: Answer | TrafficResumed | ParticipantsChanged) -> None:
        match message:
            case Answer():
                self._answered(message)
            case TrafficResumed():
                if self._resumed is not None:
                    self._resumed()
            case ParticipantsChanged(group, monitoring_class, participants):
                if self._listener is not None:
                    self._listener.participants_changed(group, monitoring_class, participants)

    async def _follow(self) -> None:
        try:
            self._channel.listen(self._heard)
            await self._channel.ended()
        except EOFError:
            self._lost("has ended")
        except Exception as error:  # noqa: BLE001 - nothing awaits this task, but all await its answers
            self._lost(f"is not understood: {error!r}")

    def _answered(self, answer: Answer) -> None:
        if self._gone.is_set():
            return
        told, question = self._questions.pop(answer.number)
        self._in_force = max(self._in_force, told)
        if question.done():
            pass  # the task that asked was cancelled
        elif answer.error is not None:
            question.set_exception(answer.error)
        else:
            question.set_result(answer.value)
        while self._waiting and self._waiting[0][0] <= self._in_force:
            self._waiting.popleft()[1]()

    def _lost(self, why: str) -> None:
        if not self._gone.is_set():
            self._why_gone = f"the gate's process {why}"
            self._gone.set()
        self._answer_none()

    def _answer_none(self) -> None:
        for _, question in self._questions.values():
            if not question.done():
                question.set_exception(GateGone(self._why_gone))
                question.exception()  # so that asyncio does not log it as never retrieved
        self._questions.clear()
