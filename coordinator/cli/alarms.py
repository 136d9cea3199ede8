"""``pulsar-quota alarms``: conditions that an operator should know of, and their remedies."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.output import console, lasting, print_json, table
from coordinator.cli.session import session_of
from coordinator.insight.model.answer import NANOS_PER_MILLI


def alarms(
    context: typer.Context,
    pending: Annotated[
        bool,
        typer.Option("--pending", help="Also conditions that have not lasted long enough to fire."),
    ] = False,
) -> None:
    """List alarms: near a limit, throttled, views that disagree, lost peers and the like."""
    session = session_of(context)
    with session.connect() as client:
        found = [each for each in client.alarms() if pending or each.state != "pending"]
    if session.as_json:
        print_json(found)
        return
    shown = table(["severity", "alarm", ">for", "state", "what", "what to do"])
    for alarm in found:
        shown.add_row(
            alarm.severity,
            alarm.alarm,
            lasting(alarm.age_ns // NANOS_PER_MILLI),
            alarm.state,
            alarm.text,
            alarm.action,
        )
    console().print(shown if found else "No alarm.")
