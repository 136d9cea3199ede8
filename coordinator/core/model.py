"""The terms of the project, as immutable values.

A *resource group* limits four *dimensions*, each a rate per second for the whole cluster. ``None`` is
"not limited" (Pulsar writes -1, and only the wire, answers and requests know that); 0 lets nothing pass.
A *usage* is the traffic that one broker admitted for one group and *monitoring class* during one round; a
*usage report* carries the usages of one broker. A *limit* is a group's rate for the whole cluster, a
*local limit* one broker's part of it.

All rates are whole numbers per second. What a limit has beside its whole part is kept apart, as its
*fraction*: it is below 1 per second, and shared exactly (allocation/splitting.py). All times are integer
nanoseconds of a monotonic clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

NANOS_PER_SECOND = 1_000_000_000
NANOS_PER_MILLI = 1_000_000

MAX_COUNT = 2**63 - 1
"""The largest count and rate: Pulsar keeps them in a Java long. Larger values are capped to it."""


class _Word(Enum):
    """An enum whose members hash by identity: nearly every key has one, and Enum hashes in Python."""

    __hash__ = object.__hash__


class MonitoringClass(_Word):
    """A class of traffic: Pulsar's ResourceGroupMonitoringClass, less replication."""

    PUBLISH = "Publish"
    DISPATCH = "Dispatch"


TrafficKey = tuple[str, MonitoringClass]
"""A group's name and a class: the key under which traffic is counted and reported."""


class Unit(_Word):
    """The unit of a rate."""

    MESSAGES = "messages"
    BYTES = "bytes"


class Dimension(_Word):
    """The four rates of a resource group, by Pulsar's field names.

    Attributes:
        monitoring_class: the class of traffic that it counts.
        unit: messages or bytes.
        field: its name in `Rates`.
    """

    PUBLISH_MESSAGES = "publishRateInMsgs"
    PUBLISH_BYTES = "publishRateInBytes"
    DISPATCH_MESSAGES = "dispatchRateInMsgs"
    DISPATCH_BYTES = "dispatchRateInBytes"

    monitoring_class: MonitoringClass
    unit: Unit
    field: str


LimitKey = tuple[str, Dimension]
"""A group's name and a dimension: the key of one limit."""


DIMENSIONS_OF: Mapping[MonitoringClass, tuple[Dimension, Dimension]] = {
    MonitoringClass.PUBLISH: (Dimension.PUBLISH_MESSAGES, Dimension.PUBLISH_BYTES),
    MonitoringClass.DISPATCH: (Dimension.DISPATCH_MESSAGES, Dimension.DISPATCH_BYTES),
}

# Attributes, not properties: the core asks for them at every count.
for _class, _both in DIMENSIONS_OF.items():
    for _dimension, _unit in zip(_both, Unit, strict=True):
        _dimension.monitoring_class, _dimension.unit = _class, _unit
        _dimension.field = f"{_class.value.lower()}_{_unit.value}"


Rate = int | Fraction
"""Tokens per second; a fraction where whole ones would be too coarse."""

Fractions = tuple[tuple[Dimension, Fraction], ...]
"""The parts of rates below 1 per second, in the order of the dimensions; none is 0."""


@dataclass(frozen=True, slots=True)
class Rates:
    """One whole rate per dimension, per second; ``None`` is unlimited, 0 lets nothing pass.

    Used both for a group's limit on the whole cluster and for one broker's local limit.
    """

    publish_messages: int | None = None
    publish_bytes: int | None = None
    dispatch_messages: int | None = None
    dispatch_bytes: int | None = None

    def of(self, dimension: Dimension) -> int | None:
        """Return the rate of one dimension."""
        rate: int | None = getattr(self, dimension.field)
        return rate

    @classmethod
    def from_mapping(cls, rates: Mapping[Dimension, int | None]) -> Rates:
        """Build from a mapping; a missing dimension is unlimited."""
        return cls(
            publish_messages=rates.get(Dimension.PUBLISH_MESSAGES),
            publish_bytes=rates.get(Dimension.PUBLISH_BYTES),
            dispatch_messages=rates.get(Dimension.DISPATCH_MESSAGES),
            dispatch_bytes=rates.get(Dimension.DISPATCH_BYTES),
        )


@dataclass(frozen=True, slots=True)
class ExactRates:
    """Rates with their fractions.

    Args:
        whole: the whole parts.
        fractions: what the rates have beside them.
    """

    whole: Rates
    fractions: Fractions = ()

    def of(self, dimension: Dimension) -> Rate | None:
        """Return the rate of one dimension."""
        rate = self.whole.of(dimension)
        if rate is None or not self.fractions:
            return rate
        return rate + dict(self.fractions).get(dimension, 0)

    @classmethod
    def from_mapping(cls, rates: Mapping[Dimension, Rate | None]) -> ExactRates:
        """Build from a mapping; a missing dimension is unlimited."""
        found = {each: rate for each in Dimension if (rate := rates.get(each)) is not None}
        whole = {each: int(rate) for each, rate in found.items()}
        fractions = ((each, Fraction(rate) - whole[each]) for each, rate in found.items())
        return cls(Rates.from_mapping(whole), tuple(each for each in fractions if each[1]))


AnyRates = Rates | ExactRates
"""Rates that may have fractions."""


def with_fractions(whole: Rates, fractions: Fractions) -> AnyRates:
    """Return these rates, as whole ones if there is no fraction."""
    return ExactRates(whole, fractions) if fractions else whole


def rates_of(rates: Mapping[Dimension, Rate | None]) -> AnyRates:
    """Return the rates of a mapping, as whole ones if all are; a missing dimension is unlimited."""
    found = ExactRates.from_mapping(rates)
    return with_fractions(found.whole, found.fractions)


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """A group's definition, as it stands in the store.

    ``configuration_version`` grows with every change of the definition, also across delete and
    re-create (the adapter uses ZooKeeper's mzxid), so that reports can say which definition they mean.

    ``parent``, ``guarantees`` and ``weight`` make a tree of groups (allocation/tree.py); of a guarantee,
    None is none. ``entitled`` is no part of a definition: the core derives from all definitions what a
    group of a tree has when all want everything (allocation/forest.py); None outside trees.

    ``on_limit``, ``hold_millis`` and ``burst_seconds`` say how gates handle its traffic (handling.py).

    ``allowed_tenants`` are the tenants whose admins may attach to it, sorted; empty is none: only
    super-users attach.

    ``limits`` are the whole parts of its limits, and ``fractions`` what these have beside them.
    """

    name: str
    limits: Rates
    law: str = "max-min"
    weights: str = "equal"
    overshoot_policy: str = "balanced"
    partition_policy: str = "hold"
    enforcement: str = "enforce"
    observes: str = ""
    configuration_version: int = 0
    parent: str = ""
    guarantees: Rates = Rates()
    weight: int = 1
    entitled: Rates | None = None
    on_limit: str = "hold"
    hold_millis: int = 1_000
    burst_seconds: int = 0
    allowed_tenants: tuple[str, ...] = ()
    fractions: Fractions = ()

    @property
    def exact_limits(self) -> AnyRates:
        """Return its limits with their fractions."""
        return with_fractions(self.limits, self.fractions)

    @property
    def limits_rounded_up(self) -> Rates:
        """Return its limits for those who know whole rates alone: 1 for 0.5."""
        if not self.fractions:  # asked for every second, of groups that nearly all have none
            return self.limits
        of = dict(self.fractions)
        rates = {each: self.limits.of(each) for each in Dimension}
        return Rates.from_mapping(
            {
                each: rate + 1 if rate is not None and each in of else rate
                for each, rate in rates.items()
            }
        )

    def base_of(self, dimension: Dimension) -> int | None:
        """Return the rate of which reserves and equal parts are parts, per second."""
        return (self.limits if self.entitled is None else self.entitled).of(dimension)


def redefined(
    before: Mapping[str, ResourceGroup], after: Mapping[str, ResourceGroup]
) -> Iterator[str]:
    """Yield the groups of ``after`` that are absent from ``before`` or defined otherwise there.

    Unchanged groups keep their objects, so only other objects are compared field by field: with a
    thousand groups, comparing all would take milliseconds.
    """
    for name, group in after.items():
        found = before.get(name)
        if found is not group and found != group:
            yield name


def shared_versions(versions: Iterable[int]) -> frozenset[int]:
    """Return the versions that identify no single definition: several have it, or it is 0, unknown."""
    return frozenset(
        version for version, times in Counter(versions).items() if times > 1 or not version
    )


@dataclass(frozen=True, slots=True)
class Attachments:
    """The tenants, namespaces and topics that belong to each group (names, not definitions).

    ``namespaces`` is keyed by ``tenant/namespace``. A topic whose tenant and namespace belong to
    the same group counts once; in different groups, both must admit it. ``topics`` has the full names
    of topics that are a group by themselves (coordinator/app/topic_groups.py). ``roles`` is keyed by
    role, pattern or default, ``subscriptions`` by topic and name, and ``clusters`` by the remote
    cluster (`owners`): traffic counts against their groups, too.
    """

    tenants: Mapping[str, str] = field(default_factory=dict)
    namespaces: Mapping[str, str] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    roles: Mapping[str, str] = field(default_factory=dict)
    subscriptions: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)

    def groups_of(self, tenant: str, namespace: str) -> tuple[str, ...]:
        """Return the groups that limit a topic of this tenant and namespace, narrowest first."""
        found = (self.namespaces.get(f"{tenant}/{namespace}"), self.tenants.get(tenant))
        return tuple(dict.fromkeys(group for group in found if group is not None))

    def roles_of(self, group: str) -> tuple[str, ...]:
        """Return the roles and patterns attached to a group, sorted; the default is the empty name."""
        return tuple(sorted(role for role, name in self.roles.items() if name == group))


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A live sidecar as the membership shows it.

    ``incarnation`` grows with every registration of any broker (the adapter uses the czxid of its
    ephemeral node: a fencing number that no clock can set back). A view that shows a registration
    therefore covers all those with a lower number: one that is missing from it is gone.
    ``report_key`` is the key that verifies its reports.
    """

    broker: str
    incarnation: int
    api_address: str = ""
    report_key: bytes = b""


class Account(NamedTuple):
    """One incarnation of a broker as a holder of quota (escrow/books.py)."""

    broker: str
    incarnation: int


Parts = tuple[int, int, int, int]
"""Parts of a group's quota, of escrow.TOTAL: one number per Dimension, in its order."""


@dataclass(frozen=True, slots=True)
class EscrowRecord:
    """The store's record of a strict group: the holdings at its last write (escrow/books.py).

    Args:
        group: the group.
        generation: grows with every creation, also across delete and re-create of the group.
        version: the version that a compare-and-set write must name; grows by one with every write.
        bases: the parts that each account started from; together exactly escrow.TOTAL in each
            dimension.
        claimed: the dead accounts whose estate went into the bases with the latest write.
    """

    group: str
    generation: int
    version: int
    bases: Mapping[Account, Parts]
    claimed: frozenset[Account] = frozenset()


@dataclass(frozen=True, slots=True)
class Closure:
    """The transfers between the sender and a dead account; final once reported."""

    received: Parts
    issued: Parts


@dataclass(frozen=True, slots=True)
class EscrowStatement:
    """One broker's statement of its books on one strict group.

    Args:
        group: the group.
        generation: of the record that the books follow.
        version: of that record.
        holding: the parts that the sender holds.
        grants: all grants that the sender ever made, by receiver; those without a recent change may
            be left out.
        closures: every account that the sender has closed since the record was written.
    """

    group: str
    generation: int
    version: int
    holding: Parts
    grants: Mapping[Account, Parts] = field(default_factory=dict)
    closures: Mapping[Account, Closure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Usage:
    """One broker's report of one group and class.

    ``messages`` and ``bytes`` were admitted in the report's ``elapsed_ns``. The throttled shares
    are the part of that time (in thousandths) in which a producer waited for tokens of that unit.
    The demands are the sender's estimate of the rate that it would admit without its limit, per
    second; ``None`` is unbounded (demand/estimator.py). The limits are those in force at the
    sender; ``None`` is unlimited. A ceiling is the limit up to which the sender may raise itself
    before it reports again (transfer/raise_protocol.py); ``None`` is the limit in force. ``message_size``
    is the mean size of a message in bytes, reported where both units are limited; 0 is unknown.
    """

    messages: int = 0
    bytes: int = 0
    messages_throttled_permille: int = 0
    bytes_throttled_permille: int = 0
    messages_demand: int | None = 0
    bytes_demand: int | None = 0
    messages_limit: int | None = None
    bytes_limit: int | None = None
    messages_ceiling: int | None = None
    bytes_ceiling: int | None = None
    participants: int = 0
    topics: int = 0
    message_size: int = 0

    def count_of(self, unit: Unit) -> int:
        """Return the amount admitted, in this unit."""
        return self.messages if unit is Unit.MESSAGES else self.bytes

    def throttled_permille_of(self, unit: Unit) -> int:
        """Return the part of the time throttled by this unit, in thousandths."""
        if unit is Unit.MESSAGES:
            return self.messages_throttled_permille
        return self.bytes_throttled_permille

    def demand_of(self, unit: Unit) -> int | None:
        """Return the sender's demand, per second; None is unbounded."""
        return self.messages_demand if unit is Unit.MESSAGES else self.bytes_demand

    def limit_of(self, unit: Unit) -> int | None:
        """Return the local limit in force at the sender, per second."""
        return self.messages_limit if unit is Unit.MESSAGES else self.bytes_limit

    def ceiling_of(self, unit: Unit) -> int | None:
        """Return the limit up to which the sender may raise itself; None is the one in force."""
        return self.messages_ceiling if unit is Unit.MESSAGES else self.bytes_ceiling

    def decisive(self) -> tuple[int | None, ...]:
        """Return the fields that a split by demand is made from: all but the counts."""
        return (
            self.messages_demand,
            self.bytes_demand,
            self.messages_limit,
            self.bytes_limit,
            self.messages_ceiling,
            self.bytes_ceiling,
            self.topics,
            self.message_size,
        )


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """One group's entry in a usage report; a class without news is left out."""

    group: str
    configuration_version: int
    usages: Mapping[MonitoringClass, Usage]


@dataclass(frozen=True, slots=True)
class ViewDigest:
    """The sender's definitions, members and rows, as three hashes of 32 bits (usage/agreement.py)."""

    definitions: int
    members: int
    usage: int


@dataclass(frozen=True, slots=True)
class UsageReport:
    """One broker's report to all others, sent once a round, or at once after an important change.

    Args:
        broker: the sender.
        incarnation: the sender's registration; a report of an older one is dropped.
        sequence: grows by one per report of an incarnation; duplicates and late ones are dropped.
        elapsed_ns: the time that the counts cover.
        since: a receiver that has taken every report up to this one, and takes this report, has
            missed nothing that the sender ever reported.
        named: groups are identified by name, not by the versions of their definitions.
        complete: every group in which the sender takes part is listed; its part in all others has
            ended.
        learning: the sender does not know the usage of all members yet and asks for complete
            reports.
        leaving: the sender leaves; its quota is free.
        asks: brokers of which the sender has missed a report; each answers with a complete one.
        groups: the entries.
        escrow: the sender's books on strict groups, as far as there is news.
        view: digests of the definitions, members and rows that the sender uses; None from a sidecar
            that reports none.
        bus_silent: the sender does not hear all members, and in the end moves to C/N unasked
            (degradation.py).
        waiting: the sender waits for answers to its ceilings; every participant replies at once.
        answers: the sequence of the newest report taken from each incarnation that has ceilings.
    """

    broker: str
    incarnation: int
    sequence: int
    elapsed_ns: int
    groups: Sequence[GroupUsage]
    since: int = 0
    named: bool = False
    complete: bool = False
    learning: bool = False
    leaving: bool = False
    asks: tuple[str, ...] = ()
    escrow: tuple[EscrowStatement, ...] = ()
    view: ViewDigest | None = None
    bus_silent: bool = False
    waiting: bool = False
    answers: Mapping[int, int] = field(default_factory=dict)
