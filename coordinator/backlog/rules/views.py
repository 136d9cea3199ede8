"""A topic's backlog for readers, and its relation to its quota, by Pulsar's rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.backlog.rules.model import (
    NO_QUOTA,
    BacklogQuota,
    Position,
    QuotaPolicy,
    QuotaType,
)
from coordinator.backlog.rules.trend import TimeUntil, Trend, fit, time_until
from coordinator.core.answer import answer


@answer
class Exceedance:
    """A time during which a quota was exceeded."""

    quota_type: QuotaType
    limit: int
    """bytes or seconds, at the end"""
    began_at_ms: int
    """when a check first saw it"""
    ended_at_ms: int | None
    """when one first saw it over; null while it lasts"""
    peak: int
    """the most that a check saw"""


@dataclass(frozen=True, slots=True)
class BacklogView:
    """One topic's backlog as of the last check, aged up to now.

    Args:
        topic: full name.
        size_bytes: of the backlog.
        age_s: of its oldest message; None is no backlog, or not known.
        subscription: its subscription; None when there is no backlog.
        internal: whether that is a cursor of Pulsar's own.
        position: of the oldest unacknowledged message.
        publish_ms: when that was published.
        estimated: whether that is the end of its ledger.
        skewed: whether its producer's clock is ahead.
        implausible: whether its producer's clock is behind: it is older than its ledger.
        quota: in force; None is not asked yet.
        backlogs: subscription to unacknowledged entries.
        producers: names of those connected, the first of many.
        producer_count: how many are connected.
        consumers: how many of each subscription are connected.
        checked_ms: the time of the last check.
        problem: why the last check failed; empty when it did not.
        sizes: (seconds, bytes) of the last checks.
        ages: (seconds, seconds) of those that knew an age.
        history: exceedances, oldest first.
    """

    topic: str
    size_bytes: int
    age_s: float | None
    subscription: str | None
    internal: bool
    position: Position | None
    publish_ms: int | None
    estimated: bool
    skewed: bool
    implausible: bool
    quota: BacklogQuota | None
    backlogs: Mapping[str, int]
    producers: tuple[str, ...]
    producer_count: int
    consumers: Mapping[str, int]
    checked_ms: int
    problem: str
    sizes: tuple[tuple[float, float], ...]
    ages: tuple[tuple[float, float], ...]
    history: tuple[Exceedance, ...]

    @property
    def growth(self) -> Trend | None:
        """Return the trend of the size, in bytes; None is not known yet."""
        return fit(self.sizes)

    @property
    def until_size(self) -> TimeUntil | None:
        """Return the time until the size reaches its quota; None without a quota or a trend."""
        limit, growth = (self.quota or NO_QUOTA).size_bytes, self.growth
        if limit is None or growth is None:
            return None
        return time_until(limit, self.size_bytes, growth)

    @property
    def until_age(self) -> TimeUntil | None:
        """Return the time until the age reaches its quota; None without a quota or a trend."""
        limit, ageing = (self.quota or NO_QUOTA).age_s, fit(self.ages)
        if limit is None or ageing is None or self.age_s is None:
            return None
        return time_until(limit, self.age_s, ageing)

    def value_of(self, quota_type: QuotaType) -> float:
        """Return the measure of a quota, in bytes or seconds; an unknown age is 0."""
        return self.size_bytes if quota_type is QuotaType.SIZE else self.age_s or 0.0

    def limit_of(self, quota_type: QuotaType) -> int | None:
        """Return the limit, in bytes or seconds; None without a quota."""
        return (self.quota or NO_QUOTA).limit_of(quota_type)

    def used(self, quota_type: QuotaType) -> float:
        """Return the used part of a quota, more than 1 beyond it; 0 without a quota.

        A quota of nothing counts as one of one byte or second, so that a topic beyond it is far beyond.
        """
        limit = self.limit_of(quota_type)
        return 0.0 if limit is None else self.value_of(quota_type) / max(1, limit)

    @property
    def fullest(self) -> QuotaType:
        """Return the quota with the higher use; of equal ones the size."""
        return max(QuotaType, key=self.used)

    def is_told(self, quota_type: QuotaType) -> bool:
        """Return whether the last check could tell whether a quota is exceeded."""
        has_age = self.age_s is not None or self.subscription is None
        measured = quota_type is QuotaType.SIZE or has_age
        return not self.problem or (self.quota is not None and measured)

    def exceeds(self, quota_type: QuotaType) -> bool:
        """Return whether a quota is exceeded, as in Pulsar: a size from the limit on, an age beyond."""
        quota = self.quota or NO_QUOTA
        if quota_type is QuotaType.SIZE:
            return quota.size_bytes is not None and 0 < self.size_bytes >= quota.size_bytes
        return quota.age_s is not None and self.age_s is not None and self.age_s > quota.age_s

    @property
    def exceeded(self) -> QuotaType | None:
        """Return the quota that is exceeded; of both the size, as in Pulsar."""
        return next((kind for kind in QuotaType if self.exceeds(kind)), None)

    def policy_of(self, quota_type: QuotaType) -> QuotaPolicy:
        """Return the action when this quota is exceeded."""
        return (self.quota or NO_QUOTA).policy_of(quota_type)
