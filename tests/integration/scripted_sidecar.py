"""A sidecar whose gate counts what a script says, to the message, on a clock that the counts advance.

Run as a program in place of ``-m coordinator.cli``: the rest of the command line is the sidecar's own.
The file ``script.json`` in its working directory has the demand of each broker, in whole messages per
second::

    {"broker-1": {"group": {"Publish": 80}}}

Everything else is real: ZooKeeper, bus, store, API, and the gate's process, which has no traffic. Of a
demand above the limit in force the limit passes, and producers wait all the time. One collection is a
twentieth of a second by the sidecar's clock, however long it takes, so each round counts the same.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

from coordinator.app import parts, runner, sidecar
from coordinator.cli.__main__ import main
from coordinator.config import Config
from coordinator.core.model import (
    DIMENSIONS_OF,
    NANOS_PER_SECOND,
    MonitoringClass,
    Rates,
    TrafficKey,
)
from coordinator.core.traffic import Traffic
from coordinator.gate.process.handle import GateProcess
from coordinator.gate.process.spawning import Spawned
from coordinator.ports import COLLECTED_EVERY_S

SCRIPT: Final = "script.json"
COUNTS_PER_SECOND: Final = round(1 / COLLECTED_EVERY_S)
FASTER: Final = 2.5
"""The number of the sidecar's seconds that pass in one, where the machine has the time."""

COUNTED_NS: Final = NANOS_PER_SECOND // COUNTS_PER_SECOND


class CountedClock:
    """A clock that stands still between collections."""

    now = NANOS_PER_SECOND

    def now_ns(self) -> int:
        """Return nanoseconds since an arbitrary start."""
        return CountedClock.now


class ScriptedGate(GateProcess):
    """The real gate's process, with counts from the script in place of its own."""

    _broker = ""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._limits: dict[str, Rates] = {}
        #: Parts of a message, in twentieths, that the next count begins with.
        self._begun: dict[TrafficKey, int] = {}

    @classmethod
    @asynccontextmanager
    async def over(cls, child: Spawned, config: Config) -> AsyncIterator[Self]:
        """See `GateProcess.over`."""
        async with super().over(child, config) as gate:
            gate._broker = config.broker_id
            yield gate

    def tell(self, name: str, *given: Any, **named: Any) -> None:
        """See `GateService.tell`."""
        if name == "set_limits":
            self._limits[given[0]] = given[1]
        elif name == "remove_limits":
            self._limits.pop(given[0], None)
        super().tell(name, *given, **named)

    async def ask(self, name: str, *given: Any, **named: Any) -> Any:
        """See `GateService.ask`."""
        if name != "collect":
            return await super().ask(name, *given, **named)
        await super().ask(name)
        CountedClock.now += COUNTED_NS
        return tuple(
            self._count(group, MonitoringClass(name), demand)
            for group, demands in _script().get(self._broker, {}).items()
            for name, demand in demands.items()
        )

    def _count(self, group: str, of: MonitoringClass, demand: int) -> Traffic:
        limit = self._limits.get(group, Rates()).of(DIMENSIONS_OF[of][0])
        passing = demand if limit is None else min(demand, limit)
        messages, self._begun[group, of] = divmod(
            self._begun.get((group, of), 0) + passing, COUNTS_PER_SECOND
        )
        held_ns = COUNTED_NS if passing < demand else 0
        return Traffic(
            group, of, messages, messages, messages_held_ns=held_ns, participants=1, topics=1
        )


def _script() -> Any:
    return json.loads(Path(SCRIPT).read_text(encoding="utf-8"))


if __name__ == "__main__":
    vars(parts)["MonotonicClock"] = CountedClock
    vars(sidecar)["GateProcess"] = ScriptedGate
    vars(runner)["COLLECTED_EVERY_S"] = COLLECTED_EVERY_S / FASTER
    vars(runner)["COLLECTED_QUIETLY_EVERY_S"] = COLLECTED_EVERY_S / FASTER
    main()
