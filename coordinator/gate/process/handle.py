"""The coordinator's handle of the gate: each method of `GateService` over the channel to its process."""

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
from coordinator.core.events import ParticipantsChanged
from coordinator.gate.process.channel import Answer, Call, Channel, TrafficResumed
from coordinator.gate.process.service import GateService
from coordinator.ports import GateGone

if TYPE_CHECKING:
    from coordinator.gate.limits.counters import GateListener

ANSWERS_WITHIN_S: Final = 10.0
"""A gate that takes longer to answer is considered gone."""

_LOADS_WITHIN_S: Final = 60.0
_SLICES: Final = 10


class GateProcess(GateService):
    """A gate in another process; questions raise `GateGone` when it is gone or does not answer.

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

    def set_log_level(self, name: str) -> None:
        """Set the level of the log in the gate's process."""
        self.tell("set_log_level", name)

    def when_in_force(self, then: Callable[[], None]) -> None:
        """Call this when all instructions so far are in force: at once, if they are known to be."""
        if self._in_force == self._told:
            then()
            return
        self._waiting.append((self._told, then))
        if self._told_before_question < self._told:
            self._question("confirm")

    async def drain(self, timeout_s: float) -> None:
        """Accept nothing new and return when requests under way are answered, or at the timeout."""
        question = self._question("drain", timeout_s)
        await self._answer_to(question, self.answers_within_s + timeout_s)

    async def close(self) -> None:
        """Stop at once, whatever is under way, and even if the process is gone already."""
        with contextlib.suppress(GateGone):
            await self.ask("close")

    # Instructions and questions on the channel.

    def tell(self, name: str, *given: Any, **named: Any) -> None:
        """See `GateService.tell`."""
        self._told += 1
        self._channel.send(Call(name, given, named))

    async def ask(self, name: str, *given: Any, **named: Any) -> Any:
        """See `GateService.ask`; raises GateGone as well."""
        question = self._question(name, *given, **named)
        return await self._answer_to(question, self.answers_within_s)

    async def _answer_to(self, question: asyncio.Future[Any], within_s: float) -> Any:
        # In slices: if this process itself was stopped meanwhile, the next slice finds the answer.
        for _ in range(_SLICES):
            answered, _ = await asyncio.wait([question], timeout=within_s / _SLICES)
            if answered:
                return question.result()
        self._lost(f"has not answered for {within_s:g} s")
        return question.result()

    def _question(self, name: str, *given: Any, **named: Any) -> asyncio.Future[Any]:
        number = next(self._numbers)
        question = self._expect(number)
        self._told_before_question = self._told
        self._channel.send(Call(name, given, named, number))
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
            self._why_gone = f"its process {why}"
            self._gone.set()
        self._answer_none()

    def _answer_none(self) -> None:
        for _, question in self._questions.values():
            if not question.done():
                question.set_exception(GateGone(self._why_gone))
                question.exception()  # so that asyncio does not log it as never retrieved
        self._questions.clear()
