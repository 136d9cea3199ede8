"""One figure, as a line of JSON; and how to measure contenders by turns."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure.

    Args:
        name: area/figure.
        value: ours; None is "never", as of something that does not settle.
        unit: of the value, the peers' values and the target.
        better: which direction is good.
        peers: the same of others, by name, measured in this run or published.
        target: what is to be reached; None where nothing is promised.
        about: what was measured or compared, where the name does not say it.
    """

    name: str
    value: float | None
    unit: str
    better: Literal["higher", "lower"]
    peers: Mapping[str, float | None] = field(default_factory=dict)
    target: float | None = None
    about: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without a target."""
        if self.target is None:
            return None
        if self.value is None:
            return False
        return self.value <= self.target if self.better == "lower" else self.value >= self.target

    def line(self) -> str:
        """The figure as one line of JSON."""
        about = {"about": self.about} if self.about else {}
        return json.dumps(
            {
                "figure": self.name,
                "value": _short(self.value),
                "unit": self.unit,
                "better": self.better,
                "peers": {name: _short(value) for name, value in self.peers.items()},
                "target": self.target,
                "met": self.met,
                **about,
            }
        )


Measurement = Callable[[], Iterable[Figure]]


def median_seconds(
    contenders: Mapping[str, Callable[[], object]], repetitions: int
) -> dict[str, float]:
    """The median time of every contender, each run once per repetition, by turns.

    By turns, because a machine's speed drifts: what disturbs one contender disturbs them all. Processor
    time of this thread, because other programs' turns are no contender's cost.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repetitions):
        for name, run in contenders.items():
            started = time.thread_time()
            run()
            times[name].append(time.thread_time() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}


def _short(value: float | None) -> float | None:
    """Four significant digits, whole numbers as such."""
    if value is None:
        return None
    rounded = float(f"{value:.4g}") if abs(value) < 1000 else round(value)
    return int(rounded) if rounded == int(rounded) else rounded
