"""The targets of a run, and which of them it missed.

Rounds are report intervals of one second. The reclaim target is the ZooKeeper session's timeout, which
is the time for which the death cannot be known, and one round.
"""

from __future__ import annotations

from dataclasses import dataclass

from deploy.demo.figures import ActFigures, DemoFigures
from deploy.demo.sidecars import SESSION_TIMEOUT_S

_ROUND_S = 1.0
LARGEST_ERROR = 0.01
HIGHEST_PEAK = 0.05
LEAST_JAIN = 0.999
LEAST_SHARE = 0.98
SETTLE_WITHIN_S = 2 * _ROUND_S
RECLAIM_WITHIN_S = SESSION_TIMEOUT_S + _ROUND_S


@dataclass(frozen=True, slots=True)
class TargetCheck:
    """One target: what was asked, what came out, and whether that is enough."""

    what: str
    measured: str
    target: str
    met: bool


def checks(figures: DemoFigures) -> list[TargetCheck]:
    """Hold a run against every target, those of each act included."""
    found = [check for act in figures.acts for check in act_checks(act)]
    reclaim_s = figures.reclaim_s
    found.append(
        TargetCheck(
            "reclaim",
            _seconds(reclaim_s),
            f"<= {RECLAIM_WITHIN_S:.0f} s",
            reclaim_s is not None and reclaim_s <= RECLAIM_WITHIN_S,
        )
    )
    return found


def act_checks(act: ActFigures) -> list[TargetCheck]:
    """Hold one act against its targets."""
    settled = act.settle_s is not None and act.settle_s <= SETTLE_WITHIN_S
    return [
        TargetCheck(
            f"{act.event}: settle",
            _seconds(act.settle_s),
            f"<= {SETTLE_WITHIN_S:.0f} s",
            settled,
        ),
        TargetCheck(
            f"{act.event}: peak",
            f"{act.peak:+.1%}",
            f"<= {HIGHEST_PEAK:.0%}",
            act.peak <= HIGHEST_PEAK,
        ),
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


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"
