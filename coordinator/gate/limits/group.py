"""One resource group at a gate, or another limited scope: a limiter and a counter per class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from coordinator.core.limiting.windows import LimitMode
from coordinator.core.model import MonitoringClass, Rates
from coordinator.gate.limits.counters import GateListener, TrafficCounter
from coordinator.gate.limits.dispatch import DispatchLimiter
from coordinator.gate.limits.lease import GateLease
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.insight.model.gate_views import HoldView


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes in which limits are enforced (windows.py).

    Args:
        groups: the mode for resource groups and the broker.
        topics: the mode for topics and their partitions.
    """

    groups: LimitMode = LimitMode.BUCKET
    topics: LimitMode = LimitMode.BUCKET


DEFAULT_MODES: Final = Modes()


class Group:
    """One resource group at this gate, or another limited scope: a topic, the whole broker."""

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
        """Yield the hold times of each class that had to wait."""
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

    def set_limits(self, limits: Rates, now_ns: int, lease: GateLease | None = None) -> None:
        """Limit to these rates from now on; if a lease is given, let nothing pass once it is over."""
        self.publish_limiter.set_limits(limits, now_ns, lease)
        self.dispatch_limiter.set_limits(limits, now_ns, lease)
