"""Charts draw what they are given where it belongs, and nothing where nothing is known."""

from __future__ import annotations

import re

from spark_jobs.charts import ChartLine, ChartMark, area_chart, line_chart

LIMIT = ChartLine("limit", "limit", [(0, 100.0), (2, 100.0)])


def shapes(chart: str, shape: str) -> list[list[tuple[float, float]]]:
    """The points of every polygon or polyline."""
    return [
        [(float(x), float(y)) for x, y in (point.split(",") for point in points.split())]
        for points in re.findall(rf'<{shape} class="[^"]*" points="([^"]*)"', chart)
    ]


def test_areas_stand_on_one_another() -> None:
    """The second begins where the first ends, so equal shares are equally high and both are seen."""
    points = [(0, 50.0), (1, 50.0), (2, 50.0)]
    chart = area_chart(
        "shares", [ChartLine("a", "c0", points), ChartLine("b", "c1", points)], LIMIT, []
    )
    lower, upper = shapes(chart, "polygon")
    (limit,) = shapes(chart, "polyline")

    assert lower[:3] == list(reversed(upper[3:]))
    assert [y for _, y in upper[:3]] == [limit[0][1]] * 3
    assert len({y for _, y in lower[3:]}) == 1


def test_unknown_seconds_are_blank() -> None:
    """An area ends before them and begins again after them, on what is known of the others."""
    holes = ChartLine("a", "c0", [(0, 50.0), (1, 50.0), (2, None), (3, 50.0), (4, 50.0)])
    whole = ChartLine("b", "c1", [(at, 20.0) for at in range(5)])

    assert len(shapes(area_chart("shares", [holes], LIMIT, []), "polygon")) == 2
    assert len(shapes(line_chart("sum", [holes, whole], []), "polyline")) == 3


def test_nothing_known_is_said() -> None:
    """Instead of an empty picture; a name is text, whatever is in it."""
    unknown = ChartLine("a", "c0", [(0, None)])

    assert line_chart("<sum>", [unknown], []) == "<p>&lt;sum&gt;: nothing was recorded.</p>"
    assert area_chart("shares", [], LIMIT, []) == "<p>shares: nothing was recorded.</p>"


def test_marks_are_named() -> None:
    """Where something happened."""
    chart = line_chart("sum", [LIMIT], [ChartMark(1, "join <b>")])

    assert "join &lt;b&gt;</text>" in chart
