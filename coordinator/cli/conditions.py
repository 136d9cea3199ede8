"""``pulsar-quota conditions``: what holds now and an operator should know of, and the remedies."""

from __future__ import annotations

import typer

from coordinator.cli.output import console, print_json, table
from coordinator.cli.session import session_of


def conditions(context: typer.Context) -> None:
    """List what holds and matters: limits that are near, views that disagree, lost peers and more."""
    session = session_of(context)
    with session.connect() as client:
        found = client.conditions()
    if session.as_json:
        print_json(found)
        return
    shown = table(["severity", "condition", "what", "what to do"])
    for each in found:
        shown.add_row(each.severity, each.condition, each.sentence, each.remedy)
    console().print(shown if found else "No condition holds.")
