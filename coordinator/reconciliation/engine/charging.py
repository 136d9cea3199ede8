"""The charge of escaped traffic to the groups of its namespaces.

The core splits a group's limit by the usage and demand of each broker, and knows of no way but the gate.
With a charge it sees both: the traffic that escapes at the rate e is added to the gate's counts, and of a
local limit q the gate gets q - e, never below 0. Gate and escaped traffic together then keep q, as long
as e is not larger; and the other brokers see in the reports that this one uses that much.

No more than q is charged. The gate can give way no further, and a broker that reports to use twice its
limit would be distrusted (core/reports/suspects.py), although it enforces what it can.

The charge of a count is e times the time since the last one, not the sum of the told excesses: readings
come every few seconds, and a lump of several seconds would look like a burst of demand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from coordinator.core.model import NANOS_PER_SECOND, MonitoringClass, Rates, Traffic
from coordinator.reconciliation.engine.account import Rate


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
        """Charge these from now on; return the groups whose charge changed."""
        before, self._rates = self._rates, rates
        self._rests = {name: rest for name, rest in self._rests.items() if name in rates}
        return frozenset(
            name for name in before.keys() | rates.keys() if before.get(name) != rates.get(name)
        )

    def set_limits(self, group: str, limits: Rates) -> Rates:
        """Take a group's local limits; return the gate's part of them."""
        self._limits[group] = limits
        rate = self._rates.get(group)
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
        open_charges = {
            name: self._due(name, rate, elapsed_ns) for name, rate in self._rates.items()
        }
        found = []
        for each in traffic:
            if each.monitoring_class is MonitoringClass.PUBLISH:
                messages, size = open_charges.pop(each.group, (0, 0))
                is_charged = each.group in self._rates
                each = each._replace(  # noqa: PLW2901 - the same count
                    messages=each.messages + messages,
                    bytes=each.bytes + size,
                    participants=max(each.participants, is_charged),
                )
            found.append(each)
        counted = {each.group for each in found if each.monitoring_class is MonitoringClass.PUBLISH}
        found += [
            Traffic(name, MonitoringClass.PUBLISH, messages=messages, bytes=size, participants=1)
            for name, (messages, size) in open_charges.items()
        ]
        over = self._charged - self._rates.keys() - counted
        found += [Traffic(name, MonitoringClass.PUBLISH) for name in sorted(over)]
        self._charged = frozenset(self._rates)
        return tuple(found)

    def _due(self, name: str, rate: Rate, elapsed_ns: int) -> tuple[int, int]:
        limits = self._limits.get(name, Rates())
        rest = self._rests.get(name, (0.0, 0.0))
        seconds = elapsed_ns / NANOS_PER_SECOND
        messages = _at_most(limits.publish_messages, rate.messages) * seconds + rest[0]
        size = _at_most(limits.publish_bytes, rate.bytes) * seconds + rest[1]
        self._rests[name] = (messages % 1, size % 1)
        return int(messages), int(size)


def _at_most(limit: int | None, rate: float) -> float:
    return rate if limit is None else min(limit, rate)


def _less(limit: int | None, rate: float) -> int | None:
    return None if limit is None else max(0, limit - ceil(rate))
