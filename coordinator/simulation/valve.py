"""A valve that passes a step's traffic: the core's token buckets, asked once a step, not per message.

The gate admits frame by frame and wakes waiting producers every few milliseconds, so its bucket loses
nothing while producers wait and saves at most ``BURST_NS`` while they do not. A simulation that looks
only once a step must come to the same: the bucket has room for the burst and one step more, and what is
left above the burst after the step is spilled. While messages wait, everything that flows in is used;
while they do not, no more than the burst is saved.

A bucket starts empty, and a rate of 0 lets nothing pass, not even what had been saved: as in the gate. A
message larger than the burst passes when the burst is there, and leaves a debt: as in the gate.
"""

from __future__ import annotations

from coordinator.core.limiting.token_bucket import TokenBucket
from coordinator.core.model import NANOS_PER_SECOND, Rate, Unit

BURST_NS = 50_000_000
"""The savings of the gate's buckets, as time."""

STEP_NS = 50_000_000
"""The runner's tick: how often the gate's counts are brought to the core."""


class Valve:
    """The limiter of one unit of one group at one broker.

    Args:
        rate: tokens per second.
        now_ns: the host's time.
    """

    __slots__ = ("_bucket", "_burst")

    def __init__(self, rate: Rate, now_ns: int) -> None:
        self._burst = _tokens(rate, BURST_NS)
        self._bucket = TokenBucket(rate=rate, capacity=self._room(rate), initial=0, now_ns=now_ns)

    @property
    def rate(self) -> Rate:
        """Tokens per second."""
        return self._bucket.rate

    def set_rate(self, rate: Rate, now_ns: int) -> None:
        """Let another rate pass from now on; neither refills nor forgives."""
        self._burst = _tokens(rate, BURST_NS)
        self._bucket.set_rate(rate, self._room(rate), now_ns)

    def fits(self, size: int, now_ns: int) -> int:
        """Count the messages of `size` tokens each that may pass in the step that ends now."""
        if not self._bucket.rate:
            return 0
        over = self._bucket.balance(now_ns) - min(size, self._burst)
        return over // size + 1 if over >= 0 else 0

    def owed(self, now_ns: int) -> int:
        """Tokens that a message larger than the burst used in advance."""
        return max(0, -self._bucket.balance(now_ns))

    def take(self, tokens: int, now_ns: int) -> None:
        """Use tokens, and spill those that the gate's bucket would not have saved."""
        spilled = max(0, self._bucket.balance(now_ns) - tokens - self._burst)
        if tokens or spilled:
            self._bucket.consume(tokens + spilled, now_ns)

    def _room(self, rate: Rate) -> int:
        return self._burst + _tokens(rate, STEP_NS) + 1


class SimulatedLimiter:
    """The limiter of one group and class at one broker: messages and bytes, as far as each is limited.

    A message passes when both have room for it, and then uses both.
    """

    __slots__ = ("_valves", "held_by")

    def __init__(self) -> None:
        self._valves: dict[Unit, Valve] = {}
        #: The units that ran short when a client had to wait last.
        self.held_by: frozenset[Unit] = frozenset()

    def rate_of(self, unit: Unit) -> Rate | None:
        """Messages or bytes per second; None is unlimited."""
        valve = self._valves.get(unit)
        return None if valve is None else valve.rate

    def owed(self, unit: Unit, now_ns: int) -> int:
        """Messages or bytes that passed in advance and are not paid for yet."""
        valve = self._valves.get(unit)
        return 0 if valve is None else valve.owed(now_ns)

    def set_rate(self, unit: Unit, rate: Rate | None, now_ns: int) -> None:
        """Let another rate pass from now on; None is unlimited."""
        valve = self._valves.get(unit)
        if rate is None:
            self._valves.pop(unit, None)
        elif valve is None:
            self._valves[unit] = Valve(rate, now_ns)
        else:
            valve.set_rate(rate, now_ns)

    def admit(self, waiting: int, message_bytes: int, now_ns: int) -> int:
        """Let pass what may pass of the messages that waited in the step that ends now."""
        sizes = {unit: 1 if unit is Unit.MESSAGES else message_bytes for unit in self._valves}
        fits = {unit: valve.fits(sizes[unit], now_ns) for unit, valve in self._valves.items()}
        admitted = min([waiting, *fits.values()])
        for unit, valve in self._valves.items():
            valve.take(admitted * sizes[unit], now_ns)
        if admitted < waiting:
            self.held_by = frozenset(unit for unit, room in fits.items() if room == admitted)
        return admitted


def _tokens(rate: Rate, duration_ns: int) -> int:
    return max(1, rate * duration_ns // NANOS_PER_SECOND)
