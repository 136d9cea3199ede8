"""What a broker would admit without its limit, estimated from what it admitted and held.

Backpressure hides demand: a client whose messages are held stops sending, so a throttled broker's
admitted rate says nothing about what it wants. Waiting alone does not say it either: traffic that comes
in bursts waits now and then although it needs less than its limit. A demand that is taken too low makes
the broker look as if it wanted everything, which gives it too much, and the limits swing. The rules:

===================================  ============================================================
limit used up, held all the time     unbounded: it wants more, and nobody knows how much
limit used up, held now and then     what it admitted, more by the part of the time it was held
limit not used up, rate rose         what it admitted and headroom: up at once
limit not used up, rate collapsed    the same: down at once, so that others get what is free
limit not used up, rate fell less    that is noise: down slowly (hysteresis), so that the next peak
                                     finds room
===================================  ============================================================

*Headroom* learns how bursty the traffic is: it doubles when a demand that was thought to be known turns
out to be unbounded, and is halved after a minute of rounds in which the estimate held. Steady traffic
costs the others next to nothing, bursty traffic gets the room that it needs and stays where it is.

The estimate is made where the traffic is and sent in the report, so that all brokers use the same.
"""

from __future__ import annotations

from coordinator.core.settings import CoreSettings

_USED_UP_PERMILLE = 950
_COLLAPSE_PERMILLE = 750
_DECAY_PERMILLE = 980
_MOST_HEADROOM_PERMILLE = 500
_CALM_ROUNDS = 60


class DemandEstimate:
    """The demand for one unit of one group and class at this broker."""

    __slots__ = ("_calm_rounds", "_headroom_permille", "_settings", "demand")

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        self._headroom_permille = settings.headroom_permille
        #: Rounds since the last false alarm, or since the headroom was halved.
        self._calm_rounds = 0
        #: Per second; None is unbounded.
        self.demand: int | None = 0

    def observe(self, rate: int, held_permille: int, limit: int | None) -> None:
        """Learn from a round.

        Args:
            rate: what was admitted, per second.
            held_permille: for how much of the round somebody waited, in thousandths.
            limit: the local limit in force, per second; None is unlimited.
        """
        used_up = limit is not None and rate * 1000 >= limit * _USED_UP_PERMILLE
        if used_up and held_permille >= self._settings.saturated_permille:
            self.saturate()
            return
        with_headroom = _up(rate, 1000 + self._headroom_permille)
        if used_up and held_permille >= self._settings.throttled_permille:
            self.demand = _up(with_headroom, 1000 + held_permille)
            return
        self._calm_down()
        before = self.demand
        if before is None or with_headroom < before * _COLLAPSE_PERMILLE // 1000:
            self.demand = with_headroom
        else:
            self.demand = max(with_headroom, before * _DECAY_PERMILLE // 1000)

    def saturate(self) -> None:
        """It wants more than anybody can tell."""
        if self.demand:
            self._headroom_permille = min(_MOST_HEADROOM_PERMILLE, 2 * self._headroom_permille)
        self._calm_rounds = 0
        self.demand = None

    def _calm_down(self) -> None:
        self._calm_rounds += 1
        if self._calm_rounds >= _CALM_ROUNDS:
            self._calm_rounds = 0
            self._headroom_permille = max(
                self._settings.headroom_permille, self._headroom_permille // 2
            )


def _up(value: int, permille: int) -> int:
    return -(-value * permille // 1000)
