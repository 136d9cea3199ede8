"""All tests: `python -m tests`, which is what `make test` runs.

Three parts run side by side: tests that share one real cluster, which wait for most of their time; tests
that start a cluster of their own, in the time that those leave; and all that need no cluster, which keep
every processor busy, at the lowest priority. The first part is shown as it goes, the others when they
have ended. A test that measures time on a machine that it keeps busy itself runs last, alone.
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

SHARED: Final = "cluster and not own_cluster and not alone"
OWN: Final = "own_cluster and not alone"
OTHERS: Final = "not cluster and not alone"
ALONE: Final = "alone"
WORKERS: Final = ("--numprocesses", "auto", "--maxprocesses", "4", "--dist", "worksteal")
LEAST_PRIORITY: Final = ("nice", "-n", "19")
PATIENT: Final = ("--timeout", "1200")
"""At the lowest priority a test may take several times as long."""


def main() -> int:
    """Run all tests and return the first exit code that is not 0."""
    signal.signal(signal.SIGTERM, _interrupt)
    with (
        tempfile.TemporaryFile() as said_by_others,
        tempfile.TemporaryFile() as said_by_own,
        running((*LEAST_PRIORITY, *tests(OTHERS), *WORKERS, *PATIENT), said_by_others) as others,
        running(tests(OWN), said_by_own) as own,
        running(tests(SHARED)) as shared,
    ):
        codes = [ended(own, said_by_own), ended(others, said_by_others), shared.wait()]
    with running(tests(ALONE)) as alone:
        codes.append(alone.wait())
    return next((code for code in codes if code), 0)


def ended(process: subprocess.Popen[bytes], said: IO[bytes]) -> int:
    """Wait for a part, show what it has said, and return its exit code."""
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
            raise


def tests(marks: str) -> tuple[str, ...]:
    """Return the command that runs the tests with these marks."""
    return (sys.executable, "-m", "pytest", "-m", marks)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main())
