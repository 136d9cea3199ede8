"""What a broker would admit without its limit, estimated from what it admitted and held.

Backpressure hides demand: a client whose messages are held stops sending, so a throttled broker's
admitted rate says nothing about what it wants. And a demand that is taken too low throttles the broker,
which then looks as if it wanted everything, which gives it too much: the limit swings. The rules:

=====================================  ==========================================================
held for nearly all of the time        unbounded: it wants more than it gets, nobody knows how much
held for a part of the time            what it admitted, more by the part of the time it was held
not held, demand rose                  what it admitted and a little headroom: up at once
not held, demand fell by a quarter     the same: down at once, so that others get what is free
not held, demand fell by less          that is noise: down slowly (hysteresis), so that the next
                                       peak finds room
=====================================  ==========================================================

The estimate is made where the traffic is and sent in the report, so that all brokers use the same.
"""

from __future__ import annotations

from coordinator.core.settings import CoreSettings

_COLLAPSE_PERMILLE = 750
_DECAY_PERMILLE = 980


def estimate(
    rate: int, held_permille: int, previous: int | None, settings: CoreSettings
) -> int | None:
    """A broker's demand, per second; None is unbounded.

    Args:
        rate: what was admitted, per second.
        held_permille: for how much of the time producers or consumers waited, in thousandths.
        previous: the last estimate.
        settings: thresholds and headroom.
    """
    if held_permille >= settings.saturated_permille:
        return None
    with_headroom = _up(rate, 1000 + settings.headroom_permille)
    if held_permille >= settings.throttled_permille:
        return _up(with_headroom, 1000 + held_permille)
    if previous is None or with_headroom < previous * _COLLAPSE_PERMILLE // 1000:
        return with_headroom
    return max(with_headroom, previous * _DECAY_PERMILLE // 1000)


def _up(value: int, permille: int) -> int:
    return -(-value * permille // 1000)
