"""Gates and native brokers in one fleet, under one limit."""

from __future__ import annotations

import pytest

from coordinator.core.model import Dimension
from coordinator.simulation.experiment import measure, perform
from coordinator.simulation.stage import Parameters


@pytest.mark.parametrize("native", [1, 2, 4])
@pytest.mark.parametrize("dimension", [Dimension.PUBLISH_MESSAGES, Dimension.PUBLISH_BYTES])
def test_however_many_have_no_gate_all_share_the_limit(native: int, dimension: Dimension) -> None:
    """Every broker has its fair share at once, and the sum stays at the limit."""
    (figures,) = measure(*perform("S23", Parameters(brokers=5, native=native, dimension=dimension)))

    assert figures.settle_rounds == (0,)
    assert figures.min_share >= 0.98
    assert figures.peak_overshoot <= 0.05
    assert figures.utilisation >= 0.98
