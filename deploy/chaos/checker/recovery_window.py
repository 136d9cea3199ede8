"""The time after each mishap: when all was as before, until when it excuses anything, and calm.

- *Recovered*: all sidecars say that they are ACTIVE, every topic has its producer again, and two
  seconds have 95 % of the limit and half of a fair share for each broker that serves a topic.
- A mishap *excuses* until 5 s after that, since connections of consumers come back by themselves and
  brokers count what waited; if it did not recover, until it should have.
- It is *calm* from a recovery to the next mishap, and before the first one: then nothing excuses anything
  but what has just been said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf

from deploy.chaos.checker.counted import Counted
from deploy.chaos.checker.history import History, Mishap
from deploy.demo.recording import Sample

ACTIVE = "ACTIVE"
_RECOVERED_AT = 0.95
_SHARED_AT = 0.5
_WINDOW_S = 2.0
_EXCUSED_S = 5.0
_STEP_S = 0.25

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RecoveryWindow:
    """A mishap and what came of it.

    Attributes:
        mishap: what happened.
        recovered_s: how long after it all was as before, in seconds; None if it was too long.
    """

    mishap: Mishap
    recovered_s: float | None

    @property
    def over_s(self) -> float:
        """When all was as before, or should have been."""
        after_s = self.mishap.recovery_s if self.recovered_s is None else self.recovered_s
        return self.mishap.ended_s + after_s

    @property
    def excused_s(self) -> float:
        """Until when it excuses what it excuses."""
        return self.over_s + _EXCUSED_S

    def excuses(self, from_s: float, until_s: float) -> bool:
        """Whether some of this time is excused."""
        return self.mishap.began_s <= until_s and from_s <= self.excused_s


def recovery_windows(history: History, counted: Counted) -> Sequence[RecoveryWindow]:
    """Return what came of every mishap, in order."""
    return [
        RecoveryWindow(mishap, recovered_after(history, counted, mishap))
        for mishap in history.mishaps
    ]


def calm(history: History, found: Sequence[RecoveryWindow]) -> Sequence[Span]:
    """Return the times from one recovery to the next mishap; none after one that did not recover."""
    recoveries = [each.over_s if each.recovered_s is not None else inf for each in found]
    beginnings = [each.mishap.began_s for each in found]
    spans = zip([history.settled_s, *recoveries], [*beginnings, history.ended_s], strict=True)
    return [(from_s, until_s) for from_s, until_s in spans if from_s < until_s]


def recovered_after(history: History, counted: Counted, mishap: Mishap) -> float | None:
    """Return how long after a mishap all was as before, in seconds; None if it was too long."""
    last_s = mishap.ended_s + mishap.recovery_s
    topics = {sample.topic for sample in history.samples}
    samples = [s for s in history.samples if mishap.ended_s <= s.at_s <= last_s + _WINDOW_S]
    active = all_active(history)
    for from_s in steps(mishap.ended_s, last_s):
        until_s = from_s + _WINDOW_S
        if until_s > history.ended_s:
            return None
        if (
            any(from_s <= moment_s <= until_s for moment_s in active)
            and counted.rate(from_s, until_s) >= _RECOVERED_AT * history.limit
            and _shared(
                [s for s in samples if from_s <= s.at_s <= until_s and s.clients],
                topics,
                counted.rates(from_s, until_s),
                history.limit,
            )
        ):
            return until_s - mishap.ended_s
    return None


def all_active(history: History) -> Sequence[float]:
    """Return the moments at which all sidecars had said that they are ACTIVE."""
    return [
        max(word.answered_s for word in sweep.values())
        for sweep in history.sweeps
        if all(word.state == ACTIVE for word in sweep.values())
    ]


def steps(from_s: float, until_s: float) -> Sequence[float]:
    """Return moments a quarter of a second apart, the first one included."""
    count = int((until_s - from_s) / _STEP_S)
    return [from_s + step * _STEP_S for step in range(count + 1)]


def _shared(
    samples: Sequence[Sample], topics: AbstractSet[str], rates: Mapping[str, float], limit: int
) -> bool:
    """Say whether every topic has its producer, and each serving broker passes half of its share."""
    serving = {sample.broker for sample in samples}
    return {sample.topic for sample in samples} == topics and all(
        rates[broker] >= _SHARED_AT * limit / len(serving) for broker in serving
    )
