"""Consoles and tables: output that rich draws.

Text from the network is never read as markup, so a reason with ``[red]`` in it is shown as it is. rich
takes 4 MB and as long to load as a short command runs: a command loads this module where it draws, and a
sidecar, which is a command as well, never does.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

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


def console() -> Console:
    """Return a console on standard output, as wide as the terminal."""
    width = None if sys.stdout.isatty() else shutil.get_terminal_size(_SIZE_WHEN_PIPED).columns
    return _EscapingConsole(width=width, markup=False, highlight=False, emoji=False)


def progress_console() -> Console:
    """Return a console on standard error for progress; it prints only on a terminal."""
    return _EscapingConsole(stderr=True, markup=False, quiet=not sys.stderr.isatty())


def table(columns: Sequence[str]) -> Table:
    """Return an empty table; a column whose name starts with ``>`` is aligned to the right."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        result.add_column(
            column.removeprefix(">"), justify="right" if right else "left", overflow="fold"
        )
    return result
