"""Advice for people and machines: a table for a terminal, JSON, and a page that opens offline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spark_jobs.advice import AHEAD_DAYS
from spark_jobs.pages import rendered

_PAGE_MAX = 500
"""Groups and dimensions on the page; the JSON file has all of them."""


@dataclass(frozen=True, slots=True)
class AdviceOutcome:
    """Advice that was found: one row per group and dimension, and how it ends."""

    rows: tuple[Mapping[str, Any], ...]
    share: float
    warnings: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 when every advice may be relied on."""
        return 1 if self.warnings or any(row["cautions"] for row in self.rows) else 0


def as_json(outcome: AdviceOutcome) -> str:
    """The advice for machines."""
    return json.dumps(
        {"throttled": outcome.share, "advice": outcome.rows, "warnings": outcome.warnings}, indent=1
    )


def text(outcome: AdviceOutcome) -> str:
    """The advice as a table for a terminal, with its evidence below each line."""
    form = "{:<16} {:<20} {:>13} {:>13} {:>27} {:>13}"
    lines = [form.format("group", "dimension", "in force", "advised", "may be", "next step")]
    for row in outcome.rows:
        between = f"{row['low']:,} to {_number(row['high'], 'any')}"
        numbers = (_number(row["in_force"]), _number(row["limit"]), between, _number(row["step"]))
        lines.append(form.format(row["resource_group"], row["dimension"], *numbers))
        lines += (f"    {line}" for line in _evidence(row))
    return "\n".join([*lines, *(f"warning: {warning}" for warning in outcome.warnings)])


def _number(value: int | None, unknown: str = "-") -> str:
    return unknown if value is None else f"{value:,}"


def _evidence(row: Mapping[str, Any]) -> Iterator[str]:
    seconds = row["seconds"]
    tried = ", ".join(
        f"{point['limit']:,}: {_between(point['least'], point['most'])}" for point in row["grid"]
    )
    yield f"throttled of {seconds:,} s ({row['allowed']:,} allowed), by limit: {tried}"
    if row["played"]:
        tried = ", ".join(f"{one['limit']:,}: {one['throttled']:,}" for one in row["played"])
        yield f"played again, of the busiest {row['played'][0]['seconds']:,} s: {tried}"
    if row["brokers"]:
        named = ", ".join(f"{one['broker']} ({one['seconds']:,} s)" for one in row["brokers"])
        yield f"would feel it: {named}"
    if row["namespaces"]:
        named = ", ".join(f"{one['name']} ({one['passed']:,})" for one in row["namespaces"])
        yield f"most traffic in those minutes: {named}"
    growth = row["growth"]
    if growth:
        yield f"grows by {growth['per_day']:,.0f} a day: {growth['ahead']:,} in {AHEAD_DAYS} days"
    for caution in row["cautions"]:
        yield f"caution: {caution}"


def _between(least: int, most: int) -> str:
    return f"{most:,}" if least == most else f"{least:,} to {most:,}"


def page(cluster: str, outcome: AdviceOutcome) -> str:
    """The whole page."""
    more = len(outcome.rows) - _PAGE_MAX
    rest = [f"{more:,} more groups and dimensions are in advice.json"] * (more > 0)
    return rendered(
        "advice.html",
        {"number": _number, "shown": _cell},
        cluster=cluster,
        share=f"{outcome.share:.3%}",
        warnings=[*outcome.warnings, *rest],
        rows=outcome.rows[:_PAGE_MAX],
        ahead_days=AHEAD_DAYS,
    )


def _cell(value: Any, _column: str) -> str:
    return value if isinstance(value, str) else _number(None if value is None else round(value))
