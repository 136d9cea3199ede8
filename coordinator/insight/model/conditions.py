"""Conditions: what holds now and an operator should know of, each with its remedy.

A condition is *level-triggered*: it follows from the facts that a sidecar has at this moment, and is gone
when they are. It has no age and no stages. That is the division of labour of Prometheus: ``for:`` of a
rule in deploy/prometheus/rules.yaml says how long a condition must hold before it is an alert, and
Alertmanager groups alerts, tells people, repeats and resolves. So a sidecar sends no
message by itself, and needs neither an election of who speaks nor a memory of what was said.

`TABLE` is the one place that names the kinds. The command, ``status``, ``doctor``, the page, the API and
the metric show them from it, and a test holds the rules against it: each kind is the alert of the same
name with the same severity, and the alert's action begins with the remedy.

At most `MAX_PER_KIND` conditions of a kind are listed; all are counted, since a thousand sentences of one
kind say no more than "all of them".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from coordinator.core.answer import answer

MAX_PER_KIND = 200


class Severity(Enum):
    """The urgency of a condition, in the words of the rules in deploy/prometheus; the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class ConditionKind(Enum):
    """The kind of a condition: the names of the rules in deploy/prometheus, without the prefix."""

    GROUP_NEAR_LIMIT = "GroupNearLimit"
    THROTTLED = "Throttled"
    CERTIFICATE_HIGH = "CertificateHigh"
    VIEWS_DISAGREE = "ViewsDisagree"
    PEER_LOST = "PeerLost"
    BUS_SILENT = "BusSilent"
    ZOOKEEPER_LOST = "ZooKeeperLost"
    NATIVE_INEXACT = "NativeInexact"
    TRAFFIC_ROUND_THE_GATE = "TrafficRoundTheGate"
    ORPHANED = "Orphaned"
    ONLY_IN_PULSAR = "OnlyInPulsar"
    WITHOUT_GATE = "WithoutGate"
    WITHOUT_SIDECAR = "WithoutSidecar"
    UNKNOWN_TOPICS = "UnknownTopics"
    PARTITION_NEAR_LIMIT = "PartitionNearLimit"
    BACKLOG_NEAR_QUOTA = "BacklogNearQuota"
    BACKLOG_EXCEEDED = "BacklogExceeded"
    BACKLOG_AGES = "BacklogAges"

    @property
    def severity(self) -> Severity:
        """Return the urgency of this kind."""
        return TABLE[self].severity


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """One row of the table.

    Args:
        severity: the urgency.
        remedy: the action that the operator should take.
    """

    severity: Severity
    remedy: str


TABLE: Mapping[ConditionKind, ConditionRow] = {
    ConditionKind.GROUP_NEAR_LIMIT: ConditionRow(
        Severity.INFO,
        "Raise the limit before clients wait, or look at who uses it (pulsar-quota top).",
    ),
    ConditionKind.THROTTLED: ConditionRow(
        Severity.INFO, "This is what the limit is for; pulsar-quota explain says which rate binds."
    ),
    ConditionKind.CERTIFICATE_HIGH: ConditionRow(
        Severity.CRITICAL,
        "Look for sidecars that are DEGRADED or silent (pulsar-quota status); overshootPolicy strict "
        "bounds the sum whatever happens.",
    ),
    ConditionKind.VIEWS_DISAGREE: ConditionRow(
        Severity.WARNING,
        "Compare pulsar-quota status at both; one of them is cut off from ZooKeeper or from the bus.",
    ),
    ConditionKind.PEER_LOST: ConditionRow(
        Severity.WARNING, "Look at that broker and its sidecar; the others have its share."
    ),
    ConditionKind.BUS_SILENT: ConditionRow(
        Severity.WARNING,
        "Look at the broker that bus_service_url names and at the owner of the bus topic; limits are "
        "held meanwhile.",
    ),
    ConditionKind.ZOOKEEPER_LOST: ConditionRow(
        Severity.WARNING,
        "Look at the ZooKeeper ensemble and the way to it; groups follow their partitionPolicy "
        "meanwhile.",
    ),
    ConditionKind.NATIVE_INEXACT: ConditionRow(
        Severity.WARNING, "Run pulsar-quota doctor, which says what is in the way and what to do."
    ),
    ConditionKind.TRAFFIC_ROUND_THE_GATE: ConditionRow(
        Severity.WARNING,
        "Close the way that it takes; docs/ways.md says how. Until then the limit is exceeded by that "
        "much.",
    ),
    ConditionKind.ORPHANED: ConditionRow(
        Severity.WARNING,
        "Detach what pulsar-quota conditions names, or a new tenant or namespace of that name is held to "
        "an old limit.",
    ),
    ConditionKind.ONLY_IN_PULSAR: ConditionRow(
        Severity.WARNING,
        "Import it with what is attached to it (pulsar-quota import --from a broker's URL), or delete it "
        "in Pulsar.",
    ),
    ConditionKind.WITHOUT_GATE: ConditionRow(
        Severity.WARNING,
        "Add the gates' listener to its advertisedListeners and start its sidecar, or correct "
        "gate_listener_name; until then clients of gates cannot reach its topics.",
    ),
    ConditionKind.WITHOUT_SIDECAR: ConditionRow(
        Severity.WARNING,
        "Start a sidecar with a gate at each broker that advertises one; pulsar-quota status names those "
        "that run.",
    ),
    ConditionKind.UNKNOWN_TOPICS: ConditionRow(
        Severity.WARNING,
        "Upgrade the sidecars to a release that knows these names, or refuse them (unknown_topics); "
        "until then only the limits of all traffic hold for them.",
    ),
    ConditionKind.PARTITION_NEAR_LIMIT: ConditionRow(
        Severity.INFO,
        "Give the topic more partitions before its clients wait; /quota/v1/gate/partitions and the "
        "dashboard say how many would do.",
    ),
    ConditionKind.BACKLOG_NEAR_QUOTA: ConditionRow(
        Severity.WARNING,
        "Look at the consumers of its oldest subscription; the quota's policy says what happens at "
        "its end.",
    ),
    ConditionKind.BACKLOG_EXCEEDED: ConditionRow(
        Severity.CRITICAL,
        "Producers are or will be held or refused, or messages evicted, as the quota's policy says; "
        "look at the consumers of its oldest subscription.",
    ),
    ConditionKind.BACKLOG_AGES: ConditionRow(
        Severity.WARNING,
        "Look at the consumers of its oldest subscription, or delete that if it is no longer used.",
    ),
}
"""Every kind, its severity and its remedy."""

IN_HEALTH = frozenset(
    {ConditionKind.VIEWS_DISAGREE, ConditionKind.BUS_SILENT, ConditionKind.ZOOKEEPER_LOST}
)
"""Kinds whose facts /quota/v1/health tells in full, so that a reader of both says them once."""

_URGENCY = {severity: rank for rank, severity in enumerate(Severity)}


@answer
class ConditionView:
    """One condition as the answering sidecar sees it."""

    condition: str
    """its kind, as the rules for Prometheus call it"""
    subject: str
    """the group, broker, topic or partition"""
    severity: str
    """info, warning or critical"""
    sentence: str
    remedy: str
    """what to do about it"""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that holds now.

    Args:
        kind: its row in the table.
        subject: the group, broker, topic or partition that it is about.
        sentence: the fact, with the names that it concerns.
        remedy: a remedy for this very case; empty is the one of the table.
    """

    kind: ConditionKind
    subject: str
    sentence: str
    remedy: str = ""

    def view(self) -> ConditionView:
        """Return it for an operator."""
        return ConditionView(
            condition=self.kind.value,
            subject=self.subject,
            severity=self.kind.severity.value,
            sentence=self.sentence,
            remedy=self.remedy or TABLE[self.kind].remedy,
        )


@dataclass(frozen=True, slots=True)
class Conditions:
    """All conditions that held when a sidecar last looked.

    Args:
        listed: the worst first, then by kind and subject; at most `MAX_PER_KIND` of a kind.
        counts: the number of all, by kind.
    """

    listed: tuple[Condition, ...] = ()
    counts: Mapping[ConditionKind, int] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Iterable[Condition]) -> Self:
        """Sort what was found; of equal kinds and subjects the last one counts."""
        distinct = {
            (_URGENCY[each.kind.severity], each.kind.value, each.subject): each for each in found
        }
        counts: Counter[ConditionKind] = Counter()
        listed = []
        for _, each in sorted(distinct.items()):
            counts[each.kind] += 1
            if counts[each.kind] <= MAX_PER_KIND:
                listed.append(each)
        return cls(tuple(listed), counts)

    def beside_health(self) -> tuple[Condition, ...]:
        """Return those that /quota/v1/health does not tell."""
        return tuple(each for each in self.listed if each.kind not in IN_HEALTH)
