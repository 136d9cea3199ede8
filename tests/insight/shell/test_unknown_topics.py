"""The condition that topics of unknown names are in use."""

from __future__ import annotations

from coordinator.insight.model.conditions import ConditionKind
from coordinator.insight.model.gate_views import UnknownTopicsView
from coordinator.insight.shell.unknown_topics import UnknownTopicsWatch


class Gate:
    """Says what a test has put into it."""

    def __init__(self) -> None:
        self.view = UnknownTopicsView()

    async def unknown_topics(self) -> UnknownTopicsView:
        return self.view


async def test_the_condition_lasts_as_long_as_a_participant_is_connected() -> None:
    """It names the broker, the latest names and the messages that passed."""
    gate = Gate()
    watch = UnknownTopicsWatch(gate.unknown_topics, "broker-1")
    await watch.look()
    assert list(watch.conditions(0)) == []

    gate.view = UnknownTopicsView(2, 1_234, ("'a://b'", "'c://d'"))
    await watch.look()

    (seen,) = watch.conditions(0)
    assert seen.kind is ConditionKind.UNKNOWN_TOPICS
    assert seen.sentence == (
        "2 producers and consumers at broker-1 use topics of unknown names, such as 'a://b', "
        "'c://d'; 1,234 messages have passed"
    )
    gate.view = UnknownTopicsView(0, 1_234, ("'a://b'", "'c://d'"))
    await watch.look()
    assert list(watch.conditions(0)) == []
