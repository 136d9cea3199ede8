"""The looks of the charts: one set of colours for a light page, one for a dark one.

The same data give the same bytes: no date is written, ids are salted. Text is drawn as paths, so that a
chart looks the same wherever it is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from spark_jobs.look import settings as shared

BROKERS: Final = ("#3b82f6", "#f59e0b", "#10b981", "#e5484d", "#8b5cf6")
POLICY_COLOURS: Final = {"eager": "#e5484d", "balanced": "#3b82f6", "strict": "#10b981"}


@dataclass(frozen=True, slots=True)
class Look:
    """The differences between a light and a dark page."""

    name: str
    ink: str
    faint: str
    rule: str
    paper: str
    bad: str
    good: str


LOOKS: Final = (
    Look("light", "#1f2328", "#59636e", "#d9dee4", "#ffffff", "#f4b6b0", "#c9ecd6"),
    Look("dark", "#e6e9ef", "#a2a9b8", "#3b4252", "#1e2129", "#8c3a3a", "#1f5c3f"),
)
"""The papers are those of mkdocs-material's default and slate."""


def settings(look: Look) -> dict[Any, Any]:  # matplotlib spells every key out in its type
    """The settings of matplotlib."""
    return {
        **shared(look.ink, look.faint, look.rule),
        "svg.fonttype": "path",
        "figure.constrained_layout.use": True,
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.formatter.use_mathtext": True,
    }


def legend(figure: Figure, axes: Axes) -> None:
    """One legend below all parts of a figure, from the labels of one of them."""
    handles, labels = axes.get_legend_handles_labels()
    shown = [pair for pair in zip(handles, labels, strict=True) if pair[1]]
    figure.legend(
        [handle for handle, _ in shown], [label for _, label in shown],
        loc="outside lower center", ncols=len(shown),
    )  # fmt: skip
