"""Max-min for many groups at once is max-min, to the last unit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.allocation.fill import (
    NO_LEVEL,
    UNBOUNDED,
    Fill,
    _fill_block,
    max_min_many,
)
from coordinator.core.allocation.laws import Claim, max_min

Cell = tuple[int, int]
Row = tuple[int, list[Cell]]

cells = st.tuples(st.just(UNBOUNDED) | st.integers(0, 1000), st.integers(0, 5))
small_rows = st.tuples(st.integers(0, 3000), st.lists(cells, min_size=6, max_size=6))
large_cells = st.tuples(st.integers(0, UNBOUNDED), st.integers(0, 1 << 40))
large_rows = st.tuples(st.integers(0, UNBOUNDED), st.lists(large_cells, min_size=6, max_size=6))


def filled(rows: list[Row]) -> Fill:
    """All rows at once."""
    table = np.array([cells for _, cells in rows], dtype=np.int64)
    limits = np.array([limit for limit, _ in rows], dtype=np.int64)
    return max_min_many(limits, table[:, :, 0], table[:, :, 1])


def one_by_one(limit: int, row: list[Cell]) -> tuple[list[int], int]:
    """One row by the scalar law: targets and level."""
    claims = {
        f"broker-{column}": Claim(None if wants == UNBOUNDED else wants, weight)
        for column, (wants, weight) in enumerate(row)
        if weight
    }
    if not claims:
        return [0] * len(row), NO_LEVEL
    split = max_min(limit, claims)
    targets = [split.targets.get(f"broker-{column}", 0) for column in range(len(row))]
    return targets, NO_LEVEL if split.water_level is None else split.water_level


@pytest.mark.parametrize("rows", [small_rows, large_rows], ids=["small", "large"])
@given(data=st.data())
def test_every_row_equals_the_scalar_law(rows: st.SearchStrategy[Row], data: st.DataObject) -> None:
    """Targets, levels and the odd units, also where products leave 64 bits."""
    splits = data.draw(st.lists(rows, min_size=1, max_size=5))
    fill = filled(splits)

    for index, (limit, row) in enumerate(splits):
        assert (fill.targets[index].tolist(), int(fill.levels[index])) == one_by_one(limit, row)


def test_ratios_that_floats_cannot_tell_apart_are_told_apart() -> None:
    """Wants per weight that differ in the 17th digit, at a limit that lets only the lower one pass."""
    weight = (1 << 29) - 1
    row = [(weight * 3 + 1, weight), (3 * weight, weight), (UNBOUNDED, weight)]
    row += [(weight * 3 - 1, weight), (0, 0), (weight * 3, weight)]
    splits = [(5 * 3 * weight + delta, row) for delta in range(-5, 6)]
    fill = filled(splits)

    for index, (limit, _) in enumerate(splits):
        assert (fill.targets[index].tolist(), int(fill.levels[index])) == one_by_one(limit, row)


def test_more_rows_than_a_block_are_all_filled() -> None:
    """Twelve thousand random splits of many shapes, against the scalar law on each hundredth."""
    random = np.random.default_rng(seed=20)
    limits = random.integers(0, 10_000, 12_000)
    wants = random.integers(0, 4000, (12_000, 7))
    wants[random.random(wants.shape) < 0.2] = UNBOUNDED
    weights = random.integers(0, 4, wants.shape)
    fill = max_min_many(limits, wants, weights)

    assert (fill.targets.sum(axis=1) == np.where(weights.any(axis=1), limits, 0)).all()
    for index in range(0, 12_000, 100):
        row = list(zip(wants[index].tolist(), weights[index].tolist(), strict=True))
        expected = one_by_one(int(limits[index]), row)
        assert (fill.targets[index].tolist(), int(fill.levels[index])) == expected


def test_empty_input_gives_empty_targets() -> None:
    """No splits, no brokers, no participants: empty answers, no error."""
    none = np.zeros((0, 4), np.int64)
    assert max_min_many(np.zeros(0, np.int64), none, none).targets.shape == (0, 4)
    empty = np.zeros((2, 0), np.int64)
    assert max_min_many(np.array([5, 6]), empty, empty).targets.shape == (2, 0)
    idle = np.zeros((2, 3), np.int64)
    fill = max_min_many(np.array([5, 0]), idle, idle)
    assert fill.targets.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert fill.levels.tolist() == [NO_LEVEL, NO_LEVEL]


def test_usual_splits_are_left_to_the_arrays() -> None:
    """The scalar law takes seconds for a cluster; rows that floats can tell apart need none of it."""
    random = np.random.default_rng(seed=21)
    limits = random.integers(1, 10_000, 500)
    wants = random.integers(0, 4000, (500, 7))
    wants[random.random(wants.shape) < 0.2] = UNBOUNDED
    weights = random.integers(0, 4, wants.shape)
    fill = Fill(np.zeros(wants.shape, np.int64), np.zeros(500, np.int64))

    assert not _fill_block(limits, wants, weights, fill, slice(0, 500)).any()


def test_arrays_that_do_not_fit_together_are_refused() -> None:
    """The message shows the shapes."""
    with pytest.raises(ValueError, match=r"\(3,\), \(2, 4\) and \(2, 4\)"):
        max_min_many(np.zeros(3, np.int64), np.zeros((2, 4), np.int64), np.ones((2, 4), np.int64))
