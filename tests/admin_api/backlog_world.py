"""Backlogs of topics in memory, for tests of what the admin API says of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from admin_api.backend import Backlogs
from coordinator.backlog.rules.evictions import EvictionCounts
from coordinator.backlog.rules.guard import BacklogGuard, Block, Enforcement
from coordinator.backlog.rules.monitor import BacklogMonitor
from coordinator.backlog.shell.checker import BacklogWatch
from coordinator.backlog.shell.enforcer import BacklogEnforcement
from tests.memory.backlog import MemoryBacklogSource, MemoryTopicStorage
from tests.memory.surroundings import ManualClock

START_MS = 1_800_000_000_000
TOPIC = "persistent://shop/orders/incoming"


@dataclass
class BlockedTopics:
    """A gate that remembers which topics are blocked."""

    blocks: dict[str, Block] = field(default_factory=dict)
    publishing: set[str] = field(default_factory=set)

    def set_topic_block(self, topic: str, block: Block | None) -> None:
        """Block a topic, or not any more."""
        if block is None:
            self.blocks.pop(topic, None)
        else:
            self.blocks[topic] = block

    async def published_topics(self) -> frozenset[str]:
        """Return the test's topics."""
        return frozenset(self.publishing)


class BacklogWorld:
    """Topics, who looks at them, and who acts."""

    def __init__(self, namespaces: dict[str, Enforcement] | None = None) -> None:
        self.now_ms = START_MS
        self.source = MemoryBacklogSource()
        self.gate = BlockedTopics()
        self.clock = ManualClock()
        evictions = EvictionCounts()
        self.watch = BacklogWatch(
            self.source,
            BacklogMonitor(),
            clock=self.clock,
            wall_ms=lambda: self.now_ms,
            calls_per_second=1_000_000_000,
            evictions=evictions,
        )
        self.enforcement = BacklogEnforcement(
            self.watch,
            BacklogGuard(namespaces or {}, evictions),
            self.source,
            self.gate,
            clock=self.clock,
            wall_ms=lambda: self.now_ms,
        )

    def backlogs(self, *, by_topic: bool = True) -> Backlogs:
        """Return the backlogs that the admin API reads."""
        return Backlogs(self.watch, self.enforcement, by_topic=by_topic)

    def topic(self, name: str = TOPIC) -> MemoryTopicStorage:
        """A topic, with one subscription called a."""
        return self.source.topics.setdefault(name, MemoryTopicStorage(acknowledged={"a": 0}))

    def publish(self, count: int, name: str = TOPIC, size: int = 1024) -> None:
        """Messages, now."""
        for _ in range(count):
            self.topic(name).publish(self.now_ms, size)

    def pass_s(self, seconds: float) -> None:
        """Time passes."""
        self.now_ms += round(seconds * 1000)
