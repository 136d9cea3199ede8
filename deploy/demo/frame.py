"""The live screen at one moment, as numbers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deploy.demo.counters import CounterSampler
from deploy.demo.curves import Curve, curves, rate_of, total
from deploy.demo.figures import fair_shares, peak, settle
from deploy.demo.recording import Act
from deploy.demo.shares import WINDOW_S
from deploy.demo.story import Story, StoryProgress
from deploy.demo.system import System

HISTORY_S = 30
#: Two sampling periods: what is younger may still lack a sample behind it.
_SETTLED_DATA_S = 0.4
#: How far the screen looks back. To look for the end of settling in minutes of samples takes seconds, for
#: which the samplers of this process would stand still.
_LONG_S = 60.0


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
    """The whole screen: `elapsed_s` since the story began, `peak` as a share above the limit."""

    elapsed_s: float
    act: int
    title: str
    limit: int
    rows: tuple[BrokerRow, ...]
    admitted: float
    peak: float
    settled: str


class FrameMaker:
    """Makes frames of one story; remembers the highest window that it has seen."""

    def __init__(self, system: System, story: Story, sampler: CounterSampler) -> None:
        """Look at this story; nothing is asked yet."""
        self._system = system
        self._story = story
        self._sampler = sampler
        self._peak = -1.0
        self._looked_until_s: float | None = None

    def make(self) -> ScreenFrame:
        """Ask the system for its limits and return what there is to show."""
        statuses = self._system.statuses()
        stage = self._story.stage
        now_s = time.monotonic()
        until_s = now_s - _SETTLED_DATA_S
        since_s = max(stage.known_s or now_s, now_s - _LONG_S)
        by_broker = self._recent(min(since_s, now_s - HISTORY_S) - WINDOW_S)
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
        self._look_for_peak(by_broker, stage, until_s)
        return ScreenFrame(
            elapsed_s=now_s - stage.began_s,
            act=stage.number,
            title=stage.title,
            limit=stage.limit,
            rows=rows,
            admitted=total(by_broker, until_s - WINDOW_S),
            peak=self._peak,
            settled=_settled(by_broker, stage, demands, until_s),
        )

    def _recent(self, since_s: float) -> dict[str, Curve]:
        samples = [sample for sample in self._sampler.samples if sample.sent_s >= since_s]
        return curves(samples, self._sampler.misses)

    def _look_for_peak(
        self, by_broker: Mapping[str, Curve], stage: StoryProgress, until_s: float
    ) -> None:
        if not stage.limits:
            return
        since_s = self._looked_until_s or stage.began_s
        # Windows that began before are in it, since only now all of them can be seen.
        highest = peak(by_broker, tuple(stage.limits), since_s - WINDOW_S, until_s)
        self._peak = max(self._peak, highest)
        self._looked_until_s = until_s


def _settled(
    by_broker: Mapping[str, Curve], stage: StoryProgress, demands: Mapping[str, int], until_s: float
) -> str:
    if stage.known_s is None or not demands:
        return f"waiting: {stage.title}"
    if until_s - stage.known_s > _LONG_S:
        return f"{stage.title} for {until_s - stage.known_s:.0f} s"
    so_far = Act(
        event=stage.event,
        title=stage.title,
        happened_s=stage.known_s,
        known_s=stage.known_s,
        ended_s=until_s,
        limit=stage.limit,
        demands=demands,
    )
    settled_s = settle(by_broker, so_far)
    if settled_s is None:
        return f"not settled {max(0.0, until_s - stage.known_s):.0f} s after: {stage.title}"
    return f"settled {settled_s:.1f} s after: {stage.title}"


def _history(by_broker: Mapping[str, Curve], broker: str, until_s: float) -> tuple[float, ...]:
    starts: Sequence[float] = [until_s - n * WINDOW_S for n in range(HISTORY_S, 0, -1)]
    return tuple(rate_of(by_broker, broker, start_s) for start_s in starts)
