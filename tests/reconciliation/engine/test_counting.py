"""The increases of counters between two readings, and the cases in which they are unknown."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coordinator.native.engine.counting import TopicCount
from coordinator.reconciliation.engine.counting import (
    INSPECTED_MAX,
    REMEMBERED,
    BrokerBook,
    GateBook,
    Increase,
    PublishedCount,
    is_system,
)

SPACE = "t/n"


def topic(name: str, messages: int, size: int = 0) -> TopicCount:
    """A topic's counters."""
    return TopicCount(SPACE, f"persistent://{SPACE}/{name}", messages, size)


def read(book: BrokerBook, *counts: TopicCount) -> Mapping[str, Increase]:
    """Take one reading, a count at a time."""
    book.begin()
    for count in counts:
        book.add([count])
    return book.end()


def test_the_first_reading_knows_no_increase() -> None:
    """Earlier values are unknown."""
    found = read(BrokerBook(), topic("a", 5))
    assert not found[SPACE].is_known


def test_the_topics_of_a_namespace_add_up() -> None:
    """Messages and bytes, each topic by its own difference."""
    book = BrokerBook()
    read(book, topic("a", 5, 50), topic("b", 7, 70))
    found = read(book, topic("a", 8, 90), topic("b", 7, 70))[SPACE]
    assert (found.published, found.is_known) == (PublishedCount(3, 40), True)
    assert found.topics == {f"persistent://{SPACE}/a": 3}


def test_a_topic_that_fell_began_anew() -> None:
    """As after an unload: its whole value was counted since."""
    book = BrokerBook()
    read(book, topic("a", 1_000, 10_000))
    assert read(book, topic("a", 4, 40))[SPACE].published == PublishedCount(4, 40)


def test_a_topic_that_was_loaded_since_counts_whole() -> None:
    """Its counter began at 0."""
    book = BrokerBook()
    read(book)
    assert read(book, topic("a", 4, 40))[SPACE].published == PublishedCount(4, 40)


def test_a_topic_that_a_reading_left_out_does_not_count_twice() -> None:
    """Its counter is remembered while it is not listed."""
    book = BrokerBook()
    read(book, topic("a", 1_000, 10_000))
    for _ in range(REMEMBERED):
        read(book)
    assert read(book, topic("a", 1_003, 10_030))[SPACE].published == PublishedCount(3, 30)


def test_a_topic_that_is_gone_is_forgotten_in_the_end() -> None:
    """Memory is bounded by the topics of the last readings."""
    book = BrokerBook()
    read(book, topic("a", 5))
    assert book.topics == 1
    for _ in range(REMEMBERED + 1):
        read(book)
    assert book._seen == {}


def test_a_namespace_that_fell_has_an_unknown_increase() -> None:
    """Without topics in the list, the count of a topic that was unloaded is unknown."""
    book = BrokerBook()
    read(book, TopicCount(SPACE, "", 1_000, 10_000))
    assert not read(book, TopicCount(SPACE, "", 900, 9_000))[SPACE].is_known
    assert read(book, TopicCount(SPACE, "", 950, 9_500))[SPACE].published == PublishedCount(50, 500)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("persistent://t/n/__change_events", True),
        ("persistent://t/n/__change_events-partition-3", True),
        ("persistent://t/n/__transaction_buffer_snapshot", True),
        ("persistent://t/n/orders-sub__transaction_pending_ack", True),
        ("persistent://t/n/__orders", False),
        ("persistent://t/n/orders", False),
        ("", False),
    ],
)
def test_system_topics_are_known_by_name(name: str, expected: bool) -> None:
    """Two underscores alone make none: a client can choose such a name."""
    assert is_system(name) is expected


def test_system_topics_are_left_out() -> None:
    """The broker itself publishes to them."""
    book = BrokerBook()
    read(book, topic("a", 5), topic("__change_events", 5))
    found = read(book, topic("a", 5), topic("__change_events", 900))
    assert found[SPACE].published == PublishedCount()


def test_topics_without_a_producer_at_the_gate_are_inspected_first() -> None:
    """Their growth came another way; then those that grew most."""
    names = [f"persistent://t/n/{number}" for number in range(9)]
    increase = Increase(topics={name: 10 * number for number, name in enumerate(names)})
    found = increase.to_inspect({*names[4:]})
    assert found == (names[3], names[2], names[1], names[0], names[8])
    assert len(found) == INSPECTED_MAX


def test_the_gates_first_reading_knows_no_increase() -> None:
    """It may have passed messages before."""
    book = GateBook()
    assert book.read({"a": PublishedCount(5, 50)}) == {"a": None}
    assert book.read({"a": PublishedCount(7, 70), "b": PublishedCount(1, 10)}) == {
        "a": PublishedCount(2, 20),
        "b": PublishedCount(1, 10),
    }


def test_a_namespace_that_the_gate_forgot_has_an_unknown_increase() -> None:
    """Its counter fell, or is gone."""
    book = GateBook()
    book.read({"a": PublishedCount(5, 50), "b": PublishedCount(6, 60)})
    assert book.read({"a": PublishedCount(2, 20)}) == {"a": None, "b": None}
    assert book.read({"a": PublishedCount(3, 30)}) == {"a": PublishedCount(1, 10)}
