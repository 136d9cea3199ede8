"""Real producers through real gates: the cluster's limit holds and is shared fairly.

A test waits for the local limits, and then all of three windows must hold. The limits themselves are
exact in test_local_limits.py.
"""

from __future__ import annotations

import signal

import pytest

from tests.conftest import Figure, Measure
from tests.integration.sliding import Counted
from tests.integration.windows import hold, sums, windows, written
from tests.integration.world import World, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.verify]


@pytest.mark.shows(
    "pip-82/namespace-limit",
    "pip-82/fair-sharing",
    "pip-82/converges",
    "pip-82/local-limiter",
    "pip-82/few-iterations",
    "pip-322/group-level",
)
def test_a_skewed_load_is_held_to_the_limit_and_shared_equally(
    world: World, measured: Measure, figure: Figure
) -> None:
    """3,000 and 800 wanted of 900: each gets half, and a third one who joins gets its third."""
    world.limit(publishRateInMsgs=900)
    with world.load({"broker-1": 3000, "broker-2": 800}):
        eventually(lambda: world.shares() == [450, 449, 1], "half for each of two")
        world.comes_to(lambda rates: sum(rates.values()) > 850, "about 900", windows=1)
        with world.held_to(900, world.topic_of):
            two = world.windows(5)
            hold(measured, "900 of two", sums(two), {"sum": 900})
            hold(measured, "900 of two", two, dict.fromkeys(("broker-1", "broker-2"), 450), 0.05)
            with world.load({"broker-3": 3000}):
                eventually(lambda: world.shares() == [300, 300, 300], "a third for each of three")
                three = world.windows(5)
                hold(measured, "900 of three", three, dict.fromkeys(world.topic_of, 300), 0.05)
    told = f"{written(two)}, then {written(three)} of 900"
    for row in ("namespace-limit", "fair-sharing", "converges", "few-iterations"):
        figure(f"pip-82/{row}", told)


@pytest.mark.shows("pip-82/producers-and-consumers")
def test_a_limit_in_bytes_is_held(world: World, measured: Measure, figure: Figure) -> None:
    """Bytes count as the broker counts them: 200 kB/s and no more."""
    world.limit(publishRateInBytes=200_000)
    topic = world.topic_of["broker-1"]

    def counted() -> Counted:
        found = world.counted(topic)
        return {"bytes": (found[0].bytes_in, found[1])}

    with world.load({"broker-1": 5000}):
        eventually(
            lambda: world.local_limits()["broker-1"]["publishRateInBytes"] > 195_000, "the limit"
        )
        seen = windows(counted, 5)
    hold(measured, "200 kB/s", seen, {"bytes": 200_000}, 0.05)
    figure("pip-82/producers-and-consumers", f"{written(seen)} of 200,000 B/s")


def test_a_small_limit_is_held(world: World, measured: Measure) -> None:
    """A stock client that wants 1,000 a second gets 50, less what the idle brokers keep in reserve."""
    world.limit(publishRateInMsgs=50)
    with world.load({"broker-1": 1000}), world.held_to(50, world.topic_of):
        eventually(lambda: world.shares()[0] >= 48, "the limit")
        seen = world.windows(10, 2)
    hold(measured, "50 of one", seen, {"broker-1": 49}, 0.08)


@pytest.mark.shows("pip-82/quota-changes")
def test_a_limit_that_is_raised_acts_at_once(
    world: World, measured: Measure, figure: Figure
) -> None:
    """From nothing to 500."""
    world.limit(publishRateInMsgs=0)
    with world.load({"broker-1": 1000}):
        eventually(
            lambda: world.get(f"/quota/v1/usage/{world.group}")["brokers"][0]["participants"] > 0,
            "a producer",
        )
        before = world.windows(2, 1)
        world.put(
            f"/admin/v2/resourcegroups/{world.group}", {"publishRateInMsgs": 500}, at="broker-3"
        )
        eventually(lambda: world.shares()[0] > 490, "the raised limit")
        after = world.windows(2)
    measured("at a limit of 0", before[0]["broker-1"], "/s", most=0)
    hold(measured, "raised to 500", after, {"broker-1": 500}, 0.1)
    figure("pip-82/quota-changes", f"{written(before)}, then {written(after)} of 500")


def test_a_group_that_is_lifted_limits_nothing(world: World, measured: Measure) -> None:
    """-1 lifts a limit while producers wait for it."""
    world.limit(publishRateInMsgs=100)
    with world.load({"broker-1": 2000}):
        eventually(lambda: world.shares()[0] >= 98, "the limit")
        hold(measured, "100 of one", world.windows(2), {"broker-1": 100}, 0.1)
        world.put(
            f"/admin/v2/resourcegroups/{world.group}", {"publishRateInMsgs": -1}, at="broker-2"
        )
        world.comes_to(lambda rates: rates["broker-1"] > 1800, "2,000 per second")


def test_a_sidecar_that_is_killed_comes_back_and_takes_its_part(
    world: World, measured: Measure
) -> None:
    """After SIGKILL and a restart the sidecar learns, and the shares are as before."""
    world.limit(publishRateInMsgs=900)
    with world.load({"broker-1": 3000, "broker-2": 3000}):
        eventually(lambda: world.shares() == [450, 449, 1], "half for each")
        world.sidecars.end("broker-2", signal.SIGKILL)
        world.sidecars.start("broker-2")
        eventually(lambda: world.shares() == [450, 449, 1], "half for each again")
        world.comes_to(lambda rates: rates["broker-2"] > 400, "traffic flows again")
        hold(measured, "half of 900", world.windows(3), {"broker-2": 450}, 0.05)
