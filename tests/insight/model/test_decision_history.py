"""Past decisions: what is kept, for how long, and that one in force at a time is found."""

from __future__ import annotations

import pytest

from coordinator.core.events import GroupsChanged
from coordinator.core.model import Dimension, Rate, Rates, ResourceGroup
from coordinator.insight.model import decision_history
from coordinator.insight.model.decision_history import DecisionHistory
from tests.core.cluster import GROUP, SECOND_NS, Cluster

MESSAGES = Dimension.PUBLISH_MESSAGES


class Watched:
    """b1's history of a cluster in which b1 and b2 want more than there is."""

    def __init__(self) -> None:
        self.cluster = Cluster(limit=3_000)
        for broker in ("b1", "b2"):
            self.cluster.start(broker, demand=5_000)
        self.history = DecisionHistory()
        self.run(10)

    def run(self, seconds: int) -> None:
        """Let time pass, and look once a second."""
        for _ in range(seconds):
            self.cluster.run(1)
            self.history.begin({GROUP})
            self.history.sampled(self.cluster.states["b1"], GROUP, self.cluster.now_ns)

    def limits(self) -> list[Rate | None]:
        """The local limits that are kept, newest first."""
        kept = self.history.decisions(GROUP, MESSAGES)
        return [past.explanation.local_limit for past in kept]


@pytest.fixture
def watched() -> Watched:
    """Settled for some seconds."""
    return Watched()


def test_a_group_that_is_left_alone_adds_nothing(watched: Watched) -> None:
    """Noise below the threshold of a report adds nothing."""
    before = watched.history.decisions(GROUP, MESSAGES)
    watched.run(60)

    assert watched.history.decisions(GROUP, MESSAGES) == before


def test_what_was_in_force_at_a_time_is_told_as_it_was_then(watched: Watched) -> None:
    """With the sentence and all demands of that moment, and its age as of now."""
    watched.run(20)
    before_ns = watched.cluster.now_ns
    watched.cluster.set_limit(900)
    watched.run(30)

    past = watched.history.at(GROUP, MESSAGES, before_ns)
    assert past is not None
    then = past.aged(watched.cluster.now_ns)
    assert then.cluster_limit == 3_000
    assert then.binding == "level"
    assert then.local_limit is not None
    assert 1_450 < then.local_limit < 1_550
    assert "of the 3,000/s" in then.sentence
    assert {want.broker for want in then.wants} == {"b1", "b2"}
    assert then.decided_age_ns > 30 * SECOND_NS
    assert 430 < (watched.limits()[0] or 0) < 470


def test_before_the_history_begins_nothing_is_known(watched: Watched) -> None:
    """Rather than the oldest decision, which was not in force yet."""
    assert watched.history.at(GROUP, MESSAGES, 0) is None
    assert watched.history.at("none", MESSAGES, watched.cluster.now_ns) is None


def test_a_limit_that_is_lifted_is_told_and_one_that_never_was_is_not(watched: Watched) -> None:
    """Bytes were never limited, so there is nothing to tell of them."""
    group = ResourceGroup(GROUP, Rates(), configuration_version=2)
    watched.cluster.send("b1", GroupsChanged((group,)))
    watched.run(1)

    newest = watched.history.decisions(GROUP, MESSAGES)[0].explanation
    assert (newest.binding, newest.cluster_limit, newest.local_limit) == ("unlimited", None, None)
    assert watched.history.decisions(GROUP, Dimension.PUBLISH_BYTES) == ()


def test_a_group_that_is_gone_is_forgotten(watched: Watched) -> None:
    """Its name may come to mean something else."""
    watched.history.begin(set())

    assert watched.history.decisions(GROUP, MESSAGES) == ()


def test_the_past_of_one_group_is_bounded(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest go first."""
    monkeypatch.setattr(decision_history, "KEPT_DECISIONS", 5)
    for number in range(8):
        watched.cluster.set_limit(1_000 if number % 2 else 2_000)
        watched.run(1)

    assert len(watched.limits()) == 5 == watched.history.room
    assert watched.history.at(GROUP, MESSAGES, watched.cluster.now_ns - 6 * SECOND_NS) is None


def test_many_groups_and_brokers_shorten_the_past(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole stays within its bound; a few decisions are always kept."""
    monkeypatch.setattr(decision_history, "MAX_CELLS", 18)
    watched.run(1)

    assert watched.history.room == 6
    monkeypatch.setattr(decision_history, "MAX_CELLS", 1)
    watched.run(1)

    assert watched.history.room == 4


def test_of_many_brokers_the_largest_and_the_own_one_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of them count; a row for each would be too much to keep."""
    monkeypatch.setattr(decision_history, "WITNESSES", 3)
    cluster = Cluster(limit=3_000)
    for broker, demand in (("b1", 100), ("b2", 5_000), ("b3", 100), ("b4", 5_000), ("own", 1)):
        cluster.start(broker, demand)
    cluster.run(10)
    history = DecisionHistory()
    history.sampled(cluster.states["own"], GROUP, cluster.now_ns)

    (past,) = history.decisions(GROUP, MESSAGES)
    assert past.participants == 5
    assert [want.broker for want in past.explanation.wants] == ["b2", "b4", "own"]
