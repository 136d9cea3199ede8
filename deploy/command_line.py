"""The common part of the command lines of `make demo` and `make chaos`: exit codes and settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable

from coordinator.core.transfer.policies import BALANCED, POLICIES
from deploy.local.errors import LocalClusterError, MissingProgramError, WrongUseError
from deploy.local.jars import DEFAULT_PULSAR, TRIED_PULSARS, is_version


def exit_code(work: Callable[[], int]) -> int:
    """Do the work and return its exit code: 1 if it fails, 2 for wrong use or a missing program."""
    try:
        return work()
    except (WrongUseError, MissingProgramError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except LocalClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted; everything that was started is stopped", file=sys.stderr)
        return 1


def policy() -> str:
    """The group's overshoot policy: POLICY in the environment, or balanced; raises WrongUseError."""
    chosen = os.environ.get("POLICY") or BALANCED
    if chosen not in POLICIES:
        raise WrongUseError(f"POLICY is {chosen!r}: use {', '.join(POLICIES)}.")
    return chosen


def pulsar() -> str:
    """The version of the brokers: PULSAR in the environment, or the launcher's; raises WrongUseError."""
    chosen = os.environ.get("PULSAR") or DEFAULT_PULSAR
    if not is_version(chosen):
        raise WrongUseError(
            f"PULSAR is {chosen!r}: use a version, such as {', '.join(TRIED_PULSARS)}."
        )
    return chosen


def enforcement_path(possible: Iterable[str]) -> str:
    """Where limits are enforced: ENFORCE in the environment, or the gate; raises WrongUseError."""
    paths = sorted(possible)
    chosen = os.environ.get("ENFORCE") or "gate"
    if chosen not in paths:
        raise WrongUseError(f"ENFORCE is {chosen!r}: use {', '.join(paths)}.")
    return chosen
