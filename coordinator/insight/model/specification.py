"""The specification of an instance: messages and bytes per second, for producing and consuming.

A managed Pulsar sells a rate for the whole cluster and lets the customer divide it between production and
consumption, by how many times each message is consumed: the *allocation ratio*. Here that is a resource
group that all traffic counts against (configuration key ``cluster_group``), and its four limits. The
limits of production and consumption are rounded so that together they never exceed the specification.

Delayed messages have a rate of their own beside it (delayed.py).

If more than `ADVISED` of one of the limits is used, the advice is to raise the specification before
clients are throttled: to the one at which the same use would be `ADVISED`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self

from coordinator.core.answer import Limit, answer, to_wire
from coordinator.core.model import Dimension, MonitoringClass, Rates, Unit
from coordinator.insight.model.rates import Limits, Measured

ADVISED: Final = 0.8
"""The used part of a limit from which a higher specification is advised."""

WHOLE: Final = 1_000
"""Parts of the production share."""


@dataclass(frozen=True, slots=True)
class Specification:
    """The rates of a cluster.

    Args:
        messages: produced and consumed together, per second; None is not limited.
        bytes: the same in bytes.
        production_permille: the part of both that is for production, in thousandths.
    """

    messages: int | None
    bytes: int | None
    production_permille: int = WHOLE // 2

    def limits(self) -> Rates:
        """Return the limits of the group that all traffic counts against."""
        publish_messages, dispatch_messages = self._split(self.messages)
        publish_bytes, dispatch_bytes = self._split(self.bytes)
        return Rates(publish_messages, publish_bytes, dispatch_messages, dispatch_bytes)

    @classmethod
    def of(cls, limits: Rates) -> Specification:
        """Return the specification that has these limits, or the nearest one to limits set by hand."""
        messages = _sum(limits.publish_messages, limits.dispatch_messages)
        size = _sum(limits.publish_bytes, limits.dispatch_bytes)
        whole, production = (
            (messages, limits.publish_messages) if messages else (size, limits.publish_bytes)
        )
        permille = round(WHOLE * (production or 0) / whole) if whole else WHOLE // 2
        return cls(messages, size, permille)

    def total_of(self, unit: Unit) -> int | None:
        """Return the specified rate of a unit."""
        return self.messages if unit is Unit.MESSAGES else self.bytes

    def _split(self, total: int | None) -> tuple[int | None, int | None]:
        if total is None:
            return None, None
        production = total * self.production_permille // WHOLE
        return production, total - production


@answer
class Advice:
    """A limit of which more than four fifths is used."""

    dimension: Dimension
    used: int
    """per second"""
    limit: int
    """per second"""
    enough: int
    """the specification of its unit at which four fifths would be used"""
    sentence: str


@answer
class SpecificationView:
    """The cluster's specification, the used part of it, and advice.

    A message is delayed when its deliver_at_time is set, to any value.
    """

    group: str
    """the resource group whose limits it is"""
    rate_in_msgs: Limit
    """production and consumption together; -1 = not limited"""
    rate_in_bytes: Limit
    """the same in bytes"""
    production_share: float
    limits: Limits
    """of the group; -1 = not limited"""
    used: Measured
    """by all brokers, per second"""
    advice: tuple[Advice, ...]
    delayed_rate_in_msgs: int | None = None
    """delayed messages/s; -1 = not limited; null = they are not counted apart"""
    delayed_used: int = 0
    """delayed messages by all brokers, per second"""
    delayed_advice: str = ""

    @classmethod
    def of(cls, group: str, limits: Rates, used: Rates) -> Self:
        """Return the specification that the limits of a group state."""
        specification = Specification.of(limits)
        return cls(
            group=group,
            rate_in_msgs=specification.messages,
            rate_in_bytes=specification.bytes,
            production_share=specification.production_permille / WHOLE,
            limits=limits,
            used=used,
            advice=advice(limits, used),
        )

    def with_delayed(self, limit: int | None, used: int) -> Self:
        """Return the same with the rate of delayed messages, per second; no limit is None."""
        return replace(
            self,
            delayed_rate_in_msgs=to_wire(limit),
            delayed_used=used,
            delayed_advice=delayed_advice(limit, used),
        )


def advice(limits: Rates, used: Rates) -> tuple[Advice, ...]:
    """Return the limits of which more than `ADVISED` is used."""
    specification = Specification.of(limits)
    found = []
    for dimension in Dimension:
        limit, now = limits.of(dimension), used.of(dimension) or 0
        total = specification.total_of(dimension.unit)
        if limit is None or total is None or now <= ADVISED * limit:
            continue
        enough = -(-now * total * 10 // (8 * limit)) if limit else total
        sentence = _advice_in_words(dimension, now, limit, enough)
        found.append(Advice(dimension, now, limit, enough, sentence))
    return tuple(found)


def _advice_in_words(dimension: Dimension, used: int, limit: int, enough: int) -> str:
    publish = dimension.monitoring_class is MonitoringClass.PUBLISH
    what = "Production" if publish else "Consumption"
    unit = dimension.unit.value
    part = 100 * used // limit if limit else 100
    return (
        f"{what} uses {part} % of its {limit:,} {unit}/s: with a specification of "
        f"{enough:,} {unit}/s at the same ratio it would use {ADVISED:.0%}."
    )


def delayed_advice(limit: int | None, used: int) -> str:
    """Return advice on the limit of delayed messages, per second; empty below `ADVISED` of it."""
    if limit is None or used <= ADVISED * limit:
        return ""
    part = 100 * used // limit if limit else 100
    return (
        f"Delayed messages use {part} % of their {limit:,} messages/s: with {-(-used * 10 // 8):,} "
        f"messages/s they would use {ADVISED:.0%}."
    )


def partitions_for(used: int, limit: int) -> int:
    """Return the number of partitions that carry this rate with `ADVISED` of each limit used."""
    return max(1, -(-used * 10 // (8 * limit))) if limit > 0 else 1


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
