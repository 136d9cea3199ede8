"""The formula of today's built-in resource groups."""

from __future__ import annotations

import pytest

from coordinator.simulation.pip82 import pip82_limit


@pytest.mark.parametrize(
    ("own", "total", "expected"),
    [(800, 1000, 800), (200, 1000, 200), (100, 500, 200), (0, 1000, 1), (0, 0, 1000), (600, 2000, 300)],
)  # fmt: skip
def test_formula(own: int, total: int, expected: int) -> None:
    """``max(u + (C - U)·u/U, 1)`` of C = 1,000; all of it while no broker uses anything."""
    assert pip82_limit(1_000, own, total) == expected
