"""The meter shows the use that partitions make of their limits."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from coordinator.core.model import Dimension, MonitoringClass, Rates
from coordinator.core.traffic import Traffic
from coordinator.insight.model.conditions import ConditionKind
from coordinator.insight.shell.partition_meter import PartitionMeter
from tests.memory.surroundings import ManualClock
from tests.turns import turns_of

SECOND = 1_000_000_000
TOPIC = "persistent://shop/orders/in-partition-0"


@dataclass
class Counts:
    """A gate that has counted what a test says."""

    limits: Rates = field(default_factory=lambda: Rates(publish_messages=1_000))
    waiting: list[Traffic] = field(default_factory=list)

    async def partition_limits(self) -> Rates:
        """Return the test's limits."""
        return self.limits

    async def partition_traffic(self) -> tuple[Traffic, ...]:
        """All of it, once."""
        taken, self.waiting = tuple(self.waiting), []
        return taken

    def publish(self, topic: str, messages: int) -> None:
        """Admit this number of messages."""
        self.waiting.append(Traffic(topic, MonitoringClass.PUBLISH, messages, 10 * messages))


async def test_the_busiest_partition_comes_first_with_its_busiest_second() -> None:
    """By the part of the limit that it used."""
    gate, clock = Counts(), ManualClock()
    meter = PartitionMeter(gate, clock)
    for second in range(5):
        gate.publish(TOPIC, 900 if second == 2 else 100)
        gate.publish(f"{TOPIC}-other", 200)
        await meter.count()
        clock.advance(SECOND)
    first, second_view = await meter.views()
    assert (first.topic, first.used) == (TOPIC, 0.9)
    assert first.busiest is Dimension.PUBLISH_MESSAGES
    assert first.minutes[Dimension.PUBLISH_MESSAGES].average_per_second == 260
    assert second_view.used == 0.2


async def test_a_partition_that_was_quiet_for_long_is_forgotten() -> None:
    """There are never more than were used lately."""
    gate, clock = Counts(), ManualClock()
    meter = PartitionMeter(gate, clock)
    gate.publish(TOPIC, 5)
    await meter.count()
    clock.advance(121 * SECOND)
    await meter.count()
    assert await meter.views() == ()


async def test_without_a_limit_nothing_is_used_of_it() -> None:
    """The gate counts nothing then; what it counted before does not matter any more."""
    gate, clock = Counts(), ManualClock()
    meter = PartitionMeter(gate, clock)
    gate.publish(TOPIC, 5)
    await meter.count()
    clock.advance(SECOND)
    gate.limits = Rates()
    (view,) = await meter.views()
    assert (view.used, view.busiest) == (0.0, None)


@pytest.mark.shows("service-partition/over-80")
async def test_a_partition_above_four_fifths_is_a_condition_until_a_minute_later() -> None:
    """Each by itself, with the part that its busiest second used."""
    gate, clock = Counts(), ManualClock()
    meter = PartitionMeter(gate, clock)
    gate.publish(TOPIC, 900)
    gate.publish(f"{TOPIC}-calm", 800)
    await meter.count()
    clock.advance(SECOND)
    await meter.count()
    (found,) = meter.conditions(clock.now_ns())
    assert (found.kind, found.subject) == (ConditionKind.PARTITION_NEAR_LIMIT, TOPIC)
    assert found.sentence == f"{TOPIC} uses 90% of its publishRateInMsgs in a second"
    clock.advance(61 * SECOND)
    await meter.count()
    assert not list(meter.conditions(clock.now_ns()))


async def test_without_a_limit_no_partition_is_near_it() -> None:
    """Nothing is counted either."""
    gate, clock = Counts(Rates()), ManualClock()
    meter = PartitionMeter(gate, clock)
    gate.publish(TOPIC, 900)
    await meter.count()
    assert meter.near_limit() == ()


async def test_many_partitions_are_looked_at_once_a_second_and_leave_rounds_their_turns() -> None:
    """Counts between two seconds look at none; conditions and metrics take what was found."""
    gate, clock = Counts(), ManualClock()
    meter = PartitionMeter(gate, clock)
    for number in range(1_000):
        gate.publish(f"{TOPIC}{number}", 900)
    await meter.count()
    clock.advance(SECOND)

    looks = await turns_of(meter.count())
    clock.advance(SECOND // 5)
    between = await turns_of(meter.count())

    assert looks >= between + 19
    assert len(meter.near_limit()) == 1_000
    assert await turns_of(meter.views()) >= between + 19
