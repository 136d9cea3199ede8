"""The limit holds in every window, and local limits stay within what certificates say.

**Windows.** With C the group's limit, what all brokers together count in any T seconds is at most::

    (C + outside) x (T + burst + late)

- ``burst``: each bucket may have saved up so many seconds of its own part.
- ``late``: a message is counted by its broker a little after the gate has let it through. 0.1 s, since
  client, gate, broker and the one who asks share a few cores; over ten seconds that is 1 %. While a
  broker recovers it is 0.5 s: a Java that has just come back compiles, and stands still meanwhile.
  When the machine itself stood still before the window, it is so much more (standstills.py).
- ``outside``: under ``balanced``, what a sidecar that may have lost its place in the membership goes on
  with: the highest limit that it had from just before the mishap until its recovery. The others cannot
  tell it from a dead one, and ``partitionPolicy`` says that traffic comes first. Under ``strict``: 0.

A mishap that makes a broker stand still *delays* counting: what its gate let through meanwhile is counted
in one go later. A window that overlaps such a mishap, or the seconds after it, is widened to the moment
when it began, and so covers the time in which those messages were let through.

A counter was read somewhere between question and answer. So a window's rise is taken from two curves,
one that has every count at the moment of the question and one that has it at that of the answer: the
rise between "at the answer" and "at the question" is at most what really passed.

**Moments.** The local limits of all sidecars never add up to more than the lowest certificate, and under
``strict`` to more than C. Sidecars are not asked at one instant, so each counts with the least that it
said in three sweeps in a row, and certificates with the most: what is found is no artefact of asking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from deploy.chaos.checker.history import Finding, History, Mishap, Word
from deploy.chaos.checker.standstills import Standstills
from deploy.demo.curves import Curve, curves, total

STRICT = "strict"
WIDTHS_S = (1.0, 10.0)
LATE_S = 0.1
RECOVERING_LATE_S = 0.5
#: For how long after a mishap a broker may still be counting what waited for it.
DELAYED_S = 5.0
#: How long before a mishap a limit may have been said that is still in force when it begins.
_BEFORE_S = 2.0


class Counted:
    """What brokers counted, as two curves with the truth in between."""

    def __init__(self, history: History) -> None:
        asked = [replace(sample, answered_s=sample.sent_s) for sample in history.samples]
        told = [replace(sample, sent_s=sample.answered_s) for sample in history.samples]
        self._asked = curves(asked, history.misses)
        self._told = curves(told, history.misses)

    @property
    def times(self) -> Sequence[float]:
        """Every moment at which the curves may bend, in order."""
        both = (*self._asked.values(), *self._told.values())
        return sorted({moment for curve in both for moment in curve.times})

    def surely(self, from_s: float, until_s: float) -> float:
        """The messages that certainly were counted in this time."""
        return max(0.0, _until(self._told, until_s) - _until(self._asked, from_s))

    def rate(self, from_s: float, until_s: float) -> float:
        """The best estimate of the messages per second of all brokers together."""
        length_s = until_s - from_s
        both = (total(self._asked, from_s, length_s), total(self._told, from_s, length_s))
        return sum(both) / 2

    def rates(self, from_s: float, until_s: float) -> dict[str, float]:
        """The same for every broker that counted something."""
        length_s = until_s - from_s
        return {
            broker: (curve.rate(from_s, length_s) + self._told[broker].rate(from_s, length_s)) / 2
            for broker, curve in self._asked.items()
        }


def _until(by_broker: Mapping[str, Curve], moment_s: float) -> float:
    return sum(curve.count(moment_s) for curve in by_broker.values())


def check(history: History, counted: Counted) -> Iterator[Finding]:
    """Look at every window and every moment."""
    yield from _windows(history, counted)
    yield from _moments(history)


def _windows(history: History, counted: Counted) -> Iterator[Finding]:
    allowance = Allowance(history)
    worst: dict[float, tuple[float, str]] = {}
    looked_at = 0
    for width_s in WIDTHS_S:
        for moment_s in counted.times:
            for start_s in (moment_s, moment_s - width_s):
                end_s = start_s + width_s
                if start_s < history.settled_s or end_s > history.ended_s:
                    continue
                looked_at += 1
                from_s = _widened(history.mishaps, start_s, end_s)
                allowed = allowance.most(from_s, end_s)
                passed = counted.surely(from_s, end_s)
                if passed / allowed > max(1.0, worst.get(width_s, (1.0, ""))[0]):
                    text = (
                        f"{passed:,.0f} messages in {end_s - from_s:.1f} s from "
                        f"{start_s - history.settled_s:.1f} s on, where {allowed:,.0f} are allowed"
                    )
                    worst[width_s] = (passed / allowed, text)
    if not looked_at:
        yield Finding("windows", "No window was counted, nothing is shown")
    for width_s, (_, text) in worst.items():
        yield Finding("exceeded", f"windows of {width_s:g} s, the worst: {text}")


def _widened(mishaps: Sequence[Mishap], start_s: float, end_s: float) -> float:
    """The start of a window, or of the mishap that delayed what is counted in it."""
    delaying = [
        mishap.began_s
        for mishap in mishaps
        if mishap.delays and mishap.began_s < end_s and start_s < mishap.ended_s + DELAYED_S
    ]
    return min([start_s, *delaying])


class Allowance:
    """How many messages may be counted in a time."""

    def __init__(self, history: History) -> None:
        self._history = history
        #: From when until when which sidecar may add how much; nobody does to a strict group.
        self._outside = [
            (mishap.began_s, mishap.ended_s + mishap.recovery_s, sidecar, held)
            for mishap in history.mishaps
            if history.policy != STRICT
            for sidecar, held in _held_outside(history, mishap).items()
        ]
        self._standstills = Standstills(history.samples, history.misses)

    def most(self, from_s: float, until_s: float) -> float:
        """The most messages in this time."""
        added: dict[str, int] = {}
        for began_s, over_s, sidecar, held in self._outside:
            if began_s < until_s and from_s < over_s:
                added[sidecar] = max(added.get(sidecar, 0), held)
        limit = self._history.limit + sum(added.values())
        return limit * (until_s - from_s + self._history.burst_s + self._late_s(from_s, until_s))

    def _late_s(self, from_s: float, until_s: float) -> float:
        recovering = any(
            mishap.began_s < until_s and from_s < mishap.ended_s + mishap.recovery_s
            for mishap in self._history.mishaps
            if mishap.delays
        )
        late_s = RECOVERING_LATE_S if recovering else LATE_S
        return late_s + self._standstills.seconds(from_s - RECOVERING_LATE_S, from_s + LATE_S)


def _held_outside(history: History, mishap: Mishap) -> dict[str, int]:
    """The most that each sidecar that may be outside of the membership held around a mishap."""
    from_s, until_s = mishap.began_s - _BEFORE_S, mishap.ended_s + mishap.recovery_s
    near = [
        sweep
        for sweep in history.sweeps
        if any(from_s <= word.answered_s and word.asked_s <= until_s for word in sweep.values())
    ]
    return {
        sidecar: max((sweep[sidecar].limit or 0 for sweep in near if sidecar in sweep), default=0)
        for sidecar in mishap.outside
    }


def _moments(history: History) -> Iterator[Finding]:
    if len(history.sweeps) < 3:
        yield Finding("certificate", "Sidecars were hardly asked, nothing is shown")
    for before, sweep, after in zip(
        history.sweeps, history.sweeps[1:], history.sweeps[2:], strict=False
    ):
        held = sum(_least(before, sweep, after, sidecar) for sidecar in sweep)
        certified = _lowest_certificate(before, sweep, after)
        at_s = min(word.asked_s for word in sweep.values()) - history.settled_s
        if certified is not None and held > certified:
            yield Finding(
                "certificate", f"At {at_s:.1f} s {held:,} is held and {certified:,} was certified"
            )
        if history.policy == STRICT and held > history.limit:
            yield Finding("strict", f"At {at_s:.1f} s {held:,} is held of {history.limit:,}")


def _least(
    before: Mapping[str, Word], sweep: Mapping[str, Word], after: Mapping[str, Word], sidecar: str
) -> int:
    """The limit that a sidecar held all the while; 0 if it did not answer all the while."""
    said = [each[sidecar].limit if sidecar in each else None for each in (before, sweep, after)]
    return min(limit or 0 for limit in said)


def _lowest_certificate(*sweeps: Mapping[str, Word]) -> int | None:
    """The lowest of all certificates, each with the most that it said; None if there is none.

    One that was not given in all of the sweeps is left out: its giver was cut off meanwhile.
    """
    lowest: int | None = None
    for sidecar in sweeps[0]:
        said = [sweep[sidecar].certified if sidecar in sweep else None for sweep in sweeps]
        given = [certified for certified in said if certified is not None]
        if len(given) == len(sweeps):
            lowest = max(given) if lowest is None else min(lowest, max(given))
    return lowest
