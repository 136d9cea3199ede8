"""The limit holds in every window, and local limits stay within what certificates say.

**Windows.** With C the group's limit, what all brokers together count in any T seconds is at most::

    (C + outside) x (T + burst + late)

- ``burst``: the seconds of its own part that each bucket may have saved up. A broker's own limiter fills
  one of I/(I+1) s anew at each interval of I (native enforcement): one more than the intervals that a
  window has room for.
- ``late``: a message is counted by its broker a little after the gate has let it through. 0.1 s, since
  client, gate, broker and this check share a few cores; over ten seconds that is 1 %. While a
  broker recovers it is 0.5 s: a Java that has just come back compiles, and stands still meanwhile.
  When the machine itself stood still before the window, it is longer by that time (standstills.py).
- ``outside``: under ``balanced``, what a sidecar that may have lost its place in the membership goes on
  with: the highest limit that it had from just before the mishap until its recovery. The others cannot
  tell it from a dead one, and ``partitionPolicy`` says that traffic comes first. Under ``strict``: 0.

A mishap that makes a broker stand still delays counting: what its gate let through meanwhile is counted
later. A window that begins during such a mishap or its recovery may exceed its bound by the messages that
can have been *waiting*: no client sends more ahead of its receipts. With native enforcement nothing waits
in between, but a broker that starts anew lets the whole record pass for its first interval: that number
is excused, once.

Windows are one second, ten, thirty and sixty: the longer, the less of ``burst`` and ``late``.

**Moments.** The local limits of all sidecars never add up to more than the lowest certificate, and under
``strict`` to more than C. Sidecars are not asked at one instant, so each counts with the lowest limit
that it said in three sweeps in a row, and certificates with the highest: no fault is an artefact of
asking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deploy.chaos.checker.counted import Counted
from deploy.chaos.checker.history import Breach, History, Word
from deploy.chaos.checker.recovery_window import RecoveryWindow
from deploy.chaos.checker.standstills import Standstills

STRICT = "strict"
WIDTHS_S = (1.0, 10.0, 30.0, 60.0)
LATE_S = 0.1
RECOVERING_LATE_S = 0.5
#: The greatest age of a statement whose limit may be in force when a mishap begins.
_BEFORE_S = 2.0


def check(
    history: History, counted: Counted, recovery_windows: Sequence[RecoveryWindow]
) -> Iterator[Breach]:
    """Look at every window and every moment."""
    yield from _windows(history, counted, recovery_windows)
    yield from _moments(history)
    yield from _said_at_the_end(history)


def _windows(
    history: History, counted: Counted, recovery_windows: Sequence[RecoveryWindow]
) -> Iterator[Breach]:
    allowance = Allowance(history, recovery_windows)
    worst: dict[float, tuple[float, str]] = {}
    looked_at = 0
    for width_s in WIDTHS_S:
        for moment_s in counted.times:
            for start_s in (moment_s, moment_s - width_s):
                end_s = start_s + width_s
                if start_s < history.settled_s or end_s > history.ended_s:
                    continue
                looked_at += 1
                allowed = allowance.most(start_s, end_s)
                passed = counted.surely(start_s, end_s)
                if passed / allowed > max(1.0, worst.get(width_s, (1.0, ""))[0]):
                    text = (
                        f"{passed:,.0f} messages in {width_s:.0f} s from "
                        f"{start_s - history.settled_s:.1f} s on, where {allowed:,.0f} are allowed"
                    )
                    worst[width_s] = (passed / allowed, text)
    if not looked_at:
        yield Breach("windows", "No window was counted, nothing is shown")
    for width_s, (_, text) in worst.items():
        yield Breach("exceeded", f"windows of {width_s:g} s, the worst: {text}")


class Allowance:
    """The messages that may be counted in a time."""

    def __init__(self, history: History, recovery_windows: Sequence[RecoveryWindow]) -> None:
        self._history = history
        self._delaying = [each for each in recovery_windows if each.mishap.waiting]
        #: The limits that sidecars may add after mishaps; none to a strict group.
        self._outside = [
            (recovery_window, sidecar, held)
            for recovery_window in recovery_windows
            if history.policy != STRICT
            for sidecar, held in _held_outside(history, recovery_window).items()
        ]
        self._standstills = Standstills(history.samples, history.misses)

    def most(self, from_s: float, until_s: float) -> float:
        """The most messages in this time."""
        added: dict[str, int] = {}
        for recovery_window, sidecar, held in self._outside:
            if recovery_window.excuses(from_s, until_s):
                added[sidecar] = max(added.get(sidecar, 0), held)
        limit = self._history.limit + sum(added.values())
        waiting = sum(
            each.mishap.waiting
            for each in self._delaying
            if each.mishap.began_s < from_s <= each.excused_s
        )
        span_s = until_s - from_s + self._history.burst_s + self._late_s(from_s, until_s)
        return limit * span_s + waiting

    def _late_s(self, from_s: float, until_s: float) -> float:
        recovering = any(each.excuses(from_s, until_s) for each in self._delaying)
        late_s = RECOVERING_LATE_S if recovering else LATE_S
        return late_s + self._standstills.seconds(from_s - RECOVERING_LATE_S, from_s + LATE_S)


def _held_outside(history: History, recovery_window: RecoveryWindow) -> dict[str, int]:
    """The most that each sidecar that may be outside of the membership held around a mishap."""
    from_s, until_s = recovery_window.mishap.began_s - _BEFORE_S, recovery_window.excused_s
    near = [
        sweep
        for sweep in history.sweeps
        if any(from_s <= word.answered_s and word.asked_s <= until_s for word in sweep.values())
    ]
    return {
        sidecar: max((sweep[sidecar].limit or 0 for sweep in near if sidecar in sweep), default=0)
        for sidecar in recovery_window.mishap.outside
    }


def _moments(history: History) -> Iterator[Breach]:
    certificates = 0
    for before, sweep, after in zip(
        history.sweeps, history.sweeps[1:], history.sweeps[2:], strict=False
    ):
        held = sum(_least(before, sweep, after, sidecar) for sidecar in sweep)
        certified = _lowest_certificate(before, sweep, after)
        certificates += certified is not None
        at_s = min(word.asked_s for word in sweep.values()) - history.settled_s
        if certified is not None and held > certified:
            yield Breach(
                "certificate", f"At {at_s:.1f} s {held:,} is held and {certified:,} was certified"
            )
        if history.policy == STRICT and held > history.limit:
            yield Breach("strict", f"At {at_s:.1f} s {held:,} is held of {history.limit:,}")
    if not certificates:
        yield Breach("certificate", "Sidecars certified hardly anything, nothing is shown")


def _said_at_the_end(history: History) -> Iterator[Breach]:
    """Find sidecars without a certificate: silence is held against none, so at the end all must speak."""
    last = history.sweeps[-1] if history.sweeps else {}
    for sidecar, word in last.items():
        if word.limit is None or word.certified is None:
            yield Breach("certificate", f"The sidecar of {sidecar} tells no limit at the end")


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
