"""Jobs as programs, as with spark-submit: options, text on stdout, error on stderr, and exit code."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from typing import Any

from spark_jobs.recording import SKIP_UNREADABLE
from spark_jobs.refusals import RefusedInput


def parser_of(
    name: str, about: str | None, out: str, *, out_required: bool = True
) -> ArgumentParser:
    """The options of every job.

    Args:
        name: of the program.
        about: its description.
        out: where it writes to, in words.
        out_required: whether it has to be told.
    """
    parser = ArgumentParser(prog=name, description=about)
    parser.add_argument("directory", help="what the sidecars recorded")
    parser.add_argument("--out", required=out_required, help=out)
    parser.add_argument("--cluster", help="this cluster's files only")
    parser.add_argument("--skip-unreadable", action="store_true", help=SKIP_UNREADABLE)
    return parser


def run(
    parser: ArgumentParser,
    arguments: Sequence[str] | None,
    produce: Callable[..., Any],
    text: Callable[[Any], str],
    as_json: Callable[[Any], str] | None = None,
) -> int:
    """Do the work of a job, show its outcome, and return the exit code.

    Args:
        parser: of its options, each of which has the name of a parameter of `produce`.
        arguments: of the program.
        produce: does the work; returns an outcome with an exit code.
        text: of an outcome, as it is shown.
        as_json: as machines are shown it, of a job with ``--json``.

    Returns:
        The job's own code; 2 if its input or request cannot be used, 1 if ``--out`` cannot be written.
    """
    if as_json is not None:
        parser.add_argument("--json", action="store_true", help="print JSON")
    options = vars(parser.parse_args(arguments))
    shown = as_json if options.pop("json", False) and as_json is not None else text
    try:
        outcome = produce(**options)
    except RefusedInput as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        out = options["out"]
        sys.stderr.write(f"{error}\n" if out is None else f"{out}: cannot be written: {error}\n")
        return 1
    sys.stdout.write(f"{shown(outcome)}\n")
    return int(outcome.exit_code)
