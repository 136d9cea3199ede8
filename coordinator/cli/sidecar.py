"""``pulsar-quota sidecar``: run a sidecar and its gate until it is told to stop."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.configuration import Settings, load_or_refuse
from coordinator.cli.failures import WrongUse
from coordinator.config import ConfigError, load
from coordinator.gate.process.spawning import handed_over, spawned
from coordinator.runtime.gc_tuning import not_collecting
from coordinator.runtime.left_out import DRAWING, leave_out


def sidecar(
    config: Annotated[Path, typer.Option(help="The configuration, a TOML file.", metavar="FILE")],
    settings: Settings = None,
) -> None:
    """Run a sidecar beside its broker."""
    # Its default would end the process; the loop's own handler takes its place when there is one.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    loaded = load_or_refuse(config, settings)
    # The gate's process loads while this one does.
    with spawned(listening=handed_over()) if loaded.has_gate else nullcontext() as gate:
        # Only this command needs the adapters, and loading them takes longer than the others run.
        leave_out(*DRAWING, "pydantic.v1")
        with not_collecting():
            from coordinator.app.sidecar import run  # noqa: PLC0415

        try:
            exit_code = run(loaded, lambda: load(config, settings or ()), gate)
        except ConfigError as error:
            raise WrongUse(str(error)) from error
    raise typer.Exit(exit_code)
