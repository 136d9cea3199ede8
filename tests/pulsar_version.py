"""The version of Pulsar that the real cluster of the tests runs."""

from __future__ import annotations

import os

from deploy.local.jars import DEFAULT_PULSAR

PULSAR = "PULSAR_QUOTA_TEST_PULSAR"
"""Environment variable: another version of Pulsar to run the cluster's tests on, such as 5.0.0-M1."""


def pulsar_version() -> str:
    """Return the version that is asked for, or the launcher's."""
    return os.environ.get(PULSAR) or DEFAULT_PULSAR
