"""Gates and native brokers in one fleet, under one limit."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Dimension, TrafficKey, Unit
from coordinator.simulation.experiment import measure, perform
from coordinator.simulation.host import Host
from coordinator.simulation.native import NativeHost
from coordinator.simulation.native_broker import UsageTopic
from coordinator.simulation.stage import Parameters
from coordinator.simulation.traffic import Load
from tests.simulation.tree_scenarios import LIMIT, TREE_SCENARIOS, TreeStage


@pytest.mark.parametrize(
    ("native", "dimension"),
    [
        pytest.param(native, dimension, marks=() if proved else pytest.mark.verify)
        for native in (1, 2, 4)
        for dimension in (Dimension.PUBLISH_MESSAGES, Dimension.PUBLISH_BYTES)
        for proved in [(native, dimension.unit) in {(1, Unit.BYTES), (4, Unit.MESSAGES)}]
    ],
)
def test_however_many_have_no_gate_all_share_the_limit(native: int, dimension: Dimension) -> None:
    """Every broker has its fair share at once, and the sum stays at the limit."""
    (figures,) = measure(*perform("S23", Parameters(brokers=5, native=native, dimension=dimension)))

    assert figures.settle_rounds == (0,)
    assert figures.min_share >= 0.98
    assert figures.peak_overshoot <= 0.05
    assert figures.utilisation >= 0.98


def steered(name: str, brokers: int) -> tuple[TreeStage, list[dict[str, int]]]:
    """Run a tree's scenario on brokers without gates; return what each group admitted, by second."""
    tree = TREE_SCENARIOS[name](Parameters(brokers=brokers))
    world = tree.stage.world
    topic = UsageTopic(world.schedule, Random(1))
    world.kinds = {each: partial(NativeHost, topic=topic) for each in tree.stage.names}
    found: list[dict[str, int]] = [{} for _ in range(tree.stage.seconds + 1)]
    tell = world.passed

    def passed(host: Host, key: TrafficKey, load: Load, admitted: int) -> None:
        in_second = found[world.schedule.now_ns // NANOS_PER_SECOND]
        in_second[key[0]] = in_second.get(key[0], 0) + admitted
        tell(host, key, load, admitted)

    world.passed = passed  # type: ignore[method-assign]
    world.run()
    return tree, found


@pytest.mark.verify
@pytest.mark.parametrize("brokers", [3, 5])
@pytest.mark.parametrize("name", ["S26", "S29"])
def test_a_guarantee_is_borrowed_and_claimed_back_at_brokers_without_gates(
    name: str, brokers: int
) -> None:
    """Two seconds after the claim each group passes its part, of a limit that its brokers share.

    All of them together pass the root's limit, but for the second or two in which brokers take up new
    limits, each at its own interval.
    """
    tree, found = steered(name, brokers)
    claimed_s = 32

    for second in (*range(25, 30), *range(claimed_s, 44)):
        assert sum(found[second].values()) <= 1.02 * LIMIT, (second, found[second])
    for second in range(claimed_s, 44):
        for group, part in tree.expected[claimed_s].items():
            if group != "shop":
                assert abs(found[second].get(group, 0) - part) <= 0.02 * LIMIT, found[second]
