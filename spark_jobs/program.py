"""End a job that runs as a program, as with spark-submit: text, error on stderr, and exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable

from spark_jobs.refusals import RefusedInput


def exit_code_of(work: Callable[[], tuple[str, int]], out: str | None) -> int:
    """Do the work of a job, show its text, and return the exit code.

    Args:
        work: returns the text to show and the exit code of a job that was done.
        out: the place that the job writes to, if any.

    Returns:
        The job's own code; 2 if its input or its request cannot be used, 1 if ``out`` cannot be written.
    """
    try:
        text, code = work()
    except RefusedInput as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error}\n" if out is None else f"{out}: cannot be written: {error}\n")
        return 1
    sys.stdout.write(f"{text}\n")
    return code
