"""The answers of the API and of the command about live state: usage, health, explanations, certificates.

A view is a copy taken at one moment; ages count from arrival on this sidecar's own monotonic clock, so
the clocks of other hosts do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Self

from coordinator.core.answer import Age, ExactLimit, Permille, Wire, answer
from coordinator.core.certificate.statement import Certificate
from coordinator.core.demand.observing import ENFORCE
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import AnyRates, Dimension, MonitoringClass, Unit
from coordinator.core.usage.agreement import Matter
from coordinator.insight.model.rates import Limits, Measured
from coordinator.insight.model.seconds import MinuteView
from coordinator.ports import RecordingView


@answer
class BrokerUsageView:
    """The rates that one broker admits of a group, and its limits."""

    broker: str
    admitted: Measured
    """per second, over the broker's last round"""
    limits: Limits
    """local limits in force, per second; -1 = not limited"""
    throttled_permille: Mapping[Dimension, Permille]
    """per dimension, the part of the last round in which a client waited, 0 to 1"""
    participants: int
    """producers and consumers connected"""
    topics: int
    """topics with a participant"""
    report_age_ns: Age | None
    """milliseconds since its last report arrived; null = none of this incarnation"""


@answer
class ExcessView:
    """Traffic of an observed group that the answering sidecar's gate would have held, since its start."""

    messages: int
    bytes: int
    seconds: float
    """how long anything would have been held"""


@answer
class GroupUsageView:
    """A group's limits for the cluster and a row per broker that takes part."""

    group: str
    enforcement: str
    """enforce, or observe: nothing is held back"""
    would_hold: Mapping[MonitoringClass, ExcessView]
    """of an observed group, by class"""
    limits: Limits
    """for the cluster, per second; -1 = not limited"""
    brokers: tuple[BrokerUsageView, ...]


@answer
class GroupLimitsView:
    """A group's limit for the cluster beside the local limits in force."""

    group: str
    law: str
    overshoot_policy: str
    configuration_version: int
    limits: Limits
    """for the cluster, per second; -1 = not limited"""
    brokers: Mapping[str, Limits]
    """local limits by broker, per second"""


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group: its definition, and a row per broker that takes part."""

    group: str
    limits: AnyRates
    law: str
    overshoot_policy: str
    configuration_version: int
    brokers: tuple[BrokerUsageView, ...]
    enforcement: str = ENFORCE
    #: The excess that the own gate would have held of an observed group since the start.
    would_hold: Mapping[MonitoringClass, ExcessView] = field(default_factory=dict)

    @property
    def usage(self) -> GroupUsageView:
        """Return the rates that its brokers admit."""
        return GroupUsageView(
            self.group, self.enforcement, self.would_hold, self.limits, self.brokers
        )

    @property
    def local_limits(self) -> GroupLimitsView:
        """Return its limit beside the local limits in force."""
        return GroupLimitsView(
            group=self.group,
            law=self.law,
            overshoot_policy=self.overshoot_policy,
            configuration_version=self.configuration_version,
            limits=self.limits,
            brokers={row.broker: row.limits for row in self.brokers},
        )


@answer
class MemberView:
    """One live sidecar."""

    broker: str
    incarnation: int
    """grows with every registration of the broker"""
    api_address: str
    report_age_ns: Age | None
    """milliseconds since its last report arrived; null = none of this incarnation"""
    silent: bool = False
    """whether that is more than 15 s and three of its rounds"""


@answer
class DegradationView:
    """One reason why a sidecar is degraded."""

    name: str
    reason: str


Reason = Annotated[
    Degradation,
    Wire(
        lambda it: DegradationView(it.name, it.value),
        lambda view: Degradation[view.name],
        DegradationView,
    ),
]


@answer
class DisagreementView:
    """A view of another sidecar that differs from the answering one's."""

    peer: str
    matter: Matter
    """definitions, members or usage"""
    age_ns: Age
    """for how long, in milliseconds"""


@answer
class TaskView:
    """A part of the sidecar that has failed, and goes on."""

    task: str
    failures: int
    """since the start"""
    reason: str
    """of the last one"""
    runs: bool
    """false while it waits to be run again"""


@answer
class HealthView:
    """The health of the answering sidecar."""

    broker: str
    incarnation: int
    state: Lifecycle
    ready: bool
    degradations: tuple[Reason, ...]
    round: int
    members: tuple[MemberView, ...]
    reports_dropped: Mapping[str, int]
    """reports not believed, by why"""
    disagreements: tuple[DisagreementView, ...] = ()
    """sidecars whose view has differed from this one's for more than three rounds"""
    foreign_reports: Mapping[str, int] = field(default_factory=dict)
    """reports in a member's name that it did not send, by member; all were dropped"""
    announcements_capped: Mapping[str, int] = field(default_factory=dict)
    """how often a member announced more than twice its target, and counted with an equal part"""
    failed_tasks: tuple[TaskView, ...] = ()
    """parts of this sidecar that have failed since the start and go on"""
    recording: RecordingView | None = None
    """null = nothing is to be recorded"""
    enforcement_path: str = "gate"
    """who holds traffic back: gate, native (the broker's own limiter), gate+native"""
    proves_roles: bool = True
    """whether clients can prove a role to the gate; without, all are anonymous"""


@answer
class ReadyView:
    """The answer of a sidecar that may be given traffic."""

    ready: bool
    state: Lifecycle


@answer
class WantView:
    """One broker's demand, as far as it is known."""

    broker: str
    wants: int | None
    """at the most, per second; null = more than can be known, it is throttled"""
    wants_at_least: int
    """per second; less than wants while it is throttled"""
    weight: int
    """how many times it counts"""
    admitted: int
    """per second"""
    limit: ExactLimit
    """local limit in force, per second; -1 = not limited"""
    throttled_permille: Permille
    """part of its last round in which a client waited"""
    report_age_ns: Age | None
    """null = none has arrived, or of a decision of the past"""


@answer
class StoryDecisionView:
    """A decision on this sidecar's own limit in one dimension."""

    dimension: Dimension
    limit_before: ExactLimit
    """as the story told it last, per second; -1 = not limited, or the first decision"""
    local_limit: ExactLimit
    """in force from then on, per second; -1 = not limited"""
    binding: str
    """the cause of the limit, as in the explanation"""
    sentence: str
    """the decision, the demands that changed, and the reason"""


@answer
class StoryEventView:
    """An event that this sidecar handled."""

    number: int
    """grows with every event that is kept, of any group"""
    age_ns: Age
    """since the sidecar handled it"""
    event: str
    """a sentence"""
    decisions: tuple[StoryDecisionView, ...]
    """on the group's limits, in all dimensions; empty if they stayed as they were"""


@answer
class StoryView:
    """The events that concern a group, of all dimensions, oldest first."""

    beginning: str
    """since when nothing is missing, as a sentence"""
    events: tuple[StoryEventView, ...]
    """the last ones, at most 100"""


@answer
class Explanation:
    """The reasons for a local limit: the sentence and the fields it was made from."""

    group: str
    dimension: Dimension
    broker: str
    cluster_limit: ExactLimit
    """per second; -1 = not limited"""
    local_limit: ExactLimit
    """in force, per second; -1 = not limited"""
    target: ExactLimit
    """where the local limit goes, per second; -1 = not limited"""
    binding: str
    """unlimited, level, demand, reserve, gate or degraded"""
    water_level: int | None
    """rate per unit of weight at which brokers that want more are cut; null = all get what they want"""
    binds: Unit | None
    """messages or bytes: which is used up, where both are split together"""
    decided_age_ns: Age
    round: int
    wants: tuple[WantView, ...]
    sentence: str
    refused: int | None = None
    """messages or bytes that failed at this sidecar's own broker since its start; null = none can"""
    minute: MinuteView | None = None
    """the last minute at this sidecar's own broker; null = another broker, or the past"""
    would_change: tuple[str, ...] = ()
    """what would give a broker that is cut another limit, computed by the law"""
    delayed: tuple[str, ...] = ()
    """of the group of delayed messages: what counts, and what of it has no effect"""
    debt: tuple[str, ...] = ()
    """of this sidecar's gate: how much of the limit is taken in advance, and by whom, in sentences"""
    slack: str = ""
    """what the own broker's limiter adds, if that holds the limit; empty: a gate does"""
    round_the_gate: tuple[str, ...] = ()
    """the group's namespaces in which traffic goes round this sidecar's gate, in sentences"""
    roles: tuple[str, ...] = ()
    """the roles that this sidecar's gate counts against the group, longest held first, in sentences"""
    story: StoryView | None = None
    """the events behind it, if they are asked for"""


@answer
class PastDecisionView:
    """A decision on this sidecar's own limit, in short; `explain` with its age has all of it."""

    number: int
    """of the event that it was decided of; grows"""
    age_ns: Age
    """since it was made; it was in force until the next newer"""
    cluster_limit: ExactLimit
    """per second; -1 = not limited"""
    local_limit: ExactLimit
    """per second; -1 = not limited"""
    target: ExactLimit
    """where the local limit went, per second; -1 = not limited"""
    binding: str
    participants: int
    """brokers that took part"""
    round: int
    sentence: str


@answer
class HolderView:
    """The most that one broker's local limit can be."""

    broker: str
    most: int
    """per second"""
    basis: str
    """what is known of it"""


@answer
class CertificateView:
    """The most that the local limits of one dimension can add up to now."""

    dimension: Dimension
    limit: int
    """for the cluster, per second"""
    most: int | None
    """per second; null = nothing can be said"""
    newcomer: int
    """on top, by each broker not seen here yet, per second"""
    burst: int
    """on top, once: what the buckets may have saved up"""
    holders: tuple[HolderView, ...]
    """what it is made of; empty under strict"""
    sentence: str
    slack: str
    """what the answering broker's own limiter adds; empty: a gate holds it"""

    @classmethod
    def of(cls, found: Certificate, slack: str) -> Self:
        """Return the view of a certificate."""
        return cls(
            dimension=found.dimension,
            limit=found.limit,
            most=found.most,
            newcomer=found.newcomer,
            burst=found.burst,
            holders=tuple(HolderView(h.broker, h.most, h.basis.value) for h in found.holders),
            sentence=found.sentence(),
            slack=slack,
        )


@answer
class GroupCertificatesView:
    """A group with a certificate for each dimension that it limits."""

    group: str
    certificates: tuple[CertificateView, ...]
