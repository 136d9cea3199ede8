"""Topics with limits of their own are looked at when there is a reason, by one sidecar each."""

from __future__ import annotations

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Rates
from coordinator.native.engine.counting import TopicCount
from coordinator.native.engine.rate_policy import NO_RATE, PolicyRate
from coordinator.native.engine.topic_limits import LimitedTopic, TopicLimitBook, cannot_hold

S = NANOS_PER_SECOND
A, B = "persistent://t/n/a", "persistent://t/n/b"
LIMITS = Rates(publish_messages=900, dispatch_bytes=10)


def book(*topics: str) -> TopicLimitBook:
    """A book in which these topics have a limit."""
    found = TopicLimitBook()
    for topic in topics:
        found.set_limit(topic, LIMITS, 1)
    return found


def served_topic(name: str, messages: int = 0, sent_bytes: int = 0) -> TopicCount:
    """The counters of a topic."""
    return TopicCount("t/n", name, messages=messages, out_bytes=sent_bytes)


def test_a_topic_that_lets_more_pass_than_its_limit_is_looked_at_at_once() -> None:
    """Three seconds' worth in one; less may be a lump of batches."""
    for messages, sent_bytes, is_suspect in ((2_700, 30, False), (2_701, 0, True), (0, 31, True)):
        found = book(A)
        found.looked_at(A, S, is_right=True)
        found.poll([served_topic(A)], S)
        found.poll([served_topic(A, messages, sent_bytes)], S)
        assert found.due(2 * S) == [A] * is_suspect
        found.looked_at(A, 2 * S, is_right=True)
        assert found.due(3 * S) == []


def test_each_partition_gets_its_part() -> None:
    """At least one a second, the least that Pulsar takes; what is not limited stays so."""
    topic = LimitedTopic(LIMITS, 4)
    assert (topic.publish, topic.dispatch) == (PolicyRate(225), PolicyRate(None, 2))
    many = LimitedTopic(LIMITS, 1_000)
    assert (many.publish, many.dispatch) == (PolicyRate(1), PolicyRate(None, 1))
    assert LimitedTopic(Rates(), 4).publish == NO_RATE


def test_a_topic_is_looked_at_until_it_is_right_and_now_and_then_after_that() -> None:
    """Once in 30 s; at once when its limit changes."""
    found = book(A)
    assert found.due(S) == [A]
    found.looked_at(A, S, is_right=False)
    assert found.due(S) == [A]
    found.looked_at(A, S, is_right=True)
    assert found.due(30 * S) == []
    assert found.due(31 * S) == [A]
    found.set_limit(A, LIMITS, 3)
    assert found.due(2 * S) == [A]


def test_a_topic_that_is_missing_is_looked_at_once_it_is_loaded() -> None:
    """By the name of one of its partitions, too."""
    for served in (A, f"{A}-partition-7"):
        found = book(A)
        found.looked_at(A, S, is_right=False, is_missing=True)
        found.poll([served_topic(B)], S)
        assert found.due(2 * S) == []
        found.poll([served_topic(B), served_topic(served)], S)
        assert found.due(2 * S) == [A]


def test_few_are_looked_at_in_a_step_and_each_has_its_turn() -> None:
    """32 of those that are wrong, those first that wait longest; four of all others."""
    names = [f"persistent://t/n/{number}" for number in range(200)]
    found = book(*names)
    seen: set[str] = set()
    for step in range(1, 8):
        due = found.due(step * S)
        assert len(due) <= 32
        for name in due:
            found.looked_at(name, step * S, is_right=False)
        seen.update(due)
    assert seen == set(names)
    for name in names:
        found.looked_at(name, 8 * S, is_right=True)
    assert len(found.due(100 * S)) == 4


def test_the_sidecar_of_the_broker_that_serves_a_topic_writes_its_policies() -> None:
    """Else the first member does, the next one two seconds later, and none that is no member."""
    found = book(A)
    assert found.is_turn(A, 0, S)
    assert not found.is_turn(A, 2, S)
    assert not found.is_turn(A, 2, 4 * S)
    assert found.is_turn(A, 2, 5 * S)
    assert not found.is_turn(A, None, 100 * S)
    found = book(A)
    found.poll([served_topic(A)], S)
    assert found.is_turn(A, 2, S)


def test_a_limit_that_is_taken_away_is_forgotten_once_that_is_done() -> None:
    """The same once the topic is gone; one that there never was is no news."""
    found = book(A, B)
    found.set_limit("persistent://t/n/other", Rates(), 1)
    for name in (A, B):
        found.set_limit(name, Rates(), 1)
    assert found.due(S) == [A, B]
    found.looked_at(A, S, is_right=True)
    found.looked_at(B, S, is_right=False, is_missing=True)
    assert found.topics == {}


def test_what_is_held_is_what_was_found_right() -> None:
    """Others wait, or do not exist."""
    found = book(A, B)
    found.looked_at(A, S, is_right=True)
    assert [name for name, _ in found.held()] == [A]


@pytest.mark.parametrize(
    ("topic", "limits", "partitions", "said"),
    [
        (A, LIMITS, 10, ""),
        (A, Rates(), 1, ""),
        (A, LIMITS, 11, f"{A} below 11 a second"),
        (A, Rates(publish_messages=0), 1, f"{A} below 1 a second"),
        ("non-persistent://t/n/a", LIMITS, 1, "non-persistent://t/n/a, as it is not persistent"),
    ],
)
def test_what_policies_cannot_hold_is_said(
    topic: str, limits: Rates, partitions: int, said: str
) -> None:
    """A limit of less than one a second for each partition, and of a topic that is not persistent."""
    assert cannot_hold(topic, limits, partitions) == said
