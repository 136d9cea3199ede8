"""Tasks that run for as long as the sidecar does: a failure is caught, counted and tried again.

A task that follows a source (the catalogue, the membership, the bus, backlogs) must not end, or all later
changes are silently lost. Each therefore runs under `keep`: an unexpected exception is counted by the
task's name, logged once per kind, and the task is run again, after `_FIRST_PAUSE_S`, twice as long after
each further failure up to `_LAST_PAUSE_S`, and from the beginning once it has run for `_WELL_S`. A task
must start from scratch when it is run again, at whatever point it failed.

Calls from a task, to listeners above all, run under `guard`: one listener's failure costs neither the
others nor the task. `GateGone` passes through: without its gate the sidecar ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ParamSpec

import structlog

from coordinator.ports import GateGone

_FIRST_PAUSE_S = 0.1
_LAST_PAUSE_S = 30.0
_WELL_S = 60.0
_KINDS_MAX = 1_000

_P = ParamSpec("_P")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TaskFailures:
    """The failures of one task.

    Args:
        count: failures since the start.
        reason: of the last one.
        runs: whether it runs now, or waits to be run again.
    """

    count: int = 0
    reason: str = ""
    runs: bool = True


class TaskSupervisor:
    """Run a sidecar's tasks, and remember their failures."""

    def __init__(self) -> None:
        #: By task; those that never failed are not in it.
        self.failures: dict[str, TaskFailures] = {}
        #: The logged failures: task and kind of error.
        self._kinds: set[tuple[str, str]] = set()

    async def keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run work until it returns, again and again as long as it fails.

        Raises:
            GateGone: as the work did.
        """
        clock = asyncio.get_running_loop().time
        pause_s = _FIRST_PAUSE_S
        while True:
            begun_s = clock()
            try:
                await work()
            except GateGone:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the task goes on
                self.failed(name, error, runs=False)
            else:
                return
            if clock() - begun_s >= _WELL_S:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LAST_PAUSE_S)
            self._runs_again(name)

    @contextmanager
    def guard(self, name: str) -> Iterator[None]:
        """Let nothing but `GateGone` out of this block."""
        try:
            yield
        except GateGone:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self.failed(name, error)

    def tell(
        self,
        name: str,
        listeners: Iterable[Callable[_P, object]],
        *given: _P.args,
        **named: _P.kwargs,
    ) -> None:
        """Call each listener, even if another one fails."""
        for listener in tuple(listeners):
            with self.guard(name):
                listener(*given, **named)

    def failed(self, name: str, error: Exception, *, runs: bool = True) -> None:
        """Count a failure, and log it if it is the first of its kind."""
        before = self.failures.get(name, TaskFailures())
        reason = f"{type(error).__name__}: {error}"[:500]
        self.failures[name] = TaskFailures(before.count + 1, reason, runs)
        kind = (name, type(error).__name__)
        if kind not in self._kinds and len(self._kinds) < _KINDS_MAX:
            self._kinds.add(kind)
            _log.error("a task failed and goes on", task=name, exc_info=error)

    def _runs_again(self, name: str) -> None:
        failed = self.failures[name]
        self.failures[name] = TaskFailures(failed.count, failed.reason)
