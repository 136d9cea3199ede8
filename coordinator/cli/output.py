"""How things look: JSON for machines, numbers and tables for people.

Nothing that came over the network is read as markup, so a reason with ``[red]`` in it is shown as that.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from coordinator.cli.answers import UNLIMITED

_SIZE_WHEN_PIPED = (200, 24)
"""A pipe has no width: wide enough that no table is folded, unless COLUMNS says otherwise."""


def console() -> Console:
    """A console on standard output, as wide as the terminal."""
    width = None if sys.stdout.isatty() else shutil.get_terminal_size(_SIZE_WHEN_PIPED).columns
    return Console(width=width, markup=False, highlight=False, emoji=False)


def print_json(value: object) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2))


def table(columns: Sequence[str]) -> Table:
    """An empty table; a column whose name starts with ``>`` is aligned to the right."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        result.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold"
        )
    return result


def rate(value: int) -> str:
    """A limit per second: 3,000 or unlimited."""
    return "unlimited" if value == UNLIMITED else f"{value:,}"


def per_second(value: int) -> str:
    """A limit with its unit: 3,000/s or unlimited."""
    return "unlimited" if value == UNLIMITED else f"{value:,}/s"


def percent(share: float) -> str:
    """A share of one: 61 %."""
    return f"{share:.0%}".replace("%", " %")


def seconds(millis: int) -> str:
    """An age: 0.21 s."""
    return f"{millis / 1000:.2f} s"


def lasting(millis: int) -> str:
    """A time that may be long: 3.2 s, 5 min, 7 h."""
    whole = millis // 1000
    if whole < 120:
        return f"{millis / 1000:.1f} s"
    return f"{whole // 60} min" if whole < 7_200 else f"{whole // 3600} h"


def counted(number: int, noun: str) -> str:
    """One broker, two brokers."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
