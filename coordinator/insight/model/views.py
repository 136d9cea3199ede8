"""Read-only values of the core for the admin API, the CLI and the demo.

A view is a copy taken at one moment; ages count from arrival on this sidecar's own monotonic clock, so
the clocks of other hosts do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.core.demand.observing import ENFORCE
from coordinator.core.lifecycle import Lifecycle, Trouble
from coordinator.core.model import Dimension, MonitoringClass, Rates, Suspicion, Unit
from coordinator.core.usage.agreement import Matter
from coordinator.insight.model.seconds import MinuteView


@dataclass(frozen=True, slots=True)
class BrokerUsageView:
    """One broker's row of a group: its admitted rates, demands and local limits.

    Args:
        broker: the broker's id.
        admitted: rates over its last round, per second.
        limits: its local limits in force.
        throttled_permille: per dimension, the throttled part of its last round.
        participants: producers and consumers together.
        topics: topics with a participant.
        report_age_ns: time since its last report arrived; 0 for this sidecar itself.
    """

    broker: str
    admitted: Rates
    limits: Rates
    throttled_permille: dict[Dimension, int]
    participants: int
    topics: int
    report_age_ns: int


@dataclass(frozen=True, slots=True)
class ExcessView:
    """The excess over observed limits: messages, bytes, and how long any message would have waited."""

    messages: int
    bytes: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group: its limits for the cluster and a row per participant.

    ``would_hold`` is the excess that the own gate would have held of an observed group since the start.
    """

    group: str
    limits: Rates
    law: str
    overshoot_policy: str
    configuration_version: int
    brokers: tuple[BrokerUsageView, ...]
    enforcement: str = ENFORCE
    would_hold: Mapping[MonitoringClass, ExcessView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemberView:
    """One live sidecar.

    ``report_age_ns`` is None when nothing was heard of this incarnation yet.
    """

    broker: str
    incarnation: int
    api_address: str
    report_age_ns: int | None


@dataclass(frozen=True, slots=True)
class DisagreementView:
    """Another sidecar uses other definitions, members or rows (core/usage/agreement.py)."""

    peer: str
    matter: Matter
    age_ns: int


@dataclass(frozen=True, slots=True)
class SuspectView:
    """A sidecar whose reports cannot be true: why, how often, how long ago, and of which group.

    ``group`` is empty if the reason concerns no group, ``detail`` if the reason says all.
    """

    broker: str
    suspicion: Suspicion
    count: int
    age_ns: int
    group: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task of this sidecar that has failed: how often, why last, and whether it runs now."""

    name: str
    failures: int
    reason: str
    runs: bool


@dataclass(frozen=True, slots=True)
class HealthView:
    """The health of this sidecar."""

    broker: str
    incarnation: int
    state: Lifecycle
    troubles: tuple[Trouble, ...]
    ready: bool
    members: tuple[MemberView, ...]
    round: int
    reports_dropped: dict[str, int]
    disagreements: tuple[DisagreementView, ...] = ()
    suspects: tuple[SuspectView, ...] = ()
    failed_tasks: tuple[TaskView, ...] = ()


@dataclass(frozen=True, slots=True)
class WantView:
    """The assumed demand of one broker in a dimension: a band (core/demand/estimator.py).

    ``wants`` is its high end, None when it is unbounded, and ``wants_at_least`` its low end: the
    admitted rate while it is throttled; else both are equal. ``weight`` is how many times it
    counts.
    """

    broker: str
    wants: int | None
    wants_at_least: int
    weight: int
    admitted: int
    limit: int | None
    throttled_permille: int
    report_age_ns: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason for a local limit.

    ``binding`` is one of unlimited, level, demand, reserve, gate, hold-down, degraded.
    ``water_level`` is the rate per unit of weight at which brokers with a higher demand are
    limited, None when every broker gets all of its demand. ``binds`` is the unit that is used up
    where messages and bytes are split together. ``sentence`` says the same in words.
    """

    group: str
    dimension: Dimension
    broker: str
    cluster_limit: int | None
    local_limit: int | None
    target: int | None
    binding: str
    water_level: int | None
    decided_age_ns: int
    round: int
    binds: Unit | None
    wants: tuple[WantView, ...]
    sentence: str
    #: The last minute at the own broker; None for others, and before the first second.
    minute: MinuteView | None = None
