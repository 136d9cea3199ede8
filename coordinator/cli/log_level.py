"""``pulsar-quota log-level``: the level of a sidecar's log, changed while it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from coordinator.cli.failures import WrongUse
from coordinator.cli.output import echo, print_json
from coordinator.cli.session import session_of
from coordinator.runtime.logs import LEVELS


def log_level(
    context: typer.Context,
    level: Annotated[
        str | None,
        typer.Argument(
            help=f"{', '.join(LEVELS)}; shows the present one without.", show_default=False
        ),
    ] = None,
) -> None:
    """Show or set the level of the sidecar's log, until it is set again or restarts."""
    if level is not None and level not in LEVELS:
        raise WrongUse(f"{level}: use one of {', '.join(LEVELS)}.")
    session = session_of(context)
    with session.connect() as client:
        if level is not None:
            client.set_log_level(level)
        found = client.log_level()
    if session.as_json:
        print_json({"level": found})
    else:
        echo(found)
