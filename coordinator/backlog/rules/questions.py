"""The monitor's questions to the broker, one topic at a time."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.backlog.rules.model import Position


@dataclass(frozen=True, slots=True)
class AskGlance:
    """Ask for the backlog in a topic's statistics."""

    topic: str


@dataclass(frozen=True, slots=True)
class AskStorage:
    """Ask for the ledgers and cursors of a topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class AskEntry:
    """Ask for the publish time of an entry."""

    topic: str
    position: Position


@dataclass(frozen=True, slots=True)
class AskClosings:
    """Ask for the closing time of each ledger of a topic."""

    topic: str


@dataclass(frozen=True, slots=True)
class AskQuota:
    """Ask for the quota in force for a topic."""

    topic: str


Question = AskGlance | AskStorage | AskEntry | AskClosings | AskQuota
