"""One resource group at a gate, or what is limited like one: a limiter and a counter per class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from coordinator.core.gate_views import HoldView
from coordinator.core.model import MonitoringClass, Rates
from coordinator.core.windows import LimitMode
from coordinator.gate.counters import GateListener, TrafficCounter
from coordinator.gate.dispatch import DispatchLimiter
from coordinator.gate.lease import Lease
from coordinator.gate.limiter import PublishLimiter
from coordinator.gate.throttle import ThrottleReason


@dataclass(frozen=True, slots=True)
class Modes:
    """How limits are enforced (windows.py).

    Args:
        groups: of resource groups and of the broker.
        topics: of topics and their partitions.
    """

    groups: LimitMode = LimitMode.BUCKET
    topics: LimitMode = LimitMode.BUCKET


DEFAULT_MODES: Final = Modes()


class Group:
    """One resource group at this gate, or what is limited like one: a topic, the whole broker."""

    __slots__ = ("dispatch", "dispatch_limiter", "name", "publish", "publish_limiter")

    def __init__(
        self,
        name: str,
        listener: GateListener,
        burst_ns: int,
        reason: ThrottleReason = ThrottleReason.RESOURCE_GROUP,
        mode: LimitMode = LimitMode.BUCKET,
    ) -> None:
        self.name = name
        self.publish = TrafficCounter(name, MonitoringClass.PUBLISH, listener)
        self.dispatch = TrafficCounter(name, MonitoringClass.DISPATCH, listener)
        self.publish_limiter = PublishLimiter(
            self.publish, burst_ns=burst_ns, reason=reason, mode=mode
        )
        self.dispatch_limiter = DispatchLimiter(
            self.dispatch, burst_ns=burst_ns, reason=reason, mode=mode
        )

    def holds(self) -> Iterator[HoldView]:
        """What was held back, if anything was."""
        for limiter in (self.publish_limiter, self.dispatch_limiter):
            counter = limiter.counter
            if any(counter.hold_times.counts) or any(counter.throttles.values()):
                yield HoldView(
                    limiter.reason.value,
                    self.name,
                    counter.monitoring_class,
                    tuple(counter.hold_times.counts),
                    counter.hold_times.total_ns,
                    counter.throttles,
                )

    def set_limits(self, limits: Rates, now_ns: int, lease: Lease | None = None) -> None:
        """Limit from now on, and let nothing pass when the lease is over, if there is one."""
        self.publish_limiter.set_limits(limits, now_ns, lease)
        self.dispatch_limiter.set_limits(limits, now_ns, lease)
