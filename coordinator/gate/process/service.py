"""The gate's methods for the coordinator: one table, from which both ends of the channel follow.

Each row names a method of `coordinator.gate.server.proxy.Gate`, which gives it its signature, its answer
and its docstring. A `GateService` carries the calls out: `LocalGate` in this process, `GateProcess` over
the channel to another one. The coordinator's process loads the table and not the gate: only the type
checker looks into the functions.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from coordinator.insight.model.gate_views import GateSlowness

if TYPE_CHECKING:
    from coordinator.gate.server.proxy import Gate

P = ParamSpec("P")
R = TypeVar("R")


class GateCommand(Generic[P]):
    """A method that returns nothing; it takes effect in order and is not awaited."""

    def __init__(self, _: Callable[[Gate], Callable[P, None]]) -> None: ...

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, service: GateService, _: type) -> Callable[P, None]:
        return partial(service.tell, self._name)


class GateQuestion(Generic[P, R]):
    """A method that returns something; its error is raised where it was asked."""

    @overload
    def __init__(self, _: Callable[[Gate], Callable[P, Coroutine[Any, Any, R]]]) -> None: ...

    @overload
    def __init__(self, _: Callable[[Gate], Callable[P, R]]) -> None: ...

    def __init__(self, _: object) -> None: ...

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, service: GateService, _: type) -> Callable[P, Coroutine[Any, Any, R]]:
        return partial(service.ask, self._name)


class GateService(ABC):
    """A gate, wherever it runs."""

    set_limits = GateCommand(lambda gate: gate.set_limits)
    set_handling = GateCommand(lambda gate: gate.set_handling)
    hold_lease = GateCommand(lambda gate: gate.hold_lease)
    remove_limits = GateCommand(lambda gate: gate.remove_limits)
    set_attachments = GateCommand(lambda gate: gate.set_attachments)
    set_addresses = GateCommand(lambda gate: gate.set_addresses)
    set_broker_limits = GateCommand(lambda gate: gate.set_broker_limits)
    set_topic_limits = GateCommand(lambda gate: gate.set_topic_limits)
    set_partition_limits = GateCommand(lambda gate: gate.set_partition_limits)
    set_topic_block = GateCommand(lambda gate: gate.set_topic_block)
    set_subscribe_rate = GateCommand(lambda gate: gate.set_subscribe_rate)
    refresh_certificate = GateCommand(lambda gate: gate.refresh_certificate)

    start = GateQuestion(lambda gate: gate.start)
    collect = GateQuestion(lambda gate: gate.collect)
    partition_traffic = GateQuestion(lambda gate: gate.partition_traffic)
    partition_limits = GateQuestion(lambda gate: gate.partition_limits)
    namespace_traffic = GateQuestion(lambda gate: gate.namespace_traffic)
    role_traffic = GateQuestion(lambda gate: gate.role_traffic)
    passed_totals = GateQuestion(lambda gate: gate.passed_totals)
    published_topics = GateQuestion(lambda gate: gate.published_topics)
    figures = GateQuestion(lambda gate: gate.figures)
    limits = GateQuestion(lambda gate: gate.limits)
    holds = GateQuestion(lambda gate: gate.holds)
    delayed = GateQuestion(lambda gate: gate.delayed)
    unknown_topics = GateQuestion(lambda gate: gate.unknown_topics)
    connection_figures = GateQuestion(lambda gate: gate.connection_figures)

    @abstractmethod
    def tell(self, name: str, *given: Any, **named: Any) -> None:
        """Give a command."""

    @abstractmethod
    async def ask(self, name: str, *given: Any, **named: Any) -> Any:
        """Ask a question; return the answer or raise its error."""


class LocalGate(GateService):
    """A gate in this process.

    Args:
        gate: the gate.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.watch_traffic = gate.watch_traffic
        self.drain = gate.drain
        self.close = gate.close

    def tell(self, name: str, *given: Any, **named: Any) -> None:
        """See `GateService.tell`."""
        getattr(self._gate, name)(*given, **named)

    async def ask(self, name: str, *given: Any, **named: Any) -> Any:
        """See `GateService.ask`."""
        answer = getattr(self._gate, name)(*given, **named)
        return await answer if inspect.isawaitable(answer) else answer

    def slowness(self) -> GateSlowness:
        """Return that it is never slow: its caller waits for its own work."""
        return GateSlowness()

    def when_in_force(self, then: Callable[[], None]) -> None:
        """Call this at once, since all commands are in force already."""
        then()
