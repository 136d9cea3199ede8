"""The JSON of live state: usage, limits in force, members, health, explanations.

Built from the core's views; units and -1 as in `schemas`. An age counts from arrival on the answering
sidecar's own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field

from admin_api.schemas import CamelModel, RatesBody, to_wire
from admin_api.schemas_shadow import ShadowBody
from coordinator.core.lifecycle import Trouble
from coordinator.core.model import NANOS_PER_SECOND, Dimension
from coordinator.insight.model.decision_history import PastDecision
from coordinator.insight.model.seconds import MinuteView
from coordinator.insight.model.views import (
    BrokerUsageView,
    DisagreementView,
    ExcessView,
    Explanation,
    GroupView,
    HealthView,
    MemberView,
    SuspectView,
    TaskView,
    WantView,
)
from coordinator.ports import RecorderHealth

_NANOS_PER_MILLI = 1_000_000


def _millis(nanos: int) -> int:
    return nanos // _NANOS_PER_MILLI


class BrokerUsage(CamelModel):
    """The rates that one broker admits of a group, and its limits."""

    broker: str
    admitted: RatesBody = Field(description="per second, over the broker's last round")
    limits: RatesBody = Field(description="local limits in force, per second; -1 = not limited")
    throttled_share: dict[str, float] = Field(
        description="per dimension, the part of the last round in which a client waited, 0 to 1"
    )
    participants: int = Field(description="producers and consumers connected")
    topics: int = Field(description="topics with a participant")
    report_age_millis: int = Field(description="milliseconds since its last report arrived")

    @classmethod
    def of(cls, view: BrokerUsageView) -> Self:
        """Write one broker's row."""
        return cls(
            broker=view.broker,
            admitted=RatesBody.measured(view.admitted),
            limits=RatesBody.limits(view.limits),
            throttled_share={
                dimension.value: view.throttled_permille.get(dimension, 0) / 1000
                for dimension in Dimension
            },
            participants=view.participants,
            topics=view.topics,
            report_age_millis=_millis(view.report_age_ns),
        )


class WouldHold(CamelModel):
    """Traffic of an observed group that the answering sidecar's gate would have held, since its start."""

    messages: int
    bytes: int
    seconds: float = Field(description="how long anything would have been held")

    @classmethod
    def of(cls, view: ExcessView) -> Self:
        """Write the counts."""
        return cls(
            messages=view.messages, bytes=view.bytes, seconds=view.time_ns / NANOS_PER_SECOND
        )


class GroupUsage(CamelModel):
    """A group's limits for the cluster and a row per broker that takes part."""

    group: str
    enforcement: str = Field(description="enforce, or observe: nothing is held back")
    would_hold: dict[str, WouldHold] = Field(description="of an observed group, by class")
    limits: RatesBody = Field(description="for the cluster, per second; -1 = not limited")
    brokers: list[BrokerUsage]

    @classmethod
    def of(cls, view: GroupView) -> Self:
        """Write one group."""
        return cls(
            group=view.group,
            enforcement=view.enforcement,
            would_hold={of.value: WouldHold.of(found) for of, found in view.would_hold.items()},
            limits=RatesBody.limits(view.limits),
            brokers=[BrokerUsage.of(row) for row in view.brokers],
        )


class GroupLimits(CamelModel):
    """A group's limit for the cluster beside the local limits in force."""

    group: str
    law: str
    overshoot_policy: str
    configuration_version: int
    limits: RatesBody = Field(description="for the cluster, per second; -1 = not limited")
    brokers: dict[str, RatesBody] = Field(description="local limits by broker, per second")

    @classmethod
    def of(cls, view: GroupView) -> Self:
        """Write one group."""
        return cls(
            group=view.group,
            law=view.law,
            overshoot_policy=view.overshoot_policy,
            configuration_version=view.configuration_version,
            limits=RatesBody.limits(view.limits),
            brokers={row.broker: RatesBody.limits(row.limits) for row in view.brokers},
        )


class MemberBody(CamelModel):
    """One live sidecar."""

    broker: str
    incarnation: int = Field(description="grows with every registration of the broker")
    api_address: str
    report_age_millis: int | None = Field(
        description="milliseconds since its last report arrived; null = none of this incarnation"
    )

    @classmethod
    def of(cls, view: MemberView) -> Self:
        """Write one member."""
        age = view.report_age_ns
        return cls(
            broker=view.broker,
            incarnation=view.incarnation,
            api_address=view.api_address,
            report_age_millis=None if age is None else _millis(age),
        )


class TroubleBody(CamelModel):
    """One reason why a sidecar is degraded."""

    name: str
    reason: str

    @classmethod
    def of(cls, trouble: Trouble) -> Self:
        """Write one trouble."""
        return cls(name=trouble.name, reason=trouble.value)


class DisagreementBody(CamelModel):
    """A view of another sidecar that differs from the answering one's."""

    peer: str
    matter: str = Field(description="definitions, members or usage")
    age_millis: int = Field(description="for how long, in milliseconds")

    @classmethod
    def of(cls, view: DisagreementView) -> Self:
        """Write one disagreement."""
        return cls(peer=view.peer, matter=view.matter.value, age_millis=_millis(view.age_ns))


class SuspectBody(CamelModel):
    """A sidecar whose reports cannot be true."""

    broker: str
    reason: str
    group: str = Field(description="of which group; empty for what concerns none")
    count: int = Field(description="at how many looks or reports")
    age_millis: int = Field(description="milliseconds since the last one")
    detail: str = Field(description="how that was seen; empty where the reason says all")

    @classmethod
    def of(cls, view: SuspectView) -> Self:
        """Write one suspect."""
        return cls(
            broker=view.broker,
            reason=view.suspicion.value,
            group=view.group,
            count=view.count,
            age_millis=_millis(view.age_ns),
            detail=view.detail,
        )


class FailedTaskBody(CamelModel):
    """A part of the sidecar that has failed, and goes on."""

    task: str
    failures: int = Field(description="since the start")
    reason: str = Field(description="of the last one")
    runs: bool = Field(description="false while it waits to be run again")

    @classmethod
    def of(cls, view: TaskView) -> Self:
        """Write one task."""
        return cls(task=view.name, failures=view.failures, reason=view.reason, runs=view.runs)


class RecordingBody(CamelModel):
    """The state of recording."""

    recording: bool = Field(description="whether the last attempt to write succeeded")
    reason: str = Field(description="why it did not; empty while recording")
    failures: int = Field(description="attempts to write that failed, since the start")
    rows_written: int = Field(description="since the start")
    rows_waiting: int = Field(description="in memory, to be written")
    rows_dropped: int = Field(description="for want of room, since the start")

    @classmethod
    def of(cls, health: RecorderHealth) -> Self:
        """Write the recorder's health."""
        return cls(
            recording=health.recording,
            reason=health.reason,
            failures=health.failures,
            rows_written=health.rows_written,
            rows_waiting=health.rows_waiting,
            rows_dropped=health.rows_dropped,
        )


class Health(CamelModel):
    """The health of the answering sidecar."""

    broker: str
    incarnation: int
    state: str = Field(description="STARTING, LEARNING, ACTIVE, DEGRADED, DRAINING or STOPPED")
    ready: bool
    troubles: list[TroubleBody]
    round: int
    members: list[MemberBody]
    reports_dropped: dict[str, int] = Field(description="reports not believed, by why")
    disagreements: list[DisagreementBody] = Field(
        description="sidecars whose view has differed from this one's for more than three rounds"
    )
    suspects: list[SuspectBody] = Field(
        description="sidecars whose word cannot be true, or in whose name another process reports"
    )
    failed_tasks: list[FailedTaskBody] = Field(
        description="parts of this sidecar that have failed since the start and go on"
    )
    recording: RecordingBody | None = Field(description="null = nothing is to be recorded")
    enforcement_path: str = Field(
        description="who holds traffic back: gate, native (the broker's own limiter), gate+native"
    )

    @classmethod
    def of(cls, view: HealthView, recording: RecorderHealth | None, enforcement_path: str) -> Self:
        """Write a sidecar's health."""
        return cls(
            broker=view.broker,
            incarnation=view.incarnation,
            state=view.state.value,
            ready=view.ready,
            troubles=[TroubleBody.of(trouble) for trouble in view.troubles],
            round=view.round,
            members=[MemberBody.of(member) for member in view.members],
            reports_dropped=view.reports_dropped,
            disagreements=[DisagreementBody.of(found) for found in view.disagreements],
            suspects=[SuspectBody.of(found) for found in view.suspects],
            failed_tasks=[FailedTaskBody.of(task) for task in view.failed_tasks],
            recording=None if recording is None else RecordingBody.of(recording),
            enforcement_path=enforcement_path,
        )


class Ready(CamelModel):
    """The answer of a sidecar that may be given traffic."""

    ready: bool
    state: str


class Want(CamelModel):
    """One broker's demand, as far as it is known."""

    broker: str
    wants: int | None = Field(
        description="at the most, per second; null = more than can be known, it is throttled"
    )
    wants_at_least: int = Field(description="per second; less than wants while it is throttled")
    weight: int = Field(description="how many times it counts")
    admitted: int = Field(description="per second")
    limit: int = Field(description="local limit in force, per second; -1 = not limited")
    throttled_share: float = Field(description="part of its last round in which a client waited")
    report_age_millis: int

    @classmethod
    def of(cls, view: WantView) -> Self:
        """Write one broker's row."""
        return cls(
            broker=view.broker,
            wants=view.wants,
            wants_at_least=view.wants_at_least,
            weight=view.weight,
            admitted=view.admitted,
            limit=to_wire(view.limit),
            throttled_share=view.throttled_permille / 1000,
            report_age_millis=_millis(view.report_age_ns),
        )


class MinuteBody(CamelModel):
    """The last minute by the second: the average that consoles show, and the seconds that it hides."""

    seconds: int = Field(description="how many of them; at most 60")
    average_per_second: int
    peak_second: int = Field(description="what passed in the busiest one")
    throttled_seconds: int = Field(description="in how many of them clients waited")

    @classmethod
    def of(cls, minute: MinuteView) -> Self:
        """Write the minute."""
        return cls(
            seconds=minute.seconds,
            average_per_second=minute.average,
            peak_second=minute.peak,
            throttled_seconds=minute.throttled,
        )


class ExplanationBody(CamelModel):
    """The reasons for a local limit: the sentence and the fields it was made from."""

    group: str
    dimension: str
    broker: str
    cluster_limit: int = Field(description="per second; -1 = not limited")
    local_limit: int = Field(description="in force, per second; -1 = not limited")
    target: int = Field(description="where the local limit goes, per second; -1 = not limited")
    binding: str = Field(
        description="unlimited, level, demand, reserve, gate, hold-down or degraded"
    )
    water_level: int | None = Field(
        description="rate per unit of weight at which brokers that want more are cut; "
        "null = all get what they want"
    )
    binds: str | None = Field(
        description="messages or bytes: which is used up, where both are split together"
    )
    decided_age_millis: int
    round: int
    wants: list[Want]
    sentence: str
    minute: MinuteBody | None = Field(
        description="the last minute at this sidecar's own broker; null = another broker, or the past"
    )
    would_change: list[str] = Field(
        description="what would give a broker that is cut another limit, computed by the law"
    )
    delayed: list[str] = Field(
        description="of the group of delayed messages: what counts, and what of it has no effect"
    )
    slack: str = Field(
        description="what the own broker's limiter adds, if that holds the limit; empty: a gate does"
    )
    round_the_gate: list[str] = Field(
        description="the group's namespaces in which traffic goes round this sidecar's gate, in sentences"
    )
    shadow: ShadowBody | None = Field(
        description="what the sidecar's shadow_law would make of it; null = none, or of the past"
    )

    @classmethod
    def of(
        cls,
        view: Explanation,
        would_change: Sequence[str] = (),
        shadow: ShadowBody | None = None,
        delayed: Sequence[str] = (),
        slack: str = "",
        round_the_gate: Sequence[str] = (),
    ) -> Self:
        """Write one explanation."""
        return cls(
            group=view.group,
            dimension=view.dimension.value,
            broker=view.broker,
            cluster_limit=to_wire(view.cluster_limit),
            local_limit=to_wire(view.local_limit),
            target=to_wire(view.target),
            binding=view.binding,
            water_level=view.water_level,
            binds=None if view.binds is None else view.binds.value,
            decided_age_millis=_millis(view.decided_age_ns),
            round=view.round,
            wants=[Want.of(want) for want in view.wants],
            sentence=view.sentence,
            minute=None if view.minute is None else MinuteBody.of(view.minute),
            would_change=list(would_change),
            slack=slack,
            round_the_gate=list(round_the_gate),
            delayed=list(delayed),
            shadow=shadow,
        )


class PastDecisionBody(CamelModel):
    """A decision on this sidecar's own limit, in short; `explain` with its age has all of it."""

    number: int = Field(description="grows with every decision that is kept")
    age_millis: int = Field(description="since it was seen; it was in force until the next newer")
    cluster_limit: int = Field(description="per second; -1 = not limited")
    local_limit: int = Field(description="per second; -1 = not limited")
    target: int = Field(description="where the local limit went, per second; -1 = not limited")
    binding: str
    participants: int = Field(description="brokers that took part")
    round: int
    sentence: str

    @classmethod
    def of(cls, past: PastDecision, now_ns: int) -> Self:
        """Write one decision."""
        then = past.explanation
        return cls(
            number=past.number,
            age_millis=_millis(now_ns - past.seen_ns),
            cluster_limit=to_wire(then.cluster_limit),
            local_limit=to_wire(then.local_limit),
            target=to_wire(then.target),
            binding=then.binding,
            participants=past.participants,
            round=then.round,
            sentence=then.sentence,
        )
