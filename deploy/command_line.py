"""The common settings of `make demo` and `make chaos`, from the environment."""

from __future__ import annotations

import os
from collections.abc import Iterable

from coordinator.core.transfer.policies import BALANCED, POLICIES
from deploy.local.errors import WrongUseError
from deploy.local.jars import DEFAULT_PULSAR, TRIED_PULSARS, is_version


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
