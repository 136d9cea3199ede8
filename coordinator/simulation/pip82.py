"""A broker that knows only today's built-in resource groups (PIP-82 as Pulsar implements it).

Every interval it says what it admitted and sets its own limit to ``max(u + (C - U)·u/U, 1)``, or ``C``
while nobody uses anything. It reads the usage of everybody on the bus, sidecars included, and knows no
membership, no sequence and no demand; nobody's last word is ever forgotten. A sidecar cannot take part in
that: the reports lack what it needs to trust them, so it shares the whole limit with its like.

Source: the formula in peers-and-laws.md, 1.0, in whole numbers instead of 32-bit floats.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from coordinator.core.model import NANOS_PER_SECOND, Dimension, Unit, UsageReport
from coordinator.simulation.traffic import Load
from coordinator.simulation.valve import STEP_NS, Limiter
from coordinator.simulation.world import World


def pip82_limit(limit: int, own: int, total: int) -> int:
    """Pulsar's formula for one broker.

    Args:
        limit: the group's.
        own: what this broker admitted, per second.
        total: what all of them admitted.
    """
    if total <= 0:
        return limit
    return max(1, own + (limit - total) * own // total)


class Pip82Broker:
    """Starts at once and runs to the end.

    Args:
        world: where it lives.
        name: its broker id.
        subject: the one group, and what it limits.
        load: what its clients want.
        tell: tells the other PIP-82 brokers what this one admitted, per second.
    """

    def __init__(
        self,
        world: World,
        name: str,
        subject: tuple[str, Dimension],
        load: Load,
        tell: Callable[[str, int], None],
    ) -> None:
        self._world = world
        self._name = name
        self._group, self._dimension = subject
        self._load = load
        self._tell = tell
        self._used: dict[str, int] = {}
        self._admitted = 0
        self._limiter = Limiter()
        self._set_rate(world.limit_of(*subject))
        world.listeners.append(self._hear_sidecar)
        world.schedule.after(STEP_NS, self._step)
        world.schedule.after(NANOS_PER_SECOND, self._round)

    def hear(self, name: str, used: int) -> None:
        """Another broker's usage, per second."""
        self._used[name] = used

    def _hear_sidecar(self, sender: str, report: UsageReport) -> None:
        for entry in report.groups:
            usage = entry.usages.get(self._dimension.monitoring_class)
            if entry.group == self._group and usage is not None and report.elapsed_ns:
                used = usage.count_of(self._dimension.unit)
                self.hear(sender, used * NANOS_PER_SECOND // report.elapsed_ns)

    def _step(self) -> None:
        schedule = self._world.schedule
        schedule.after(STEP_NS, self._step)
        self._load.arrive(schedule.now_ns, STEP_NS)
        size = self._load.source.message_bytes
        admitted = self._limiter.admit(self._load.waiting, size, schedule.now_ns)
        self._load.waiting -= admitted
        self._admitted += admitted * (1 if self._dimension.unit is Unit.MESSAGES else size)
        self._world.write_down(
            self._name,
            self._group,
            self._dimension.monitoring_class,
            self._load,
            admitted,
            lambda dimension: self._limiter.rate_of(dimension.unit) or 0,
        )

    def _round(self) -> None:
        schedule = self._world.schedule
        schedule.after(NANOS_PER_SECOND, self._round)
        self._used[self._name] = self._admitted
        schedule.after(2_000_000, partial(self._tell, self._name, self._admitted))
        limit = self._world.limit_of(self._group, self._dimension)
        total = sum(self._used.values())
        self._set_rate(pip82_limit(limit, self._admitted, total))
        self._admitted = 0

    def _set_rate(self, rate: int) -> None:
        self._limiter.set_rate(self._dimension.unit, rate, self._world.schedule.now_ns)
