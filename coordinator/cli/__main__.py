"""``pulsar-quota``: the root of all commands, and the only module that reads the environment.

The global options may stand before or behind the command, because users type ``groups list --json``.
"""

from __future__ import annotations

import errno
import json
import sys
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from coordinator.cli.commands import Commands
from coordinator.cli.failures import CommandFailed
from coordinator.cli.output import echo, make_output_safe
from coordinator.cli.session import GlobalOptions
from coordinator.cli.trust import trust
from coordinator.insight.model.printable import printable


def _file_option(variable: str, help_: str) -> Any:
    return typer.Option(envvar=variable, help=help_, show_default=False, metavar="FILE")


_DEFAULT_API = "http://127.0.0.1:8087"
_GLOBAL_FLAG = "--json"
_GLOBAL_OPTIONS = ("--api", "--token", "--tls-ca", "--tls-certificate", "--tls-key")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _Root(TyperGroup):
    """Takes global options from anywhere, and turns failures into one line and an exit code."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast("Any", Commands())

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as the parser calls it
        return list(self.commands)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for each in args:
            if not _is_text(each):
                ctx.fail(f"{printable(each)} is not written in UTF-8.")
        return super().parse_args(ctx, _globals_first(args))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CommandFailed as failure:
            session = ctx.find_object(GlobalOptions)
            as_json = session is not None and session.as_json
            echo(json.dumps({"reason": str(failure)}) if as_json else str(failure), err=True)
            raise typer.Exit(failure.exit_code) from failure


def _is_text(argument: str) -> bool:
    """Return whether an argument can be sent; Python keeps bytes that are no letters as surrogates."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _globals_first(args: list[str]) -> list[str]:
    first: list[str] = []
    rest: list[str] = []
    remaining = iter(args)
    for argument in remaining:
        option, equals, _ = argument.partition("=")
        if argument == "--":
            rest += [argument, *remaining]
        elif argument == _GLOBAL_FLAG or (equals and option in _GLOBAL_OPTIONS):
            first.append(argument)
        elif argument in _GLOBAL_OPTIONS:
            value = next(remaining, None)
            if value is None:
                return [argument]  # the parser reports what is missing
            first += [argument, value]
        else:
            rest.append(argument)
    return first + rest


app = typer.Typer(
    cls=_Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Coordinates Pulsar's resource-group limits across brokers.",
)


@app.callback()
def root(
    context: typer.Context,
    api: Annotated[
        str | None,
        typer.Option(
            envvar="PULSAR_QUOTA_API",
            help="URL of a sidecar's admin API.",
            show_default=_DEFAULT_API,
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="PULSAR_QUOTA_TOKEN", help="Token for the API.", show_default=False),
    ] = None,
    tls_ca: Annotated[
        str | None,
        _file_option("PULSAR_QUOTA_TLS_CA", "Authorities of an https API, not the system's (PEM)."),
    ] = None,
    tls_certificate: Annotated[
        str | None,
        _file_option("PULSAR_QUOTA_TLS_CERTIFICATE", "Certificate to show the API (PEM)."),
    ] = None,
    tls_key: Annotated[
        str | None, _file_option("PULSAR_QUOTA_TLS_KEY", "Its private key (PEM).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make the session that the command works with."""
    context.obj = GlobalOptions(
        api or _DEFAULT_API,
        token,
        as_json,
        trust(tls_ca, tls_certificate, tls_key),
        context.obj,  # a Python caller may hand in the transport of the requests
        is_named=api is not None,
    )


def main() -> None:
    """Run the command line; what standard output does not take is told in one line, too."""
    make_output_safe()
    try:
        app(prog_name="pulsar-quota")
    except OSError as error:  # of a closed pipe the parser takes care
        if error.errno not in _FULL:
            raise
        echo(f"The output cannot be written: {error.strerror}.", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
