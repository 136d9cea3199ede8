"""Every mishap is over when it must be, and at the end all is as if there had been none.

- *Recovered*: all sidecars say that they are ACTIVE, every topic has its producer again, and two
  seconds have 95 % of the limit and half of a fair share for each broker that serves a topic. This must
  have been the case at some moment between the end of a mishap and `recovery_s` later; where the times
  come from stands with the mishaps (deploy.chaos.mishaps).
- *Going on*: a mishap that does not stop traffic leaves at least 80 % of the limit in every five
  seconds of it.
- *The end*: over the last ten seconds of load the brokers together admit at least 95 % of the limit and
  at most 103 %, each broker that serves a topic is within a tenth of C/N of its equal share, all
  sidecars are ACTIVE, no change is still converging, and whoever recorded records. Nothing needs a
  person.

Every topic is offered more than the limit, so the fair share of each broker that serves one is C/N, N
being those that do. Targets are 1 % and 5 % (`make demo` measures them); here clients, brokers and the
bench share a few cores with whatever else runs, and the rest of the way is left to that: a bucket saves
up 0.05 s, so whatever stands still for longer, if only for want of a core, has lost the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from deploy.chaos.checker.bounds import Counted
from deploy.chaos.checker.history import Finding, History, Mishap
from deploy.demo.recording import Sample

ACTIVE = "ACTIVE"
_RECOVERED_AT = 0.95
_SHARED_AT = 0.5
_WINDOW_S = 2.0
_GOING_ON_AT = 0.8
_GOING_ON_WINDOW_S = 5.0
LAST_S = 10.0
_LAST_AT = (0.95, 1.03)
_SHARE_WITHIN = 0.1
_STEP_S = 0.25


def check(history: History, counted: Counted) -> Iterator[Finding]:
    """Look at every mishap, and at the end."""
    for mishap in history.mishaps:
        if recovered_after(history, counted, mishap) is None:
            yield Finding(
                "recovery", f"{mishap.what}: not recovered {mishap.recovery_s:.0f} s later"
            )
        if not mishap.stops:
            yield from _going_on(history, counted, mishap)
    yield from _end(history, counted)


def recovered_after(history: History, counted: Counted, mishap: Mishap) -> float | None:
    """Return how long after a mishap all was as before, in seconds; None if it was too long."""
    last_s = mishap.ended_s + mishap.recovery_s
    topics = {sample.topic for sample in history.samples}
    samples = [s for s in history.samples if mishap.ended_s <= s.at_s <= last_s + _WINDOW_S]
    active = [
        max(word.answered_s for word in sweep.values())
        for sweep in history.sweeps
        if all(word.state == ACTIVE for word in sweep.values())
    ]
    for from_s in _steps(mishap.ended_s, last_s):
        until_s = from_s + _WINDOW_S
        if until_s > history.ended_s:
            return None
        if (
            any(from_s <= moment_s <= until_s for moment_s in active)
            and counted.rate(from_s, until_s) >= _RECOVERED_AT * history.limit
            and _shared(
                [s for s in samples if from_s <= s.at_s <= until_s and s.publishers],
                topics,
                counted.rates(from_s, until_s),
                history.limit,
            )
        ):
            return until_s - mishap.ended_s
    return None


def _shared(
    samples: Sequence[Sample], topics: AbstractSet[str], rates: Mapping[str, float], limit: int
) -> bool:
    """Say whether every topic has its producer, and whoever serves one passes half of its share."""
    serving = {sample.broker for sample in samples}
    return {sample.topic for sample in samples} == topics and all(
        rates[broker] >= _SHARED_AT * limit / len(serving) for broker in serving
    )


def _going_on(history: History, counted: Counted, mishap: Mishap) -> Iterator[Finding]:
    last_s = max(mishap.began_s, mishap.ended_s - _GOING_ON_WINDOW_S)
    rates = [
        counted.rate(from_s, from_s + _GOING_ON_WINDOW_S)
        for from_s in _steps(mishap.began_s, last_s)
    ]
    if min(rates) < _GOING_ON_AT * history.limit:
        yield Finding(
            "going on",
            f"{mishap.what}: {min(rates):,.0f}/s passed of {history.limit:,}/s meanwhile",
        )


def _end(history: History, counted: Counted) -> Iterator[Finding]:
    from_s = history.ended_s - LAST_S
    rate = counted.rate(from_s, history.ended_s)
    lowest, highest = _LAST_AT
    if not lowest <= rate / history.limit <= highest:
        yield Finding("end", f"{rate:,.0f}/s pass at the end, the limit is {history.limit:,}/s")
    yield from _shares(history, counted, from_s)
    last = history.sweeps[-1] if history.sweeps else {}
    for sidecar, word in last.items():
        if word.state != ACTIVE:
            yield Finding("end", f"The sidecar of {sidecar} is {word.state or 'silent'} at the end")
    for change in history.unsettled:
        yield Finding("end", f"Never settled: {change}")
    for sidecar in history.not_recording:
        yield Finding("end", f"The sidecar of {sidecar} does not record any more")


def _shares(history: History, counted: Counted, from_s: float) -> Iterator[Finding]:
    serving = {s.broker for s in history.samples if from_s <= s.sent_s <= history.ended_s}
    if not serving:
        yield Finding("end", "Nobody serves a topic at the end")
        return
    share = history.limit / len(serving)
    rates = counted.rates(from_s, history.ended_s)
    for broker in sorted(serving):
        if abs(rates.get(broker, 0.0) - share) > _SHARE_WITHIN * share:
            yield Finding(
                "end",
                f"{broker} admits {rates.get(broker, 0.0):,.0f}/s, its share is {share:,.0f}/s",
            )


def _steps(from_s: float, until_s: float) -> Sequence[float]:
    count = int((until_s - from_s) / _STEP_S)
    return [from_s + step * _STEP_S for step in range(count + 1)]
