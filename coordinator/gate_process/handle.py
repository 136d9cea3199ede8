"""The gate as the coordinator has it: every port of it, over the channel to its process."""

# What an answer is, only the other end knows (coordinator.gate.desk); tests hold the two together.
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

from coordinator.config import Config
from coordinator.core.backlog.guard import Block
from coordinator.core.delayed import DelayedView
from coordinator.core.events import ParticipantsChanged
from coordinator.core.gate_views import ConnectionFigures, GateFigures, GateLimits, HoldView
from coordinator.core.model import Attachments, NamespaceTraffic, Rates, Traffic
from coordinator.core.topics import TopicName
from coordinator.gate_process.channel import Answer, Call, Channel, TrafficResumed
from coordinator.ports import GateGone

if TYPE_CHECKING:
    from coordinator.gate.counters import GateListener

ANSWERS_WITHIN_S: Final = 10.0
"""A gate that takes longer is taken for gone."""

_LOADS_WITHIN_S: Final = 60.0
_SLICES: Final = 10


class GateProcess:
    """A gate in another process.

    What is told to it takes effect in order and is never waited for. What is asked is a coroutine, and
    raises `GateGone` when the process is gone or does not answer.

    Args:
        channel: leads to it.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._listener: GateListener | None = None
        self._resumed: Callable[[], None] | None = None
        #: A gate that takes longer is taken for gone.
        self.answers_within_s = ANSWERS_WITHIN_S
        self._gone = asyncio.Event()
        self._why_gone = ""
        self._partition_limits = Rates()
        self._numbers = itertools.count(1)
        #: By number: how much had been told before, and whoever waits for the answer.
        self._questions: dict[int, tuple[int, asyncio.Future[Any]]] = {}
        #: How much was told; how much of it before the last question; and how much is in force.
        self._told = self._told_before_question = self._in_force = 0
        #: What is to be called when so much is in force.
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @classmethod
    @asynccontextmanager
    async def over(cls, end: socket.socket, config: Config) -> AsyncIterator[Self]:
        """The gate of a configuration in the process at the other end.

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
        """Say from now on who comes and goes; called on the event loop, must not block."""
        self._listener = listener

    def watch_traffic(self, resumed: Callable[[], None]) -> None:
        """Call when something passes or waits again after a `collect` that found nothing such."""
        self._resumed = resumed

    async def ends(self) -> None:
        """Wait until the process is gone.

        Raises:
            GateGone: it is.
        """
        await self._gone.wait()
        raise GateGone(self._why_gone)

    # What it is told.

    def set_limits(self, group: str, limits: Rates, *, leased: bool = False) -> None:
        """Enforce these local limits from now on, leased ones until the end of the lease."""
        self._tell("set_limits", group, limits, leased=leased)

    def hold_lease(self, until_ns: int) -> None:
        """Leased limits hold until then, by the clock that both processes have."""
        self._tell("hold_lease", until_ns)

    def remove_limits(self, group: str) -> None:
        """Enforce nothing for this group any more."""
        self._tell("remove_limits", group)

    def set_attachments(self, attachments: Attachments) -> None:
        """Count every topic against the groups of these attachments from now on."""
        self._tell("set_attachments", attachments)

    def set_broker_limits(self, limits: Rates) -> None:
        """Limit everything that passes, beside the limits of groups; no rates, no limit."""
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
        """Let each consumer subscribe so often per period; who comes more often is refused."""
        self._tell("set_subscribe_rate", rate, period_s=period_s)

    def refresh_certificate(self) -> None:
        """Use the certificate that is in the files now for whoever connects from now on."""
        self._tell("refresh_certificate")

    def set_log_level(self, name: str) -> None:
        """Log from this level on, in the gate's process."""
        self._tell("set_log_level", name)

    def when_in_force(self, then: Callable[[], None]) -> None:
        """Call when all that was told so far is in force: at once, if it is known to be."""
        if self._in_force == self._told:
            then()
            return
        self._waiting.append((self._told, then))
        if self._told_before_question < self._told:
            self._question("confirm")

    # What it is asked.

    async def start(self) -> int:
        """Accept clients; returns the plain port.

        Raises:
            OSError: a port cannot be had.
            TlsError: the certificate cannot be used.
        """
        return await self._ask("start")

    async def drain(self, timeout_s: float) -> None:
        """Accept nothing new and return when what is under way is answered, or at the timeout."""
        await self._ask("drain", timeout_s, longer_s=timeout_s)

    async def close(self) -> None:
        """Stop at once, whatever is under way, and be it that the process is gone already."""
        with contextlib.suppress(GateGone):
            await self._ask("close")

    async def collect(self) -> tuple[Traffic, ...]:
        """What was counted since the last time, for groups with news or participants."""
        return await self._ask("collect")

    async def partition_traffic(self) -> tuple[Traffic, ...]:
        """What was counted of each partition since the last time, under its topic's name."""
        return await self._ask("partition_traffic")

    async def namespace_traffic(self) -> tuple[NamespaceTraffic, ...]:
        """What was counted of each namespace since the last time."""
        return await self._ask("namespace_traffic")

    async def published_topics(self) -> frozenset[str]:
        """The topics that producers are connected to, by their full names."""
        return await self._ask("published_topics")

    async def figures(self) -> GateFigures:
        """The gate at this moment."""
        return await self._ask("figures")

    async def limits(self) -> GateLimits:
        """The limits of the gate's own that are in force, beside those of groups."""
        return await self._ask("limits")

    async def partition_limits(self) -> Rates:
        """The limit of every partition."""
        return self._partition_limits

    async def holds(self) -> tuple[HoldView, ...]:
        """What was held and for how long, of every group, topic and class that had to wait."""
        return await self._ask("holds")

    async def delayed(self) -> DelayedView | None:
        """What was published with a time of delivery since the start; None while nobody looks."""
        return await self._ask("delayed")

    async def connection_figures(self) -> tuple[ConnectionFigures, ...]:
        """Every connection at this moment, the one that holds most first."""
        return await self._ask("connection_figures")

    # Both over the channel.

    def _tell(self, name: str, *given: Any, **named: Any) -> None:
        self._told += 1
        self._channel.send(Call(name, given, named))

    async def _ask(self, name: str, *given: Any, longer_s: float = 0.0) -> Any:
        question = self._question(name, *given)
        return await self._answer_to(question, self.answers_within_s + longer_s)

    async def _answer_to(self, question: asyncio.Future[Any], within_s: float) -> Any:
        # In slices: whoever was stopped himself all the while finds the answer in the next one.
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
        except Exception as error:  # noqa: BLE001 - nobody waits for this task, but all for its answers
            self._lost(f"is not understood: {error!r}")

    def _answered(self, answer: Answer) -> None:
        if self._gone.is_set():
            return
        told, question = self._questions.pop(answer.number)
        self._in_force = max(self._in_force, told)
        if question.done():
            pass  # whoever asked was cancelled
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
                question.exception()  # whether or not anybody waits for it
        self._questions.clear()
