"""All tests: `python -m tests`, which is what `make test` runs.

Two sequences run side by side. Tests that share one real cluster wait for most of their time, and are
shown as they go. In the time that they leave run, part by part, tests that start a cluster of their own;
those of sockets, processes and browsers, which wait for a real clock as well; and all others, which only
compute and keep every processor busy, at the lowest priority. Of these, the ones on Java share a process,
as each process would start Spark and compile its queries anew. A part is shown when it ends. Tests that
hold a busy machine to times of their own run last, alone.

`python -m tests --pulsar 5.0.0-M1`, as `make test-release` does, runs those with a cluster, in the
same two sequences, on that release of Pulsar.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import IO, Final

from tests.pulsar_version import PULSAR
from tests.rooms import ON_JAVA, REAL_TIME, WITH_CLUSTER

SHARED: Final = "cluster and not own_cluster and not alone"
OWN: Final = "own_cluster and not alone"
WITHOUT: Final = "not cluster and not alone"
ALONE: Final = "alone"
SIDE_BY_SIDE: Final = ("--numprocesses", "auto", "--maxprocesses", "4", "--dist", "worksteal")
LEAST_PRIORITY: Final = ("nice", "-n", "19")
PATIENT: Final = ("--timeout", "1200")
"""At the lowest priority a test may take several times as long."""


def main(arguments: list[str] | None = None) -> int:
    """Run all tests, or those of a release, and return the first exit code that is not 0."""
    pulsar = _parser().parse_args(arguments).pulsar
    if pulsar is not None:
        os.environ[PULSAR] = pulsar
    for number in (signal.SIGTERM, signal.SIGINT):  # what starts us may have had SIGINT ignored
        signal.signal(number, _interrupt)
    with tempfile.TemporaryDirectory(prefix="pulsar-quota-compiled-") as compiled:
        # Each of some hundred processes would compile our modules anew where none may write.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = compiled
        codes = with_cluster() if pulsar is not None else everything()
        last = ALONE if pulsar is None else f"{ALONE} and cluster"
        with running((*tests(last), *WITH_CLUSTER)) as alone:
            codes.append(alone.wait())
    return next((code for code in codes if code), 0)


def with_cluster() -> list[int]:
    """Run the tests on real clusters, but for those that run alone; return their exit codes."""
    with running((*tests(SHARED), *WITH_CLUSTER)) as shared:
        return [heard((*tests(OWN), *WITH_CLUSTER)), shared.wait()]


def everything() -> list[int]:
    """Run all tests, but for those that run alone; return the exit codes of the parts."""
    on_java = (*tests(f"{WITHOUT} and java"), *PATIENT, *ON_JAVA)
    elsewhere = (f"--ignore={room}" for room in REAL_TIME)
    others = (*tests(f"{WITHOUT} and not java"), *SIDE_BY_SIDE, *PATIENT, *elsewhere)
    with running((*tests(SHARED), *WITH_CLUSTER)) as shared:
        return [
            heard((*tests(OWN), *WITH_CLUSTER)),
            heard((*tests(WITHOUT), *REAL_TIME)),
            heard((*LEAST_PRIORITY, *on_java)),
            heard((*LEAST_PRIORITY, *others)),
            shared.wait(),
        ]


def heard(command: Sequence[str]) -> int:
    """Run a program to its end, show what it has said, and return its exit code."""
    with tempfile.TemporaryFile() as said, running(command, said) as process:
        code = process.wait()
        said.seek(0)
        sys.stdout.buffer.write(b"\n")
        shutil.copyfileobj(said, sys.stdout.buffer)
        sys.stdout.flush()
        return code


@contextmanager
def running(
    command: Sequence[str], says_to: IO[bytes] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program; it is interrupted, and ends what it has started, if something fails here.

    It has a process group of its own: a terminal's interrupt would reach it a second time.
    """
    with subprocess.Popen(command, stdout=says_to, stderr=says_to, process_group=0) as process:
        try:
            yield process
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise


def tests(marks: str) -> tuple[str, ...]:
    """Return the command that runs the tests with these marks."""
    return (sys.executable, "-m", "pytest", "-m", marks)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests", description="Run the tests.")
    parser.add_argument("--pulsar", help="only those with a cluster, on this release of Pulsar")
    return parser


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main())
