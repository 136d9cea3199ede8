"""``python -m benchmarks.pages simulate [NAME ...]`` makes the data anew, ``... draw`` the charts.

``... seeds REPORT`` takes the figures of the evidence page from what ``make verify`` has written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pages import charts, runs, seeds


def main() -> int:
    """Simulate or draw; 0 done, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    tasks = parser.add_subparsers(dest="task", required=True)
    simulate = tasks.add_parser("simulate", help="run the simulator and write what came of it")
    simulate.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="a file of data, as S3 or loss; all of them by default",
    )
    simulate.add_argument("--seeds", type=_seeds, default=runs.SEEDS, help="of each scenario")
    tasks.add_parser("draw", help="draw every chart from its data")
    shown = tasks.add_parser("seeds", help="keep the figures that tests have measured")
    shown.add_argument("report", type=Path, help="build/verify.json")
    arguments = parser.parse_args()
    if arguments.task == "seeds":
        sys.stderr.write(f"figures of {seeds.take(arguments.report)} rows\n")
        return 0
    if arguments.task == "draw":
        charts.draw_all()
        return 0
    return _simulate(arguments.names or list(runs.SUBJECTS), arguments.seeds)


def _simulate(names: Sequence[str], seeds: int) -> int:
    unknown = [name for name in names if name not in runs.SUBJECTS]
    if unknown:
        sys.stderr.write(f"{unknown[0]}: use one of {', '.join(runs.SUBJECTS)}\n")
        return 2
    for name in names:
        runs.write(name, seeds)
        sys.stderr.write(f"simulated {name}\n")
    return 0


def _seeds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: use a whole number from 1 on")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
