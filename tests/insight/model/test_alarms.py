"""The life of an alarm: told once when it begins and once when it is over."""

from __future__ import annotations

import random

import pytest

from coordinator.core.settings import AlarmSettings
from coordinator.insight.model.alarms import (
    MAX_PER_KIND,
    AlarmCondition,
    AlarmKind,
    Alarms,
    AlarmStage,
    AlarmTransition,
)

SECOND_NS = 1_000_000_000
SETTINGS = AlarmSettings(raise_after_ns=10 * SECOND_NS, clear_after_ns=60 * SECOND_NS)


def lost(peer: str = "b2", text: str = "gone") -> AlarmCondition:
    """Something that is the case."""
    return AlarmCondition(AlarmKind.PEER_LOST, peer, text)


def told(turns: list[AlarmTransition]) -> list[tuple[str, bool]]:
    """Return the subjects of the transitions, and whether they begin."""
    return [(turn.alarm.sighting.subject, turn.begins) for turn in turns]


def test_a_condition_that_ends_soon_is_no_alarm() -> None:
    """It is pending meanwhile, and then forgotten."""
    alarms = Alarms(SETTINGS)

    assert alarms.look([lost()], 0) == []
    assert [alarm.stage for alarm in alarms.all()] == [AlarmStage.PENDING]
    assert alarms.look([], 9 * SECOND_NS) == []
    assert alarms.all() == ()
    assert alarms.look([lost()], 12 * SECOND_NS) == []
    assert alarms.firing() == {}


def test_what_was_counted_over_seconds_already_is_told_at_once() -> None:
    """Traffic round the gate is seen beyond its uncertainty only; it ends like all others."""
    alarms = Alarms(SETTINGS)
    seen = AlarmCondition(AlarmKind.TRAFFIC_ROUND_THE_GATE, "b1 t/n", "200 messages/s")
    assert told(alarms.look([seen], 0)) == [("b1 t/n", True)]
    alarms.look([], 1)
    assert told(alarms.look([], 60 * SECOND_NS + 1)) == [("b1 t/n", False)]


def test_what_lasts_is_told_once_and_once_more_when_it_is_over() -> None:
    """Over is what was not seen for a while; it counts as firing until then."""
    alarms = Alarms(SETTINGS)
    turns = [alarms.look([lost()], second * SECOND_NS) for second in range(31)]
    assert [told(each) for each in turns if each] == [[("b2", True)]]
    assert turns[10]

    over = [alarms.look([], second * SECOND_NS) for second in range(31, 100)]

    assert [told(each) for each in over if each] == [[("b2", False)]]
    assert over[60]
    assert alarms.all() == ()


def test_what_comes_and_goes_is_one_alarm() -> None:
    """A condition at the edge of its bound does not send a notice for every change."""
    alarms = Alarms(SETTINGS)
    alarms.look([lost()], 0)
    alarms.look([lost()], 10 * SECOND_NS)

    for second in range(11, 200):
        seen = [lost()] if second % 50 < 5 else []
        assert alarms.look(seen, second * SECOND_NS) == []
    assert [alarm.began_ns for alarm in alarms.firing().values()] == [0]


def test_an_alarm_shows_what_was_seen_last() -> None:
    """Its words may change while it fires."""
    alarms = Alarms(SETTINGS)
    alarms.look([lost()], 0)
    alarms.look([lost(text="still gone")], 20 * SECOND_NS)

    (alarm,) = alarms.firing().values()
    assert alarm.sighting.text == "still gone"


def test_without_patience_an_alarm_fires_at_once() -> None:
    """Zero seconds is a setting like any other."""
    alarms = Alarms(AlarmSettings(raise_after_ns=0, clear_after_ns=0))

    assert told(alarms.look([lost()], 0)) == [("b2", True)]
    assert told(alarms.look([], 1)) == []
    assert told(alarms.look([], 2)) == [("b2", False)]


def test_of_one_kind_there_is_a_bound_and_the_rest_is_counted() -> None:
    """Another kind has room of its own."""
    alarms = Alarms(SETTINGS)
    many = [lost(f"b{number}") for number in range(MAX_PER_KIND + 7)]
    silent = AlarmCondition(AlarmKind.BUS_SILENT, "b1", "silent")

    alarms.look([*many, silent], 0)

    assert len(alarms.all()) == MAX_PER_KIND + 1
    assert alarms.overlooked == 7
    alarms.look([many[-1]], SECOND_NS)
    assert alarms.overlooked == 0
    assert [alarm.sighting.subject for alarm in alarms.all()] == [many[-1].subject]


@pytest.mark.parametrize("kind", AlarmKind)
def test_every_kind_says_how_urgent_it_is_and_what_to_do(kind: AlarmKind) -> None:
    """An alarm without an action only worries."""
    assert kind.severity.value in ("info", "warning", "critical")
    assert kind.action.endswith(".")


def test_turns_alternate_and_agree_with_what_fires_whatever_is_seen() -> None:
    """For random sightings: begin, over, begin, over of each; and firing is what has begun."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  # pytest shows it when the test fails
    dice = random.Random(seed)
    alarms = Alarms(SETTINGS)
    begun: set[str] = set()
    now_ns = 0
    for _ in range(2_000):
        now_ns += dice.randrange(1, 30) * SECOND_NS
        seen = [lost(peer) for peer in "abc" if dice.random() < 0.7]
        for subject, begins in told(alarms.look(seen, now_ns)):
            assert (subject in begun) is not begins
            begun ^= {subject}
        assert {key.subject for key in alarms.firing()} == begun
