"""``pulsar-quota compact``: merge many small recorded files into few."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated

import typer

from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.output import echo, print_json
from coordinator.cli.session import session_of


def compact(
    context: typer.Context,
    place: Annotated[
        str,
        typer.Argument(
            help="Place that the sidecars record to: a directory or URL.", metavar="PLACE"
        ),
    ],
) -> None:
    """Merge small recorded files, day by day, while sidecars write and jobs read."""
    # Only this command needs Arrow, which takes 50 MB and half a second.
    from coordinator.adapters.recorder.compaction import Busy, compact  # noqa: PLC0415
    from coordinator.adapters.recorder.files import UnusablePlace, open_place  # noqa: PLC0415

    try:
        filesystem, root = open_place(place)
        done = compact(filesystem, root, time.time())
    except UnusablePlace as error:
        raise WrongUse(str(error)) from error
    except FileNotFoundError as error:
        raise WrongUse(f"{place}: no such directory; name what record_dir names") from error
    except (Busy, OSError) as error:
        raise CommandFailed(str(error)) from error
    if session_of(context).as_json:
        print_json(asdict(done))
    else:
        echo(
            f"{done.sources:,} files with {done.rows:,} rows are now {done.merged:,};"
            f" {done.removed:,} replaced ones were deleted"
        )
        for path in done.damaged:
            echo(f"warning: {path} cannot be read and was left alone")
    raise typer.Exit(1 if done.damaged else 0)
