"""The live screen at one moment, as numbers: what each broker wants, may and does.

How the run is judged is computed once it is over: a search through all samples would hold up the threads
of this process that take them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from deploy.demo.counters import CounterSampler
from deploy.demo.curves import Curve, curves, rate_of, total
from deploy.demo.figures import fair_shares
from deploy.demo.shares import WINDOW_S
from deploy.demo.story import Story
from deploy.demo.system import System

HISTORY_S = 30
#: Two sampling periods: what is younger may still lack a sample behind it.
_SETTLED_DATA_S = 0.4


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker: rates in messages per second, None where there is none or it is not known."""

    broker: str
    state: str
    demand: int
    limit: int | None
    admitted: float
    fair: int | None
    history: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ScreenFrame:
    """The whole screen: `elapsed_s` since the story began."""

    elapsed_s: float
    act: int
    title: str
    limit: int
    rows: tuple[BrokerRow, ...]
    admitted: float


class FrameMaker:
    """Makes frames of one story."""

    def __init__(self, system: System, story: Story, sampler: CounterSampler) -> None:
        """Look at this story; nothing is asked yet."""
        self._system = system
        self._story = story
        self._sampler = sampler

    def make(self) -> ScreenFrame:
        """Ask the system for its limits and return what there is to show."""
        statuses = self._system.statuses()
        stage = self._story.stage
        now_s = time.monotonic()
        until_s = now_s - _SETTLED_DATA_S
        since_s = until_s - HISTORY_S - WINDOW_S
        recent = [sample for sample in self._sampler.samples if sample.sent_s >= since_s]
        by_broker = curves(recent, self._sampler.misses)
        demands = self._story.demands()
        fair = fair_shares(stage.limit, demands)
        rows = tuple(
            BrokerRow(
                broker=name,
                state=status.state,
                demand=demands.get(name, 0),
                limit=status.limit,
                admitted=rate_of(by_broker, name, until_s - WINDOW_S),
                fair=fair.get(name),
                history=_history(by_broker, name, until_s),
            )
            for name, status in statuses.items()
        )
        return ScreenFrame(
            elapsed_s=now_s - stage.began_s,
            act=stage.number,
            title=stage.title,
            limit=stage.limit,
            rows=rows,
            admitted=total(by_broker, until_s - WINDOW_S),
        )


def _history(by_broker: Mapping[str, Curve], broker: str, until_s: float) -> tuple[float, ...]:
    return tuple(
        rate_of(by_broker, broker, until_s - n * WINDOW_S) for n in range(HISTORY_S, 0, -1)
    )
