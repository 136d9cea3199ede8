"""The command line: `python -m deploy.chaos`, which is what `make chaos` runs.

SEED or SEEDS, MINUTES, EVERY, MISHAPS and POLICY in the environment choose the runs (choices.py). Of many
runs those are left out that were clean in an earlier call. Exit codes: 0 nothing was found, 1 something
was, or a run failed, 2 wrong use or a missing program.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from rich.console import Console

from deploy.chaos import series
from deploy.chaos.choices import Choice, chosen
from deploy.chaos.environment import ClusterEnvironment
from deploy.chaos.results import Results, table
from deploy.local.errors import exit_code


def main(arguments: list[str] | None = None) -> int:
    """Play what is asked for and return the exit code."""
    options = _parser().parse_args(arguments)
    directory: Path = options.state_dir.absolute()
    file: Path = options.results or directory / "results.jsonl"
    return exit_code(lambda: _chaos(directory, Results(file)))


def _chaos(directory: Path, results: Results) -> int:
    choices = chosen()
    wanted = choices
    if len(choices) == 1:
        _announce(choices[0])
    else:
        wanted = tuple(results.missing(choices))
        tell(f"{len(choices)} runs, {len(choices) - len(wanted)} of them were clean before")
    try:
        series.play(wanted, ClusterEnvironment(directory, tell), results, _version(), tell)
    finally:
        if len(choices) > 1:
            Console().print(table(results.of(choices)))
        print(f"Logs: {directory}")
    return 0 if all(result.clean for result in results.of(choices)) else 1


def tell(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def _announce(choice: Choice) -> None:
    print(f"{choice}, at most {choice.minutes:g} minutes, {len(choice.planned)} mishaps:")
    for number, each in enumerate(choice.planned, start=1):
        print(f"  {number}. {each}")


def _version() -> str:
    """Return the commit of this code, or its release where there is no repository."""
    command = ("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return metadata.version("pulsar-quota")


def _parser() -> argparse.ArgumentParser:
    default = Path(tempfile.gettempdir()) / f"pulsar-quota-chaos-{os.getuid()}"
    parser = argparse.ArgumentParser(
        prog="python -m deploy.chaos",
        description="Mishaps on a real cluster under load, and whether the promises hold.",
    )
    parser.add_argument(
        "--state-dir", type=Path, default=default, help=f"cluster and logs; default: {default}"
    )
    parser.add_argument(
        "--results", type=Path, help="a line for each run; default: results.jsonl beside the logs"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
