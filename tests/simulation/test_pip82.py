"""Today's built-in resource groups, as a broker of the simulation."""

from __future__ import annotations

import pytest

from coordinator.simulation.experiment import perform
from coordinator.simulation.pip82 import pip82_limit
from coordinator.simulation.stage import GROUP, Parameters


@pytest.mark.parametrize(
    ("own", "total", "expected"),
    [(800, 1000, 800), (200, 1000, 200), (100, 500, 200), (0, 1000, 1), (0, 0, 1000), (600, 2000, 300)],
)  # fmt: skip
def test_formula(own: int, total: int, expected: int) -> None:
    """``max(u + (C - U)·u/U, 1)`` of C = 1,000; all of it while nobody uses anything."""
    assert pip82_limit(1_000, own, total) == expected


def test_an_old_broker_beside_sidecars_is_starved_and_named_so() -> None:
    """The sidecars share the whole limit among themselves, and the old broker yields.

    That is the honest state of a mixed fleet: usage that fills the limit leaves PIP-82's formula no
    room to grow, whatever it started from.
    """
    _, recording = perform("S23", Parameters(brokers=3))

    record = recording.group(GROUP)
    last = {name: track.admitted[-1] for name, track in record.tracks.items()}
    assert last["broker-3"] < 400 < last["broker-1"]
