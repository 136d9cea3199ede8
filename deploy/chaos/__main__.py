"""The command line: `python -m deploy.chaos`, which is what `make chaos` runs.

SEED, MINUTES, MISHAPS and POLICY in the environment choose the run. MISHAPS is how many, or the names of
those that shall happen in this order. Exit codes: 0 nothing was found, 1 something was, or the run
failed, 2 wrong use or a missing program.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType

from deploy import command_line
from deploy.chaos import LISTENERS
from deploy.chaos.checker.history import History
from deploy.chaos.checker.verdict import Verdict, judge
from deploy.chaos.mishaps import MISHAPS
from deploy.chaos.run import Run
from deploy.chaos.schedule import Planned, of_names, schedule
from deploy.chaos.stage import Stage
from deploy.demo.errors import WrongUse
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions

_BROKERS = ("broker-1", "broker-2", "broker-3")
_ZOOKEEPERS = 3
_MINUTES = 10.0
_MISHAPS_A_MINUTE = 4


def main(arguments: list[str] | None = None) -> int:
    """Run once and return the exit code."""
    options = _parser().parse_args(arguments)
    return command_line.exit_code(lambda: _chaos(options.state_dir.absolute()))


def _chaos(directory: Path) -> int:
    seed = int(_number("SEED", random.SystemRandom().randrange(1_000_000)))
    minutes = _number("MINUTES", _MINUTES)
    if minutes <= 0:
        raise WrongUse(f"MINUTES is {minutes:g}: more than 0 are needed.")
    policy = command_line.policy()
    planned = _planned(seed, minutes)
    print(f"seed {seed}, policy {policy}, at most {minutes:g} minutes, {len(planned)} mishaps:")
    for number, each in enumerate(planned, start=1):
        print(f"  {number}. {each}")
    signal.signal(signal.SIGTERM, _interrupt)
    shutil.rmtree(directory / "run", ignore_errors=True)
    (directory / "run").mkdir(parents=True)
    options = ClusterOptions(
        state_dir=directory / "cluster", zookeepers=_ZOOKEEPERS, listeners=LISTENERS
    )
    tell("starting three ZooKeepers, a bookie, three brokers and three sidecars")
    with (
        Cluster.start(options) as cluster,
        Stage(cluster, directory / "run", policy, seed) as stage,
    ):
        history = Run(stage, tell).play(planned, time.monotonic() + 60 * minutes)
    keep(history, directory / "run" / "history.json")
    verdict = judge(history)
    show(verdict)
    print(f"Logs: {directory}")
    return 1 if verdict.findings else 0


def tell(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


def keep(history: History, file: Path) -> None:
    """Write down what the verdict is made from; the messages are in the clients' own files."""
    seen = asdict(replace(history, topics=()))
    file.write_text(json.dumps(seen, default=sorted) + "\n")


def show(verdict: Verdict) -> None:
    """Print what was found, and in how much."""
    print(f"looked at: {verdict.looked_at}")
    for finding in verdict.findings:
        print(f"FOUND {finding.rule}: {finding.text}")
    print(f"{len(verdict.findings)} findings" if verdict.findings else "nothing found")


def _planned(seed: int, minutes: float) -> list[Planned]:
    wanted = os.environ.get("MISHAPS") or str(max(1, round(minutes * _MISHAPS_A_MINUTE)))
    if wanted.isdecimal():
        if int(wanted) == 0:
            raise WrongUse("MISHAPS is 0: at least one is needed, or their names.")
        return schedule(seed, int(wanted), _BROKERS)
    names = [name.strip() for name in wanted.split(",")]
    unknown = [name for name in names if name not in MISHAPS]
    if unknown:
        raise WrongUse(f"MISHAPS names {', '.join(unknown)}: use {', '.join(sorted(MISHAPS))}.")
    return of_names(seed, names, _BROKERS)


def _number(name: str, default: float) -> float:
    text = os.environ.get(name) or str(default)
    try:
        return float(text)
    except ValueError:
        raise WrongUse(f"{name} is {text!r}: a number is needed.") from None


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    default = Path(tempfile.gettempdir()) / f"pulsar-quota-chaos-{os.getuid()}"
    parser = argparse.ArgumentParser(
        prog="python -m deploy.chaos",
        description="Mishaps on a real cluster under load, and whether the promises hold.",
    )
    parser.add_argument(
        "--state-dir", type=Path, default=default, help=f"cluster and logs; default: {default}"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
