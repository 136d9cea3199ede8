"""Brokers that die and come back, again and again, under native enforcement."""

from __future__ import annotations

import os
import time
from itertools import cycle, islice
from pathlib import Path

import pytest

from deploy.demo.counters import CounterSampler
from deploy.demo.curves import curves, total
from tests.integration.native_world import LIMIT, opened

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1_200)]

RESTARTS = int(os.environ.get("RESTARTS", "2"))
"""How many; an environment variable of this name asks for more."""

INTERVAL_S = 1.0
_LONGER_THAN_TWO_S = 3 * INTERVAL_S
_BETWEEN_S = 3.0


def test_no_restart_lets_more_pass_than_the_limit_for_longer_than_two_intervals(
    tmp_path: Path,
) -> None:
    """Each broker in turn, and its topic is moved back; afterwards all share again."""
    with opened(tmp_path) as native:
        web_urls = {name: broker.web_url for name, broker in native.brokers.items()}
        topics = list(native.by_broker.values())
        with (
            native.load(dict.fromkeys(native.by_broker, 5_000)),
            CounterSampler(web_urls, topics) as sampler,
        ):
            native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)
            began_s = time.monotonic()
            for name in islice(cycle(native.brokers), RESTARTS):
                native.cluster.kill(name)
                native.cluster.start_server(name)
                native.topics.move(native.by_broker[name], native.brokers[name])
                time.sleep(_BETWEEN_S)
            ended_s = time.monotonic()
            native.comes_to(dict.fromkeys(native.by_broker, 1_000.0), within=0.05)
            by_broker = curves(sampler.samples, sampler.misses)
    starts = [began_s + second for second in range(int(ended_s - began_s - _LONGER_THAN_TWO_S))]
    highest = max(total(by_broker, start, _LONGER_THAN_TWO_S) for start in starts)
    assert highest <= 1.1 * LIMIT
