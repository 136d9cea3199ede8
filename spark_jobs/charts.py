"""The charts of a report's page: a group's curves against its limit, by broker, its settling and shares.

A second that was not recorded of all brokers is blank: a line ends before it and begins again after it.
Every chart is bounded by its input (report_data.py), and says which Parquet directory has its numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from spark_jobs import look
from spark_jobs.report_data import Curves, Value
from spark_jobs.summary import figure as figure_of
from spark_jobs.summary import title_of

MARKS_MAX = 40
"""Events that are drawn; the table has all of them."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 24, 34, 26
_NAMES = 300
"""Left of rows there is room for their names."""
_HEIGHT, _ROW = 270, 24
_NAME_LETTERS, _LETTER = 44, 6.4
"""Of a label: the most letters, and the pixels that one takes on average, or less."""
_TICK = 70
"""Pixels from one time to the next, at least."""
_STEPS_S = (
    1, 2, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 21_600, 86_400, 604_800, 2_592_000, 31_536_000,
)  # fmt: skip
_SHARES = (
    (0.0, "#c8402f", "less"),
    (0.5, "#ec9a4c", "50 %"),
    (0.8, "#f2d16b", "80 %"),
    (0.95, "#8fce8a", "95 %"),
    (0.98, "#1f9d63", "98 % and more"),
    (1.05, "#6a5acd", "105 % and more"),
)
"""The part of its share that a broker got: the least of a colour, the colour, and its key."""
_MOST = 1e12


@dataclass(frozen=True, slots=True)
class LegendKey:
    """The meaning of a colour of a chart: `kind` is a class of the page's style."""

    name: str
    colour: str
    kind: str = "solid"


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart inside a page.

    Args:
        svg: the drawing.
        keys: its legend.
        parquet: the directories that have its numbers.
    """

    svg: Markup
    keys: Sequence[LegendKey]
    parquet: Sequence[str]


def against_the_limit(
    title: str, curves: Curves, events: Sequence[Value] = (), width: int = look.WIDTH
) -> Chart:
    """Admitted by all brokers together, and the limit."""
    with look.drawing():
        figure, axes = _over_time(curves, events, width)
        keys = [_limit(axes, curves), LegendKey("all brokers together", look.css(look.ACCENT))]
        axes.plot(curves.seconds, curves.known("admitted"), color=look.ACCENT, gid="admitted")
        if curves.step_s > 1:
            keys.append(LegendKey("largest second of each point", look.css(look.ACCENT), "faint"))
            most = curves.known("admitted_max")
            axes.plot(curves.seconds, most, color=look.ACCENT, alpha=0.35, gid="admitted_max")
        axes.set_ylim(bottom=0)
        return Chart(look.inline(figure, title), keys, ("curves",))


def by_broker(title: str, curves: Curves, events: Sequence[Value]) -> Chart:
    """The rates of all brokers, one on the other, so that equal ones can be told apart."""
    with look.drawing():
        figure, axes = _over_time(curves, events)
        keys = []
        base = np.zeros(len(curves.seconds))
        for number, broker in enumerate(curves.brokers):
            colour = look.SERIES[number % len(look.SERIES)]
            admitted = np.array(curves.known("admitted", broker))
            axes.fill_between(
                curves.seconds, base, base + admitted,
                color=colour, alpha=0.75, linewidth=0.6, gid="broker",
            )  # fmt: skip
            base = base + np.nan_to_num(admitted)
            keys.append(LegendKey(broker, colour))
        keys.append(_limit(axes, curves))
        axes.set_ylim(bottom=0)
        return Chart(look.inline(figure, title), keys, ("broker_curves", "curves"))


def settle_times(title: str, events: Sequence[Value], target: float | None) -> Chart:
    """A bar for each event: seconds until settled, as long as the chart where it never did."""
    drawn = events[:MARKS_MAX]
    longest = max([event["settle_s"] or 0 for event in drawn] + [target or 0.0, 1.0])
    with look.drawing():
        figure, axes = _rows([f"{event['event']}  {title_of(event)}" for event in drawn])
        axes.set_xlim(0, longest * 1.12)
        axes.set_xticks([])
        for row, event in enumerate(drawn):
            settle_s = event["settle_s"]
            late = settle_s is None or (target is not None and settle_s > target)
            colour = look.SOFT if not event["judged"] else look.BAD if late else look.ACCENT
            never = longest if event["judged"] else 0
            length = never if settle_s is None else max(settle_s, longest / 400)
            axes.barh(row, length, height=0.6, color=colour, gid="event")
            told = figure_of("settle_s", settle_s, judged=event["judged"])
            axes.annotate(told, (length, row), (6, 0), textcoords="offset points", va="center")
        if target is not None:
            axes.axvline(target, color=look.BAD, linestyle=look.DASHES, gid="target")
            axes.set_xticks([target], [f"target {target:g} s"])
        return Chart(look.inline(figure, title), (), ("events",))


def shares(title: str, curves: Curves) -> Chart:
    """A row for each broker, a cell for each point: how much of its fair share it got."""
    columns = ("admitted", "fair")
    got, fair = (
        np.array([curves.along(name, each) for each in curves.brokers]) for name in columns
    )
    with look.drawing():
        figure, axes = _rows(list(curves.brokers))
        first, last = curves.seconds[0], curves.seconds[-1] + curves.step_s
        axes.imshow(
            np.divide(got, fair, out=np.full_like(got, np.nan), where=fair > 0),
            cmap=ListedColormap([colour for _, colour, _ in _SHARES]),
            norm=BoundaryNorm([*(least for least, _, _ in _SHARES), _MOST], len(_SHARES)),
            aspect="auto",
            interpolation="none",  # as it is, however wide the page
            extent=(first, last, len(curves.brokers) - 0.5, -0.5),
        )
        axes.hlines(
            np.arange(1, len(curves.brokers)) - 0.5, first, last, color=look.PAPER, linewidth=3
        )
        _time_ticks(axes, first, last)
        keys = [LegendKey(text, colour, "cell") for _, colour, text in reversed(_SHARES)]
        return Chart(look.inline(figure, title), keys, ("broker_curves",))


def _over_time(
    curves: Curves, events: Sequence[Value], width: int = look.WIDTH
) -> tuple[Figure, Axes]:
    """A chart of rates, with a line where each event happened."""
    figure, axes = _figure(_LEFT, _TOP if events else 8, _HEIGHT, width)
    first, last = curves.seconds[0], curves.seconds[-1]
    axes.set_xlim(first, max(last, first + 1))
    axes.margins(y=0.04)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda rate, _: _short(rate)))
    _time_ticks(axes, first, last)
    ends = [0.0, 0.0]  # of the last label in each of two rows
    for event in events[:MARKS_MAX]:
        axes.axvline(
            event["happened"], color=look.SOFT, linewidth=0.8, linestyle=(0, (2, 3)), gid="mark"
        )
        label = look.printable(" + ".join(event["kinds"]), _NAME_LETTERS)
        wide = _LETTER * len(label)
        at = min(axes.transData.transform((event["happened"], 0))[0], width - wide)
        row = next((row for row, end in enumerate(ends) if end <= at), None)
        if row is not None:  # else there is no room: the table has it
            figure.text(at / width, 1 - 14 * (row + 1) / _HEIGHT, label, color=look.SOFT)
            ends[row] = at + wide
    return figure, axes


def _limit(axes: Axes, curves: Curves) -> LegendKey:
    axes.plot(
        curves.seconds, curves.along("limit"), color=look.BAD, linestyle=look.DASHES, gid="limit"
    )
    return LegendKey("limit", look.css(look.BAD), "dashed")


def _rows(names: Sequence[str]) -> tuple[Figure, Axes]:
    """A chart of rows, the first one above."""
    figure, axes = _figure(_NAMES, 4, _ROW * len(names) + 4 + _BOTTOM)
    axes.grid(visible=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
    shown = [look.printable(name, _NAME_LETTERS) for name in names]
    axes.set_yticks(range(len(names)), shown, color=look.INK)
    return figure, axes


def _figure(left: int, top: int, height: int, width: int = look.WIDTH) -> tuple[Figure, Axes]:
    figure = Figure((width / 72, height / 72))
    wide, high = width - left - _RIGHT, height - top - _BOTTOM
    return figure, figure.add_axes((left / width, _BOTTOM / height, wide / width, high / height))


def _time_ticks(axes: Axes, first: float, last: float) -> None:
    """Ticks at round times since the first second."""
    most = axes.bbox.width / _TICK
    step = next((step for step in _STEPS_S if last - first <= most * step), _STEPS_S[-1])
    ticks = np.arange(0, last - first + 1, step)
    axes.set_xticks(first + ticks, [_elapsed(tick) for tick in ticks])


def _elapsed(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7_200:
        return f"{whole // 60} min" if whole % 60 == 0 else f"{whole // 60}:{whole % 60:02d}"
    return f"{whole / 3_600:g} h" if whole < 259_200 else f"{whole / 86_400:g} d"


def _short(rate: float) -> str:
    for size, unit in ((1e9, " G"), (1e6, " M")):
        if rate >= size:
            return f"{rate / size:.3g}{unit}"
    return f"{rate:,.0f}"
