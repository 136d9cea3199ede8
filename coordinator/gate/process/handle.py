"""The coordinator's handle of the gate: each method of `GateService` over the channel to its process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from coordinator.config import Config
from coordinator.core.events import ParticipantsChanged
from coordinator.gate.process.channel import Answer, Call, Channel, ChannelFull, TrafficResumed
from coordinator.gate.process.liveness import Liveness, comes_within
from coordinator.gate.process.service import GateService
from coordinator.gate.process.spawning import Spawned
from coordinator.insight.model.gate_views import SLOW_AFTER_S, GateSlowness
from coordinator.ports import GateGone

if TYPE_CHECKING:
    from coordinator.gate.limits.counters import GateListener

CLOSES_WITHIN_S: Final = 10.0
"""A gate that takes longer to close, or to drain than it was given, is ended without its answer."""

WAITING_MAX: Final = 10_000
"""Bound of the messages to others that wait for limits to be in force: minutes of them."""

_LOADS_WITHIN_S: Final = 60.0


class GateProcess(GateService):
    """A gate in another process; questions wait while it is slow, and raise `GateGone` when it is gone.

    Args:
        channel: leads to the gate's process.
        child: the process, and the socket that its liveness is asked on.
    """

    def __init__(self, channel: Channel, child: Spawned) -> None:
        self._channel = channel
        #: Tells a slow gate from one that is gone.
        self.liveness = Liveness(child.liveness, self._lost)
        self._listener: GateListener | None = None
        self._resumed: Callable[[], None] | None = None
        #: An answer that takes longer is late.
        self.slow_after_s = SLOW_AFTER_S
        self._gone = asyncio.Event()
        self._why_gone = ""
        self._numbers = itertools.count(1)
        #: By number: the commands sent before the question, and the future of the answer.
        self._questions: dict[int, tuple[int, asyncio.Future[Any]]] = {}
        #: Commands sent; those sent before the last question; and those in force.
        self._told = self._told_before_question = self._in_force = 0
        #: The callbacks to call once this number of commands is in force.
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @classmethod
    @asynccontextmanager
    async def over(cls, child: Spawned, config: Config) -> AsyncIterator[Self]:
        """Set up the gate of a configuration in its process.

        Raises:
            ConfigError: a file that the configuration names cannot be used.
            GateGone: the process has ended, or has not loaded in time.
        """
        gate = cls(await Channel.over(child.end), child)
        following = [asyncio.create_task(each) for each in (gate._follow(), gate.liveness.run())]
        try:
            built = gate._expect(0)
            gate._channel.send(config)
            await gate._answer_within(built, _LOADS_WITHIN_S)
            yield gate
        finally:
            for task in following:
                task.cancel()
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

    def slowness(self) -> GateSlowness:
        """Return how often and for how long answers were late."""
        return self.liveness.slowness()

    def set_log_level(self, name: str) -> None:
        """Set the level of the log in the gate's process."""
        self.tell("set_log_level", name)

    def when_in_force(self, then: Callable[[], None]) -> None:
        """Call this when all commands so far are in force: at once, if they are known to be.

        A gate that lets more than `WAITING_MAX` calls wait is taken for gone.
        """
        if self._in_force == self._told:
            then()
            return
        if len(self._waiting) >= WAITING_MAX:
            self._lost(f"lets {WAITING_MAX:,} messages to others wait for their limits")
        if self._gone.is_set():
            return
        self._waiting.append((self._told, then))
        if self._told_before_question < self._told:
            self._question("confirm")

    async def drain(self, timeout_s: float) -> None:
        """Accept nothing new and return when requests under way are answered, or at the timeout."""
        await self._answer_within(self._question("drain", timeout_s), timeout_s + CLOSES_WITHIN_S)

    async def close(self) -> None:
        """Stop at once, whatever is under way, and even if the process is slow or gone."""
        with contextlib.suppress(GateGone):
            await self._answer_within(self._question("close"), CLOSES_WITHIN_S)

    # Commands and questions on the channel.

    def tell(self, name: str, *given: Any, **named: Any) -> None:
        """See `GateService.tell`."""
        self._told += 1
        self._send(Call(name, given, named))

    async def ask(self, name: str, *given: Any, **named: Any) -> Any:
        """See `GateService.ask`; raises GateGone as well. A late answer is waited for."""
        question = self._question(name, *given, **named)
        if not await comes_within(question, self.slow_after_s):
            with self.liveness.late():
                await asyncio.wait([question])
        return question.result()

    async def _answer_within(self, question: asyncio.Future[Any], within_s: float) -> Any:
        if not await comes_within(question, within_s):
            self._lost(f"has not answered for {within_s:g} s")
        return question.result()

    def _question(self, name: str, *given: Any, **named: Any) -> asyncio.Future[Any]:
        number = next(self._numbers)
        question = self._expect(number)
        self._told_before_question = self._told
        self._send(Call(name, given, named, number))
        return question

    def _send(self, call: Call) -> None:
        try:
            self._channel.send(call)
        except ChannelFull as error:  # a command that is left out would never be in force
            self._lost(f"reads nothing: {error}")

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
            self._why_gone = f"its process {why}"
            self._gone.set()
            self._waiting.clear()
        self._answer_none()

    def _answer_none(self) -> None:
        for _, question in self._questions.values():
            if not question.done():
                question.set_exception(GateGone(self._why_gone))
                question.exception()  # so that asyncio does not log it as never retrieved
        self._questions.clear()
