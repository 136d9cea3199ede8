"""A recording played again: as it was it gives what was recorded, changed what that would have given."""

from __future__ import annotations

import pytest

from coordinator.core.model import Dimension, MonitoringClass, Rates, ResourceGroup
from coordinator.simulation.replay import (
    UNBOUNDED,
    BrokerStory,
    Change,
    ReplayInput,
    recorded,
    replay,
)

MESSAGES, BYTES = Dimension.PUBLISH_MESSAGES, Dimension.PUBLISH_BYTES


def story(limits: Rates, **brokers: BrokerStory) -> ReplayInput:
    """A story with one definition."""
    return ReplayInput(MonitoringClass.PUBLISH, [(0, ResourceGroup("orders", limits))], brokers)


def steady(wanted: int, admitted: int, seconds: int = 20, message_bytes: int = 100) -> BrokerStory:
    """A broker that did the same all the time."""
    return BrokerStory(
        [wanted] * seconds, [admitted] * seconds, [admitted * message_bytes] * seconds
    )


HALF_IDLE = story(
    Rates(publish_messages=1_000), a=steady(200, 200), b=steady(UNBOUNDED, 800), c=steady(0, 0)
)


def test_the_same_settings_give_what_was_recorded() -> None:
    """So what a change does is the change's doing."""
    before, again = recorded(HALF_IDLE)[MESSAGES], replay(HALF_IDLE)[MESSAGES]

    assert before.admitted == 1_000
    assert again.admitted == pytest.approx(before.admitted, rel=0.01)
    for broker in "abc":
        assert again.by_broker[broker] == pytest.approx(before.by_broker[broker], abs=10)
    assert again.scarce == before.scarce == 1.0
    assert again.jain > 0.999


def test_a_higher_limit_goes_to_those_who_waited() -> None:
    """A broker whose demand was met gets no more."""
    changed = Change(limits={MESSAGES: 2_000}).to(HALF_IDLE)

    figures = replay(changed)[MESSAGES]

    assert figures.by_broker["a"] == pytest.approx(200, abs=5)
    assert figures.by_broker["b"] == pytest.approx(1_800, rel=0.02)


def test_seconds_in_which_a_broker_holds_clients_back_are_counted() -> None:
    """Half of the time one of two wants three quarters of what there is, and a quarter too much."""
    surge = BrokerStory([500, 750] * 10, [500, 500] * 10, [50_000] * 20)
    both = story(Rates(publish_messages=1_000), a=surge, b=steady(500, 500))
    calm = Change(limits={MESSAGES: 2_000}).to(both)

    assert recorded(both)[MESSAGES].throttled == 0.5
    assert replay(both)[MESSAGES].throttled == pytest.approx(0.5, abs=0.05)
    assert replay(calm)[MESSAGES].throttled == 0.0


def test_another_law_shares_otherwise() -> None:
    """C/N leaves unused what the others do not want."""
    figures = replay(Change(law="static").to(HALF_IDLE))[MESSAGES]

    assert figures.by_broker["b"] == pytest.approx(333, rel=0.03)
    assert figures.utilisation < 0.6


def test_a_limit_in_bytes_holds_messages_of_their_recorded_size() -> None:
    """A dimension that was not limited before can be."""
    changed = Change(limits={MESSAGES: None, BYTES: 50_000}).to(HALF_IDLE)

    assert replay(changed)[BYTES].admitted == pytest.approx(50_000, rel=0.02)


def test_seconds_without_clients_and_changes_of_the_limit_are_played_as_they_were() -> None:
    """A broker that came late and a limit that was lowered are part of the story."""
    late = BrokerStory([None] * 10 + [UNBOUNDED] * 20, [0] * 10 + [500] * 20, [0] * 30)
    early = BrokerStory([UNBOUNDED] * 30, [1_000] * 10 + [500] * 20, [0] * 30)
    group = ResourceGroup("orders", Rates(publish_messages=1_000))
    lower = ResourceGroup("orders", Rates(publish_messages=500))
    told = ReplayInput(
        MonitoringClass.PUBLISH, [(0, group), (20, lower)], {"early": early, "late": late}
    )

    figures = replay(told)[MESSAGES]

    assert figures.by_broker["late"] == pytest.approx((10 * 500 + 10 * 250) / 30, rel=0.05)
    assert figures.by_broker["early"] == pytest.approx((10_000 + 5_000 + 2_500) / 30, rel=0.05)


def test_what_passed_before_a_limit_was_lowered_exceeds_nothing() -> None:
    """In the second of the change a message may have passed on either side of it."""
    higher = ResourceGroup("orders", Rates(publish_messages=1_000))
    lower = ResourceGroup("orders", Rates(publish_messages=500))
    only = BrokerStory([UNBOUNDED] * 20, [1_000] * 10 + [800] + [500] * 9, [0] * 20)
    definitions = [(0, higher), (10, lower)]
    told = ReplayInput(MonitoringClass.PUBLISH, definitions, {"a": only})
    exceeded = ReplayInput(MonitoringClass.PUBLISH, [(0, higher), (9, lower)], {"a": only})

    assert recorded(told)[MESSAGES].peak_overshoot == 0
    assert recorded(exceeded)[MESSAGES].peak_overshoot == pytest.approx(0.6)


def test_seconds_without_a_limit_are_in_no_figure() -> None:
    """Half of the story had only a limit of bytes: what passed then says nothing of the messages."""
    free = ResourceGroup("orders", Rates(publish_bytes=10**9))
    limited = ResourceGroup("orders", Rates(publish_messages=500, publish_bytes=10**9))
    only = BrokerStory([800] * 10 + [400] * 10, [800] * 10 + [400] * 10, [80_000] * 20)
    for definitions in ([(0, free), (10, limited)], [(0, limited), (10, free)]):
        told = ReplayInput(MonitoringClass.PUBLISH, definitions, {"a": only})
        early = definitions[0][1] is limited
        passed, wanted = (500, 800) if early else (400, 400)

        figures = replay(told)[MESSAGES]
        assert figures.admitted == pytest.approx(passed, rel=0.02)
        assert figures.scarce == recorded(told)[MESSAGES].scarce == (wanted > 500)
        assert recorded(told)[MESSAGES].admitted == wanted


@pytest.mark.parametrize("limits", [Rates(publish_messages=0), Rates(0, 0)])
def test_a_limit_of_0_holds_back_all_that_waits(limits: Rates) -> None:
    """It is a limit, and no lack of one; clients that waited wanted something."""
    told = story(limits, a=steady(UNBOUNDED, 0), b=steady(0, 0))

    for figures in (*recorded(told).values(), *replay(told).values()):
        assert figures.admitted == 0
        assert figures.scarce == figures.throttled == 1.0


def test_what_passed_before_there_was_a_limit_exceeds_nothing() -> None:
    """In the second of the change a message may have passed on either side of it."""
    free = ResourceGroup("orders", Rates(publish_bytes=10**9))
    limited = ResourceGroup("orders", Rates(publish_messages=500, publish_bytes=10**9))
    only = BrokerStory([UNBOUNDED] * 20, [1_000] * 10 + [800] + [500] * 9, [0] * 20)
    definitions = [(0, free), (10, limited)]
    told = ReplayInput(MonitoringClass.PUBLISH, definitions, {"a": only})

    assert recorded(told)[MESSAGES].peak_overshoot == 0
