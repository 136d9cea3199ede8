"""What clients want, as rates over time, and how many messages that makes.

A *source* says what the producers of one broker would send per second if nothing held them; None is
that no producer is connected. *Load* turns a source into whole messages per step and keeps what waits.

Every load is a closed loop in the end: a client has a limited number of messages under way, and when
those wait it stops sending. So at most ``window_ns`` of the wanted rate waits at the gate, and whatever
else a held client would have sent is never seen: that is how a limit hides the demand above it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.model import NANOS_PER_SECOND

_WINDOW_NS = 50_000_000
_NORMAL_FROM = 30.0


class Source(Protocol):
    """What is wanted at a moment."""

    def rate(self, now_ns: int) -> int | None:
        """Messages per second; None when no producer is connected."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """The same all the time; with the group's whole limit or more it saturates any share."""

    per_second: int | None

    def rate(self, now_ns: int) -> int | None:  # noqa: ARG002  # every source has the same signature
        """The rate."""
        return self.per_second


@dataclass(frozen=True, slots=True)
class OnOff:
    """A square wave: ``high`` for ``on_ns``, ``low`` for ``off_ns``, beginning ``phase_ns`` late."""

    high: int
    low: int
    on_ns: int
    off_ns: int
    phase_ns: int = 0

    def rate(self, now_ns: int) -> int | None:
        """The rate at this place of the wave."""
        place_ns = (now_ns - self.phase_ns) % (self.on_ns + self.off_ns)
        return self.high if place_ns < self.on_ns else self.low


def zipf(total: int, parts: int, exponent: float) -> list[int]:
    """A rate split so that the k-th largest part is proportional to ``k**-exponent``."""
    weights = [(rank + 1) ** -exponent for rank in range(parts)]
    return [round(total * weight / sum(weights)) for weight in weights]


def by_ratio(total: int, ratio: Sequence[int]) -> list[int]:
    """A rate split in a given ratio."""
    return [total * part // sum(ratio) for part in ratio]


class Load:
    """The messages of one broker's producers in one group.

    Args:
        source: what they want.
        rng: rolls the dice for Poisson arrivals; None sends evenly.
        window_ns: how much of the wanted rate may wait, as time.
    """

    __slots__ = ("_carry", "_rng", "_source", "_window_ns", "offered", "waiting")

    def __init__(
        self, source: Source, rng: random.Random | None = None, window_ns: int = _WINDOW_NS
    ) -> None:
        self._source = source
        self._rng = rng
        self._window_ns = window_ns
        self._carry = 0
        #: Messages that are at the gate and not admitted yet.
        self.waiting = 0
        #: Messages wanted in the last step, whether or not a held client could send them.
        self.offered = 0

    def replace(self, source: Source) -> None:
        """Want something else from now on."""
        self._source = source

    def arrive(self, now_ns: int, elapsed_ns: int) -> bool:
        """Add what was wanted in the step that ends now; tell whether a producer is connected."""
        rate = self._source.rate(now_ns)
        if rate is None:
            self.offered = self.waiting = self._carry = 0
            return False
        if self._rng is not None:
            self.offered = poisson(self._rng, rate * elapsed_ns / NANOS_PER_SECOND)
        else:
            self.offered, self._carry = divmod(rate * elapsed_ns + self._carry, NANOS_PER_SECOND)
        window = -(-rate * self._window_ns // NANOS_PER_SECOND)
        self.waiting = min(self.waiting, window) + self.offered
        return True


def poisson(rng: random.Random, mean: float) -> int:
    """A Poisson number: Knuth's product of uniforms, the normal approximation for large means."""
    if mean <= 0:
        return 0
    if mean >= _NORMAL_FROM:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    threshold, product, number = math.exp(-mean), rng.random(), 0
    while product > threshold:
        product *= rng.random()
        number += 1
    return number
