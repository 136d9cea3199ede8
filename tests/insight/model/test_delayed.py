"""The view of delayed messages shows their number, limit and effect."""

from __future__ import annotations

from coordinator.insight.model.delayed import TOLD, DelayedTopic, DelayedView
from coordinator.insight.model.specification import delayed_advice

TOPIC = "persistent://shop/orders/later"


def test_messages_that_wait_for_their_time_give_no_cause_for_a_warning() -> None:
    """This holds for every group that they count against."""
    assert DelayedTopic(TOPIC, 1_000, 0).warned().warnings == ()


def test_messages_that_were_due_when_they_were_published_are_warned_of() -> None:
    """With their number, and what the client should do."""
    (warning,) = DelayedTopic(TOPIC, 1_200, 300).warned().warnings
    assert warning.startswith(f"300 of 1,200 delayed messages to {TOPIC} were due")
    assert "leave deliverAfter and deliverAt out" in warning


def test_subscriptions_that_do_not_wait_are_named() -> None:
    """They get the messages at once."""
    (warning,) = DelayedTopic(TOPIC, 1, 0, ("audit", "billing")).warned().warnings
    assert warning.startswith(f"audit, billing of {TOPIC}: Exclusive and Failover")


def test_a_topic_that_is_not_persistent_has_one_warning() -> None:
    """One warning says it all."""
    (warning,) = DelayedTopic(f"non-{TOPIC}", 7, 7, ("audit",)).warned().warnings
    assert "is not persistent, so its 7 delayed messages were delivered at once" in warning


def test_the_explanation_says_what_is_counted_and_then_what_of_it_is_in_vain() -> None:
    """Topic by topic."""
    topics = (DelayedTopic(TOPIC, 5, 5), DelayedTopic(f"non-{TOPIC}", 7, 0))
    counted, *warnings = DelayedView(12, 5, topics).sentences
    assert "whatever its value: 12 at this gate" in counted
    assert len(warnings) == 2
    assert DelayedView(12, 5, topics).not_persistent == 7


def test_an_explanation_stays_short_however_many_topics_there_are() -> None:
    """Those with most of it first; the rest is a number."""
    topics = tuple(DelayedTopic(f"{TOPIC}-{number}", 100, number) for number in range(100))
    _, first, *_, rest = (sentences := DelayedView(10_000, 4_950, topics).sentences)
    assert len(sentences) == TOLD + 2
    assert first.startswith("99 of 100")
    assert rest == "And 94 more such warnings: see /quota/v1/gate/delayed."


def test_more_is_advised_above_four_fifths_of_the_limit_of_delayed_messages() -> None:
    """Four fifths of the advised limit would be used."""
    assert delayed_advice(100, 80) == ""
    assert delayed_advice(None, 10**9) == ""
    assert delayed_advice(100, 95) == (
        "Delayed messages use 95 % of their 100 messages/s: with 119 messages/s they would use 80%."
    )
    assert delayed_advice(0, 1) != ""
