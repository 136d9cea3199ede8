"""Every mishap is over when it must be, and afterwards all is as if there had been none.

- *Undone*: what the bench itself does to undo it, such as the start of a sidecar, takes its time and no
  longer.
- *Recovered* (recovery_window.py) must have been the case at some moment between the end of a mishap and
  `recovery_s` later; where the times come from stands with the mishaps (deploy.chaos.mishaps).
- *Going on*: a mishap that stops no traffic leaves at least 80 % of the limit in every five
  seconds of it; and each broker whose traffic it does not stop has half of a fair share in every three.
- *Calm*: from a recovery to the next mishap every five seconds have at least 80 % of the limit, and all
  sidecars were ACTIVE at some moment of them.
- *The end*: over the last ten seconds of load the brokers together admit at least 95 % of the limit and
  at most 103 %, each broker that serves a topic is within a tenth of C/N of its equal share, all
  sidecars are ACTIVE, no change is still converging, and sidecars that recorded record. Nothing needs a
  person. While the machine itself stood still (standstills.py), nothing can be admitted: that time is
  not counted for the lower bounds.

Every topic is offered more than the limit, so the fair share of each broker that serves one is C/N, N
being those that do. Targets are 1 % and 5 % (`make demo` measures them); here clients, brokers and the
bench share a few cores with whatever else runs, and the rest of the way is left to that: a bucket saves
up 0.05 s, so whatever stands still for longer, if only for want of a core, has lost the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deploy.chaos.checker.counted import Counted
from deploy.chaos.checker.history import Breach, History, Mishap
from deploy.chaos.checker.recovery_window import (
    ACTIVE,
    RecoveryWindow,
    Span,
    all_active,
    calm,
    steps,
)
from deploy.chaos.checker.standstills import Standstills

_GOING_ON_AT = 0.8
_GOING_ON_WINDOW_S = 5.0
_SHORTEST_CALM_S = 1.0
_SPARED_AT = 0.5
_SPARED_WINDOW_S = 3.0
LAST_S = 10.0
_LAST_AT = (0.95, 1.03)
_SHARE_WITHIN = 0.1


def check(
    history: History, counted: Counted, recovery_windows: Sequence[RecoveryWindow]
) -> Iterator[Breach]:
    """Look at every mishap, at the calm in between, and at the end."""
    for recovery_window in recovery_windows:
        mishap = recovery_window.mishap
        took_s = mishap.ended_s - mishap.began_s
        if took_s > mishap.undone_within_s:
            yield Breach("undone", f"{mishap.what}: undone only after {took_s:.0f} s")
        if recovery_window.recovered_s is None:
            yield Breach(
                "recovery", f"{mishap.what}: not recovered {mishap.recovery_s:.0f} s later"
            )
        yield from _going_on(history, counted, mishap)
    for span in calm(history, recovery_windows):
        yield from _calm(history, counted, span)
    yield from _end(history, counted)


def _going_on(history: History, counted: Counted, mishap: Mishap) -> Iterator[Breach]:
    if not mishap.stops:
        rate = min(
            counted.rate(from_s, from_s + _GOING_ON_WINDOW_S)
            for from_s in _windows((mishap.began_s, mishap.ended_s), _GOING_ON_WINDOW_S)
        )
        if rate < _GOING_ON_AT * history.limit:
            yield Breach(
                "going on",
                f"{mishap.what}: {rate:,.0f}/s passed of {history.limit:,}/s meanwhile",
            )
    serving = _serving(history, mishap.began_s - _SPARED_WINDOW_S, mishap.ended_s)
    for broker in sorted(serving - mishap.stops):
        rate = min(
            counted.rates(from_s, from_s + _SPARED_WINDOW_S).get(broker, 0.0)
            for from_s in _windows((mishap.began_s, mishap.ended_s), _SPARED_WINDOW_S)
        )
        if rate < _SPARED_AT * history.limit / len(serving):
            yield Breach("going on", f"{mishap.what}: {broker} admitted {rate:,.0f}/s meanwhile")


def _calm(history: History, counted: Counted, span: Span) -> Iterator[Breach]:
    width_s = min(_GOING_ON_WINDOW_S, span[1] - span[0])
    if width_s < _SHORTEST_CALM_S:
        return
    starts_s = _windows(span, width_s)
    from_s = min(starts_s, key=lambda from_s: counted.rate(from_s, from_s + width_s))
    rate = counted.rate(from_s, from_s + width_s)
    when = f"from {from_s - history.settled_s:.1f} s on"
    if rate < _GOING_ON_AT * history.limit:
        yield Breach("calm", f"{rate:,.0f}/s pass for {width_s:.1f} s {when}, and nothing is wrong")
    if width_s < _GOING_ON_WINDOW_S:
        return
    active = all_active(history)
    for from_s in starts_s:
        if not any(from_s <= moment_s <= from_s + width_s for moment_s in active):
            when = f"from {from_s - history.settled_s:.1f} s on"
            yield Breach("calm", f"Not all sidecars are ACTIVE {when}, and nothing is wrong")
            return


def _windows(span: Span, width_s: float) -> Sequence[float]:
    """Where windows of this width begin in a time, at least one."""
    return steps(span[0], max(span[0], span[1] - width_s))


def _serving(history: History, from_s: float, until_s: float) -> set[str]:
    return {s.broker for s in history.samples if from_s <= s.sent_s <= until_s}


def _end(history: History, counted: Counted) -> Iterator[Breach]:
    from_s = history.ended_s - LAST_S
    standstills = Standstills(history.samples, history.misses)
    moving = 1 - standstills.seconds(from_s, history.ended_s) / LAST_S
    rate = counted.rate(from_s, history.ended_s)
    lowest, highest = _LAST_AT
    if not lowest * moving <= rate / history.limit <= highest:
        yield Breach("end", f"{rate:,.0f}/s pass at the end, the limit is {history.limit:,}/s")
    yield from _shares(history, counted, moving)
    last = history.sweeps[-1] if history.sweeps else {}
    for sidecar, word in last.items():
        if word.state != ACTIVE:
            yield Breach("end", f"The sidecar of {sidecar} is {word.state or 'silent'} at the end")
    for change in history.unsettled:
        yield Breach("end", f"Never settled: {change}")
    for sidecar in history.not_recording:
        yield Breach("end", f"The sidecar of {sidecar} does not record any more")


def _shares(history: History, counted: Counted, moving: float) -> Iterator[Breach]:
    from_s = history.ended_s - LAST_S
    serving = _serving(history, from_s, history.ended_s)
    if not serving:
        yield Breach("end", "No broker serves a topic at the end")
        return
    share = history.limit / len(serving)
    rates = counted.rates(from_s, history.ended_s)
    for broker in sorted(serving):
        rate = rates.get(broker, 0.0)
        if not (moving - _SHARE_WITHIN) * share <= rate <= (1 + _SHARE_WITHIN) * share:
            yield Breach("end", f"{broker} admits {rate:,.0f}/s, its share is {share:,.0f}/s")
