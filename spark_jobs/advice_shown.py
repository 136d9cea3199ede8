"""Advice for people and machines: a table for a terminal, JSON, and a page that opens offline."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from spark_jobs.advice import AHEAD_DAYS
from spark_jobs.style import STYLE

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
    rest = f"{more:,} more groups and dimensions are in advice.json" if more > 0 else ""
    body = (
        f"<h1>Limits that would have throttled for {outcome.share:.3%} of the time at most</h1>",
        f'<p class="soft">Advice for cluster {escape(cluster)}, from what was recorded.</p>',
        _notes([*outcome.warnings, *([rest] if rest else [])]),
        *(_of_row(row) for row in outcome.rows[:_PAGE_MAX]),
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Advised limits: {escape(cluster)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _of_row(row: Mapping[str, Any]) -> str:
    seconds = row["seconds"]
    return "".join(
        (
            f"<h2>{escape(row['resource_group'])} {escape(row['dimension'])}</h2>",
            f"<p>{_sentence(row)}</p>",
            _notes(row["cautions"]),
            _table(
                f"Throttled seconds of {seconds:,}, {row['allowed']:,} allowed",
                ("limit", "seconds"),
                (
                    (f"{point['limit']:,}", _between(point["least"], point["most"]))
                    for point in row["grid"]
                ),
            ),
            _table(
                "The busiest seconds, played again by the core",
                ("limit", "throttled seconds", "of"),
                (
                    (f"{one['limit']:,}", f"{one['throttled']:,}", f"{one['seconds']:,}")
                    for one in row["played"]
                ),
            ),
            _table(
                "Brokers that would feel it",
                ("broker", "seconds", "lacking"),
                (
                    (one["broker"], f"{one['seconds']:,}", f"{one['lacking']:,.0f}")
                    for one in row["brokers"]
                ),
            ),
            _table(
                "Namespaces with most of the traffic in those minutes",
                ("namespace", "passed"),
                ((one["name"], f"{one['passed']:,}") for one in row["namespaces"]),
            ),
            _table(
                "Days (UTC)",
                ("day", "known seconds", "limit of this day alone", "throttled seconds"),
                (
                    (
                        day["day"],
                        f"{day['seconds']:,}",
                        _number(day["limit"]),
                        f"{day['throttled']:,}",
                    )
                    for day in row["days"]
                ),
            ),
        )
    )


def _sentence(row: Mapping[str, Any]) -> str:
    growth = row["growth"]
    grown = f", {growth['ahead']:,} in {AHEAD_DAYS} days as it grows" if growth else ""
    return (
        f"In force {_number(row['in_force'], 'no limit')}; advised"
        f" <strong>{_number(row['limit'], 'not known')}</strong>, which may be {row['low']:,} to"
        f" {_number(row['high'], 'any')}{grown}. Next step: {_number(row['step'])}."
    )


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<div class="note"><strong>Read this first</strong><ul>{items}</ul></div>'


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    if not cells:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return (
        f'<h3>{escape(title)}</h3><div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{cells}</tbody></table></div>"
    )
