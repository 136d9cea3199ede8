"""Real producers through real gates: the cluster's limit holds and is shared fairly.

The demo measures this finely; here the bounds leave room for a busy machine.
"""

import signal
import time

import pytest

from tests.integration.world import PATIENCE_S, World, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.verify]


@pytest.mark.shows(
    "pip-82/namespace-limit",
    "pip-82/fair-sharing",
    "pip-82/converges",
    "pip-82/local-limiter",
    "pip-82/few-iterations",
    "pip-322/group-level",
)
def test_a_skewed_load_is_held_to_the_limit_and_shared_equally(world: World) -> None:
    """3,000 and 800 wanted of 900: each gets half, and a third one who joins gets its third."""
    world.limit(publishRateInMsgs=900)
    with world.load({"broker-1": 3000, "broker-2": 800}):
        eventually(lambda: shares(world) == [450, 449, 1], "half for each of two")
        with world.held_to(900, world.topic_of):
            world.comes_to(
                lambda rates: (
                    sum(rates.values()) == pytest.approx(900, rel=0.03)
                    and rates["broker-1"] == pytest.approx(rates["broker-2"], rel=0.05)
                ),
                "900 in two halves",
                seconds=5,
            )
            with world.load({"broker-3": 3000}):
                eventually(lambda: shares(world) == [300, 300, 300], "a third for each of three")
                world.comes_to(
                    lambda rates: all(
                        rate == pytest.approx(300, rel=0.05) for rate in rates.values()
                    ),
                    "300 for each",
                    seconds=5,
                )


def shares(world: World) -> list[int]:
    """The local limits of the three brokers, greatest first."""
    limits = [row["publishRateInMsgs"] for row in world.local_limits().values()]
    return sorted(limits, reverse=True)


@pytest.mark.shows("pip-82/producers-and-consumers")
def test_a_limit_in_bytes_is_held(world: World) -> None:
    """Bytes count as the broker counts them: 200 kB/s and no more."""
    world.limit(publishRateInBytes=200_000)
    topic = world.topic_of["broker-1"]
    with world.load({"broker-1": 5000}):
        eventually(lambda: world.topics.counters(topic).bytes_in > 100_000, "traffic")
        deadline = time.monotonic() + PATIENCE_S
        while bytes_per_second(world, topic) != pytest.approx(200_000, rel=0.05):
            assert time.monotonic() < deadline, "never 200 kB/s"


def bytes_per_second(world: World, topic: str) -> float:
    """Return the bytes per second that the topic's broker takes in, over five seconds."""
    before, started = world.topics.counters(topic).bytes_in, time.monotonic()
    time.sleep(5)
    return (world.topics.counters(topic).bytes_in - before) / (time.monotonic() - started)


def test_a_small_limit_is_held(world: World) -> None:
    """A stock client that wants 1,000 a second gets 50, less what the idle brokers keep in reserve."""
    world.limit(publishRateInMsgs=50)
    with world.load({"broker-1": 1000}), world.held_to(50, world.topic_of):
        world.comes_to(lambda rates: 45 < rates["broker-1"] < 53, "50 per second", seconds=10)


@pytest.mark.shows("pip-82/quota-changes")
def test_a_limit_of_zero_lets_nothing_pass_until_it_is_raised(world: World) -> None:
    """0 means nothing, not unlimited as in Pulsar; raising it acts at once."""
    world.limit(publishRateInMsgs=0)
    with world.load({"broker-1": 1000}):
        eventually(
            lambda: world.get(f"/quota/v1/usage/{world.group}")["brokers"][0]["participants"] > 0,
            "a producer",
        )
        assert sum(world.measure(2).values()) == 0
        world.put(
            f"/admin/v2/resourcegroups/{world.group}", {"publishRateInMsgs": 500}, at="broker-3"
        )
        world.comes_to(lambda rates: 450 < rates["broker-1"] < 550, "500 per second")


def test_a_group_that_is_lifted_limits_nothing(world: World) -> None:
    """-1 lifts a limit while producers wait for it."""
    world.limit(publishRateInMsgs=100)
    with world.load({"broker-1": 2000}):
        world.comes_to(lambda rates: 90 < rates["broker-1"] < 110, "100 per second")
        world.put(
            f"/admin/v2/resourcegroups/{world.group}", {"publishRateInMsgs": -1}, at="broker-2"
        )
        world.comes_to(lambda rates: rates["broker-1"] > 1800, "2,000 per second")


def test_a_sidecar_that_is_killed_comes_back_and_takes_its_part(world: World) -> None:
    """After SIGKILL and a restart the sidecar learns, and the shares are as before."""
    world.limit(publishRateInMsgs=900)
    with world.load({"broker-1": 3000, "broker-2": 3000}):
        eventually(lambda: shares(world) == [450, 449, 1], "half for each")
        world.sidecars.end("broker-2", signal.SIGKILL)
        world.sidecars.start("broker-2")
        eventually(lambda: shares(world) == [450, 449, 1], "half for each again")
        world.comes_to(lambda rates: rates["broker-2"] > 400, "traffic flows again")
