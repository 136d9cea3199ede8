"""A strict group on the real cluster: settled, held, and inherited after a sidecar's death."""

import signal

import pytest

from tests.integration.world import World, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.verify]

LIMIT = 900


def strict(world: World) -> None:
    """Create the test's group, strictly held, and attach its namespace."""
    body = {"publishRateInMsgs": LIMIT, "overshootPolicy": "strict"}
    world.put(f"/admin/v2/resourcegroups/{world.group}", body, at="broker-1")
    world.limit(publishRateInMsgs=LIMIT)


def all_of_the_limit(rates: dict[str, float]) -> bool:
    """The brokers together admit what the group may."""
    return sum(rates.values()) == pytest.approx(LIMIT, rel=0.1)


def test_a_strict_group_settles_and_survives_the_death_of_a_sidecar(world: World) -> None:
    """Halves, then thirds; a killed sidecar's share comes back; never more than the limit."""
    strict(world)
    with world.held_to(LIMIT, world.topic_of), world.load({"broker-1": 3000, "broker-2": 2000}):
        eventually(lambda: sum(world.shares()[:2]) >= LIMIT - 3, "all of it with the two")
        eventually(lambda: abs(world.shares()[0] - world.shares()[1]) <= 2, "half for each")
        world.comes_to(all_of_the_limit, "all of the limit")
        with world.load({"broker-3": 3000}):
            eventually(lambda: min(world.shares()) >= LIMIT // 3 - 2, "a third for each")
            world.comes_to(all_of_the_limit, "all of the limit, of three")
            world.sidecars.end("broker-3", signal.SIGKILL)
            world.sidecars.start("broker-3")
            eventually(lambda: min(world.shares()) >= LIMIT // 3 - 2, "a third for each again")
            world.comes_to(lambda rates: rates["broker-3"] > LIMIT // 4, "traffic again")
