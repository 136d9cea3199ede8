"""The common part of the commands that start Spark: options and failures.

Spark is an extra and takes seconds to load, so a command imports its job within ``spark_job``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from coordinator.cli.failures import CommandFailed, WrongUse

Recorded = Annotated[
    str, typer.Argument(help="Recording of the sidecars: a directory or URL.", metavar="PLACE")
]
Cluster = Annotated[str | None, typer.Option(help="This cluster's files only.", show_default=False)]
SkipUnreadable = Annotated[
    bool,
    typer.Option("--skip-unreadable", help="Leave files out that cannot be read, and name them."),
]
Cores = Annotated[int, typer.Option(help="Cores to use.", min=1)]


@contextmanager
def spark_job(out: str | None) -> Iterator[None]:
    """Turn a job's refusals and failures into those of a command.

    Args:
        out: the place that the job writes to, if any.

    Raises:
        WrongUse: the input or the request cannot be used.
        CommandFailed: Spark is not installed, or the output cannot be written.
    """
    try:
        with _refusals():
            yield
    except ModuleNotFoundError as error:
        raise CommandFailed(
            f"Spark is not installed ({error.name} is missing): pip install 'pulsar-quota[spark]'"
        ) from error
    except OSError as error:
        told = str(error) if out is None else f"{out}: cannot be written: {error}"
        raise CommandFailed(told) from error


@contextmanager
def _refusals() -> Iterator[None]:
    from spark_jobs.refusals import RefusedInput  # noqa: PLC0415

    try:
        yield
    except RefusedInput as error:
        raise WrongUse(str(error)) from error
