"""The bus with the names that PIP-82 gives its settings, and reports that are dropped for their age."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import httpx
import pulsar
import pytest

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.integration.steady import Steady
from tests.integration.world import TENANT, World, eventually, make_world, other_sidecars

pytestmark = pytest.mark.cluster

Connect = Callable[[str], pulsar.Client]
Figure = Callable[[str, str], None]
INTERVAL_S = 2
AGE_MAX_S = 1.0
STOPPED_S = 3.0
"""More than an interval and the greatest age, and less than a session's timeout."""

SETTINGS: dict[str, object] = {
    "resourceUsagePublishToTopic": True,
    "resourceUsagePublishIntervalInSecs": INTERVAL_S,
    "bus_message_age_max_seconds": AGE_MAX_S,
}


@pytest.fixture(scope="module")
def world(
    cluster: Cluster, sidecars: Sidecars, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Sidecars that are configured as PIP-82 has it."""
    directory = tmp_path_factory.mktemp("pip82")
    with (
        other_sidecars(cluster, sidecars, directory, SETTINGS) as own,
        httpx.Client(trust_env=False, timeout=30.0) as http,
    ):
        yield make_world(cluster, own, http, f"{TENANT}/pip82")


@pytest.mark.shows("pip-82/config-enable", "pip-82/ids")
def test_reports_have_no_names_of_groups(world: World, connect: Connect, figure: Figure) -> None:
    """All know the usage of all, though no report on the bus has the name of the group in it."""
    world.limit(publishRateInMsgs=900, law="static", overshootPolicy="eager")
    name, payloads = world.group.encode(), dict[str, list[bytes]]()
    url = world.cluster.brokers[0].service_url
    reader = connect(url).create_reader(world.sidecars.bus_topics[0], pulsar.MessageId.latest)
    topics = dict.fromkeys(world.topic_of.values(), 100)
    with Steady(world.sidecars.service_url, topics) as load:
        load.offers(dict.fromkeys(topics, 100))
        for at in world.topic_of:
            eventually(
                lambda at=at: all(  # type: ignore[misc]
                    row["admitted"]["publishRateInMsgs"] == pytest.approx(100, abs=5)
                    for row in world.get(f"/quota/v1/usage/{world.group}", at=at)["brokers"]
                ),
                f"{at} knows the usage of all",
            )

        def heard() -> bool:
            message = reader.read_next(timeout_millis=20_000)
            payloads.setdefault(message.producer_name(), []).append(message.data())
            return len(payloads) == 3 and all(len(each) > 5 for each in payloads.values())

        eventually(heard, "six reports of three sidecars")
    reports = [payload for each in payloads.values() for payload in each]
    assert not any(name in payload for payload in reports)
    figure(
        "pip-82/ids",
        f"none of {len(reports)} reports has the name; the longest: {max(map(len, reports))} B",
    )


@pytest.mark.shows("pip-82/stale")
def test_reports_that_waited_are_dropped_by_their_publish_time(
    world: World, figure: Figure
) -> None:
    """A sidecar that stood still for three seconds finds reports of up to three seconds ago."""
    world.limit(publishRateInMsgs=900, law="max-min", overshootPolicy="balanced")
    topics = dict.fromkeys(world.topic_of.values(), 100)
    with Steady(world.sidecars.service_url, topics) as load:
        load.offers(dict.fromkeys(topics, 500))
        thirds = {"publishRateInMsgs": 300}
        eventually(lambda: limits(world) == [thirds] * 3, "a third for each")
        before, coordinator = dropped(world), world.sidecars.pid("broker-1")
        os.kill(coordinator, signal.SIGSTOP)
        try:
            time.sleep(STOPPED_S)
        finally:
            os.kill(coordinator, signal.SIGCONT)
        eventually(lambda: dropped(world) > before, "old reports are dropped and counted")
        count = dropped(world) - before
        eventually(lambda: limits(world) == [thirds] * 3, "a third for each, as before")
        after = dropped(world)
        rounds = world.get("/quota/v1/health")["round"]
        eventually(lambda: world.get("/quota/v1/health")["round"] > rounds + 2, "two more rounds")
        assert dropped(world) == after, "those that follow are taken"
    figure("pip-82/stale", f"{count:.0f} dropped after {STOPPED_S:.0f} s")


def dropped(world: World) -> float:
    """Reports that the sidecar of broker-1 has dropped."""
    text = world.http.get(f"{world.sidecars.admin_url('broker-1')}/metrics").text
    lines = [
        line for line in text.splitlines() if line.startswith("pulsar_quota_bus_dropped_total")
    ]
    return sum(float(line.split()[-1]) for line in lines)


def limits(world: World) -> list[dict[str, int]]:
    """Every broker's local limit of messages."""
    return [
        {"publishRateInMsgs": each["publishRateInMsgs"]} for each in world.local_limits().values()
    ]
