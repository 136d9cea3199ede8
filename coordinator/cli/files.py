"""``groups apply``, ``groups export`` and ``import``: groups from files and from Pulsar itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
import yaml

from coordinator.cli import manifest
from coordinator.cli.manifest import Declared
from coordinator.cli.output import echo, print_json
from coordinator.cli.plan import carry_out, make_plan
from coordinator.cli.pulsar_groups import read_pulsar
from coordinator.cli.session import GlobalOptions, session_of

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be changed.")]


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Option("--file", "-f", help="Groups as YAML.", metavar="FILE")],
    dry_run: DryRun = False,
) -> None:
    """Make groups as a file says, after showing the difference.

    The file is the whole truth about the groups that it names, apart from attachments of a kind that
    it does not mention; other groups are left alone. `groups export` writes such a file.
    """
    _reach(session_of(context), manifest.read(file), [], dry_run=dry_run)


def export(context: typer.Context) -> None:
    """Write all groups and attachments as a file for `groups apply`."""
    session = session_of(context)
    with session.connect() as client:
        content = manifest.write(client.definitions())
    if session.as_json:
        print_json(content)
    else:
        echo(yaml.safe_dump(content, sort_keys=False), nl=False)


def import_groups(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Option("--from", help="Web service URL of a broker.", metavar="URL"),
    ],
    source_token: Annotated[
        str | None,
        typer.Option(envvar="PULSAR_TOKEN", help="Token for the broker.", show_default=False),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Copy the resource groups of a running Pulsar, and the namespaces attached to them.

    Nothing is changed in Pulsar, and nothing is deleted or detached here.
    """
    session = session_of(context)
    declared, notes = read_pulsar(source, source_token, session.transport)
    _reach(session, declared, notes, dry_run=dry_run)


def _reach(
    session: GlobalOptions, declared: Mapping[str, Declared], notes: list[str], *, dry_run: bool
) -> None:
    with session.connect() as client:
        steps = make_plan(client, declared)
        if not session.as_json:
            for line in (*notes, *(step.text for step in steps)):
                echo(line)
        if not dry_run:
            carry_out(client, steps)
    if session.as_json:
        texts = [step.text for step in steps]
        print_json({"changes": texts, "notes": notes, "made": not dry_run})
    elif not steps:
        echo("Nothing to change.")
    elif dry_run:
        echo(f"{len(steps)} to change; nothing was changed.")
    else:
        echo(f"{len(steps)} changed.")
