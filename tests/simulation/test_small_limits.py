"""S32: of a limit below one message per broker and second every broker has its part, to the message."""

from __future__ import annotations

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Dimension
from coordinator.core.transfer.policies import BALANCED, STRICT
from coordinator.simulation.stage import Parameters
from coordinator.simulation.valve import STEP_NS
from tests.simulation.small_limits import small_limits

pytestmark = pytest.mark.slow

STEP_S = STEP_NS / NANOS_PER_SECOND

PUBLISH, DISPATCH = Dimension.PUBLISH_MESSAGES, Dimension.DISPATCH_MESSAGES


@pytest.mark.parametrize(
    ("policy", "dimension"),
    [
        (BALANCED, PUBLISH),
        pytest.param(BALANCED, DISPATCH, marks=pytest.mark.verify),
        pytest.param(STRICT, PUBLISH, marks=pytest.mark.verify),
        (STRICT, DISPATCH),
    ],
)
def test_saturated_brokers_have_equal_parts_of_a_small_limit_in_every_minute(
    policy: str, dimension: Dimension
) -> None:
    """Each within one message, all within one a broker; none waits for longer than a turn and a step."""
    scenario = small_limits(Parameters(brokers=3, policy=policy, dimension=dimension))
    scenario.stage.world.run()

    assert [len(minute.brokers) for minute in scenario.minutes] == [3, 3, 4, 3, 3]
    for minute in scenario.minutes:
        passed = scenario.passed(minute)
        brokers = len(minute.brokers)
        assert abs(sum(passed.values()) - 60 * float(minute.limit)) <= brokers, (minute, passed)
        for name in minute.brokers:
            assert abs(passed[name] - 60 * float(minute.limit) / brokers) <= 1, (minute, passed)
            waits_s = scenario.longest_wait_s(name, minute)
            assert waits_s - STEP_S <= float(brokers / minute.limit), (minute, name)
