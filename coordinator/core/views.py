"""What the core shows: read-only values for the admin API, the CLI and the demo.

A view is a copy taken at one moment; ages count from arrival on this sidecar's own monotonic clock, so
the clocks of other hosts do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.core.agreement import Matter
from coordinator.core.lifecycle import Lifecycle, Trouble
from coordinator.core.model import Dimension, MonitoringClass, Rates, Unit
from coordinator.core.observing import ENFORCE
from coordinator.core.seconds import MinuteView
from coordinator.core.suspects import Suspicion


@dataclass(frozen=True, slots=True)
class BrokerUsageView:
    """One broker's row of a group: what it admits, wants and may admit.

    Args:
        broker: the broker's id.
        admitted: rates over its last round, per second.
        limits: its local limits in force.
        throttled_permille: per dimension, for how much of its last round producers waited.
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
    """What would have been held back: messages, bytes, and how long anything would have been."""

    messages: int
    bytes: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group: its limits for the cluster and a row per broker that takes part.

    ``would_hold`` is what the own gate would have held back of an observed group since the start.
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
    """Another sidecar goes by something else: definitions, members or usage (agreement.py)."""

    peer: str
    matter: Matter
    age_ns: int


@dataclass(frozen=True, slots=True)
class SuspectView:
    """A sidecar whose word cannot be true: why, how often, how long ago, and of which group.

    ``group`` is empty for what concerns no group.
    """

    broker: str
    suspicion: Suspicion
    count: int
    age_ns: int
    group: str = ""


@dataclass(frozen=True, slots=True)
class HealthView:
    """How this sidecar is."""

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


@dataclass(frozen=True, slots=True)
class WantView:
    """What one broker is taken to want of a dimension: a band (demand.py).

    ``wants`` is the most, None when it is unbounded, and ``wants_at_least`` the least: what it admits
    while it is throttled; else both are the same. ``weight`` is how many times it counts.
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
    """Why a local limit is what it is.

    ``binding`` is one of unlimited, level, demand, reserve, gate, hold-down, degraded. ``water_level``
    is the rate per unit of weight at which brokers that want more are cut, None when everybody gets
    what it wants. ``binds`` is the unit that is used up where messages and bytes are split together.
    ``sentence`` says the same in words.
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
    #: The last minute at the own broker; None for others, and before there was a second of it.
    minute: MinuteView | None = None
