"""What the monitor wants to know of the broker, one topic at a time."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.backlog.model import Position


@dataclass(frozen=True, slots=True)
class AskGlance:
    """What do a topic's statistics say of its backlog?"""

    topic: str


@dataclass(frozen=True, slots=True)
class AskStorage:
    """Which ledgers and cursors does a topic have?"""

    topic: str


@dataclass(frozen=True, slots=True)
class AskEntry:
    """When was an entry published?"""

    topic: str
    position: Position


@dataclass(frozen=True, slots=True)
class AskClosings:
    """When was each ledger of a topic closed?"""

    topic: str


@dataclass(frozen=True, slots=True)
class AskQuota:
    """Which quota is in force for a topic?"""

    topic: str


Question = AskGlance | AskStorage | AskEntry | AskClosings | AskQuota
