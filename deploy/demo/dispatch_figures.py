"""The figures of the scene of a dispatch limit, computed from its recording and from nothing else.

A topic that uses its rate up is sent a second's worth in one lump, by a gate's bucket in smaller ones.
So the share of a broker is its mean over ten seconds, from fourteen seconds after all consumers were
there, as a rate that is a little off is left alone for ten. The highest second is one of those that
stand back to back. Both depend on the moment of the first reading: of twenty such moments within a
second, the median is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deploy.demo.curves import Curve, curves, total
from deploy.demo.recording import DispatchRecording
from deploy.demo.shares import WINDOW_S, jain, median_from

_AFTER_S = 14.0
_OVER_S = 10.0


@dataclass(frozen=True, slots=True)
class DispatchFigures:
    """The scene in figures.

    Attributes:
        limit: of the group, in messages per second.
        shares: of each broker, in thirds of the limit if there are three.
        error: of the sum of all, over the limit, less one.
        jain: of the shares.
        highest: the highest second of all together, over the limit, less one.
        missing: messages that no consumer got.
    """

    limit: int
    shares: Mapping[str, float]
    error: float
    jain: float
    highest: float
    missing: int


def dispatch_figures(recording: DispatchRecording) -> DispatchFigures:
    """Return the figures of the scene."""
    by_broker = curves(recording.samples, recording.misses)
    equal = recording.limit / len(by_broker)
    first_s = recording.known_s + _AFTER_S

    def share(curve: Curve) -> float:
        return median_from(first_s, lambda start_s: curve.rate(start_s, _OVER_S)) / equal

    shares = {broker: share(curve) for broker, curve in sorted(by_broker.items())}
    mean = median_from(first_s, lambda start_s: total(by_broker, start_s, _OVER_S))

    def highest_from(start_s: float) -> float:
        rounds = int((recording.ended_s - start_s) / WINDOW_S)
        return max((total(by_broker, start_s + n * WINDOW_S) for n in range(rounds)), default=0.0)

    # The first second is in it, whenever its consumer came.
    highest = median_from(recording.known_s - WINDOW_S, highest_from)
    return DispatchFigures(
        limit=recording.limit,
        shares=shares,
        error=mean / recording.limit - 1,
        jain=jain(list(shares.values())),
        highest=highest / recording.limit - 1,
        missing=recording.missing,
    )
