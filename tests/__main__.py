"""The proof: `python -m tests`, which is what `make test` runs.

First comes all that needs no cluster, in three processes side by side, then the real cluster with nothing
beside it. A test asserts counts, order, errors, states and exact limits, so it holds on a busy machine as
on an idle one. Rates, shares and latencies are measured by `python -m tests.verify`.

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
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from tests.pulsar_version import PULSAR
from tests.rooms import COMPUTING, ON_JAVA, SERVICES_ALONE, WITH_CLUSTER


@dataclass(frozen=True, slots=True)
class Selection:
    """Tests that run one after the other, in a process of their own.

    Args:
        name: in a word, for its lines among those of others.
        marks: of its tests.
        options: of pytest.
    """

    name: str
    marks: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """Tests that run side by side.

    Args:
        says: what it tests.
        minutes: it takes on two idle cores, for the time that is left.
        selections: of tests, each in a process.
    """

    says: str
    minutes: float
    selections: tuple[Selection, ...]


_PURE: Final = "not cluster and not java and not verify"
_NOT_OF_THE_GATE: Final = (*COMPUTING, *SERVICES_ALONE)

WITHOUT_CLUSTER: Final = (
    Part(
        "core, gate, API, command, simulator, pages, Spark: no cluster",
        6,
        (
            Selection("core", _PURE, COMPUTING),
            Selection("gate", _PURE, ("tests", *map("--ignore={}".format, _NOT_OF_THE_GATE))),
            # Each process would start Spark and compile its queries anew.
            Selection("spark", "java and not cluster and not verify", ON_JAVA),
        ),
    ),
)
ON_CLUSTER: Final = (
    Part(
        "ZooKeeper, bookie, brokers and their clients",
        6,
        (Selection("cluster", "cluster and not verify", WITH_CLUSTER),),
    ),
)


def main(arguments: list[str] | None = None) -> int:
    """Run all tests, or those of a release, and return the first exit code that is not 0."""
    pulsar = _parser().parse_args(arguments).pulsar
    if pulsar is not None:
        os.environ[PULSAR] = pulsar
    for number in (signal.SIGTERM, signal.SIGINT):  # what starts us may have had SIGINT ignored
        signal.signal(number, _interrupt)
    with tempfile.TemporaryDirectory(prefix="pulsar-quota-tests-") as folder:
        # Else each of some hundred processes would compile all modules anew.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        # What was installed beside Python, such as helm, is a program of the tests, too.
        beside = str(Path(sys.executable).parent)
        os.environ["PATH"] = os.pathsep.join((beside, os.environ.get("PATH", os.defpath)))
        parts = ON_CLUSTER if pulsar is not None else (*WITHOUT_CLUSTER, *ON_CLUSTER)
        return run(parts, Path(folder))


def run(parts: Sequence[Part], folder: Path) -> int:
    """Run the parts one after the other, all of them, and say at the end what has passed."""
    began_s, codes, total = time.monotonic(), list[int](), Counter[str]()
    for number, part in enumerate(parts):
        left = sum(each.minutes for each in parts[number:])
        _say(f"\nPart {number + 1} of {len(parts)}: {part.says}. About {left:.0f} min left in all.")
        codes += side_by_side(part.selections, folder)
        for selection in part.selections:
            outcome = outcome_of(selection, folder)
            if outcome.exists():
                total.update(json.loads(outcome.read_text(encoding="utf-8")))
    took = f"{(time.monotonic() - began_s) / 60:.1f} min"
    _say(f"\nIn {took}. What is measured, rates, shares and latencies, is in `make verify`.")
    _say(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return next((code for code in codes if code), 0)


def side_by_side(selections: Sequence[Selection], folder: Path) -> list[int]:
    """Run selections at the same time, show their lines as they come, and return their exit codes."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(running(command(each, outcome_of(each, folder)), subprocess.PIPE))
            for each in selections
        ]
        prefixes = [f"{each.name}: " if len(selections) > 1 else "" for each in selections]
        showing = [
            threading.Thread(target=_show, args=(process, prefix))
            for process, prefix in zip(processes, prefixes, strict=True)
        ]
        for thread in showing:
            thread.start()
        codes = [process.wait() for process in processes]
        for thread in showing:
            thread.join()
        return codes


def outcome_of(selection: Selection, folder: Path) -> Path:
    """Return the file into which a selection's process writes how many tests passed."""
    return folder / f"outcome-{selection.name}.json"


def command(selection: Selection, outcome: Path) -> tuple[str, ...]:
    """Return the command that runs a selection."""
    watched = (
        "-p",
        "tests.progress",
        "--outcome",
        str(outcome),
        "-o",
        "console_output_style=classic",
    )
    slow = ("--durations", "10", "--durations-min", "5")
    chosen = ("-m", selection.marks, *selection.options)
    return (sys.executable, "-m", "pytest", "-q", *watched, *slow, *chosen)


@contextmanager
def running(command: Sequence[str], output: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a program; it is interrupted, and ends what it has started, if something fails here.

    It has a process group of its own: a terminal's interrupt would reach it a second time.

    Args:
        command: the program and its arguments.
        output: where it writes, as `subprocess` has it; None: where this one does.
    """
    with subprocess.Popen(
        command, process_group=0, stdout=output, text=True, encoding="utf-8"
    ) as process:
        try:
            yield process
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise


def _show(process: subprocess.Popen[str], prefix: str) -> None:
    """Show each line that a process writes, whole."""
    for line in process.stdout or ():
        _say(f"{prefix}{line.rstrip()}")


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
