"""A broker's topics, and a monitor that is told the truth about them without a loop or a network."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.backlog.rules.model import Position, TopicSummary
from coordinator.backlog.rules.monitor import BacklogMonitor
from coordinator.backlog.rules.questions import (
    AskClosings,
    AskEntry,
    AskGlance,
    AskQuota,
    AskStorage,
)
from coordinator.backlog.rules.views import BacklogView
from tests.memory.backlog import MemoryTopicStorage

TOPIC = "persistent://shop/orders/incoming"
START_MS = 1_800_000_000_000


@dataclass
class World:
    """Topics by name, a clock on the wall, and a monitor of the topics."""

    monitor: BacklogMonitor = field(default_factory=BacklogMonitor)
    topics: dict[str, MemoryTopicStorage] = field(default_factory=dict)
    now_ms: int = START_MS
    #: How often each kind of question was asked.
    asked: Counter[str] = field(default_factory=Counter)

    @property
    def topic(self) -> MemoryTopicStorage:
        """The one that most tests are about."""
        return self.topics.setdefault(TOPIC, MemoryTopicStorage())

    def publish(self, count: int = 1, every_ms: int = 0, size: int = 1024) -> None:
        """Messages now, or one after the other."""
        for _ in range(count):
            self.topic.publish(self.now_ms, size)
            self.now_ms += every_ms

    def pass_s(self, seconds: float) -> None:
        """Time passes."""
        self.now_ms += round(seconds * 1000)

    def summaries(self) -> list[TopicSummary]:
        """The broker's summaries of all topics."""
        return [topic.summary(name) for name, topic in self.topics.items()]

    def check(self, summaries: Sequence[TopicSummary] | None = None) -> None:
        """A check with an answer to every question; the summaries may be older than the answers."""
        questions = deque(self.monitor.begin(summaries or self.summaries(), self.now_ms))
        while questions:
            question = questions.popleft()
            self.asked[type(question).__name__] += 1
            parts = (
                name for name in self.topics if name.startswith(f"{question.topic}-partition-")
            )
            topic = self.topics[next(parts, question.topic)]
            match question:
                case AskGlance(name):
                    questions += self.monitor.glanced(name, topic.glance(), self.now_ms)
                case AskStorage(name):
                    questions += self.monitor.storage_read(name, topic.storage(), self.now_ms)
                case AskEntry(name, position):
                    published_ms = topic.entries[topic.index_of(position)][1]
                    self.monitor.entry_read(name, position, published_ms, self.now_ms)
                case AskClosings(name):
                    self.monitor.closings_read(name, _closings(topic), self.now_ms)
                case AskQuota(name):
                    self.monitor.quota_read(name, topic.quota)
        for name in self.monitor.known:
            self.monitor.finish(name, self.now_ms)

    def view(self, topic: str = TOPIC) -> BacklogView:
        """Return the monitor's view of a topic that the broker has."""
        view = self.monitor.view(topic, self.now_ms)
        assert view is not None
        return view


def _closings(topic: MemoryTopicStorage) -> dict[int, int]:
    return {
        ledger.number: topic.entries[topic.index_of(Position(ledger.number, ledger.entries - 1))][1]
        for ledger in topic.storage().ledgers[:-1]
    }
