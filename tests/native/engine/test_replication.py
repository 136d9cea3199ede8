"""Replication is told in messages and bytes, by counters of entries."""

from __future__ import annotations

from random import Random

import pytest

from coordinator.native.engine.counting import ReplicatorCount
from coordinator.native.engine.owners import owner_of
from coordinator.native.engine.rate_policy import PolicyRate
from coordinator.native.engine.replication import ReplicationBook, can_throttle

SEED = 37
TOPIC = "persistent://t/n/a"
OWNER = owner_of(TOPIC, remote="west")


class Topic:
    """A topic that is written in entries of some messages, and replicated to one cluster."""

    def __init__(self, in_each: int, size: int = 131) -> None:
        self.book = ReplicationBook()
        self.in_each, self.size = in_each, size
        self.messages = self.bytes = self.received = self.sent = self.backlog = 0

    def write(self, entries: int) -> None:
        """Clients of this cluster publish."""
        self.messages += entries * self.in_each
        self.bytes += entries * self.size
        self.backlog += entries

    def receive(self, messages: int) -> None:
        """Another cluster replicates here."""
        self.messages += messages
        self.bytes += messages * self.size // self.in_each
        self.received += messages

    def send(self, entries: int) -> None:
        """The other cluster takes entries."""
        self.sent += entries
        self.backlog -= entries

    def poll(self) -> tuple[int, int]:
        """Return the messages and bytes that are told as sent."""
        count = ReplicatorCount(
            TOPIC, "west", self.messages, self.bytes, self.received, self.sent, self.backlog
        )
        (found,) = self.book.poll([count])
        assert (found.owner, found.consumers) == (OWNER, 1)
        return found.out_messages, found.out_bytes


@pytest.mark.parametrize("in_each", [1, 7, 1_000])
def test_sent_entries_are_told_by_their_messages_and_bytes(in_each: int) -> None:
    """Those before the first poll are not, and a poll without writes tells all."""
    topic = Topic(in_each, 500)
    topic.write(90)
    topic.send(30)
    assert topic.poll() == (0, 0)
    topic.write(10)
    for _ in range(2):
        topic.poll()
    topic.send(40)
    assert topic.poll() == (40 * in_each, 40 * 500)


def test_what_other_clusters_replicate_here_is_not_among_the_messages_of_an_entry() -> None:
    """It is not sent on."""
    topic = Topic(10)
    told = []
    for _ in range(100):
        topic.write(5)
        topic.receive(500)
        topic.send(5)
        told.append(topic.poll()[0])
    assert told[-1] - told[-41] == pytest.approx(40 * 50, rel=0.03)


def test_a_message_that_is_counted_before_its_entry_makes_no_batch() -> None:
    """Single messages are told one by one, however polls and counters meet."""
    random = Random(SEED)
    topic, late = Topic(1), 0
    for poll in range(200):
        is_written = poll not in range(90, 110)
        topic.write(100 * is_written)
        late, before = random.randrange(100) * is_written, late
        topic.backlog += before - late
        topic.send(random.randrange(90))
        topic.poll()
        assert topic.book.in_entries(OWNER, PolicyRate(600, 7)) == PolicyRate(600, 7), SEED


def test_entries_that_become_larger_are_told_so_within_seconds() -> None:
    """At two polls a second; rates are converted both ways."""
    topic = Topic(1)
    for in_each in (1, 50, 2):
        topic.in_each = in_each
        for _ in range(60):
            topic.write(100)
            topic.send(100)
            topic.poll()
        rate = topic.book.in_entries(OWNER, PolicyRate(60_000, None))
        assert rate.messages == pytest.approx(60_000 / in_each, rel=0.03)
        assert topic.book.in_messages(OWNER, rate).messages == pytest.approx(60_000, rel=0.01)


def test_counters_that_begin_anew_count_from_zero() -> None:
    """As where the topic has moved away and come back."""
    topic = Topic(1)
    topic.write(100)
    topic.poll()
    topic.send(50)
    topic.poll()
    topic.messages = topic.bytes = topic.sent = 0
    topic.send(20)
    assert topic.poll()[0] == 70


def test_entries_that_expire_are_not_taken_for_sent_ones() -> None:
    """Their backlog is gone, and no message was sent."""
    topic = Topic(4)
    topic.write(1_000)
    topic.poll()
    topic.poll()
    topic.backlog = 0
    assert topic.poll()[0] == 0
    assert topic.book.in_entries(OWNER, PolicyRate(400)).messages == 100


def test_a_rate_is_never_below_one_entry() -> None:
    """Pulsar takes less for no limit; an owner that is not known has single messages."""
    topic = Topic(1_000)
    topic.write(10)
    topic.poll()
    assert topic.book.in_entries(OWNER, PolicyRate(5)) == PolicyRate(1)
    assert topic.book.in_entries("-->east/persistent://t/n/a", PolicyRate(5)) == PolicyRate(5)


@pytest.mark.parametrize(
    ("version", "can"),
    [
        ("4.0.5", True), ("4.2.4", True), ("4.2.4.1", True), ("4.3.0-SNAPSHOT", True), ("5.0.1", True),
        ("5.1.0", True), ("4.0.6", False), ("4.0.7", False), ("4.1.0", False), ("4.2.3", False),
        ("5.0.0-M1", False), ("5.0.0", False), ("3.0.9", False), ("4.2", False), ("", False),
        ("<html>", False), ("4.2.4444", False), ("4" * 9_999, False),
    ],
)  # fmt: skip
def test_releases_that_stop_for_ever_when_they_are_held_back_are_known(
    version: str,
    can: bool,
) -> None:
    """One that is not known to go on, or not understood, is taken to stop."""
    assert can_throttle(version) is can
