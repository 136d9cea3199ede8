"""The demand of clients, as rates over time, and the messages that it makes.

A *source* tells the rate at which the clients of one broker would send (or take) if no limit held them,
in messages or bytes per second; None means that no client is connected. It also tells the size of their
messages and the number of their topics. *Load* turns a source into whole messages per step and keeps
those that wait.

Every load is a closed loop in the end: a client has a limited number of messages under way, and when
those wait it stops sending. So at most ``window_ns`` of the wanted rate waits at the gate, and the gate
never sees the messages that a held client does not send: a limit hides the demand above it.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Protocol

from coordinator.core.model import NANOS_PER_SECOND, Unit

MESSAGE_BYTES = 1_000
"""The size of a message unless a source says otherwise."""

_WINDOW_NS = 50_000_000
_NORMAL_FROM = 30.0


class Source(Protocol):
    """The demand at a moment."""

    @property
    def message_bytes(self) -> int:
        """The size of each message, in bytes."""

    @property
    def topics(self) -> int:
        """The number of topics that the clients are connected to, when they are."""

    def rate(self, now_ns: int) -> int | None:
        """Messages or bytes per second; None when no client is connected."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The same all the time; with the group's whole limit or more it saturates any share."""

    per_second: int | None
    message_bytes: int = MESSAGE_BYTES
    topics: int = 1

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
    message_bytes: int = MESSAGE_BYTES
    topics: int = 1

    def rate(self, now_ns: int) -> int | None:
        """The rate at this place of the wave."""
        place_ns = (now_ns - self.phase_ns) % (self.on_ns + self.off_ns)
        return self.high if place_ns < self.on_ns else self.low


def zipf(total: int, parts: int, exponent: float) -> list[int]:
    """A rate split so that the k-th largest part is proportional to ``k**-exponent``."""
    weights = [(rank + 1) ** -exponent for rank in range(parts)]
    return [round(total * weight / sum(weights)) for weight in weights]


class Load:
    """The messages of one broker's clients in one group.

    Args:
        source: what they want.
        rng: rolls the dice for Poisson arrivals; None sends evenly.
        unit: what the source's rates count.
        window_ns: how much of the wanted rate may wait, as time.
    """

    __slots__ = ("_carry", "_rng", "_unit", "_window_ns", "offered", "source", "waiting")

    def __init__(
        self,
        source: Source,
        rng: random.Random | None = None,
        unit: Unit = Unit.MESSAGES,
        window_ns: int = _WINDOW_NS,
    ) -> None:
        #: May be replaced at any moment.
        self.source = source
        self._rng = rng
        self._unit = unit
        self._window_ns = window_ns
        self._carry = 0
        #: Messages that are at the gate and not admitted yet.
        self.waiting = 0
        #: Messages wanted in the last step, whether or not a held client could send them.
        self.offered = 0

    def arrive(self, now_ns: int, elapsed_ns: int) -> bool:
        """Add the arrivals of the step that ends now; return whether a client is connected."""
        rate = self.source.rate(now_ns)
        if rate is None:
            self.offered = self.waiting = self._carry = 0
            return False
        each = NANOS_PER_SECOND if self._unit is Unit.MESSAGES else self._bytes_each()
        if self._rng is not None:
            self.offered = poisson(self._rng, rate * elapsed_ns / each)
        else:
            self.offered, self._carry = divmod(rate * elapsed_ns + self._carry, each)
        window = -(-rate * self._window_ns // each)
        self.waiting = min(self.waiting, window) + self.offered
        return True

    def _bytes_each(self) -> int:
        return NANOS_PER_SECOND * self.source.message_bytes


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
