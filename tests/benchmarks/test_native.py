"""The parts of the native benchmark, each of which can be asked for by name."""

from __future__ import annotations

from benchmarks.native import INTERVALS, MEASUREMENTS


def test_each_interval_and_load_is_a_part_of_its_own() -> None:
    """A cluster each, so that ``ONLY=native/interval-5/batched`` plays nothing else."""
    loads = {
        f"native/interval-{each}/{load}" for each in (1, 5, 10) for load in ("unbatched", "batched")
    }

    assert set(INTERVALS) == {1, 5, 10}
    assert set(MEASUREMENTS) == loads | {"native/cost"}
