"""The schedule of mishaps, their places and lengths: a function of the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from deploy.chaos.mishaps import MISHAPS, MishapKind


@dataclass(frozen=True, slots=True)
class Planned:
    """One mishap to come.

    Attributes:
        name: of its kind.
        target: the broker that it happens to, or whose sidecar.
        seconds: how long it lasts, as far as that can be chosen.
    """

    name: str
    target: str
    seconds: float

    @property
    def kind(self) -> MishapKind:
        """The row of `MISHAPS` that it is."""
        return MISHAPS[self.name]

    def __str__(self) -> str:
        """Say what will happen."""
        return self.kind.what.format(target=self.target, seconds=self.seconds)


def schedule(
    seed: int, count: int, brokers: Sequence[str], names: Sequence[str] = tuple(MISHAPS)
) -> list[Planned]:
    """Return this many mishaps, the same for the same seed."""
    return list(islice(_endless(random.Random(seed), brokers, names), count))


def of_names(seed: int, names: Sequence[str], brokers: Sequence[str]) -> list[Planned]:
    """Return these mishaps in this order, where and how long by the seed."""
    dice = random.Random(seed)
    return [_planned(dice, name, brokers) for name in names]


def _endless(
    dice: random.Random, brokers: Sequence[str], names: Sequence[str]
) -> Iterator[Planned]:
    """Deal from a shuffled deck with one of each, so that a long run has met them all."""
    while True:
        deck = sorted(names)
        dice.shuffle(deck)
        for name in deck:
            yield _planned(dice, name, brokers)


def _planned(dice: random.Random, name: str, brokers: Sequence[str]) -> Planned:
    kinds: Mapping[str, MishapKind] = MISHAPS
    shortest_s, longest_s = kinds[name].seconds
    return Planned(name, dice.choice(brokers), round(dice.uniform(shortest_s, longest_s), 1))
