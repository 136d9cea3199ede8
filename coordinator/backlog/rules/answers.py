"""The answers about backlogs, with PIP-323's names where it has them; -1 is none, or unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from coordinator.backlog.rules.guard import Enforcement
from coordinator.backlog.rules.model import NO_QUOTA, Position, QuotaPolicy, QuotaType
from coordinator.backlog.rules.trend import TimeUntil
from coordinator.backlog.rules.views import BacklogView, Exceedance
from coordinator.core.answer import Limit, Wire, answer

PositionInText = Annotated[
    Position,
    Wire(
        lambda position: f"{position.ledger}:{position.entry}",
        lambda text: Position(*map(int, text.split(":"))),
        str,
    ),
]


@answer
class SubscriptionBacklog:
    """The messages that one subscription has not acknowledged."""

    subscription: str
    internal: bool
    """one of Pulsar's own; no consumer can shorten it"""
    durable: bool
    """a reader's is not, and counts for no quota"""
    position: PositionInText
    """of its oldest unacknowledged message"""
    age_s: float
    """of that message"""
    size: int
    """bytes, from there on"""


@answer
class TopicBacklog:
    """A topic's backlog as of the last check; its age as of now."""

    backlog_quota_limit_size: Limit
    """bytes; -1 is no quota"""
    backlog_quota_limit_time: Limit
    """seconds; -1 is no quota"""
    oldest_backlog_message_age_s: Limit
    oldest_backlog_message_subscription_name: str | None
    topic: str
    backlog_size: int
    """bytes"""
    backlog_quota_policy: Mapping[QuotaType, QuotaPolicy]
    """quota type to what is done"""
    used: float
    """the larger part of a quota that is used; 0 without one"""
    exceeded: QuotaType | None
    """the type of the quota that is exceeded"""
    oldest_message_position: PositionInText | None
    oldest_message_published_at_ms: int | None
    internal: bool
    """the oldest subscription is one of Pulsar's own"""
    estimated: bool
    """the publish time is the end of the message's ledger"""
    clock_skew: str | None
    """ahead or behind: the producer's clock is wrong"""
    growth_per_second: float | None
    """bytes; null before some checks"""
    growth_error_per_second: float | None
    """standard error of that"""
    until_size_quota: TimeUntil | None
    until_time_quota: TimeUntil | None
    backlogs: Mapping[str, int]
    """subscription to unacknowledged entries"""
    producers: tuple[str, ...]
    """names, the first of many"""
    producer_count: int
    consumers: Mapping[str, int]
    """subscription to consumers"""
    checked_at_ms: int
    problem: str
    """why the last check failed; empty when it did not"""
    enforcement: Enforcement | None
    """enforce, dry-run, or nothing"""

    @classmethod
    def of(cls, view: BacklogView, wanted: Enforcement | None, **further: Any) -> Self:
        """Write a topic, with the further fields of a subclass."""
        quota, growth = view.quota or NO_QUOTA, view.growth
        return cls(
            backlog_quota_limit_size=quota.size_bytes,
            backlog_quota_limit_time=quota.age_s,
            oldest_backlog_message_age_s=None if view.age_s is None else int(view.age_s),
            oldest_backlog_message_subscription_name=view.subscription,
            topic=view.topic,
            backlog_size=view.size_bytes,
            backlog_quota_policy={kind: view.policy_of(kind) for kind in QuotaType},
            used=view.used(view.fullest),
            exceeded=view.exceeded,
            oldest_message_position=view.position,
            oldest_message_published_at_ms=view.publish_ms,
            internal=view.internal,
            estimated=view.estimated,
            clock_skew="ahead" if view.skewed else "behind" if view.implausible else None,
            growth_per_second=None if growth is None else growth.per_s,
            growth_error_per_second=None if growth is None else growth.error_per_s,
            until_size_quota=view.until_size,
            until_time_quota=view.until_age,
            backlogs=view.backlogs,
            producers=view.producers,
            producer_count=view.producer_count,
            consumers=view.consumers,
            checked_at_ms=view.checked_ms,
            problem=view.problem,
            enforcement=wanted,
            **further,
        )


@answer
class TopicBacklogInFull(TopicBacklog):
    """The same, with the broker's present answer and past exceedances."""

    subscriptions: tuple[SubscriptionBacklog, ...]
    """those with a backlog, oldest first"""
    history: tuple[Exceedance, ...]
    """oldest first"""


@answer
class BrokersBacklogs:
    """The backlogs of one broker's topics."""

    cluster: str
    topics: int
    """persistent topics that the broker has loaded"""
    with_backlog: int
    exceeded: int
    checks: int
    """since the start"""
    problem: str
    """why the last check failed; empty when it did not"""
    interval_s: float
    rows: tuple[TopicBacklog, ...]
    """those that use most of their quota first"""
