"""Every table and chart of a report's page has its numbers in the Parquet directory that it names."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
import pytest
from PIL import Image

from spark_jobs.convergence_report import ReportOutcome
from spark_jobs.page import shown
from spark_jobs.report_data import TABLES
from spark_jobs.summary import figure

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

OTHERS = {"settled_after", "gains", "after"}
"""Columns that are put together from several."""


@pytest.fixture(scope="module")
def place(report: tuple[ReportOutcome, Path]) -> Path:
    """Where the report of the story is."""
    return report[1]


@pytest.fixture(scope="module")
def page(place: Path) -> str:
    """Return the page."""
    return (place / "index.html").read_text()


def rows_of(place: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a Parquet directory, in the order of the page."""
    rows: list[dict[str, Any]] = pq.read_table(place / table).to_pylist()
    for column in reversed(TABLES[Path(table).name][0]):
        rows.sort(key=itemgetter(column.removeprefix("-")), reverse=column.startswith("-"))
    return rows


def elements(page: str, tag: str) -> Iterator[ET.Element]:
    """Each of a kind that the page has."""
    for found in re.findall(rf"<{tag}[ >].*?</{tag}>", page, re.DOTALL):
        yield ET.fromstring(found)


def text_of(element: ET.Element) -> str:
    """Everything that is written in it."""
    return "".join(element.itertext()).strip()


def test_tables_show_the_rows_of_their_parquet(page: str, place: Path) -> None:
    """Cell by cell, in the order of the page, as both are read without Spark."""
    tables = list(elements(page, "table"))
    for table in tables:
        name = text_of(table[0])
        heads = [head.get("data-column", "") for head in table.iter("th")]
        cells = [[text_of(cell) for cell in row] for row in table[2]]
        rows = rows_of(place, name)
        assert len(cells) == len(rows), name
        for line, row in zip(cells, rows, strict=True):
            for head, cell in zip(heads, line, strict=True):
                if head and head not in OTHERS:
                    of_event = name == "parquet/events"
                    told = figure(head, row[head]) if of_event else shown(row[head], head)
                    assert cell == told, (name, head)

    assert {text_of(table[0]) for table in tables} == {
        f"parquet/{name}"
        for name in ("events", "operations", "escaped", "worst_seconds", "buckets", "recorded", "gaps",
                     "clock_skew", "report_ages", "control_bytes")
    }  # fmt: skip


def points(chart: ET.Element, kind: str) -> list[list[tuple[float, float]]]:
    """The points of every path of a kind."""
    return [
        [(float(x), float(y)) for x, y in re.findall(r"([\d.-]+) ([\d.-]+)", path.attrib["d"])]
        for group in chart.iter("g")
        if group.get("class") == kind
        for path in group.iter("path")
    ]


@pytest.fixture(scope="module")
def charts(page: str) -> list[ET.Element]:
    """Return the charts of the story's only limited dimension."""
    return [*elements(page, "figure")]


def scale(chart: ET.Element, limits: Sequence[float]) -> tuple[float, float]:
    """The y of zero, and the height of one a second, by the limits that the chart shows."""
    heights = [y for _, y in points(chart, "limit")[0]]
    low, high = heights[limits.index(min(limits))], heights[limits.index(max(limits))]
    unit = (low - high) / (max(limits) - min(limits))
    return low + unit * min(limits), unit


def test_charts_name_their_parquet(charts: list[ET.Element], place: Path) -> None:
    """Each directory is there."""
    named = [text_of(next(chart.iter("figcaption"))) for chart in charts]

    assert named == [
        "parquet/curves", "parquet/broker_curves, parquet/curves", "parquet/events",
        "parquet/broker_curves",
    ]  # fmt: skip
    assert all((place / name).is_dir() for names in named for name in names.split(", "))


def test_lines_are_where_their_parquet_says(charts: list[ET.Element], place: Path) -> None:
    """Every known second, to a tenth of a pixel; unknown ones break the line."""
    rows = rows_of(place, "parquet/curves")
    zero, unit = scale(charts[0], [row["limit"] for row in rows])
    (drawn,) = points(charts[0], "admitted")
    known = [row["admitted"] for row in rows if row["known"]]

    assert len(rows) == 100
    assert [y for _, y in drawn] == pytest.approx([zero - unit * each for each in known], abs=0.11)


def test_areas_are_as_high_as_their_parquet_says(charts: list[ET.Element], place: Path) -> None:
    """Of each broker, from its lower edge to its upper one."""
    rows = rows_of(place, "parquet/curves")
    zero, unit = scale(charts[1], [row["limit"] for row in rows])
    known = {row["second"] for row in rows if row["known"]}
    sums: dict[int, float] = {}
    for row in rows_of(place, "parquet/broker_curves"):
        if row["second"] in known:
            sums[row["second"]] = sums.get(row["second"], 0.0) + row["admitted"]
    tops: dict[float, float] = {}
    for area in points(charts[1], "broker"):
        for x, y in area:
            tops[x] = min(y, tops.get(x, y))

    assert [tops[x] for x in sorted(tops)] == pytest.approx(
        [zero - unit * sums[second] for second in sorted(sums)], abs=0.2
    )


def test_bars_are_as_long_as_their_parquet_says(charts: list[ET.Element], place: Path) -> None:
    """With the seconds behind each."""
    events = rows_of(place, "parquet/events")
    bars = [max(x for x, _ in bar) - min(x for x, _ in bar) for bar in points(charts[2], "event")]
    target = points(charts[2], "target")[0][0][0] - min(x for x, _ in points(charts[2], "event")[0])
    words = {text.text for text in charts[2].iter("text")}

    for event, bar in zip(events, bars, strict=True):
        assert f"{event['settle_s']} s" in words
        assert bar == pytest.approx(max(event["settle_s"], 0.01) * target / 3, abs=2)


def test_cells_have_the_colours_of_their_parquet(charts: list[ET.Element], place: Path) -> None:
    """Decoded from the picture: a row for each broker, a column for each second."""
    rows = rows_of(place, "parquet/broker_curves")
    first = min(row["second"] for row in rows_of(place, "parquet/curves"))
    (image,) = charts[3].iter("image")
    content = base64.b64decode(image.attrib["href"].partition(",")[2])
    picture = Image.open(io.BytesIO(content))
    keys = {text_of(key): key[0].attrib["style"] for key in charts[3].iter("li")}

    def colour(part: float) -> str:
        names = ("98 % and more", "95 %", "80 %", "50 %")
        least = (0.98, 0.95, 0.8, 0.5)
        name = next((name for name, of in zip(names, least, strict=True) if part >= of), "less")
        return keys["105 % and more" if part >= 1.05 else name].removeprefix("border-color:")

    assert picture.size == (100, 3)
    for row in rows:
        red, green, blue, opaque = picture.getpixel((row["second"] - first, row["place"] - 1))  # type: ignore[misc]
        expected = colour(row["admitted"] / row["fair"]) if row["fair"] else None
        assert (f"#{red:02x}{green:02x}{blue:02x}" if opaque else None) == expected
