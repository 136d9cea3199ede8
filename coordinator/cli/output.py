"""The layout of output: JSON for machines, numbers and tables for people.

Text from the network is never read as markup, so a reason with ``[red]`` in it is shown as it is, and
none of it commands the terminal: the consoles, `echo` and `print_json` are the only ways to print, and
each escapes characters without a glyph (coordinator.insight.model.printable).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from coordinator.core.answer import UNLIMITED, written
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.rates import in_digits
from coordinator.insight.model.printable import printable, printable_lines

_SIZE_WHEN_PIPED = (200, 24)
"""A pipe has no width: wide enough that no table is folded, unless COLUMNS says otherwise."""


class _EscapingConsole(Console):
    """Shows text from outside as text: only rich's own control sequences act on the terminal.

    A plain string is escaped before its layout, so that columns still fit; its line feeds are, too, since
    one in a name would begin a row of its own. All other content is escaped as it is rendered.
    """

    def render_str(self, text: str, **how: Any) -> Text:
        """Render a plain string, as in a message or a table's cell."""
        return super().render_str(printable(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render everything that is drawn."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)


def make_output_safe() -> None:
    """Have a letter that the locale lacks written as its number, and what is closed take everything."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    elif isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def console() -> Console:
    """Return a console on standard output, as wide as the terminal."""
    width = None if sys.stdout.isatty() else shutil.get_terminal_size(_SIZE_WHEN_PIPED).columns
    return _EscapingConsole(width=width, markup=False, highlight=False, emoji=False)


def progress_console() -> Console:
    """Return a console on standard error for progress; it prints only on a terminal."""
    return _EscapingConsole(stderr=True, markup=False, quiet=not sys.stderr.isatty())


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print lines as they are, to standard output or standard error."""
    typer.echo(printable_lines(text), err=err, nl=nl)


def print_json(value: object) -> None:
    """Print a value as JSON, answers in it as the API has them; letters beyond ASCII are escaped."""
    typer.echo(json.dumps(written(value), indent=2))


def table(columns: Sequence[str]) -> Table:
    """Return an empty table; a column whose name starts with ``>`` is aligned to the right."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        result.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold"
        )
    return result


def rate(value: float | Fraction | None) -> str:
    """Return a limit per second: 3,000 or 0.5 or unlimited."""
    return "unlimited" if value is None or value == UNLIMITED else in_digits(value)


def per_second(value: float | Fraction | None) -> str:
    """Return a limit with its unit: 3,000/s or unlimited."""
    return "unlimited" if value is None or value == UNLIMITED else f"{in_digits(value)}/s"


def percent(share: float) -> str:
    """Return a share of one: 61 %."""
    return f"{share:.0%}".replace("%", " %")


def span(nanos: int) -> str:
    """Return a time: 0.21 s, 3 min 5 s, 2 h 10 min."""
    if nanos < 60 * NANOS_PER_SECOND:
        return f"{nanos / NANOS_PER_SECOND:.2f} s"
    minutes, rest = divmod(nanos // NANOS_PER_SECOND, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def ago(nanos: int) -> str:
    """Return an age as a sentence names it: 0.21 s ago, 3 min 5 s ago."""
    return f"{span(nanos)} ago"


def lasting(millis: int) -> str:
    """Return a time that may be long: 3.2 s, 5 min, 7 h."""
    whole = millis // 1000
    if whole < 120:
        return f"{millis / 1000:.1f} s"
    return f"{whole // 60} min" if whole < 7_200 else f"{whole // 3600} h"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 broker, 1,200 brokers."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
