"""The increases of counters between two readings, and the cases in which they are unknown."""

from __future__ import annotations

import pytest

from coordinator.core.model import MonitoringClass
from coordinator.native.engine.counting import TopicCount
from coordinator.reconciliation.engine.counting import (
    BUS,
    GATE_FORGOT,
    NOTHING,
    REMEMBERED,
    BrokerBook,
    GateBook,
    Increases,
    Volume,
)

SPACE = "t/n"
PUBLISH, DISPATCH = MonitoringClass.PUBLISH, MonitoringClass.DISPATCH
BUS_TOPIC = "non-persistent://ops/bus/usage"


def topic(name: str, messages: int, size: int = 0) -> TopicCount:
    """A topic's counters of what was published."""
    return TopicCount(SPACE, f"persistent://{SPACE}/{name}", messages, size)


def sent(subscription: str, messages: int, size: int) -> TopicCount:
    """A subscription's counters, of one topic."""
    return TopicCount(
        SPACE,
        f"persistent://{SPACE}/a",
        out_messages=messages,
        out_bytes=size,
        subscription=subscription,
    )


def read(book: BrokerBook, *counts: TopicCount) -> Increases:
    """Take one reading, a count at a time."""
    book.begin()
    for count in counts:
        book.add([count])
    return book.end()


def test_the_first_reading_knows_no_increase() -> None:
    """Earlier values are unknown."""
    found = read(BrokerBook(), topic("a", 5))
    assert found == {(SPACE, PUBLISH): None, (SPACE, DISPATCH): None}


def test_the_topics_of_a_namespace_add_up() -> None:
    """Messages and bytes, each topic by its own difference."""
    book = BrokerBook()
    read(book, topic("a", 5, 50), topic("b", 7, 70))
    found = read(book, topic("a", 8, 90), topic("b", 7, 70))
    assert found == {(SPACE, PUBLISH): Volume(3, 40), (SPACE, DISPATCH): NOTHING}


def test_a_topic_that_fell_began_anew() -> None:
    """As after an unload: its whole value was counted since."""
    book = BrokerBook()
    read(book, topic("a", 1_000, 10_000))
    assert read(book, topic("a", 4, 40))[SPACE, PUBLISH] == Volume(4, 40)


def test_a_topic_that_was_loaded_since_counts_whole() -> None:
    """Its counter began at 0."""
    book = BrokerBook()
    read(book)
    assert read(book, topic("a", 4, 40))[SPACE, PUBLISH] == Volume(4, 40)


def test_a_topic_that_a_reading_left_out_does_not_count_twice() -> None:
    """Its counter is remembered while it is not listed."""
    book = BrokerBook()
    read(book, topic("a", 1_000, 10_000))
    for _ in range(REMEMBERED):
        read(book)
    assert read(book, topic("a", 1_003, 10_030))[SPACE, PUBLISH] == Volume(3, 30)


def test_a_topic_that_is_gone_is_forgotten_in_the_end() -> None:
    """Memory is bounded by the topics of the last readings."""
    book = BrokerBook()
    read(book, topic("a", 5))
    assert len(book._seen) == 1
    for _ in range(REMEMBERED + 1):
        read(book)
    assert book._seen == {}


def test_the_end_of_a_subscription_does_not_make_the_others_count_anew() -> None:
    """Each has a counter of its own, as the broker lists them."""
    book = BrokerBook()
    read(book, sent("old", 1_000, 10_000), sent("audit", 500, 5_000))
    assert read(book, sent("old", 1_007, 10_070))[SPACE, DISPATCH] == Volume(7, 70)
    assert read(book, sent("old", 1_007, 10_070), sent("new", 3, 30))[SPACE, DISPATCH] == Volume(
        3, 30
    )


def test_a_namespace_that_fell_has_an_unknown_increase() -> None:
    """Without topics in the list, the count of a topic that was unloaded is unknown."""
    book = BrokerBook()
    read(book, TopicCount(SPACE, "", 1_000, 10_000))
    assert read(book, TopicCount(SPACE, "", 900, 9_000))[SPACE, PUBLISH] is None
    assert read(book, TopicCount(SPACE, "", 950, 9_500))[SPACE, PUBLISH] == Volume(50, 500)


@pytest.mark.parametrize(
    "name", ["__change_events", "__transaction_buffer_snapshot", "s__transaction_pending_ack"]
)
def test_no_name_of_a_topic_is_left_out(name: str) -> None:
    """Any client may publish there at the broker's own port."""
    book = BrokerBook()
    read(book, topic(name, 5, 50))
    assert read(book, topic(name, 900, 9_000))[SPACE, PUBLISH] == Volume(895, 8_950)


def test_bus_topics_have_a_row_of_their_own_and_their_neighbours_have_not() -> None:
    """A namespace as a whole counts for it where the broker lists no topics."""
    book = BrokerBook([BUS_TOPIC])
    read(book)
    found = read(
        book,
        TopicCount("ops/bus", BUS_TOPIC, 4, 40),
        TopicCount("ops/bus", "persistent://ops/bus/other", 2, 20),
    )
    assert (found[BUS, PUBLISH], found["ops/bus", PUBLISH]) == (Volume(4, 40), Volume(2, 20))
    assert read(book, TopicCount("ops/bus", "", 9, 90))[BUS, PUBLISH] == Volume(9, 90)


def test_the_gates_first_reading_knows_no_increase() -> None:
    """It may have passed messages before."""
    book, a, b = GateBook(), ("a", PUBLISH), ("b", DISPATCH)
    assert book.read({a: Volume(5, 50)}) == {a: None}
    assert book.read({a: Volume(7, 70), b: Volume(1, 10)}) == {a: Volume(2, 20), b: Volume(1, 10)}


def test_a_namespace_that_the_gate_forgot_has_an_unknown_increase() -> None:
    """Its counter fell, or is gone, and the gate says that it forgot some."""
    book, a, b = GateBook(), ("a", PUBLISH), ("b", PUBLISH)
    forgot = {(GATE_FORGOT, PUBLISH): Volume(1, 1)}
    book.read({a: Volume(5, 50), b: Volume(6, 60)})
    found = book.read({a: Volume(2, 20)} | forgot)
    assert (found[a], found[b]) == (None, None)
    assert book.read({a: Volume(3, 30)} | forgot)[a] == Volume(1, 10)


def test_what_a_client_announced_and_never_sent_is_taken_back() -> None:
    """The gate counts a publish by its head, and gives back what is missing when the client is gone."""
    book, a = GateBook(), ("a", PUBLISH)
    book.read({a: Volume(5, 500)})
    assert book.read({a: Volume(6, 5_000)}) == {a: Volume(1, 4_500)}
    assert book.read({a: Volume(6, 600)}) == {a: Volume(0, -4_400)}
