"""The end of a run: a table of every act with its figures, and which targets were missed."""

from __future__ import annotations

from rich.table import Table

from deploy.demo import targets
from deploy.demo.dispatch_figures import DispatchFigures
from deploy.demo.figures import SETTLED_WITHIN, ActFigures, DemoFigures
from deploy.demo.shares import WINDOW_S
from deploy.demo.targets import Targets

#: Of waiting: the traffic of this part of a window is as far as a settled broker may be off its share.
_TELLING_S = SETTLED_WITHIN * WINDOW_S
_FIGURES = (
    "Settle: until every round of a second has every broker within 5 % of C/N of its share. Peak: the"
    " highest second of all brokers, wherever it begins; highest second: of those that stand back to"
    " back, after the second of the event."
)
_DISPATCH = "Dispatch: over ten seconds. A rate that rises lets a second's worth pass at once."
_WAITED = (
    "Waited: how much of a second a process with the sidecars' priority waited for a processor of this"
    " machine, in the worst second. Nothing passes meanwhile; no second is left out for it."
)


def table(name: str, figures: DemoFigures, bounds: Targets) -> Table:
    """Return the table of one run."""
    drawn = Table(title=name, title_justify="left")
    drawn.add_column("act")
    for column in (
        "settle",
        "peak",
        "highest second",
        "error",
        "Jain",
        "smallest share",
        "met",
        "waited",
    ):
        drawn.add_column(column, justify="right")
    for act in figures.acts:
        drawn.add_row(*_row(act, bounds))
    drawn.add_section()
    drawn.add_row(
        "target",
        f"<= {bounds.settle_s:.0f} s",
        *("" if most is None else f"<= {most:.0%}" for most in (bounds.peak, bounds.later_round)),
        f"<= {targets.LARGEST_ERROR:.0%}",
        f">= {targets.LEAST_JAIN}",
        f">= {targets.LEAST_SHARE}",
        "",
        "",
    )
    if figures.dispatch is not None:
        drawn.add_section()
        drawn.add_row(*_dispatch_row(figures.dispatch))
    drawn.caption = f"{_reclaim(figures, bounds)}\n{_FIGURES}\n{_WAITED}"
    if figures.dispatch is not None:
        drawn.caption += f"\n{_DISPATCH}"
    drawn.caption_justify = "left"
    return drawn


def missed(figures: DemoFigures, bounds: Targets) -> list[str]:
    """Say of each missed target what came out, and of its act whether the machine may be why."""
    said = [
        f"missed: {check.what} {check.measured}, target {check.target}"
        for check in targets.checks(figures, bounds)
        if not check.met
    ]
    said += [
        f"{act.title}: this machine made a process wait for a processor for {act.waited_s:.2f} s of one"
        " second. That alone can miss a target: play the story again with less running beside it."
        for act in figures.acts
        if act.waited_s >= _TELLING_S
        and any(not check.met for check in targets.act_checks(act, bounds))
    ]
    return said


def _row(act: ActFigures, bounds: Targets) -> tuple[str, ...]:
    met = all(check.met for check in targets.act_checks(act, bounds))
    settle = "never" if act.settle_s is None else f"{act.settle_s:.2f} s"
    return (
        act.title,
        settle,
        f"{act.peak:+.1%}",
        f"{act.later_round:+.1%}",
        f"{act.error:+.2%}",
        f"{act.jain:.4f}",
        f"{act.min_share:.3f}",
        "yes" if met else "NO",
        f"{act.waited_s:.2f} s" if act.waited_s else "-",
    )


def _dispatch_row(figures: DispatchFigures) -> tuple[str, ...]:
    met = all(check.met for check in targets.dispatch_checks(figures))
    return (
        f"dispatch of backlogs at {figures.limit:,}/s",
        "",
        "",
        f"{figures.highest:+.1%}",
        f"{figures.error:+.2%}",
        f"{figures.jain:.4f}",
        f"{min(figures.shares.values()):.3f}",
        "yes" if met else "NO",
        "",
    )


def _reclaim(figures: DemoFigures, bounds: Targets) -> str:
    took = "never" if figures.reclaim_s is None else f"{figures.reclaim_s:.2f} s"
    return (
        f"The dead broker's share was in use again after: {took} "
        f"(target <= {bounds.reclaim_s:.0f} s). Counted by the brokers."
    )
