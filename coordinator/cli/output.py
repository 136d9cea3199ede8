"""The layout of output: JSON for machines, lines and numbers for people.

None of the text from the network commands the terminal: `echo`, `print_json` and the consoles
(coordinator.cli.consoles) are the only ways to print, and each escapes characters without a glyph
(coordinator.insight.model.printable).
"""

from __future__ import annotations

import json
import os
import sys
from fractions import Fraction
from io import TextIOWrapper
from pathlib import Path

import typer

from coordinator.core.answer import UNLIMITED, written
from coordinator.core.model import NANOS_PER_SECOND
from coordinator.core.rates import in_digits
from coordinator.insight.model.printable import printable_lines


def make_output_safe() -> None:
    """Have a letter that the locale lacks written as its number, and what is closed take everything."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    elif isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print lines as they are, to standard output or standard error."""
    typer.echo(printable_lines(text), err=err, nl=nl)


def print_json(value: object) -> None:
    """Print a value as JSON, answers in it as the API has them; letters beyond ASCII are escaped."""
    typer.echo(json.dumps(written(value), indent=2))


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
