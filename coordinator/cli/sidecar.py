"""``pulsar-quota sidecar``: run a sidecar until it is told to stop, its gate in a process beside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.configuration import Settings, load_or_refuse
from coordinator.cli.failures import WrongUse
from coordinator.collector import not_collecting
from coordinator.config import ConfigError, load
from coordinator.gate_process.spawning import handed_over, spawned


def sidecar(
    config: Annotated[Path, typer.Option(help="The configuration, a TOML file.", metavar="FILE")],
    settings: Settings = None,
) -> None:
    """Run a sidecar beside its broker."""
    loaded = load_or_refuse(config, settings)
    # The gate's process loads beside what is loaded here.
    with spawned(listening=handed_over()) as gate:
        # Only this command needs the adapters, and loading them takes longer than the others run.
        with not_collecting():
            from coordinator.sidecar import run  # noqa: PLC0415

        try:
            exit_code = run(loaded, lambda: load(config, settings or ()), gate.end)
        except ConfigError as error:
            raise WrongUse(str(error)) from error
    raise typer.Exit(exit_code)
