"""The memory of a run: samples of the brokers' counters, and what the story did when.

Plain values without behaviour, so that the figures can be computed again by anyone from what a run
left behind. All times are seconds of CLOCK_MONOTONIC, all rates messages per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SAMPLED_EVERY_S = 0.2
"""From one question about a topic to the next."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer of a broker about one topic that it serves.

    Attributes:
        topic: full name.
        broker: who answered.
        sent_s: when it was asked.
        answered_s: when the answer was there; the counter was read somewhere in between.
        messages: published to it, or sent to its consumers, since a broker has loaded the topic.
        clients: producers connected, or consumers.
    """

    topic: str
    broker: str
    sent_s: float
    answered_s: float
    messages: int
    clients: int

    @property
    def at_s(self) -> float:
        """The moment that the count is taken for; off by no more than half of `took_s`."""
        return (self.sent_s + self.answered_s) / 2

    @property
    def took_s(self) -> float:
        """The time that the answer took."""
        return self.answered_s - self.sent_s


@dataclass(frozen=True, slots=True)
class Miss:
    """A broker said, by an answer or by none, that it did not serve a topic at this moment."""

    topic: str
    broker: str
    at_s: float


@dataclass(frozen=True, slots=True)
class LimitChange:
    """From `at_s` on the group's limit was `limit`."""

    at_s: float
    limit: int


@dataclass(frozen=True, slots=True)
class Act:
    """One event of the story and the time after it.

    Attributes:
        event: its key in the summary.
        title: what happens, for people.
        happened_s: when the story made it happen; the act before is over.
        known_s: from when on a coordinator could know of it.
        ended_s: when the act was over.
        limit: the group's limit.
        demands: what is offered, by broker that serves a producer.
    """

    event: str
    title: str
    happened_s: float
    known_s: float
    ended_s: float
    limit: int
    demands: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Wait:
    """A span of time in which no process of the demo's priority got a processor."""

    from_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Receipts:
    """The receipts of a broker's load in the second before `at_s`, after `latency_s` on average."""

    broker: str
    at_s: float
    receipts: int
    latency_s: float


@dataclass(frozen=True, slots=True)
class DispatchRecording:
    """The scene of a dispatch limit: backlogs, one for each broker, drained under one limit.

    Attributes:
        samples: of the messages sent, in the order of their arrival for each topic.
        misses: the same.
        limit: of the group.
        known_s: when each broker first counted a consumer.
        ended_s: when the first backlog was drained.
        missing: messages that were published, and that no consumer had when all was drained.
    """

    samples: Sequence[Sample]
    misses: Sequence[Miss]
    limit: int
    known_s: float
    ended_s: float
    missing: int


@dataclass(frozen=True, slots=True)
class DemoRecording:
    """A whole run.

    Attributes:
        samples: in the order of their arrival for each topic.
        misses: the same.
        acts: in order.
        limits: in order.
        killed_s: when a broker was killed; None when none was.
        waits: for a processor, in order.
        receipts: of every load, in order for each.
        dispatch: the scene of a dispatch limit; None where it was not played.
    """

    samples: Sequence[Sample]
    misses: Sequence[Miss]
    acts: Sequence[Act]
    limits: Sequence[LimitChange]
    killed_s: float | None
    waits: Sequence[Wait] = ()
    receipts: Sequence[Receipts] = ()
    dispatch: DispatchRecording | None = None
