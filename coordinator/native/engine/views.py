"""The state of native enforcement at one broker, for the API and the command line.

A certificate states a bound on local limits. The rate that the broker's own limiter lets through beyond
its local limit is its *slack*: a full bucket at each interval (``kappa`` of the limit at once, which on
average makes up for the part that ``kappa`` leaves out), the limit before for up to an interval after a
change, up to a batch of each producer, which the trim takes out again, and the whole record once after
each write of it.
"""

from __future__ import annotations

from coordinator.core.answer import answer
from coordinator.core.model import Dimension, MonitoringClass, Unit
from coordinator.native.engine.conditions import NativeCondition
from coordinator.native.engine.group import NativeView

_WHOLE = 1000


@answer
class NativeState:
    """The state of native enforcement at the answering sidecar; nothing but the path if it is off."""

    path: str
    """gate, native or gate+native"""
    service_url: str = ""
    """in whose name this broker's entries are; empty until that is known"""
    interval_s: int = 0
    """of the broker's resource usage; a limit takes so long"""
    transport: str = ""
    """the broker's class for it; empty: it reads no entries"""
    margin: float = 0.0
    """by how much records are above the limits"""
    connected: bool = False
    """whether entries can be written"""
    written: int = 0
    """messages that a broker took"""
    failed: int = 0
    """messages that none took"""
    polled_topics: int = 0
    poll_s: float = 0.0
    """from one reading of the broker's counters to the next"""
    groups: tuple[NativeView, ...] = ()
    limited_topics: int = 0
    """topics whose own limits are in force, at all brokers"""
    conditions: tuple[NativeCondition, ...] = ()

    @property
    def behind_gate(self) -> bool:
        """Return whether a gate holds traffic back before the broker's limiter has to."""
        return self.path != "native"

    def slack(self, group: str, dimension: Dimension) -> str:
        """Return what enforces a group's limit at this broker, and the slack of the broker's limiter.

        Returns:
            Sentences; none where a gate enforces it.
        """
        if self.behind_gate:
            return ""
        natives = [view for view in self.groups if group in view.groups]
        if dimension.monitoring_class is not MonitoringClass.PUBLISH:
            return _of_dispatch(natives, dimension)
        if not natives or not self.service_url:
            return "Not held back here yet: no namespace is attached to the group in Pulsar."
        index = 0 if dimension.unit is Unit.MESSAGES else 1
        entries = sum(view.entry[index] or 0 for view in natives)
        records = sum(view.record_seen[index] or 0 for view in natives if view.record_seen)
        bucket = entries // (self.interval_s + 1)
        trimmed = min(view.trim_permille[index] for view in natives)
        return (
            f"The broker's own limiter holds it here, steered by this sidecar: a change takes up to "
            f"{self.interval_s} s, {bucket:,} {dimension.unit.value} may pass at once at each interval, "
            f"and {records:,} after a write of the record."
            + (
                f" {100 - trimmed / 10:.1f} % are taken out for batches."
                if trimmed < _WHOLE
                else ""
            )
        )


def _of_dispatch(natives: list[NativeView], dimension: Dimension) -> str:
    index = 0 if dimension.unit is Unit.MESSAGES else 1
    if all(view.dispatch[index] is None for view in natives):
        return (
            "Not held back here: no namespace is attached to the group, or topics have no policies."
        )
    topics = sum(view.dispatch_topics for view in natives)
    of = "1 topic" if topics == 1 else f"{topics:,} topics"
    return (
        f"Pulsar's dispatch rates of {of} hold it here, set by this sidecar; topics with "
        "little use have their namespaces' default. A change takes up to 2 s, and a rate that rises lets "
        "a second of it pass at once."
    )
