"""A run ends when those who look on have ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deploy.chaos.run import ChaosRun
from deploy.local.errors import LocalClusterError


def test_a_run_ends_when_counters_or_sidecars_are_not_looked_at_any_more() -> None:
    """Otherwise missing sights would be told as the sidecars' fault."""
    testbed: Any = SimpleNamespace(
        web_urls={"broker-1": "http://127.0.0.1:1"},
        topic_of={"broker-1": "persistent://t/n/a"},
        brokers={"broker-1": None},
        sidecars=None,
        group="g",
        check=lambda: None,
    )
    run = ChaosRun(testbed, lambda _: None)
    with pytest.raises(LocalClusterError, match="counters are no longer sampled"):
        run._attend()
    with run._sampler, pytest.raises(LocalClusterError, match="sidecars are no longer asked"):
        run._attend()
