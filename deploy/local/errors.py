"""The launcher's errors, split by the reaction of their catcher.

No waiting mends a `HopelessError`: a `MissingProgramError` is for the person who prepares the
machine, a `WrongUseError` for the author of the command. Everything else is a cluster that did not do as
told. The command lines turn the first kind into exit code 2 and the rest into 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from deploy.local.interruption import interrupted_once


class LocalClusterError(Exception):
    """The cluster, or one of its processes, did not do what was asked of it."""


class HopelessError(LocalClusterError):
    """It fails however often it is tried. Only its subclasses are raised."""


class MissingProgramError(HopelessError):
    """A program that must be on the machine is absent or too old; the text says how to get it."""


class WrongUseError(HopelessError):
    """The request makes no sense as it stands; nothing has been changed."""


class AdminRestError(LocalClusterError):
    """A broker's admin REST answered with an error.

    Attributes:
        status: the HTTP status code.
        body: the start of the answer's text.
    """

    def __init__(self, method: str, url: str, status: int, body: str) -> None:
        """Describe the request and its answer."""
        super().__init__(f"{method} {url} answered {status}: {body}")
        self.status = status
        self.body = body


def exit_code(
    work: Callable[[], int],
    interrupted: str = "interrupted; everything that was started is stopped",
) -> int:
    """Do a command's work and return its exit code; a failure is told on standard error.

    Args:
        work: returns the exit code, or raises.
        interrupted: what is told after Ctrl-C or SIGTERM.
    """
    try:
        # An `up` that is stopped half-way stops what it has started.
        with interrupted_once():
            return work()
    except LocalClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, HopelessError) else 1
    except KeyboardInterrupt:
        print(f"error: {interrupted}", file=sys.stderr)
        return 1
