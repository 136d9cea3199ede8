"""The equality of shares, and the windows that all figures of the demo are of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

WINDOW_S = 1.0
_FIRST_ROUNDS = 20
"""Moments within a second at which a counter may be read first."""


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index: 1 when all are equal, 1/n when one has everything, 0 when none has any."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0


def median_from(first_s: float, figure: Callable[[float], float]) -> float:
    """Return the median of a figure over the moments at which its first round may begin.

    Args:
        first_s: the earliest of these moments.
        figure: computed for one of them.
    """
    return median(figure(first_s + n * WINDOW_S / _FIRST_ROUNDS) for n in range(_FIRST_ROUNDS))
