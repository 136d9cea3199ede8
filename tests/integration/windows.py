"""Rates in windows that follow one another: what is measured must hold in all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from tests.conftest import Measure
from tests.integration.sliding import Counted

Rates = Mapping[str, float]
WINDOWS = 3


def windows(count: Callable[[], Counted], seconds: float, number: int = WINDOWS) -> list[Rates]:
    """Return rates per second by name, in this number of windows.

    Args:
        count: reads the counts.
        seconds: the length of a window.
        number: of windows.
    """
    seen = [count()]
    for _ in range(number):
        time.sleep(seconds)
        seen.append(count())
    return [
        {
            name: (after[name][0] - was) / (after[name][1] - at_s)
            for name, (was, at_s) in before.items()
        }
        for before, after in pairwise(seen)
    ]


def hold(
    measured: Measure, what: str, seen: Sequence[Rates], expected: Rates, within: float = 0.03
) -> None:
    """Note, of each name, the rate that is furthest from the expected one in any of the windows."""
    for name, rate in expected.items():
        worst = max((each[name] for each in seen), key=lambda found: abs(found - rate))
        bounds = rate * (1 - within), rate * (1 + within)
        measured(f"{what}, {name}", worst, "/s", least=bounds[0], most=bounds[1])


def sums(seen: Sequence[Rates]) -> list[Rates]:
    """Return the rates of all names together, in each window."""
    return [{"sum": sum(each.values())} for each in seen]


def written(seen: Sequence[Rates]) -> str:
    """Return the mean rates, in the order of their names, in words."""
    names = seen[0]
    return " / ".join(f"{sum(each[name] for each in seen) / len(seen):,.0f}" for name in names)
