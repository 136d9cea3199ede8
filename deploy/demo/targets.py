"""The targets of a run, and which of them it missed.

Rounds are report intervals of one second. The reclaim target is the ZooKeeper session's timeout, which
is the time for which the death cannot be known, and one round; natively two, as a limit is in force at
the broker's next interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deploy.demo.dispatch_figures import DispatchFigures
from deploy.demo.figures import ActFigures, DemoFigures

SESSION_TIMEOUT_S = 4
"""ZooKeeper keeps the membership of a sidecar that it does not hear from for this time."""

_ROUND_S = 1.0
LARGEST_ERROR = 0.01
LEAST_JAIN = 0.999
LEAST_SHARE = 0.98


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets that depend on how a limit is enforced.

    Attributes:
        settle_s: from the event to the settled state.
        reclaim_s: from a broker's death to the use of its share.
        peak: of any window that slides; None where brokers let a part pass as their seconds begin.
        highest_round: of the seconds that stand back to back, that of the event included; None where the
            peak is judged.
        later_round: the same without the second of the event.
    """

    settle_s: float
    reclaim_s: float
    peak: float | None
    highest_round: float | None = None
    later_round: float | None = None


GATE = Targets(2 * _ROUND_S, SESSION_TIMEOUT_S + _ROUND_S, 0.05)
NATIVE = Targets(3 * _ROUND_S, SESSION_TIMEOUT_S + 2 * _ROUND_S, None, 0.2, 0.05)

DISPATCH_WITHIN = 0.03
"""Of its share and of the limit, over ten seconds."""

DISPATCH_PEAK = 1.0
"""No second has more than twice the limit: a rate that rises begins with a full bucket."""


@dataclass(frozen=True, slots=True)
class TargetCheck:
    """One target: what was asked, what came out, and whether that is enough."""

    what: str
    measured: str
    target: str
    met: bool


def checks(figures: DemoFigures, targets: Targets) -> list[TargetCheck]:
    """Hold a run against every target, those of each act included."""
    found = [check for act in figures.acts for check in act_checks(act, targets)]
    reclaim_s = figures.reclaim_s
    found.append(
        TargetCheck(
            "reclaim",
            _seconds(reclaim_s),
            f"<= {targets.reclaim_s:.0f} s",
            reclaim_s is not None and reclaim_s <= targets.reclaim_s,
        )
    )
    return found if figures.dispatch is None else found + dispatch_checks(figures.dispatch)


def dispatch_checks(figures: DispatchFigures) -> list[TargetCheck]:
    """Hold the scene of a dispatch limit against its targets."""
    furthest = max(figures.shares.values(), key=lambda share: abs(share - 1))
    return [
        TargetCheck(
            "dispatch: error of the sum",
            f"{figures.error:+.2%}",
            f"<= {DISPATCH_WITHIN:.0%}",
            abs(figures.error) <= DISPATCH_WITHIN,
        ),
        TargetCheck(
            "dispatch: furthest share",
            f"{furthest:.3f}",
            f"1 within {DISPATCH_WITHIN:.0%}",
            abs(furthest - 1) <= DISPATCH_WITHIN,
        ),
        TargetCheck(
            "dispatch: highest second",
            f"{figures.highest:+.1%}",
            f"<= {DISPATCH_PEAK:.0%}",
            figures.highest <= DISPATCH_PEAK,
        ),
        TargetCheck("dispatch: missing messages", f"{figures.missing}", "0", figures.missing == 0),
    ]


def act_checks(act: ActFigures, targets: Targets) -> list[TargetCheck]:
    """Hold one act against its targets."""
    settled = act.settle_s is not None and act.settle_s <= targets.settle_s
    return [
        TargetCheck(
            f"{act.event}: settle",
            _seconds(act.settle_s),
            f"<= {targets.settle_s:.0f} s",
            settled,
        ),
        *_highest(act, targets),
        TargetCheck(
            f"{act.event}: Jain", f"{act.jain:.4f}", f">= {LEAST_JAIN}", act.jain >= LEAST_JAIN
        ),
        TargetCheck(
            f"{act.event}: smallest share",
            f"{act.min_share:.3f}",
            f">= {LEAST_SHARE}",
            act.min_share >= LEAST_SHARE,
        ),
        TargetCheck(
            f"{act.event}: error of the sum",
            f"{act.error:+.2%}",
            f"<= {LARGEST_ERROR:.0%}",
            abs(act.error) <= LARGEST_ERROR,
        ),
    ]


def _highest(act: ActFigures, targets: Targets) -> Iterator[TargetCheck]:
    figures = (
        ("peak", act.peak, targets.peak),
        ("second of the event", act.highest_round, targets.highest_round),
        ("highest second", act.later_round, targets.later_round),
    )
    for what, figure, most in figures:
        if most is not None:
            is_met = figure <= most
            yield TargetCheck(f"{act.event}: {what}", f"{figure:+.1%}", f"<= {most:.0%}", is_met)


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"
