"""One resource group at a gate, or another limited scope: a limiter and a counter per class."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.core.handling import Handling
from coordinator.core.limiting.tokens import MakeTokens, new_bucket
from coordinator.core.model import AnyRates, MonitoringClass
from coordinator.core.traffic import Traffic
from coordinator.gate.limits.counters import GateListener, TrafficCounter
from coordinator.gate.limits.dispatch import DispatchLimiter
from coordinator.gate.limits.lease import GateLease
from coordinator.gate.limits.limiter import PublishLimiter
from coordinator.gate.limits.metering import DEBT_NS
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.insight.model.gate_views import HoldView


class Group:
    """One resource group at this gate, or another limited scope: a topic, the whole broker."""

    __slots__ = ("dispatch", "dispatch_limiter", "name", "publish", "publish_limiter")

    def __init__(
        self,
        name: str,
        listener: GateListener,
        burst_ns: int,
        reason: ThrottleReason = ThrottleReason.RESOURCE_GROUP,
        make: MakeTokens = new_bucket,
        debt_ns: int = DEBT_NS,
    ) -> None:
        self.name = name
        self.publish = TrafficCounter(name, MonitoringClass.PUBLISH, listener)
        self.dispatch = TrafficCounter(name, MonitoringClass.DISPATCH, listener)
        self.publish_limiter = PublishLimiter(
            self.publish, burst_ns=burst_ns, reason=reason, make=make, debt_ns=debt_ns
        )
        self.dispatch_limiter = DispatchLimiter(
            self.dispatch, burst_ns=burst_ns, reason=reason, make=make, debt_ns=debt_ns
        )

    def collect(self, now_ns: int) -> Iterator[Traffic]:
        """Yield the counts of each class with news or participants since the last call."""
        for limiter in (self.publish_limiter, self.dispatch_limiter):
            if (counted := limiter.counter.collect(now_ns)) is not None:
                messages_owed, bytes_owed = limiter.owed(now_ns)
                yield counted._replace(messages_owed=messages_owed, bytes_owed=bytes_owed)

    def holds(self, now_ns: int) -> Iterator[HoldView]:
        """Yield the hold times and the debt of each class that had to wait."""
        for limiter in (self.publish_limiter, self.dispatch_limiter):
            counter = limiter.counter
            if limiter.debtor or any(counter.hold_times.counts) or any(counter.throttles.values()):
                limiter.owed(now_ns)
                yield HoldView(
                    limiter.reason.value,
                    self.name,
                    counter.monitoring_class,
                    tuple(counter.hold_times.counts),
                    counter.hold_times.total_ns,
                    counter.throttles,
                    limiter.debt_ns,
                    limiter.debtor,
                )

    def set_handling(self, handling: Handling, now_ns: int) -> None:
        """Handle traffic below and above the limits in this way from now on."""
        self.publish_limiter.set_handling(handling, now_ns)
        self.dispatch_limiter.set_handling(handling, now_ns)

    def set_limits(
        self,
        limits: AnyRates,
        now_ns: int,
        lease: GateLease | None = None,
    ) -> None:
        """Limit to these rates from now on; if a lease is given, let nothing pass once it is over."""
        self.publish_limiter.set_limits(limits, now_ns, lease)
        self.dispatch_limiter.set_limits(limits, now_ns, lease)
