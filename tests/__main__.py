"""All tests: `python -m tests`, which is what `make test` runs.

Two sequences run side by side. Tests that share one real cluster wait for most of their time, and are
shown as they go. In the time that they leave run, part by part, tests that start a cluster of their own;
those of sockets, processes and browsers, which wait for a real clock as well; and all others, which only
compute and keep every processor busy, at the lowest priority. A part is shown when it ends. Tests that
hold a busy machine to times of their own run last, alone.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import IO, Final

from tests.rooms import REAL_TIME, WITH_CLUSTER

SHARED: Final = "cluster and not own_cluster and not alone"
OWN: Final = "own_cluster and not alone"
WITHOUT: Final = "not cluster and not alone"
ALONE: Final = "alone"
SIDE_BY_SIDE: Final = ("--numprocesses", "auto", "--maxprocesses", "4", "--dist", "worksteal")
LEAST_PRIORITY: Final = ("nice", "-n", "19")
PATIENT: Final = ("--timeout", "1200")
"""At the lowest priority a test may take several times as long."""


def main() -> int:
    """Run all tests and return the first exit code that is not 0."""
    for number in (signal.SIGTERM, signal.SIGINT):  # what starts us may have had SIGINT ignored
        signal.signal(number, _interrupt)
    elsewhere = (f"--ignore={room}" for room in REAL_TIME)
    computing = (*tests(WITHOUT), *SIDE_BY_SIDE, *PATIENT, *elsewhere)
    with running((*tests(SHARED), *WITH_CLUSTER)) as shared:
        codes = [
            heard((*tests(OWN), *WITH_CLUSTER)),
            heard((*tests(WITHOUT), *REAL_TIME)),
            heard((*LEAST_PRIORITY, *computing)),
            shared.wait(),
        ]
    with running((*tests(ALONE), *WITH_CLUSTER)) as alone:
        codes.append(alone.wait())
    return next((code for code in codes if code), 0)


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


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main())
