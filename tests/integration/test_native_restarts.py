"""Brokers and sidecars that die and come back, again and again, under native enforcement."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice

import pytest

from coordinator.core.topics import RESOURCE_USAGE_TOPIC
from deploy.demo.counters import CounterSampler
from deploy.demo.curves import curves, total
from tests.integration.native_world import LIMIT, Native
from tests.integration.world import eventually

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.own_cluster,
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.verify,
]

RESTARTS = int(os.environ.get("RESTARTS", "2"))
"""The number of restarts; an environment variable of this name asks for more."""

INTERVAL_S = 1.0
_WINDOWS = 4
"""Two intervals with a wrong quota reach into three windows of an interval at most."""
_BETWEEN_S = 3.0
_OFFERED = 2_000
"""Per second and broker: more than its part, and little more, as the machine has the clients, too."""


def fair(native: Native) -> dict[str, float]:
    """Each broker's equal part of the limit."""
    return dict.fromkeys(native.by_broker, LIMIT / len(native.by_broker))


@contextmanager
def shared_before_and_after(native: Native) -> Iterator[None]:
    """See that all share alike before and after, and that no more than the limit passes for long.

    Between the two a broker that is not there takes nothing, so only the sum is bounded. One that starts
    lets the whole record pass, at once and for each second until its second interval; the others hold
    for as long what they had gained.
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
    intervals = int((ended_s - began_s) / INTERVAL_S) - _WINDOWS
    rates = [total(by_broker, began_s + each * INTERVAL_S, INTERVAL_S) for each in range(intervals)]
    runs = [rates[at : at + _WINDOWS] for at in range(intervals - _WINDOWS + 1)]
    longest = max(runs, key=min)
    assert min(longest) <= 1.1 * LIMIT, rates
    assert max(map(sum, runs)) * INTERVAL_S <= 1.1 * LIMIT * _WINDOWS + 2 * native.record(), rates


def test_no_restart_lets_more_pass_than_the_limit_for_longer_than_two_intervals(
    native: Native,
) -> None:
    """Each broker in turn, and its topic is moved back; afterwards all share again."""
    with shared_before_and_after(native):
        for name in islice(cycle(native.brokers), RESTARTS):
            restart(native, name)
            time.sleep(_BETWEEN_S)


def test_a_stranger_that_speaks_before_a_broker_that_starts_is_named_and_takes_nothing(
    native: Native,
) -> None:
    """It names the group before the broker does, and 1 message is what it leaves that broker."""
    with native.load(dict.fromkeys(native.by_broker, _OFFERED)):
        native.comes_to(fair(native), within=0.05)
        with native.stranger_in_the_name_of("broker-2", messages=1):
            restart(native, "broker-2")
            eventually(
                lambda: native.service_url("broker-2") in native.conditions().get("stranger", ""),
                "a sidecar names the stranger",
            )
            native.comes_to(fair(native), within=0.1)
        native.comes_to(fair(native), within=0.05)


def test_the_topics_owner_and_all_sidecars_may_die(native: Native) -> None:
    """Brokers keep their last quotas; entries that sidecars leave read as brokers' own reports."""
    with shared_before_and_after(native):
        restart(native, native.topics.owner(RESOURCE_USAGE_TOPIC).name)
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
