"""The monitor's memory of one topic."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from coordinator.backlog.rules.model import BacklogQuota, Position, TopicSummary, is_internal
from coordinator.backlog.rules.views import BacklogView, Exceedance

SAMPLES: Final = 20
"""Checks that a trend is fitted to."""

SKEW_MS: Final = 1_000
"""A message stamped this far in the future comes from a clock that is ahead."""

_IMPLAUSIBLE_MS: Final = 60_000
"""A message stamped this long before its ledger was opened comes from a clock that is behind."""


@dataclass(slots=True, weakref_slot=True)
class InForce:
    """The quota in force for a topic, shared by its partitions or segments.

    Args:
        topic: the name without its partition or segment.
    """

    topic: str
    quota: BacklogQuota | None = None
    #: 0 means that it must be asked for.
    asked_ms: int = 0
    problem: str = ""


@dataclass(slots=True)
class TopicRow:
    """The known facts of one topic."""

    summary: TopicSummary
    in_force: InForce
    size_bytes: int = 0
    is_segment: bool = False
    #: That of the topic as it was last answered; None means that it must be asked.
    fingerprint: object = None
    subscription: str | None = None
    mark_delete: Position | None = None
    position: Position | None = None
    publish_ms: int | None = None
    opened_ms: int | None = None
    in_open_ledger: bool = False
    checked_ms: int = 0
    problem: str = ""
    sizes: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    ages: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def age_s(self, now_ms: int) -> float | None:
        """Return the age of the oldest message, never negative; None is no backlog, or not known."""
        return None if self.publish_ms is None else max(0, now_ms - self.publish_ms) / 1000

    @property
    def is_glanced(self) -> bool:
        """Return whether its position is unknown and no move has made it due."""
        glanced = self.publish_ms is not None and self.position is None
        return glanced and self.fingerprint == self.summary.fingerprint

    def clear(self) -> None:
        """Note that there is no backlog."""
        self.subscription = self.mark_delete = self.position = self.publish_ms = None

    def view(self, now_ms: int, *, precise: bool, history: tuple[Exceedance, ...]) -> BacklogView:
        """Return the public view of this topic."""
        summary = self.summary
        return BacklogView(
            topic=summary.topic,
            size_bytes=self.size_bytes,
            age_s=self.age_s(now_ms),
            subscription=self.subscription,
            internal=self.subscription is not None and is_internal(self.subscription),
            position=self.position,
            publish_ms=self.publish_ms,
            estimated=not precise,
            skewed=self.publish_ms is not None and self.publish_ms > now_ms + SKEW_MS,
            implausible=self._is_implausible,
            quota=self.in_force.quota,
            backlogs=summary.backlogs,
            producers=summary.producers,
            producer_count=summary.producer_count,
            consumers=summary.consumers,
            checked_ms=self.checked_ms,
            problem=self.problem or self.in_force.problem,
            sizes=tuple(self.sizes),
            ages=tuple(self.ages),
            history=history,
        )

    @property
    def _is_implausible(self) -> bool:
        if self.publish_ms is None or self.opened_ms is None or not self.in_open_ledger:
            return False
        return self.publish_ms < self.opened_ms - _IMPLAUSIBLE_MS
