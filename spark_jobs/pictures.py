"""The pictures of the report: what the curves of a group look like, with the marks of its events."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from html import escape

from spark_jobs.charts import (
    ChartLine,
    ChartMark,
    Point,
    area_chart,
    bar_chart,
    colour_of,
    heat_map,
    line_chart,
)
from spark_jobs.report_data import Curves, Value
from spark_jobs.summary import title_of, unit_of
from spark_jobs.targets import FigureBound

_MARKS_MAX = 40


def of_group(curves: Curves, events: Sequence[Value], conditions: Sequence[FigureBound]) -> str:
    """A section: admitted against the limit, by broker, settle times, and shares over time."""
    own = [
        event
        for event in events
        if (event["resource_group"], event["dimension"])
        == (curves.resource_group, curves.dimension)
    ]
    marks = [ChartMark(event["happened"], " + ".join(event["kinds"])) for event in own[:_MARKS_MAX]]
    name = f"{curves.resource_group}, {unit_of(curves.dimension)}"
    each = "" if curves.step_s == 1 else f" Each point is {curves.step_s} seconds."
    return (
        f"<h2>{escape(name)}</h2>"
        f'<p class="soft">Admitted against the limit.{each} Blank where not all brokers were recorded.'
        "</p>"
        + line_chart(f"{name}: admitted against the limit", list(_sum_lines(curves)), marks)
        + "<h3>What each broker admitted, one on the other</h3>"
        + area_chart(f"{name}: by broker", list(_broker_lines(curves)), _limit_line(curves), marks)
        + left_out("brokers, which are not drawn", curves.brokers_left_out)
        + "<h3>Seconds until settled</h3>"
        + bar_chart(f"{name}: settle times", *_settle_bars(own, conditions))
        + "<h3>How much of its fair share each broker got</h3>"
        + heat_map(
            f"{name}: part of its fair share that each broker got", _heat(curves), curves.step_s
        )
        + _heat_legend()
    )


def admitted(cluster: str, curves: Curves) -> str:
    """Admitted against the limit alone, under the name of its cluster."""
    title = f"{cluster}: {curves.resource_group}, {unit_of(curves.dimension)}"
    return f"<div><h3>{escape(title)}</h3>{line_chart(title, list(_sum_lines(curves)), [])}</div>"


def left_out(what: str, number: int) -> str:
    """Say how many are not shown; empty when all are."""
    return f'<p class="soft">{number:,} more {what}.</p>' if number else ""


def _sum_lines(curves: Curves) -> Iterator[ChartLine]:
    def line(column: str) -> list[Point]:
        return [
            (point["second"], float(point[column]) if point["known"] else None)
            for point in curves.points
        ]

    yield _limit_line(curves)
    yield ChartLine("all brokers together", "sum", line("admitted"))
    if curves.step_s > 1:
        yield ChartLine("largest second of each point", "top", line("admitted_max"))


def _limit_line(curves: Curves) -> ChartLine:
    points: list[Point] = [(point["second"], float(point["limit"])) for point in curves.points]
    return ChartLine("limit", "limit", points)


def _broker_lines(curves: Curves) -> Iterator[ChartLine]:
    known = {point["second"] for point in curves.points if point["known"]}
    for number, (broker, points) in enumerate(curves.brokers.items()):
        yield ChartLine(broker, colour_of(number), _with_blanks(points, known, curves.step_s))


def _with_blanks(points: Sequence[Value], known: Collection[int], step_s: int) -> list[Point]:
    """A broker's points, with an unknown one wherever some are missing."""
    found: list[Point] = []
    for point in points:
        if found and point["second"] - found[-1][0] > step_s:
            found.append((found[-1][0] + step_s, None))
        admitted = float(point["admitted"]) if point["second"] in known else None
        found.append((point["second"], admitted))
    return found


def _settle_bars(
    events: Sequence[Value], conditions: Sequence[FigureBound]
) -> tuple[list[tuple[str, float | None, str]], float | None]:
    target = next(
        (condition.bound for condition in conditions if condition.name == "settle_s"), None
    )

    def style(event: Value) -> str:
        if not event["judged"]:
            return "soft"
        settle_s = event["settle_s"]
        late = settle_s is None or (target is not None and settle_s > target)
        return "late" if late else ""

    bars = [
        (f"{event['event']}  {title_of(event)}"[:46], event["settle_s"], style(event))
        for event in events[:_MARKS_MAX]
    ]
    return bars, target


def _heat(curves: Curves) -> dict[str, list[Point]]:
    return {
        broker: [
            (point["second"], point["admitted"] / point["fair"] if point["fair"] else None)
            for point in points
        ]
        for broker, points in curves.brokers.items()
    }


def _heat_legend() -> str:
    keys = (
        ("h0", "98 % and more"), ("h1", "95 %"), ("h2", "80 %"), ("h3", "50 %"), ("h4", "less"),
        ("over", "more than 105 %"),
    )  # fmt: skip
    items = "".join(
        f'<li><svg class="key" viewBox="0 0 12 12" aria-hidden="true"><rect class="{style}" width="12"'
        f' height="12"/></svg>{text}</li>'
        for style, text in keys
    )
    return f'<ul class="legend">{items}</ul>'
