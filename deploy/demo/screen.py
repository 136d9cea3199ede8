"""The live screen: twice a second at a terminal, one plain line every two seconds elsewhere.

Drawn on a thread of its own, because the story waits for processes and must not wait for a screen. A
picture that cannot be made, because a sidecar has just died, is left out: showing is never a reason to
stop what is shown.
"""

from __future__ import annotations

from typing import Self

import httpx
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deploy.background import Background
from deploy.demo.frame import BrokerRow, FrameMaker, ScreenFrame
from deploy.local.errors import LocalClusterError

_LIVE_PERIOD_S = 0.5
_PLAIN_PERIOD_S = 2.0
_BARS = "▁▂▃▄▅▆▇█"


class Screen(Background):
    """Shows frames while it is entered as a context; the last picture is left standing.

    Args:
        console: where to.
        maker: of the frames.
        system: its name, for the heading.
        addresses: where people may look meanwhile.
        acts: how many there are.
    """

    def __init__(
        self, console: Console, maker: FrameMaker, *, system: str, addresses: str, acts: int
    ) -> None:
        super().__init__({"screen": self._run})
        self._console = console
        self._maker = maker
        self._system = system
        self._addresses = addresses
        self._acts = acts

    def __enter__(self) -> Self:
        """Start showing."""
        if not self._console.is_terminal:
            self._console.print(f"{self._system}: {self._addresses}")
        return super().__enter__()

    def _run(self) -> None:
        if not self._console.is_terminal:
            while not self._stop.wait(_PLAIN_PERIOD_S):
                if frame := self._frame():
                    self._console.print(self._line(frame), soft_wrap=True, highlight=False)
            return
        with Live(console=self._console, auto_refresh=False) as live:
            while not self._stop.wait(_LIVE_PERIOD_S):
                if frame := self._frame():
                    live.update(self._picture(frame), refresh=True)

    def _frame(self) -> ScreenFrame | None:
        try:
            return self._maker.make()
        except (httpx.HTTPError, LocalClusterError):
            return None

    def _line(self, frame: ScreenFrame) -> str:
        brokers = "  ".join(
            f"{row.broker} {row.state} {row.admitted:,.0f}/s of {_number(row.limit)}"
            for row in frame.rows
        )
        return (
            f"t={frame.elapsed_s:.0f} s  act {frame.act}/{self._acts}  limit {frame.limit:,}/s  "
            f"admitted {frame.admitted:,.0f}/s  {brokers}  {frame.title}"
        )

    def _picture(self, frame: ScreenFrame) -> RenderableType:
        heading = Text(
            f"{self._system} demo   limit {frame.limit:,} msg/s publish   t={frame.elapsed_s:.0f} s   "
            f"act {frame.act}/{self._acts}: {frame.title}"
        )
        table = Table(box=None, pad_edge=False)
        table.add_column("broker")
        table.add_column("state")
        for title in ("demand", "limit", "admitted", "share of fair"):
            table.add_column(title, justify="right")
        table.add_column("last 30 s")
        highest = max((rate for row in frame.rows for rate in row.history), default=0.0)
        for row in frame.rows:
            table.add_row(*_cells(row, highest))
        known = [row.limit for row in frame.rows if row.limit is not None]
        table.add_row(
            "cluster",
            "",
            f"{sum(row.demand for row in frame.rows):,}",
            f"{sum(known):,}" if known else "-",
            f"{frame.admitted:,.0f}",
            "",
            "",
        )
        footing = Text("counted by the brokers themselves")
        return Group(heading, Text(self._addresses, style="dim"), table, footing)


def _cells(row: BrokerRow, highest: float) -> tuple[str, ...]:
    share = f"{row.admitted / row.fair:.1%}" if row.fair else "-"
    bars = "".join(_bar(rate, highest) for rate in row.history)
    demand = f"{row.demand:,}" if row.demand else "-"
    return (
        row.broker,
        row.state,
        demand,
        _number(row.limit),
        f"{row.admitted:,.0f}",
        share,
        bars,
    )


def _bar(rate: float, highest: float) -> str:
    level = int(rate / highest * len(_BARS)) if highest > 0 else 0
    return _BARS[min(level, len(_BARS) - 1)]


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
