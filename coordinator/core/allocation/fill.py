"""Max-min for many groups at once: the same water-filling as ``laws.max_min``, on arrays.

A cluster of 100 brokers with 5,000 groups has 20,000 splits to compute (four dimensions each), which
takes the scalar law seconds. Here every split is a row and every broker a column, and the result is
equal to the scalar law's to the last unit.

*Floats guess, integers prove.* A row is filled in the order of demand per weight. That order is taken
from 64-bit floats, which is fast but may confuse two brokers whose ratios differ by less than a float
can tell. So the guess is only the rest of the limit after the satisfied, R, and the weight of the
others, W. In integers, the satisfied are then those with ``wants * W <= R * weight``; the guess was
right if just R and W are left by them, for there is one water level only. A row that fails this check,
or whose products would not fit into 64 bits, goes to the scalar law.

*Blocks.* Rows are computed some thousand cells at a time, so that the intermediate arrays stay in the
processor's cache and memory does not grow with the number of groups.

This is the only module of the core that may use numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coordinator.core.allocation.laws import Allocation, Claim, max_min

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

UNBOUNDED: Final = int(np.iinfo(np.int64).max)
"""A demand that is hidden or has no end; every demand above the limit counts the same."""

NO_LEVEL: Final = -1
"""The water level of a split in which every broker gets all of its demand."""

_BLOCK_CELLS: Final = 1 << 15
_SAFE: Final = float(1 << 62)


@dataclass(frozen=True, slots=True)
class Fill:
    """The targets of all splits.

    Args:
        targets: int64 (splits, brokers): the target per second; 0 where the weight is 0.
        levels: int64 (splits,): the water level, the highest rate per unit of weight that a limited
            broker gets; NO_LEVEL if no broker is limited.
    """

    targets: Integers
    levels: Integers


def max_min_many(limits: Integers, wants: Integers, weights: Integers) -> Fill:
    """Split many limits at once, each among its own participants.

    Args:
        limits: int64 (splits,), per second, >= 0. A split is one dimension of one group.
        wants: int64 (splits, brokers), the demands per second, >= 0; UNBOUNDED without a bound.
        weights: int64 (splits, brokers), >= 0. 0 means that the broker takes no part in that split.

    The columns stand in the order of the broker ids, because the rest from rounding goes to the
    first.

    Raises:
        ValueError: the shapes do not fit together.
    """
    if wants.shape != weights.shape or wants.shape[:1] != limits.shape or wants.ndim != 2:
        raise ValueError(
            "limits (splits,), wants and weights (splits, brokers) must fit together, got "
            f"{limits.shape}, {wants.shape} and {weights.shape}"
        )
    splits, brokers = wants.shape
    fill = Fill(np.zeros((splits, brokers), np.int64), np.full(splits, NO_LEVEL, np.int64))
    rows = max(1, _BLOCK_CELLS // max(1, brokers))
    for start in range(0, splits if brokers else 0, rows):
        block = slice(start, start + rows)
        unproven = _fill_block(limits[block], wants[block], weights[block], fill, block)
        for row in np.flatnonzero(unproven) + start:
            _fill_row(limits, wants, weights, fill, int(row))
    return fill


def max_min_of_all(splits: Sequence[tuple[int, Mapping[str, Claim]]]) -> list[Allocation]:
    """Return ``laws.max_min`` of every limit and its claims, in order."""
    names = [sorted(claims) for _, claims in splits]
    width = max(map(len, names), default=0)
    idle = [0] * width
    wants, weights = [], []
    for (_, claims), ordered in zip(splits, names, strict=True):
        sorted_claims = [claims[name] for name in ordered]
        rest = idle[len(ordered) :]
        wants.append(
            [UNBOUNDED if c.wants is None else min(c.wants, UNBOUNDED) for c in sorted_claims]
            + rest
        )
        weights.append([claim.weight for claim in sorted_claims] + rest)
    shape = (len(splits), width)
    fill = max_min_many(
        np.array([limit for limit, _ in splits], np.int64),
        np.array(wants, np.int64).reshape(shape),
        np.array(weights, np.int64).reshape(shape),
    )
    return [
        Allocation(dict(zip(ordered, targets, strict=False)), None if level == NO_LEVEL else level)
        for ordered, targets, level in zip(
            names, fill.targets.tolist(), fill.levels.tolist(), strict=True
        )
    ]


def _fill_block(
    limits: Integers, wants: Integers, weights: Integers, fill: Fill, block: slice
) -> Booleans:
    """Fill some rows; return a mask of the rows that the check could not prove right."""
    whole = weights.sum(axis=1)
    participants_weight = weights.sum(axis=1, dtype=np.float64)
    too_large = np.maximum(limits + 1.0, weights.shape[1]) * participants_weight >= _SAFE
    limits = np.where(too_large, 0, limits)
    # A demand above the limit is never satisfied; capping it keeps the products small.
    wants = np.minimum(wants, limits[:, None] + 1)
    wants[weights == 0] = 0
    left, open_weight = _guess(limits, wants, weights, whole)
    satisfied = wants * open_weight[:, None] <= left[:, None] * weights
    base = np.where(satisfied, wants, 0)
    cut = np.where(satisfied, 0, weights)
    proven = (limits - base.sum(axis=1) == left) & (cut.sum(axis=1) == open_weight)
    # Where every broker is satisfied, the rest is headroom for all.
    headroom = open_weight == 0
    cut[headroom] = weights[headroom]
    divisor = np.where(headroom, np.maximum(whole, 1), open_weight)
    fill.levels[block] = np.where(headroom, NO_LEVEL, left // divisor)
    fill.targets[block] = base + _apportion(left, cut, divisor)
    unproven: Booleans = too_large | ~proven
    return unproven


def _guess(
    limits: Integers, wants: Integers, weights: Integers, whole: Integers
) -> tuple[Integers, Integers]:
    """Return the rest of each limit after the satisfied brokers, and the weight of the others."""
    keys = wants if weights.max(initial=0) <= 1 else wants / np.maximum(weights, 1)
    order = np.argsort(keys, axis=1)
    sorted_wants = np.take_along_axis(wants, order, axis=1)
    sorted_weights = np.take_along_axis(weights, order, axis=1)
    left = limits[:, None] - np.cumsum(sorted_wants, axis=1)
    open_weight = whole[:, None] - np.cumsum(sorted_weights, axis=1)
    fits = sorted_wants * (open_weight + sorted_weights) <= (left + sorted_wants) * sorted_weights
    # The level rises with every step, so the first demand above it ends the row.
    satisfied = np.where(fits.all(axis=1), fits.shape[1], fits.argmin(axis=1))
    some, last = satisfied > 0, (np.arange(len(limits)), satisfied - 1)
    return np.where(some, left[last], limits), np.where(some, open_weight[last], whole)


def _apportion(totals: Integers, weights: Integers, whole: Integers) -> Integers:
    """Apply ``laws.apportion`` to every row: largest remainder, ties to the lower column."""
    brokers = weights.shape[1]
    parts = totals[:, None] * weights
    shares = parts // whole[:, None]
    parts -= shares * whole[:, None]
    odd = np.where(weights.any(axis=1), totals - shares.sum(axis=1), 0)
    # Unique keys that sort by remainder, then by column; the odd-th largest gets the last unit.
    keys = parts * brokers + np.arange(brokers - 1, -1, -1)
    least = np.sort(keys, axis=1)[np.arange(len(totals)), brokers - np.maximum(odd, 1)]
    shares += (keys >= least[:, None]) & (odd > 0)[:, None]
    return shares


def _fill_row(limits: Integers, wants: Integers, weights: Integers, fill: Fill, row: int) -> None:
    """Apply the scalar law to one row, with names that sort as the columns do."""
    claims = {
        f"{column:08}": Claim(None if want == UNBOUNDED else want, weight)
        for column, (want, weight) in enumerate(
            zip(wants[row].tolist(), weights[row].tolist(), strict=True)
        )
        if weight
    }
    split = max_min(int(limits[row]), claims)
    fill.targets[row] = 0
    for name, target in split.targets.items():
        fill.targets[row, int(name)] = target
    fill.levels[row] = NO_LEVEL if split.water_level is None else split.water_level
