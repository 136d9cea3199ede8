"""The charge of escaped traffic to the groups of its namespaces.

The core splits a group's limit by the usage and demand of each broker, and knows of no way but the gate.
With a charge it sees both: the traffic that escapes at the rate e is added to the gate's counts, and of a
local limit q the gate gets q - e, never below 0. Gate and escaped traffic together then keep q, as long
as e is not larger; and the other brokers see in the reports that this one uses that much.

No more than q is charged: the gate can give way no further, and a broker that reports to use twice its
limit would be distrusted (core/reports/suspects.py). A larger e counts as demand that waits all the time,
so that this broker gets its fair share.

The charge of a count is e times the time since the last one, not the sum of the told excesses: readings
come every few seconds, and a lump of several seconds would look like a burst of demand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass, Rates, Traffic
from coordinator.reconciliation.engine.account import Rate

_PUBLISH: Final = MonitoringClass.PUBLISH


class Charges:
    """The charges of all groups."""

    def __init__(self) -> None:
        self._rates: Mapping[str, Rate] = {}
        #: The local limits in force, by group.
        self._limits: dict[str, Rates] = {}
        #: Fractions of messages and bytes that the next count takes, by group.
        self._rests: dict[str, tuple[float, float]] = {}
        #: The groups of the last count, to be told once that they have no participant any more.
        self._charged: frozenset[str] = frozenset()
        self._counted_ns: int | None = None

    def set_rates(self, rates: Mapping[str, Rate]) -> frozenset[str]:
        """Charge these from now on; return the groups with limits whose charge changed."""
        before, self._rates = self._rates, rates
        self._rests = {name: rest for name, rest in self._rests.items() if name in rates}
        return frozenset(name for name in self._limits if before.get(name) != rates.get(name))

    def set_limits(self, group: str, limits: Rates) -> Rates:
        """Take a group's local limits; return the gate's part of them."""
        self._limits[group] = limits
        return self.gate_part(group)

    def gate_part(self, group: str) -> Rates:
        """Return the gate's part of a group's local limits."""
        limits, rate = self._limits[group], self._rates.get(group)
        if rate is None:
            return limits
        return replace(
            limits,
            publish_messages=_less(limits.publish_messages, rate.messages),
            publish_bytes=_less(limits.publish_bytes, rate.bytes),
        )

    def remove_limits(self, group: str) -> None:
        """Forget a group's local limits."""
        self._limits.pop(group, None)

    def charge(self, traffic: Sequence[Traffic], now_ns: int) -> tuple[Traffic, ...]:
        """Return the gate's counts with the charges since the last call."""
        before_ns, self._counted_ns = self._counted_ns, now_ns
        elapsed_ns = 0 if before_ns is None else now_ns - before_ns
        charges = {name: self._due(name, rate, elapsed_ns) for name, rate in self._rates.items()}
        own = {each.group: each for each in traffic if each.monitoring_class is _PUBLISH}
        over = self._charged - charges.keys() - own.keys()
        self._charged = frozenset(charges)
        return (
            *(
                _sum(each, charges[each.group])
                if each.monitoring_class is _PUBLISH and each.group in charges
                else each
                for each in traffic
            ),
            *(charge for name, charge in charges.items() if name not in own),
            *(Traffic(name, _PUBLISH) for name in sorted(over)),
        )

    def _due(self, name: str, rate: Rate, elapsed_ns: int) -> Traffic:
        """Return a group's charge of the time since the last count, as if its gate had counted it."""
        limits = self._limits.get(name, Rates())
        rest = self._rests.get(name, (0.0, 0.0))
        seconds = elapsed_ns / NANOS_PER_SECOND
        messages = _at_most(limits.publish_messages, rate.messages) * seconds + rest[0]
        size = _at_most(limits.publish_bytes, rate.bytes) * seconds + rest[1]
        self._rests[name] = (messages % 1, size % 1)
        return Traffic(
            name,
            _PUBLISH,
            messages=int(messages),
            bytes=int(size),
            messages_held_ns=elapsed_ns * _exceeds(rate.messages, limits.publish_messages),
            bytes_held_ns=elapsed_ns * _exceeds(rate.bytes, limits.publish_bytes),
            participants=1,
        )


def _sum(own: Traffic, charge: Traffic) -> Traffic:
    """Return the gate's count with the charge of the same time."""
    return own._replace(
        messages=own.messages + charge.messages,
        bytes=own.bytes + charge.bytes,
        messages_held_ns=max(own.messages_held_ns, charge.messages_held_ns),
        bytes_held_ns=max(own.bytes_held_ns, charge.bytes_held_ns),
        participants=max(own.participants, charge.participants),
    )


def _exceeds(rate: float, limit: int | None) -> bool:
    return limit is not None and rate > limit


def _at_most(limit: int | None, rate: float) -> float:
    return rate if limit is None else min(limit, rate)


def _less(limit: int | None, rate: float) -> int | None:
    return None if limit is None else max(0, limit - ceil(rate))
