"""Messages that consumers are sent are counted by topic and partition."""

from __future__ import annotations

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.counting import TopicCount
from coordinator.native.engine.entries import Amounts
from coordinator.native.engine.sent import SentByTopic

HALF = NANOS_PER_SECOND // 2
A = "persistent://t/n/a"


def counted(*sent: int, consumers: int = 1, topic: str = A) -> SentByTopic:
    """Poll twice a second; each poll adds messages of ten bytes."""
    found, total = SentByTopic(), 0
    for messages in sent:
        total += messages
        count = TopicCount("t/n", topic, 0, 0, total, 10 * total, 0, consumers)
        found.poll([count], {"t/n"}, HALF)
    return found


@pytest.mark.parametrize(
    ("sent", "rate"),
    [
        ((7, 50, 50, 50, 50), 100),
        ((7, 0, 200, 0, 200, 0), 200),
        ((7, 0, 0, 0, 0, 0, 30), 30),
        ((7,), 0),
    ],
)
def test_a_rate_is_that_of_two_seconds_or_of_the_last_poll(
    sent: tuple[int, ...], rate: int
) -> None:
    """A poll is taken for a second; what was sent before the first one is not known."""
    assert counted(*sent).uses("t/n") == {A: {A: Amounts(rate, 10 * rate)}}


def test_partitions_are_told_apart_under_the_name_of_their_topic() -> None:
    """Those without consumers are left out."""
    found = SentByTopic()
    for total in (0, 40):
        counts = [
            TopicCount("t/n", f"{A}-partition-{number}", 0, 0, total * number, 0, 0, number)
            for number in range(3)
        ]
        found.poll(counts, {"t/n"}, HALF)
    assert found.uses("t/n") == {
        A: {f"{A}-partition-1": Amounts(40, 0), f"{A}-partition-2": Amounts(80, 0)}
    }
    assert found.is_parted(A)


def test_a_topic_without_consumers_is_loaded_and_not_used() -> None:
    """One of another namespace is not kept at all."""
    found = counted(1, 2, consumers=0)
    assert (list(found.loaded("t/n")), found.uses("t/n")) == ([A], {})
    assert not found.is_parted(A)
    found.poll([TopicCount("t/n", A)], {"t/other"}, HALF)
    assert list(found.loaded("t/n")) == []


def test_counters_that_began_anew_count_from_zero() -> None:
    """A topic that was loaded again."""
    found = SentByTopic()
    for total in (500, 560, 20):
        found.poll([TopicCount("t/n", A, 0, 0, total, 0, 0, 1)], {"t/n"}, HALF)
    assert found.uses("t/n") == {A: {A: Amounts(80, 0)}}
