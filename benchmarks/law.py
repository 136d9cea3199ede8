"""The allocation laws: exact on how many instances, and how fast for how many groups.

The reference for exactness shares nothing with the law under test: no sorting, no filling. Broker k is
satisfied exactly if the water that just covers it is not more than the limit, and that is summed up for
every k: Σ_i min(wants_i * w_k, wants_k * w_i) <= limit * w_k.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.figures import Figure, Measurement, median_seconds
from benchmarks.trees import differs
from coordinator.core.allocation.fill import UNBOUNDED, Integers, max_min_many
from coordinator.core.allocation.laws import COMPARISON_LAWS, Claim, Law, max_min

INSTANCES = 200_000
MOST_BROKERS = 10
PEER_INSTANCES = 20_000
SCALAR_SAMPLE = 100


@dataclass(frozen=True, slots=True)
class Instances:
    """Random splits of one size: limits (n,), wants and weights (n, brokers)."""

    limits: Integers
    wants: Integers
    weights: Integers

    def of_limits_above(self, least: int, most: int) -> Instances:
        """The first `most` of those with a limit above `least`."""
        rows = np.flatnonzero(self.limits > least)[:most]
        return Instances(self.limits[rows], self.wants[rows], self.weights[rows])

    def claims(self) -> Iterator[tuple[int, dict[str, Claim]]]:
        """Limit and claims of every split, as a law takes them."""
        for limit, wants, weights in zip(
            self.limits.tolist(), self.wants.tolist(), self.weights.tolist(), strict=True
        ):
            yield (
                limit,
                {
                    f"{column:03}": Claim(None if want == UNBOUNDED else want, weight)
                    for column, (want, weight) in enumerate(zip(wants, weights, strict=True))
                },
            )


def exactness() -> Iterator[Figure]:
    """The worst of all deviations from the exact share, in parts of the limit."""
    random = np.random.default_rng(seed=82)
    sizes = range(1, MOST_BROKERS + 1)
    each = -(-INSTANCES // (2 * len(sizes)))
    each_of_peers = PEER_INSTANCES // len(sizes)
    worst = 0.0
    peers = dict.fromkeys(("doorman-fair", "doorman-proportional"), 0.0)
    count = 0
    for brokers in sizes:
        plain = _instances(random, each, brokers, plain=True)
        mixed = _instances(random, each, brokers, plain=False)
        for instances in (plain, mixed):
            worst = max(worst, deviation(max_min, instances, headroom=True))
            count += len(instances.limits)
        for name in peers:
            # Only of what is wanted, and of limits at which its rounding down is nothing: Doorman knows
            # neither headroom nor whole numbers, and that is no mistake.
            large = plain.of_limits_above(10_000, each_of_peers)
            found = deviation(COMPARISON_LAWS[name], large, headroom=False)
            peers[name] = max(peers[name], found)
    about = f"{count:,} instances"
    yield Figure("law/exactness-max-error", worst, "parts of C", "lower", peers, 0, about)


def trees() -> Iterator[Figure]:
    """The law of a tree of groups against its definition in fractions, to the last unit."""
    chance = random.Random(82)  # noqa: S311  # a replayable run, no secret
    wrong = sum(bool(differs(chance)) for _ in range(INSTANCES))
    yield Figure("law/tree-inexact", wrong, f"of {INSTANCES:,} trees", "lower", target=0)


def recompute_many() -> Iterator[Figure]:
    """All splits of a large cluster: 5,000 groups, 100 brokers, 4 dimensions."""
    yield _recompute("law/recompute-5000x100x4", groups=20_000, brokers=100, target_ms=250)


def recompute_one() -> Iterator[Figure]:
    """One split of a very large cluster: 512 brokers."""
    yield _recompute("law/recompute-1x512", groups=1, brokers=512, target_ms=1)


MEASUREMENTS: Mapping[str, Measurement] = {
    "law/exactness-max-error": exactness,
    "law/tree-inexact": trees,
    "law/recompute-5000x100x4": recompute_many,
    "law/recompute-1x512": recompute_one,
}


def _instances(random: np.random.Generator, count: int, brokers: int, *, plain: bool) -> Instances:
    """Demands over many magnitudes, with ties and zeros; weighted and partly hidden if not plain."""
    limits = np.exp(random.uniform(0, np.log(1e9), count)).astype(np.int64)
    relative = np.exp(random.normal(0, 2, (count, brokers))) / brokers
    wants = (relative * limits[:, None]).astype(np.int64)
    tied = random.random((count, brokers)) < 0.2
    wants = np.where(tied, wants[:, :1], wants)
    weights = np.ones_like(wants)
    if not plain:
        weights = random.integers(1, 100, wants.shape)
        wants[random.random(wants.shape) < 0.2] = UNBOUNDED
    return Instances(limits, wants, weights)


def deviation(law: Law, instances: Instances, *, headroom: bool) -> float:
    """The largest distance of a target from its exact share's floor and ceiling, over the limit."""
    floor, ceiling = _exact(instances)
    targets = np.array(
        [
            [law(limit, claims).targets[name] for name in claims]
            for limit, claims in instances.claims()
        ]
    )
    if not headroom:
        floor, ceiling, targets = (
            np.minimum(shares, instances.wants) for shares in (floor, ceiling, targets)
        )
    off = np.maximum(floor - targets, targets - ceiling).max(axis=1)
    if headroom:
        off = np.maximum(off, np.abs(targets.sum(axis=1) - instances.limits))
    return float((np.maximum(off, 0) / instances.limits).max())


def _exact(instances: Instances) -> tuple[Integers, Integers]:
    """The exact max-min shares with headroom, rounded down and up."""
    limits, weights = instances.limits[:, None], instances.weights
    wants = np.minimum(instances.wants, limits + 1)
    covered = np.minimum(
        wants[:, None, :] * weights[:, :, None], wants[:, :, None] * weights[:, None, :]
    ).sum(axis=2)
    satisfied = covered <= limits * weights
    left = limits - np.where(satisfied, wants, 0).sum(axis=1, keepdims=True)
    all_satisfied = satisfied.all(axis=1, keepdims=True)
    sharing = np.where(all_satisfied | ~satisfied, weights, 0)
    parts, whole = left * sharing, sharing.sum(axis=1, keepdims=True)
    base = np.where(satisfied, wants, 0)
    return base + parts // whole, base - (-parts // whole)


def _recompute(name: str, *, groups: int, brokers: int, target_ms: float) -> Figure:
    random = np.random.default_rng(seed=5000)
    limits = random.integers(1000, 1_000_000, groups)
    relative = np.exp(random.normal(0, 1.5, (groups, brokers))) / brokers
    wants = (relative * limits[:, None]).astype(np.int64)
    wants[random.random(wants.shape) < 0.3] = UNBOUNDED
    weights = random.integers(1, 50, wants.shape)
    sample = Instances(limits[:SCALAR_SAMPLE], wants[:SCALAR_SAMPLE], weights[:SCALAR_SAMPLE])
    claims = list(sample.claims())
    scalar = [max_min(limit, each) for limit, each in claims]
    fill = max_min_many(limits, wants, weights)
    for row, split in enumerate(scalar):
        assert fill.targets[row].tolist() == [split.targets[name] for name in claims[row][1]]
    seconds = median_seconds(
        {
            "ours": lambda: max_min_many(limits, wants, weights),
            "scalar": lambda: [max_min(limit, each) for limit, each in claims],
        },
        repetitions=7 if groups > 1 else 200,
    )
    one_by_one = seconds["scalar"] * groups / len(claims)
    return Figure(
        name,
        seconds["ours"] * 1000,
        "ms",
        "lower",
        peers={"the same, one split at a time": one_by_one * 1000},
        target=target_ms,
    )
