"""The JSON of backlogs, with PIP-323's names where it has them; -1 is none, or unknown."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from admin_api.schemas.definitions import CamelModel
from coordinator.backlog.rules.guard import Action, Enforcement
from coordinator.backlog.rules.model import NO_QUOTA, Position, QuotaType
from coordinator.backlog.rules.trend import TimeUntil
from coordinator.backlog.rules.views import BacklogView, Exceedance
from coordinator.backlog.shell.checker import Checks, SubscriptionBacklog

NONE = -1


class TimeUntilBody(CamelModel):
    """The time until a quota is reached, in seconds from now; null is never."""

    expected_seconds: float | None = Field(description="if it goes on as in the last checks")
    earliest_seconds: float | None = Field(description="at the upper end of the band (95 %)")
    latest_seconds: float | None = Field(description="at its lower end")

    @classmethod
    def of(cls, until: TimeUntil | None) -> TimeUntilBody | None:
        """Write the time; None when it is unknown."""
        if until is None:
            return None
        return cls(
            expected_seconds=until.expected_s,
            earliest_seconds=until.earliest_s,
            latest_seconds=until.latest_s,
        )


class ExceedanceBody(CamelModel):
    """A time during which a quota was exceeded."""

    quota_type: str
    limit: int = Field(description="bytes or seconds")
    peak: int = Field(description="the most that a check saw")
    began_at_ms: int
    ended_at_ms: int | None = Field(description="null while it lasts")

    @classmethod
    def of(cls, exceedance: Exceedance) -> ExceedanceBody:
        """As it is known."""
        return cls(
            quota_type=exceedance.quota_type.value,
            limit=exceedance.limit,
            peak=exceedance.peak,
            began_at_ms=exceedance.began_ms,
            ended_at_ms=exceedance.ended_ms,
        )


class SubscriptionBody(CamelModel):
    """The messages that one subscription has not acknowledged."""

    subscription: str
    internal: bool = Field(description="one of Pulsar's own; no consumer can shorten it")
    durable: bool = Field(description="a reader's is not, and counts for no quota")
    position: str
    age_seconds: float
    size: int = Field(description="bytes")

    @classmethod
    def of(cls, found: SubscriptionBacklog) -> SubscriptionBody:
        """Write one subscription as of now."""
        return cls(
            subscription=found.cursor.name,
            internal=found.cursor.internal,
            durable=found.cursor.durable,
            position=_position(found.position),
            age_seconds=found.age_s,
            size=found.size_bytes,
        )


class BacklogBody(CamelModel):
    """A topic's backlog as of the last check; its age as of now."""

    backlog_quota_limit_size: int = Field(description="bytes; -1 is no quota")
    backlog_quota_limit_time: int = Field(description="seconds; -1 is no quota")
    oldest_backlog_message_age_seconds: int
    oldest_backlog_message_subscription_name: str | None
    topic: str
    backlog_size: int = Field(description="bytes")
    backlog_quota_policy: dict[str, str] = Field(description="quota type to what is done")
    used: float = Field(description="the larger part of a quota that is used; 0 without one")
    exceeded: str | None = Field(description="the type of the quota that is exceeded")
    oldest_message_position: str | None
    oldest_message_published_at_ms: int | None
    internal: bool = Field(description="the oldest subscription is one of Pulsar's own")
    estimated: bool = Field(description="the publish time is the end of the message's ledger")
    clock_skew: str | None = Field(description="ahead or behind: the producer's clock is wrong")
    growth_per_second: float | None = Field(description="bytes; null before some checks")
    growth_error_per_second: float | None = Field(description="standard error of that")
    until_size_quota: TimeUntilBody | None
    until_time_quota: TimeUntilBody | None
    backlogs: dict[str, int] = Field(description="subscription to unacknowledged entries")
    producers: list[str] = Field(description="names, the first of many")
    producer_count: int
    consumers: dict[str, int] = Field(description="subscription to consumers")
    checked_at_ms: int
    problem: str = Field(description="why the last check failed; empty when it did not")
    enforcement: str | None = Field(description="enforce, dry-run, or nothing")

    @classmethod
    def of(cls, view: BacklogView, wanted: Enforcement | None) -> BacklogBody:
        """Write the fields that need no question to the broker."""
        return cls(**_fields(view, wanted))


class BacklogDetail(BacklogBody):
    """The same, with the broker's present answer and past exceedances."""

    subscriptions: list[SubscriptionBody] = Field(description="those with a backlog, oldest first")
    history: list[ExceedanceBody] = Field(description="oldest first")

    @classmethod
    def of_both(
        cls,
        view: BacklogView,
        wanted: Enforcement | None,
        subscriptions: tuple[SubscriptionBacklog, ...],
    ) -> BacklogDetail:
        """Write a topic in full."""
        return cls(
            **_fields(view, wanted),
            subscriptions=[SubscriptionBody.of(found) for found in subscriptions],
            history=[ExceedanceBody.of(exceedance) for exceedance in view.history],
        )


class ActionBody(CamelModel):
    """An action on an exceeded quota."""

    topic: str
    deed: str
    quota_type: str
    limit: int
    value: int
    dry_run: bool
    at_ms: int
    outcome: str

    @classmethod
    def of(cls, action: Action) -> ActionBody:
        """Write one remembered action."""
        return cls(
            topic=action.topic,
            deed=action.deed.value,
            quota_type=action.quota_type.value,
            limit=action.limit,
            value=action.value,
            dry_run=action.dry_run,
            at_ms=action.at_ms,
            outcome=action.outcome,
        )


class BacklogsBody(CamelModel):
    """The backlogs of one broker's topics."""

    cluster: str
    topics: int = Field(description="persistent topics that the broker has loaded")
    with_backlog: int
    exceeded: int
    checks: int = Field(description="since the start")
    problem: str = Field(description="why the last check failed; empty when it did not")
    interval_seconds: float
    rows: list[BacklogBody] = Field(description="those that use most of their quota first")

    @classmethod
    def of(
        cls, cluster: str, checks: Checks, interval_s: float, views: tuple[BacklogView, ...],
        rows: list[BacklogBody],
    ) -> BacklogsBody:  # fmt: skip
        """Write the backlogs of a broker."""
        return cls(
            cluster=cluster,
            topics=checks.topics,
            with_backlog=sum(view.subscription is not None for view in views),
            exceeded=sum(view.exceeded is not None for view in views),
            checks=checks.count,
            problem=checks.problem,
            interval_seconds=interval_s,
            rows=rows,
        )


def _fields(view: BacklogView, wanted: Enforcement | None) -> dict[str, Any]:
    skew = "ahead" if view.skewed else "behind" if view.implausible else None
    quota = view.quota or NO_QUOTA
    return {
        "backlog_quota_limit_size": _or_none(quota.size_bytes),
        "backlog_quota_limit_time": _or_none(quota.age_s),
        "oldest_backlog_message_age_seconds": NONE if view.age_s is None else int(view.age_s),
        "oldest_backlog_message_subscription_name": view.subscription,
        "topic": view.topic,
        "backlog_size": view.size_bytes,
        "backlog_quota_policy": {kind.value: view.policy_of(kind).value for kind in QuotaType},
        "used": view.used(view.fullest),
        "exceeded": None if view.exceeded is None else view.exceeded.value,
        "oldest_message_position": None if view.position is None else _position(view.position),
        "oldest_message_published_at_ms": view.publish_ms,
        "internal": view.internal,
        "estimated": view.estimated,
        "clock_skew": skew,
        "growth_per_second": None if view.growth is None else view.growth.per_s,
        "growth_error_per_second": None if view.growth is None else view.growth.error_per_s,
        "until_size_quota": TimeUntilBody.of(view.until_size),
        "until_time_quota": TimeUntilBody.of(view.until_age),
        "backlogs": dict(view.backlogs),
        "producers": list(view.producers),
        "producer_count": view.producer_count,
        "consumers": dict(view.consumers),
        "checked_at_ms": view.checked_ms,
        "problem": view.problem,
        "enforcement": None if wanted is None else wanted.value,
    }


def _or_none(limit: int | None) -> int:
    return NONE if limit is None else limit


def _position(position: Position) -> str:
    return f"{position.ledger}:{position.entry}"
