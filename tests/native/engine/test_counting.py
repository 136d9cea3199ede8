"""Counters, poll by poll."""

from __future__ import annotations

from coordinator.native.engine.counting import CounterBook, TopicCount


def topic(name: str, messages: int, producers: int = 0, throttles: int = 0) -> TopicCount:
    """One topic of one namespace."""
    return TopicCount(
        "t/n", name, messages, messages * 10, producers=producers, throttles=throttles
    )


def test_the_first_poll_counts_nothing_that_came_before() -> None:
    """It tells the connected clients."""
    book = CounterBook()
    first = book.poll([topic("a", 100, producers=2)])["t/n"]
    second = book.poll([topic("a", 130, producers=1)])["t/n"]

    assert (first.messages, first.producers, first.producer_topics) == (0, 2, 1)
    assert (second.messages, second.bytes, second.producers) == (30, 300, 1)
    assert book.published_topics == {"a"}


def test_a_topic_that_was_loaded_anew_counts_from_nothing() -> None:
    """A topic that was not there before does the same."""
    book = CounterBook()
    book.poll([topic("a", 100)])
    found = book.poll([topic("a", 7), topic("b", 5)])["t/n"]

    assert found.messages == 12


def test_parts_of_what_a_topic_was_sent_are_counted_by_their_homes() -> None:
    """A subscription by itself, replication by its remote cluster; the topic is one topic."""
    book, name = CounterBook(), "persistent://t/n/a"
    before, after = (
        [
            TopicCount("t/n", name, out_messages=3 * sent),
            TopicCount("t/n", name, out_messages=sent, subscription="s"),
            TopicCount("t/n", name, out_messages=2 * sent, remote="west"),
        ]
        for sent in (0, 40)
    )
    book.poll(before)
    found = book.poll(after)
    assert {home: each.out_messages for home, each in found.items()} == {
        "t/n": 120, "persistent/t/n/a/s": 40, "-->west": 80,
    }  # fmt: skip
    assert book.topics == 1


def test_throttles_that_began_anew_are_unsure() -> None:
    """They begin anew with every update of the broker's statistics."""
    book = CounterBook()
    book.poll([topic("a", 1, throttles=98)])
    found = book.poll([topic("a", 2, throttles=1)])["t/n"]
    assert (found.throttles, found.throttles_unsure) == (1, True)
    assert not book.poll([topic("a", 2, throttles=9)])["t/n"].throttles_unsure
