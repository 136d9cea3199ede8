"""Rows of the measurement: a figure, its bound, and what decides when it is missed.

A machine that stands still for a second makes one figure wrong, and a fault makes all of them wrong. So a
row that misses its bound is measured twice more, and the median of the three decides; the table says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Final

HELD, MISSED, NOT_MEASURED = "held", "missed", "not measured"
MORE: Final = 2
"""The number of times that a missed row is measured again."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was measured.

    Args:
        test: the test that measures it, by pytest's id.
        name: what is measured; empty for a test that only holds or does not.
        value: the figure; for a test without one, 1 if it holds and 0 if it does not. Without
            value nothing was measured.
        unit: of the figure.
        least: the figure's lower bound.
        most: its upper bound.
        told: what the test says of it, in words.
        times: the number of measurements.
    """

    test: str
    name: str = ""
    value: float | None = None
    unit: str = ""
    least: float = -math.inf
    most: float = math.inf
    told: str = ""
    times: int = 1

    @property
    def verdict(self) -> str:
        """Whether the figure keeps its bounds."""
        if self.value is None:
            return NOT_MEASURED
        return HELD if self.least <= self.value <= self.most else MISSED

    @property
    def key(self) -> tuple[str, str]:
        """The test and what it measures."""
        return self.test, self.name

    def as_json(self) -> dict[str, Any]:
        """Return the row with its verdict; a bound that is none is left out."""
        found = {name: value for name, value in asdict(self).items() if value not in {"", None}}
        return {
            name: value for name, value in found.items() if value not in {math.inf, -math.inf}
        } | {"verdict": self.verdict}


def of_test(
    test: str, *, passed: bool, measured: Sequence[Mapping[str, Any]], told: str
) -> list[Row]:
    """Return the rows of a test that ended.

    One that fails for another reason than a figure's bound has a row of its own for that.
    """
    rows = [Row(test, told=told, **each) for each in measured]
    fails_by_figure = any(row.verdict == MISSED for row in rows)
    if not rows or (not passed and not fails_by_figure):
        rows.append(Row(test, value=float(passed), least=1.0, told=told))
    return rows


def decided(runs: Sequence[Sequence[Row]]) -> list[Row]:
    """Return the rows of the first run, each with the median of all runs that measured it.

    A test that fails in one run only is held: its row has 0 and twice 1, or is not there at all. A row
    that came only with a later run, as a failure of another kind, counts as well.
    """
    ended = [run for run in runs if run]  # one without a row was ended before it measured anything
    found: dict[tuple[str, str], list[Row]] = {}
    for run in ended:
        for row in run:
            found.setdefault(row.key, []).append(row)
    return [_median(rows, len(ended)) for rows in found.values()]


def _median(rows: Sequence[Row], runs: int) -> Row:
    values = [row.value for row in rows if row.value is not None]
    if not rows[0].name:
        values += [1.0] * (runs - len(rows))
    value = median(values) if values else None
    return replace(rows[-1], value=value, times=runs)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table of Markdown."""
    lines = ["| row | figure | bound | verdict |", "| --- | --- | --- | --- |"]
    for row in rows:
        name = row.test.removeprefix("tests/") + (f": {row.name}" if row.name else "")
        verdict = row.verdict if row.times == 1 else f"{row.verdict}, median of {row.times}"
        cells = (name, _figure(row), _bound(row), verdict)
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join(lines)


def _figure(row: Row) -> str:
    if row.value is None:
        return row.told or "-"
    if not row.name:
        return row.told or ("holds" if row.value == 1 else "does not hold")
    return f"{row.value:,.4g} {row.unit}".strip()


def _bound(row: Row) -> str:
    if not row.name:
        return "as the test says"
    if math.isinf(row.least):
        return f"at most {row.most:,.4g}"
    if math.isinf(row.most):
        return f"at least {row.least:,.4g}"
    return f"{row.least:,.4g} to {row.most:,.4g}"
