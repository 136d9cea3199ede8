"""Charts as inline SVG: strings without a script, a font or an address, so that the page opens anywhere.

Colours are the page's CSS variables, so that light and dark come for free. Each chart has a title that a
screen reader speaks. Unknown seconds are left blank: a line ends before them and begins again after them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeVar

WIDTH = 960
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 12, 26
_COLOURS = 8

_Scale = Callable[[float], float]
_T = TypeVar("_T")

Point = tuple[float, float | None]
"""Seconds and a value; None is unknown."""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart; `style` is a CSS class."""

    name: str
    style: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A vertical line where something happened."""

    second: float
    label: str


@dataclass(frozen=True, slots=True)
class _Frame:
    """The area of a chart: from the first second to the last one, and from 0 to the highest value."""

    first: float
    last: float
    top: float
    height: int

    def x(self, moment: float) -> float:
        return _LEFT + (moment - self.first) / (self.last - self.first) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _TOP + (1 - value / self.top) * (self.height - _TOP - _BOTTOM)

    def around(self, marks: Sequence[ChartMark]) -> Iterator[str]:
        yield from _grid(self.top, self.y)
        yield from _time_axis(self.first, self.last, self.height, self.x)
        for mark in marks:
            at = f"{self.x(mark.second):.1f}"
            yield f'<line class="mark" x1="{at}" x2="{at}" y1="{_TOP}" y2="{self.height - _BOTTOM}"/>'
            yield f'<text class="tick" x="{at}" y="{_TOP + 9}" dx="3">{escape(mark.label)}</text>'

    def line(self, line: ChartLine) -> Iterator[str]:
        for stretch in _stretches(line.points):
            path = " ".join(f"{self.x(at):.1f},{self.y(value):.1f}" for at, value in stretch)
            yield f'<polyline class="line {line.style}" points="{path}"/>'

    def area(self, style: str, stretch: Sequence[tuple[float, tuple[float, float]]]) -> str:
        along = [f"{self.x(at):.1f},{self.y(top):.1f}" for at, (_, top) in stretch]
        back = [f"{self.x(at):.1f},{self.y(base):.1f}" for at, (base, _) in reversed(stretch)]
        return f'<polygon class="area {style}" points="{" ".join([*along, *back])}"/>'


def colour_of(number: int) -> str:
    """The CSS class of the n-th broker's colour."""
    return f"c{number % _COLOURS}"


def line_chart(
    title: str, lines: Sequence[ChartLine], marks: Sequence[ChartMark], *, height: int = 260
) -> str:
    """Lines over time with marks where events are."""
    frame = _frame([point for line in lines for point in line.points], height)
    if frame is None:
        return f"<p>{escape(title)}: nothing was recorded.</p>"
    parts = [*frame.around(marks), *(part for line in lines for part in frame.line(line))]
    return _svg(title, height, parts) + _legend(lines)


def area_chart(
    title: str,
    lines: Sequence[ChartLine],
    over: ChartLine,
    marks: Sequence[ChartMark],
    *,
    height: int = 260,
) -> str:
    """Areas that stand on one another, so that equal ones can be told apart, and a line over them."""
    areas = [_above(lines[:number], line) for number, line in enumerate(lines)]
    tops = [(at, span and span[1]) for area in areas for at, span in area]
    frame = _frame([*tops, *over.points], height)
    if frame is None or not lines:
        return f"<p>{escape(title)}: nothing was recorded.</p>"
    parts = [
        *frame.around(marks),
        *(
            frame.area(line.style, stretch)
            for line, area in zip(lines, areas, strict=True)
            for stretch in _stretches(area)
        ),
        *frame.line(over),
    ]
    return _svg(title, height, parts) + _legend([*lines, over])


def bar_chart(
    title: str, bars: Sequence[tuple[str, float | None, str]], target: float | None
) -> str:
    """Horizontal bars, one per event: label, value or None for never, and a CSS class."""
    if not bars:
        return f"<p>{escape(title)}: no event.</p>"
    row, left = 24, 300
    height = row * len(bars) + 30
    longest = max([value for _, value, _ in bars if value is not None] + [target or 0.0, 1.0])

    def x(value: float) -> float:
        return left + value / longest * (WIDTH - left - 90)

    parts = []
    for number, (label, value, style) in enumerate(bars):
        middle = row * number + 20
        width = x(longest if value is None else value) - left
        text = "never" if value is None else f"{value:g} s"
        parts.append(
            f'<text class="label" x="{left - 8}" y="{middle + 4}" text-anchor="end">'
            f"{escape(label)}</text>"
            f'<rect class="bar {style}" x="{left}" y="{middle - 7}" width="{max(width, 2):.1f}"'
            f' height="14" rx="2"/>'
            f'<text class="tick" x="{left + width + 6:.1f}" y="{middle + 4}">{text}</text>'
        )
    if target is not None:
        at = f"{x(target):.1f}"
        parts.append(f'<line class="limit" x1="{at}" x2="{at}" y1="6" y2="{height - 20}"/>')
        parts.append(f'<text class="tick" x="{at}" y="{height - 6}">target {target:g} s</text>')
    return _svg(title, height, parts)


def heat_map(title: str, rows: Mapping[str, Sequence[Point]], step_s: float) -> str:
    """One row per broker, one cell per point: how much of its share it got, 0 to 1 and above."""
    moments = [x for points in rows.values() for x, _ in points]
    if not moments:
        return f"<p>{escape(title)}: nothing was recorded.</p>"
    row, left = 20, 160
    first, last = min(moments), max(moments) + step_s
    height = row * len(rows) + _BOTTOM

    def x(moment: float) -> float:
        return left + (moment - first) / (last - first) * (WIDTH - left - _RIGHT)

    width = max(1.0, x(first + step_s) - x(first) + 0.3)
    parts = []
    for number, (name, points) in enumerate(rows.items()):
        top = row * number + 2
        parts.append(
            f'<text class="label" x="{left - 8}" y="{top + 13}" text-anchor="end">{escape(name)}</text>'
        )
        for moment, value in points:
            if value is not None:
                parts.append(
                    f'<rect class="{_heat(value)}" x="{x(moment):.1f}" y="{top}" width="{width:.1f}"'
                    f' height="{row - 3}"/>'
                )
    parts += _time_axis(first, last, height, x)
    return _svg(title, height, parts)


def _heat(value: float) -> str:
    """Within 2 %, 5 %, 20 % and 50 % of the share, and further; above it is its own colour."""
    if value > 1.05:
        return "over"
    for style, least in (("h0", 0.98), ("h1", 0.95), ("h2", 0.8), ("h3", 0.5)):
        if value >= least:
            return style
    return "h4"


def _frame(points: Sequence[Point], height: int) -> _Frame | None:
    """Return the frame of all these points; None when no point has a value."""
    values = [y for _, y in points if y is not None]
    if not values:
        return None
    first = min(x for x, _ in points)
    last = max(first + 1, *(x for x, _ in points))
    return _Frame(first, last, _round_up(max(values) * 1.02 / 4) * 4, height)


def _above(
    lower: Sequence[ChartLine], line: ChartLine
) -> list[tuple[float, tuple[float, float] | None]]:
    """A line's points as spans that stand on the lines below it."""
    base: defaultdict[float, float] = defaultdict(float)
    for moment, value in (point for other in lower for point in other.points):
        base[moment] += value or 0.0
    return [
        (at, None if value is None else (base[at], base[at] + value)) for at, value in line.points
    ]


def _stretches(points: Sequence[tuple[float, _T | None]]) -> Iterator[list[tuple[float, _T]]]:
    stretch: list[tuple[float, _T]] = []
    for moment, value in points:
        if value is not None:
            stretch.append((moment, value))
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def _grid(top: float, y: _Scale) -> Iterator[str]:
    for number in range(5):
        value = top * number / 4
        at = f"{y(value):.1f}"
        text = _short(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>'
        yield f'<text class="tick" x="{_LEFT - 6}" y="{at}" dy="4" text-anchor="end">{text}</text>'


def _round_up(step: float) -> float:
    """The next larger step that people count in: 1, 2, 2.5 or 5 times a power of ten."""
    if step <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(size * power for size in (1.0, 2.0, 2.5, 5.0, 10.0) if size * power >= step)


def _time_axis(first: float, last: float, height: int, x: _Scale) -> list[str]:
    span = last - first
    wanted = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 21600, 86400, 604800)
    step = next((step for step in wanted if span / step <= 12), 2592000)
    ticks = []
    moment = 0.0
    while moment <= span:
        at = f"{x(first + moment):.1f}"
        ticks.append(
            f'<text class="tick" x="{at}" y="{height - 8}" text-anchor="middle">'
            f"{_elapsed(moment)}</text>"
        )
        moment += step
    return ticks


def _elapsed(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min" if whole % 60 == 0 else f"{whole // 60}:{whole % 60:02d}"
    return f"{whole / 3600:g} h"


def _short(value: float) -> str:
    for size, unit in ((1e9, " G"), (1e6, " M")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:,.0f}"


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<div class="scroll"><svg viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg></div>'
    )


def _legend(lines: Sequence[ChartLine]) -> str:
    items = "".join(
        f'<li><svg viewBox="0 0 22 8" aria-hidden="true"><line class="line {line.style}" x1="0" x2="22"'
        f' y1="4" y2="4"/></svg>{escape(line.name)}</li>'
        for line in lines
    )
    return f'<ul class="legend">{items}</ul>'
