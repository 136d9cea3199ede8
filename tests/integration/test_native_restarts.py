"""Brokers and sidecars that die and come back, again and again, under native enforcement."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice

import pytest

from coordinator.adapters.pulsar.native_topic import TOPIC
from deploy.demo.counters import CounterSampler
from deploy.demo.curves import curves, total
from tests.integration.native_world import LIMIT, Native, opened

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.own_cluster,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
]

RESTARTS = int(os.environ.get("RESTARTS", "2"))
"""The number of restarts; an environment variable of this name asks for more."""

INTERVAL_S = 1.0
_LONGER_THAN_TWO_S = 3 * INTERVAL_S
_BETWEEN_S = 3.0
_OFFERED = 2_000
"""Per second and broker: more than its part, and little more, as the machine has the clients, too."""


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Native]:
    """Three brokers and their sidecars."""
    with opened(tmp_path_factory.mktemp("native")) as world:
        yield world


def fair(native: Native) -> dict[str, float]:
    """Each broker's equal part of the limit."""
    return dict.fromkeys(native.by_broker, LIMIT / len(native.by_broker))


@contextmanager
def shared_before_and_after(native: Native) -> Iterator[None]:
    """See that all share alike before and after, and no more than the limit passes for three intervals.

    Between the two a broker that is not there takes nothing, so only the sum is bounded.
    """
    web_urls = {name: broker.web_url for name, broker in native.brokers.items()}
    with (
        native.load(dict.fromkeys(native.by_broker, _OFFERED)),
        CounterSampler(web_urls, list(native.by_broker.values())) as sampler,
    ):
        native.comes_to(fair(native), within=0.05)
        began_s = time.monotonic()
        yield
        native.comes_to(fair(native), within=0.05)
        ended_s = time.monotonic()
        by_broker = curves(sampler.samples, sampler.misses)
    starts = [began_s + second for second in range(int(ended_s - began_s - _LONGER_THAN_TWO_S))]
    highest = max(total(by_broker, start, _LONGER_THAN_TWO_S) for start in starts)
    assert highest <= 1.1 * LIMIT


def test_no_restart_lets_more_pass_than_the_limit_for_longer_than_two_intervals(
    native: Native,
) -> None:
    """Each broker in turn, and its topic is moved back; afterwards all share again."""
    with shared_before_and_after(native):
        for name in islice(cycle(native.brokers), RESTARTS):
            restart(native, name)
            time.sleep(_BETWEEN_S)


def test_the_topics_owner_and_all_sidecars_may_die(native: Native) -> None:
    """Brokers keep their last quotas; entries that sidecars leave read as brokers' own reports."""
    with shared_before_and_after(native):
        restart(native, native.topics.owner(TOPIC).name)
        native.comes_to(fair(native), within=0.05)
        for name in native.brokers:
            native.sidecars.end(name, signal.SIGKILL)
        time.sleep(_BETWEEN_S)
        native.sidecars.start()
        native.comes_to(fair(native), within=0.05)
        for name in native.brokers:
            native.sidecars.end(name, signal.SIGTERM)
            native.sidecars.start(name)


def restart(native: Native, name: str) -> None:
    """Kill a broker, start it again and give its topic back to it."""
    native.cluster.kill(name)
    native.cluster.start_server(name)
    native.topics.move(native.by_broker[name], native.brokers[name])
