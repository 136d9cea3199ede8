"""Charts draw what they are given where it belongs, nothing where nothing is known, and names as text."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import spark_jobs
from spark_jobs.charts import Chart, against_the_limit, by_broker, settle_times, shares
from spark_jobs.report_data import Curves

HOSTILE = '<b>"&$\\frac{\x07\u202e\N{CJK UNIFIED IDEOGRAPH-4E2D}' + "x" * 200


def curves(
    by_second: Mapping[str, Sequence[float | None]], limit: int = 100, step_s: int = 1
) -> Curves:
    """Curves of brokers' seconds; a second is known where all of them are."""
    seconds = range(0, step_s * len(next(iter(by_second.values()))), step_s)
    brokers = {
        name: {
            second: {"admitted": value, "fair": 50.0}
            for second, value in zip(seconds, values, strict=True)
            if value is not None
        }
        for name, values in by_second.items()
    }
    points = {}
    for number, second in enumerate(seconds):
        told = [values[number] for values in by_second.values()]
        admitted = sum(value or 0 for value in told)
        points[second] = {
            "limit": limit, "known": None not in told, "admitted": admitted, "admitted_max": admitted,
        }  # fmt: skip
    return Curves("orders", "publishRateInMsgs", step_s, seconds, points, brokers, 0)


def event(**others: Any) -> dict[str, Any]:
    """An event that settles at once."""
    return {
        "event": 1, "kinds": ["join"], "subjects": ["broker-1"], "happened": 1, "judged": True,
        "settle_s": 0, **others,
    }  # fmt: skip


def paths(chart: Chart, kind: str) -> list[list[tuple[float, float]]]:
    """The points of each unbroken part of what has this name."""
    parts = []
    for group in ET.fromstring(chart.svg).iter("g"):
        if group.get("class") == kind:
            # What is defined first is drawn below by this.
            below = sum(float(use.attrib["y"]) for use in group.iter("use"))
            for path in group.iter("path"):
                for part in path.attrib["d"].split("M")[1:]:
                    numbers = re.findall(r"([\d.-]+) ([\d.-]+)", part)
                    parts.append([(float(x), float(y) + below) for x, y in numbers])
    return parts


def test_areas_stand_on_one_another() -> None:
    """The second begins where the first ends, so equal shares are equally high and both are seen."""
    chart = by_broker("shares", curves({"a": [50.0, 50.0, 50.0], "b": [50.0, 50.0, 50.0]}), [])
    lower, upper = ({y for _, y in area} for area in paths(chart, "broker"))
    ((_, limit), *_) = paths(chart, "limit")[0]

    assert max(upper) == pytest.approx(min(lower))
    assert min(upper) == pytest.approx(limit)
    assert max(upper) - min(upper) == pytest.approx(max(lower) - min(lower), abs=0.11)


def test_unknown_seconds_are_blank() -> None:
    """A line or an area ends before them and begins again after them."""
    holed = curves({"a": [50.0, 50.0, None, 50.0, 50.0], "b": [20.0] * 5})

    assert [len(part) for part in paths(against_the_limit("sum", holed), "admitted")] == [2, 2]
    assert len(paths(by_broker("shares", holed, []), "broker")) == 4


def test_the_largest_second_of_a_point_is_drawn_where_points_are_several() -> None:
    """Else it would be the line itself."""
    (one, many) = (against_the_limit("x", curves({"a": [1.0, 2.0]}, step_s=n)) for n in (1, 10))

    assert [key.name for key in one.keys] == ["limit", "all brokers together"]
    assert [key.name for key in many.keys] == [
        "limit", "all brokers together", "largest second of each point",
    ]  # fmt: skip


def test_marks_are_named_where_there_is_room() -> None:
    """Every event has its line; of five in a second two labels can be read, and none leaves the chart."""
    events = [event(kinds=["join", "leave"], happened=4) for _ in range(5)]
    chart = against_the_limit("sum", curves({"a": [1.0] * 5}), events)

    assert len(paths(chart, "mark")) == 5
    labels = re.findall(r'x="([\d.]+)"[^>]*>join \+ leave<', chart.svg)
    assert len(labels) == 2
    assert max(map(float, labels)) + 6 * len("join + leave") < 960


def test_a_bar_is_as_long_as_it_took_and_says_so() -> None:
    """One that never settled is as long as the longest, and named; a late one has its own colour."""
    events = [event(settle_s=2), event(settle_s=4), event(settle_s=None), event(judged=False)]
    chart = settle_times("settling", events, 3.0)
    ends = [max(x for x, _ in bar) - 300 for bar in paths(chart, "event")]
    fills = re.findall(r'<g class="event"><path[^>]*fill: ([^;"]*)', chart.svg)

    assert ends[0] * 2 == pytest.approx(ends[1], abs=0.2)
    assert ends[1] == ends[2]
    assert fills == ["var(--accent)", "var(--bad)", "var(--bad)", "var(--soft)"]
    assert all(f">{told}<" in chart.svg for told in ("2 s", "4 s", "never", "target 3 s"))


@pytest.mark.parametrize("draw", [by_broker, lambda title, of, _: shares(title, of)])
def test_names_are_text_whatever_is_in_them(draw: Any) -> None:
    """Neither markup nor a formula, and no longer than there is room for."""
    chart = draw(HOSTILE, curves({HOSTILE: [50.0, 50.0]}), [event(kinds=[HOSTILE])])

    assert "<b>" not in chart.svg
    assert "\x07" not in chart.svg
    assert '&lt;b&gt;"&amp;$\\frac{' in chart.svg
    assert max(map(len, re.findall(r">([^<>]*)</text>", chart.svg))) < 70


def test_a_chart_is_bounded_and_the_same_every_time() -> None:
    """24 brokers of 600 points each: three numbers a point, no date, no number that another one has."""
    many = curves(
        {f"broker-{number}": [number + at % 7 for at in range(600)] for number in range(24)}
    )
    chart = by_broker("shares", many, [])

    assert len(chart.svg) < 450_000
    assert chart == by_broker("shares", many, [])
    assert not re.search(r"https?:|<style|<metadata|\bid=\"(?![mp][0-9a-f]{10}\")", chart.svg)


def test_a_screen_reader_speaks_the_title_and_colours_follow_the_theme() -> None:
    """Each variable that a chart uses has a value in light and in dark."""
    chart = against_the_limit("orders: admitted", curves({"a": [1.0, 2.0]}), [event()])
    sheet = (Path(spark_jobs.__file__).parent / "templates" / "style.css").read_text()
    used = set(re.findall(r"var\((--\w+)\)", chart.svg))

    assert 'role="img" aria-label="orders: admitted"><title>orders: admitted</title>' in chart.svg
    assert used == {"--soft", "--line", "--bad", "--accent"}
    assert all(sheet.count(f"{name}:#") == 2 for name in used)


@pytest.mark.slow
def test_nothing_that_draws_is_loaded_before_there_is_a_page() -> None:
    """Executors and commands that draw nothing need neither matplotlib nor Jinja."""
    jobs = "convergence_report, spark_jobs.advise, spark_jobs.usage_rollup, spark_jobs.what_if"
    told = f"import sys, spark_jobs.{jobs}; print({{'matplotlib', 'jinja2'}} & set(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=120
    )

    assert loaded.stdout == "set()\n"
