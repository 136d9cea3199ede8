"""The counts of brokers, between two curves.

A counter was read somewhere between question and answer. So what is counted is taken from two curves, one
that has every count at the moment of the question and one that has it at that of the answer: the rise
between "at the answer" and "at the question" is at most what really passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deploy.chaos.checker.history import History
from deploy.demo.curves import Curve, curves, total


class Counted:
    """The counts of brokers, as two curves with the truth in between."""

    def __init__(self, history: History) -> None:
        asked = [replace(sample, answered_s=sample.sent_s) for sample in history.samples]
        told = [replace(sample, sent_s=sample.answered_s) for sample in history.samples]
        self._asked = curves(asked, history.misses)
        self._told = curves(told, history.misses)

    @property
    def times(self) -> Sequence[float]:
        """Every moment at which the curves may bend, in order."""
        both = (*self._asked.values(), *self._told.values())
        return sorted({moment for curve in both for moment in curve.times})

    def surely(self, from_s: float, until_s: float) -> float:
        """The messages that certainly were counted in this time."""
        return max(0.0, _until(self._told, until_s) - _until(self._asked, from_s))

    def rate(self, from_s: float, until_s: float) -> float:
        """The best estimate of the messages per second of all brokers together."""
        length_s = until_s - from_s
        both = (total(self._asked, from_s, length_s), total(self._told, from_s, length_s))
        return sum(both) / 2

    def rates(self, from_s: float, until_s: float) -> dict[str, float]:
        """The same for every broker that counted something."""
        length_s = until_s - from_s
        return {
            broker: (curve.rate(from_s, length_s) + self._told[broker].rate(from_s, length_s)) / 2
            for broker, curve in self._asked.items()
        }


def _until(by_broker: Mapping[str, Curve], moment_s: float) -> float:
    return sum(curve.count(moment_s) for curve in by_broker.values())
