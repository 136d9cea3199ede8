"""The proof: `python -m tests`, which is what `make test` runs.

Its parts run one after the other, the quick ones first, and nothing runs beside a real cluster. A test
asserts counts, order, errors, states and exact limits, so it holds on a busy machine as on an idle one.
Rates, shares and latencies are measured by `python -m tests.verify`.

`python -m tests --pulsar 5.0.0-M1`, as `make test-release` does, runs the tests with a cluster on that
release of Pulsar.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from tests.pulsar_version import PULSAR
from tests.rooms import ON_JAVA, WITH_CLUSTER


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the tests, in a process of their own.

    Args:
        says: what it tests.
        marks: of its tests.
        options: of pytest.
        minutes: it takes on two idle cores, for the time that is left.
    """

    says: str
    marks: str
    options: tuple[str, ...]
    minutes: float


PROCESSES: Final = min(8, (os.cpu_count() or 1) + 1)
"""Some tests wait for sockets and processes meanwhile."""

SIDE_BY_SIDE: Final = ("--numprocesses", str(PROCESSES), "--dist", "worksteal")

WITHOUT_CLUSTER: Final = (
    Part(
        "core, gate, API, command, simulator, pages",
        "not cluster and not java and not verify",
        SIDE_BY_SIDE,
        4,
    ),
    # Each process would start Spark and compile its queries anew.
    Part("Spark and Pulsar's decoder", "java and not cluster and not verify", ON_JAVA, 2),
)
ON_CLUSTER: Final = (
    Part("ZooKeeper, bookie, brokers and their clients", "cluster and not verify", WITH_CLUSTER, 6),
)


def main(arguments: list[str] | None = None) -> int:
    """Run all tests, or those of a release, and return the first exit code that is not 0."""
    pulsar = _parser().parse_args(arguments).pulsar
    if pulsar is not None:
        os.environ[PULSAR] = pulsar
    for number in (signal.SIGTERM, signal.SIGINT):  # what starts us may have had SIGINT ignored
        signal.signal(number, _interrupt)
    with tempfile.TemporaryDirectory(prefix="pulsar-quota-tests-") as folder:
        # Each of some hundred processes would compile our modules anew where none may write.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
        parts = ON_CLUSTER if pulsar is not None else (*WITHOUT_CLUSTER, *ON_CLUSTER)
        return run(parts, Path(folder))


def run(parts: Sequence[Part], folder: Path) -> int:
    """Run the parts one after the other, all of them, and say at the end what has passed."""
    began_s, codes, total = time.monotonic(), list[int](), Counter[str]()
    for number, part in enumerate(parts):
        left = sum(each.minutes for each in parts[number:])
        _say(f"\nPart {number + 1} of {len(parts)}: {part.says}. About {left:.0f} min left in all.")
        outcome = folder / f"outcome-{number}.json"
        with running(command(part, outcome)) as process:
            codes.append(process.wait())
        if outcome.exists():
            total.update(json.loads(outcome.read_text(encoding="utf-8")))
    took = f"{(time.monotonic() - began_s) / 60:.1f} min"
    _say(f"\nIn {took}. What is measured, rates, shares and latencies, is in `make verify`.")
    _say(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return next((code for code in codes if code), 0)


def command(part: Part, outcome: Path) -> tuple[str, ...]:
    """Return the command that runs a part."""
    watched = ("-p", "tests.progress", "--outcome", str(outcome))
    slow = ("--durations", "10", "--durations-min", "5")
    return (sys.executable, "-m", "pytest", "-q", *watched, *slow, "-m", part.marks, *part.options)


@contextmanager
def running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program; it is interrupted, and ends what it has started, if something fails here.

    It has a process group of its own: a terminal's interrupt would reach it a second time.
    """
    with subprocess.Popen(command, process_group=0) as process:
        try:
            yield process
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # what the command is for


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests", description="Run the tests.")
    parser.add_argument("--pulsar", help="only those with a cluster, on this release of Pulsar")
    return parser


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main())
