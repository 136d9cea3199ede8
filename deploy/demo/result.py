"""The tables at the end: every act of a run with its figures, and which targets were met."""

from __future__ import annotations

from rich.table import Table

from deploy.demo import targets
from deploy.demo.figures import ActFigures, Figures


def table(name: str, figures: Figures) -> Table:
    """Return the table of one run."""
    drawn = Table(title=name, title_justify="left")
    drawn.add_column("act")
    for column in ("settle", "peak", "error", "Jain", "smallest share", "met"):
        drawn.add_column(column, justify="right")
    for act in figures.acts:
        drawn.add_row(*_row(act))
    drawn.add_section()
    drawn.add_row(
        "target",
        f"<= {targets.SETTLE_WITHIN_S:.0f} s",
        f"<= {targets.HIGHEST_PEAK:.0%}",
        f"<= {targets.LARGEST_ERROR:.0%}",
        f">= {targets.LEAST_JAIN}",
        f">= {targets.LEAST_SHARE}",
        "",
    )
    drawn.caption = _reclaim(figures)
    drawn.caption_justify = "left"
    return drawn


def _row(act: ActFigures) -> tuple[str, ...]:
    met = all(check.met for check in targets.act_checks(act))
    settle = "never" if act.settle_s is None else f"{act.settle_s:.2f} s"
    return (
        act.title,
        settle,
        f"{act.peak:+.1%}",
        f"{act.error:+.2%}",
        f"{act.jain:.4f}",
        f"{act.min_share:.3f}",
        "yes" if met else "NO",
    )


def _reclaim(figures: Figures) -> str:
    took = "never" if figures.reclaim_s is None else f"{figures.reclaim_s:.2f} s"
    return (
        f"The dead broker's share was in use again after: {took} "
        f"(target <= {targets.RECLAIM_WITHIN_S:.0f} s). Counted by the brokers."
    )
