"""Alarms: conditions that an operator should know of, reported once at begin and once at end.

The caller states the conditions that hold now (alarm_conditions.py makes the *sightings*); this module
derives the alarms. An alarm has a key, its kind and subject, and stands in one of three stages::

    -- seen --> PENDING -- seen for raise_after --> FIRING -- not seen --> CLEARING
                   |                                  ^                      |   |
                   +-- not seen --> gone              +-------- seen --------+   +--> over
                                                                 not seen for clear_after

A short peak therefore raises no alarm, and a group at the edge does not flap. A kind whose condition is
itself a count over seconds fires with its first sighting. CLEARING counts as firing for all readers. At
most `MAX_PER_KIND` alarms of a kind are kept; more are only counted, since a thousand messages of one
kind say no more than "all of them".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from coordinator.core.settings import AlarmSettings
from coordinator.insight.model.answer import Age, answer

MAX_PER_KIND = 200


class Severity(Enum):
    """The urgency of an alarm, in the words of the rules in deploy/prometheus."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class AlarmKind(Enum):
    """The kind of an alarm: the names of the rules in deploy/prometheus, without the prefix."""

    GROUP_NEAR_LIMIT = "GroupNearLimit"
    THROTTLED = "Throttled"
    CERTIFICATE_HIGH = "CertificateHigh"
    VIEWS_DISAGREE = "ViewsDisagree"
    PEER_LOST = "PeerLost"
    BUS_SILENT = "BusSilent"
    ZOOKEEPER_LOST = "ZooKeeperLost"
    NATIVE_INEXACT = "NativeInexact"
    TRAFFIC_ROUND_THE_GATE = "TrafficRoundTheGate"
    UNKNOWN_TOPICS = "UnknownTopics"
    PARTITION_NEAR_LIMIT = "PartitionNearLimit"
    BACKLOG_NEAR_QUOTA = "BacklogNearQuota"
    BACKLOG_EXCEEDED = "BacklogExceeded"
    BACKLOG_AGES = "BacklogAges"

    @property
    def severity(self) -> Severity:
        """Return the urgency of this kind."""
        return _SEVERITIES[self]

    @property
    def is_shared(self) -> bool:
        """Return whether every sidecar sees the same, so that one of them is enough to report it."""
        return self in _SHARED

    @property
    def is_raised_at_once(self) -> bool:
        """Return whether it fires with its first sighting."""
        return self in _AT_ONCE

    @property
    def action(self) -> str:
        """Return the action that the operator should take."""
        return _ACTIONS[self]


_SEVERITIES: Mapping[AlarmKind, Severity] = {
    AlarmKind.GROUP_NEAR_LIMIT: Severity.INFO,
    AlarmKind.THROTTLED: Severity.INFO,
    AlarmKind.CERTIFICATE_HIGH: Severity.CRITICAL,
    AlarmKind.VIEWS_DISAGREE: Severity.WARNING,
    AlarmKind.PEER_LOST: Severity.WARNING,
    AlarmKind.BUS_SILENT: Severity.WARNING,
    AlarmKind.ZOOKEEPER_LOST: Severity.WARNING,
    AlarmKind.NATIVE_INEXACT: Severity.WARNING,
    AlarmKind.TRAFFIC_ROUND_THE_GATE: Severity.WARNING,
    AlarmKind.UNKNOWN_TOPICS: Severity.WARNING,
    AlarmKind.PARTITION_NEAR_LIMIT: Severity.INFO,
    AlarmKind.BACKLOG_NEAR_QUOTA: Severity.WARNING,
    AlarmKind.BACKLOG_EXCEEDED: Severity.CRITICAL,
    AlarmKind.BACKLOG_AGES: Severity.WARNING,
}

_SHARED = frozenset(
    {
        AlarmKind.GROUP_NEAR_LIMIT,
        AlarmKind.THROTTLED,
        AlarmKind.CERTIFICATE_HIGH,
        AlarmKind.PEER_LOST,
    }
)

_AT_ONCE = frozenset({AlarmKind.TRAFFIC_ROUND_THE_GATE})
"""Kinds whose condition is itself a count over seconds, beyond what it may be wrong by."""

_ACTIONS: Mapping[AlarmKind, str] = {
    AlarmKind.GROUP_NEAR_LIMIT: "Raise the limit before clients wait, or look at who uses it "
    "(pulsar-quota top).",
    AlarmKind.THROTTLED: "This is what the limit is for; pulsar-quota explain says which rate binds.",
    AlarmKind.CERTIFICATE_HIGH: "Look for sidecars that are DEGRADED or silent (pulsar-quota status); "
    "overshootPolicy strict bounds the sum whatever happens.",
    AlarmKind.VIEWS_DISAGREE: "Compare pulsar-quota status at both; one of them is cut off from "
    "ZooKeeper or from the bus.",
    AlarmKind.PEER_LOST: "Look at that broker and its sidecar; the others have its share.",
    AlarmKind.BUS_SILENT: "Look at the broker that bus_service_url names and at the owner of the bus "
    "topic; limits are held meanwhile.",
    AlarmKind.ZOOKEEPER_LOST: "Look at the ZooKeeper ensemble and the way to it; groups follow their "
    "partitionPolicy meanwhile.",
    AlarmKind.NATIVE_INEXACT: "The broker's own limiter is not steered as it should be; pulsar-quota "
    "doctor says what to do.",
    AlarmKind.TRAFFIC_ROUND_THE_GATE: "Close the way that it takes; docs/ways.md says how. Until "
    "then the limit is exceeded by that much.",
    AlarmKind.UNKNOWN_TOPICS: "Upgrade the sidecars to a release that knows these names, or refuse them "
    "(unknown_topics); until then only the limits of all traffic hold for them.",
    AlarmKind.PARTITION_NEAR_LIMIT: "Give the topic more partitions before its clients wait; "
    "/quota/v1/gate/partitions and the dashboard say how many would do.",
    AlarmKind.BACKLOG_NEAR_QUOTA: "Look at the consumers of the subscription that is named; the quota's "
    "policy says what happens at its end.",
    AlarmKind.BACKLOG_EXCEEDED: "Producers are or will be held or refused, or messages evicted, as the "
    "quota's policy says; look at the consumers of the subscription that is named.",
    AlarmKind.BACKLOG_AGES: "Look at the consumers of the subscription that is named, or delete it if "
    "it is no longer used.",
}


@dataclass(frozen=True, slots=True, order=True)
class AlarmKey:
    """The identity of an alarm."""

    kind: str
    subject: str


@dataclass(frozen=True, slots=True)
class AlarmCondition:
    """A condition that holds now: its kind, its group or broker, and its text."""

    kind: AlarmKind
    subject: str
    text: str

    @property
    def key(self) -> AlarmKey:
        """Return the identity of the alarm."""
        return AlarmKey(self.kind.value, self.subject)


class AlarmStage(Enum):
    """The stage of an alarm."""

    PENDING = "pending"
    FIRING = "firing"
    CLEARING = "clearing"


@answer
class AlarmView:
    """One alarm as the answering sidecar sees it."""

    alarm: str
    """its kind, as the rules for Prometheus call it"""
    subject: str
    """the group or broker"""
    severity: str
    """info, warning or critical"""
    state: str
    """pending, firing, or clearing: over, but not for long yet"""
    age_ns: Age
    """since it was seen first"""
    text: str
    action: str
    """what to do about it"""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm.

    Args:
        sighting: the latest sighting.
        stage: the present stage.
        began_ns: the time of the first sighting.
        since_ns: when the present stage began.
    """

    sighting: AlarmCondition
    stage: AlarmStage
    began_ns: int
    since_ns: int

    @property
    def fires(self) -> bool:
        """Return whether an operator should know of it."""
        return self.stage is not AlarmStage.PENDING

    def view(self, now_ns: int) -> AlarmView:
        """Return it for an operator."""
        kind = self.sighting.kind
        return AlarmView(
            alarm=kind.value,
            subject=self.sighting.subject,
            severity=kind.severity.value,
            state=self.stage.value,
            age_ns=max(0, now_ns - self.began_ns),
            text=self.sighting.text,
            action=kind.action,
        )


@dataclass(frozen=True, slots=True)
class AlarmTransition:
    """An alarm that began to fire, or is over."""

    alarm: Alarm
    begins: bool


class Alarms:
    """All alarms of one sidecar."""

    def __init__(self, settings: AlarmSettings) -> None:
        self.settings = settings
        self._alarms: dict[AlarmKey, Alarm] = {}
        #: Sightings of the last look that were dropped: more than `MAX_PER_KIND` of one kind.
        self.overlooked = 0

    def all(self) -> tuple[Alarm, ...]:
        """Return every alarm, pending ones too, in the order of their kinds and subjects."""
        return tuple(alarm for _, alarm in sorted(self._alarms.items()))

    def firing(self) -> dict[AlarmKey, Alarm]:
        """Return the alarms that an operator should know of."""
        return {key: alarm for key, alarm in sorted(self._alarms.items()) if alarm.fires}

    def look(self, sightings: Iterable[AlarmCondition], now_ns: int) -> list[AlarmTransition]:
        """Take over the conditions that hold now; return the alarms that began or ended since."""
        seen = {sighting.key: sighting for sighting in sightings}
        turns: list[AlarmTransition] = []
        for key, alarm in list(self._alarms.items()):
            following = self._next(alarm, seen.pop(key, None), now_ns)
            if following is None:
                del self._alarms[key]
            else:
                self._alarms[key] = following
            after = following is not None and following.fires
            if after is not alarm.fires:
                turns.append(AlarmTransition(following or alarm, after))
        turns += self._admit(seen.values(), now_ns)
        return turns

    def _admit(self, sightings: Iterable[AlarmCondition], now_ns: int) -> list[AlarmTransition]:
        room = dict.fromkeys(AlarmKind, MAX_PER_KIND)
        for alarm in self._alarms.values():
            room[alarm.sighting.kind] -= 1
        self.overlooked = 0
        turns = []
        for sighting in sightings:
            if not room[sighting.kind]:
                self.overlooked += 1
                continue
            room[sighting.kind] -= 1
            at_once = self.settings.raise_after_ns <= 0 or sighting.kind.is_raised_at_once
            stage = AlarmStage.FIRING if at_once else AlarmStage.PENDING
            alarm = self._alarms[sighting.key] = Alarm(sighting, stage, now_ns, now_ns)
            if at_once:
                turns.append(AlarmTransition(alarm, begins=True))
        return turns

    def _next(self, alarm: Alarm, seen: AlarmCondition | None, now_ns: int) -> Alarm | None:
        """Return an alarm in its present stage; None when it is gone."""
        lasted_ns = now_ns - alarm.since_ns
        if seen is not None:
            alarm = replace(alarm, sighting=seen)
        match alarm.stage, seen is not None:
            case AlarmStage.PENDING, True if lasted_ns >= self.settings.raise_after_ns:
                return replace(alarm, stage=AlarmStage.FIRING, since_ns=now_ns)
            case AlarmStage.PENDING, False:
                return None
            case AlarmStage.FIRING, False:
                return replace(alarm, stage=AlarmStage.CLEARING, since_ns=now_ns)
            case AlarmStage.CLEARING, True:
                return replace(alarm, stage=AlarmStage.FIRING, since_ns=now_ns)
            case AlarmStage.CLEARING, False if lasted_ns >= self.settings.clear_after_ns:
                return None
            case _:
                return alarm
