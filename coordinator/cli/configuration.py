"""``pulsar-quota config``: print an example of a configuration, or check one before it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.failures import WrongUse
from coordinator.cli.output import echo, print_json
from coordinator.cli.session import session_of
from coordinator.config import Config, ConfigError, document_of, hints, load, split_address
from coordinator.core.addresses import host_and_port

_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where to reach a server that listens to all addresses."""

app = typer.Typer(help="Write and check the configuration of a sidecar.", no_args_is_help=True)

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Replaces a value of the file; may be repeated.", metavar="KEY=VALUE"
    ),
]


def load_or_refuse(path: Path, settings: list[str] | None) -> Config:
    """Read a configuration.

    Raises:
        WrongUse: the configuration cannot be used; the message names the key and the fix.
    """
    try:
        return load(path, settings or ())
    except ConfigError as error:
        raise WrongUse(str(error)) from error


def api_of(config: Config) -> str:
    """Return the URL of a sidecar's admin API on its own machine."""
    host, port = split_address("admin_listen", config.admin_listen)
    scheme = "https" if config.admin_tls_certificate_file else "http"
    return f"{scheme}://{host_and_port(_LOOPBACK.get(host, host), port)}"


@app.command()
def example() -> None:
    """Print a configuration file with every key, its unit, its default and the reason for it."""
    # Only this command reads docstrings.
    from coordinator.config.reference import example as text  # noqa: PLC0415

    echo(text(), nl=False)


@app.command()
def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The configuration, a TOML file.", metavar="FILE")],
    settings: Settings = None,
) -> None:
    """Check a configuration file without starting anything; exit with 2 when it is refused."""
    config = load_or_refuse(file, settings)
    if session_of(context).as_json:
        told = list(hints(document_of(file, settings or ())))
        print_json({"file": str(file), "broker": config.broker_id, "valid": True, "hints": told})
    else:
        for hint in hints(document_of(file, settings or ())):
            echo(f"{file}: {hint}")
        echo(f"{file}: complete and consistent, for {config.broker_id}")
