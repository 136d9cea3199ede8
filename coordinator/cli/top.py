"""``pulsar-quota top``: the rates that each broker admits of each group, live.

A sidecar that stops answering while the table is shown becomes a line in the table and does not end it:
an outage is when an operator watches.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live

from coordinator.cli.client import AdminClient
from coordinator.cli.consoles import console, table
from coordinator.cli.explain import dimension_of, wanted
from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.fields import DIMENSION_NAMES
from coordinator.cli.frames import Frame, RateHistory, fair_share, read_frame, state_of
from coordinator.cli.output import counted, per_second, print_json, rate
from coordinator.cli.session import GlobalOptions, session_of
from coordinator.cli.status import TRIED_OUT, held_by
from coordinator.core.model import Dimension
from coordinator.insight.model.views import Explanation, WantView

_HISTORY_S = 30.0
_INTERVAL_S = (0.1, 3600.0)
"""The least and the most seconds between frames."""


def top(
    context: typer.Context,
    group: Annotated[
        str | None, typer.Argument(help="Only this group; the busiest ones by default.")
    ] = None,
    dimension: Annotated[
        str | None, typer.Option(help="The first one that is limited by default.")
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between frames, 0.1 to 3,600.")] = 0.5,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
) -> None:
    """Show a live table of every broker's part of a group; Ctrl-C ends it."""
    least, most = _INTERVAL_S
    if not least <= interval <= most:  # nan is in no range
        raise WrongUse(f"--interval {interval:g}: use a number from {least:g} to {most:,.0f}.")
    of = None if dimension is None else dimension_of(dimension)
    session = session_of(context)
    with session.connect() as client:
        history = RateHistory(max(1, round(_HISTORY_S / interval)))
        frame = read_frame(client, group, of)
        history.add(frame)
        if once or session.as_json:
            _print(session, frame, history)
            return
        try:
            _follow(client, group, of, interval, frame, history)
        except KeyboardInterrupt:
            return


def _print(session: GlobalOptions, frame: Frame, history: RateHistory) -> None:
    if session.as_json:
        print_json(
            {"health": frame.health, "groups": frame.groups, "groupsLeftOut": frame.left_out}
        )
    else:
        console().print(drawn(frame, history))


def _follow(
    client: AdminClient,
    group: str | None,
    dimension: Dimension | None,
    interval: float,
    frame: Frame,
    history: RateHistory,
) -> None:
    with Live(drawn(frame, history), console=console(), auto_refresh=False) as live:
        while True:
            sleep(interval)
            try:
                frame = read_frame(client, group, dimension)
            except CommandFailed as failure:
                stale = f"No answer, the table below is old: {failure}"
                live.update(Group(stale, drawn(frame, history)), refresh=True)
            else:
                history.add(frame)
                live.update(drawn(frame, history), refresh=True)


def drawn(frame: Frame, history: RateHistory) -> RenderableType:
    """Return a frame as it is shown."""
    parts: list[RenderableType] = []
    for explanation in frame.groups:
        parts += [
            _headline(explanation, frame),
            _rows(explanation, frame, history),
            *explanation.roles,
        ]
    if not frame.groups:
        parts.append("There are no resource groups.")
    if frame.left_out:
        parts.append(f"{counted(frame.left_out, 'more group')}; name one to see it.")
    degradations = [degradation.value for degradation in frame.health.degradations]
    if frame.health.enforcement_path != "gate":
        parts.append(f"{frame.health.broker}: limits are held {held_by(frame.health)}")
    return Group(*parts, *(f"degraded: {reason}" for reason in degradations))


def _headline(explanation: Explanation, frame: Frame) -> str:
    what = DIMENSION_NAMES[explanation.dimension.value]
    refused = "" if explanation.refused is None else _refused(explanation)
    tried = f", {TRIED_OUT}" if explanation.group in frame.observed else ""
    return (
        f"group {explanation.group}: {per_second(explanation.cluster_limit)} {what}{refused}{tried}"
    )


def _refused(explanation: Explanation) -> str:
    unit = explanation.dimension.unit.value
    return f", {explanation.refused:,} {unit} refused at {explanation.broker} so far"


def _rows(explanation: Explanation, frame: Frame, history: RateHistory) -> RenderableType:
    shown = table(
        ["broker", "state", ">demand", ">limit", ">admitted", ">share of fair", "last 30 s"]
    )
    wants = explanation.wants
    for want in wants:
        broker = want.broker
        shown.add_row(
            broker,
            state_of(broker, frame.health),
            wanted(want),
            rate(want.limit),
            f"{want.admitted:,}",
            _share(want, explanation.water_level),
            history.spark(explanation.group, broker),
        )
    shown.add_row("cluster", "", _demand(wants), _limits(wants), _sum(wants), "", "")
    return shown


def _share(want: WantView, water_level: int | None) -> str:
    fair = fair_share(want, water_level)
    return f"{want.admitted / fair:.1%}".replace("%", " %") if fair else "-"


def _demand(wants: Sequence[WantView]) -> str:
    # An unknown demand counts with its known part, and marks the sum as a lower bound.
    known = [want.admitted if want.wants is None else want.wants for want in wants]
    more = "> " if any(want.wants is None for want in wants) else ""
    return f"{more}{sum(known):,}"


def _limits(wants: Sequence[WantView]) -> str:
    limits = [want.limit for want in wants if want.limit is not None]
    return rate(sum(limits) if len(limits) == len(wants) else None)


def _sum(wants: Sequence[WantView]) -> str:
    return f"{sum(want.admitted for want in wants):,}"
