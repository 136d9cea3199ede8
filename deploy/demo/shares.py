"""The equality of shares, and the window that all figures of the demo are of."""

from __future__ import annotations

from collections.abc import Sequence

WINDOW_S = 1.0


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index: 1 when all are equal, 1/n when one has everything, 0 when none has any."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 0.0
