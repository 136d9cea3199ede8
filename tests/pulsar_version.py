"""The version of Pulsar that the real clusters of the tests run."""

from __future__ import annotations

import os

import pytest

from deploy.local.jars import DEFAULT_PULSAR, TRIED_PULSARS

PULSAR = "PULSAR_QUOTA_TEST_PULSAR"
"""Environment variable: another version of Pulsar to run the clusters' tests on, such as 5.0.0-M1."""


def pulsar_version() -> str:
    """Return the version that is asked for, or the launcher's.

    Raises:
        UsageError: the launcher is not tried with it.
    """
    asked = os.environ.get(PULSAR) or DEFAULT_PULSAR
    if asked not in TRIED_PULSARS:
        tried = ", ".join(TRIED_PULSARS)
        raise pytest.UsageError(f"{PULSAR} is {asked!r}: use one of {tried}, or add it to them.")
    return asked
