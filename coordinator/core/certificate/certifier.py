"""Make certificates from the reports of the others; the rules and assumptions stand in statement.py.

This module keeps what the usage map does not: the newest report of each broker beyond its rows, the
brokers that left without a farewell and the limits that they held, and the older definitions that a
broker may still use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from math import ceil
from typing import Final

from coordinator.core.allocation.splitting import reserve_of
from coordinator.core.certificate.statement import Basis, Certificate, Holder
from coordinator.core.demand.observing import is_observed
from coordinator.core.handling import burst_ns_of
from coordinator.core.model import (
    DIMENSIONS_OF,
    NANOS_PER_SECOND,
    Account,
    Dimension,
    LimitKey,
    Member,
    MonitoringClass,
    Rates,
    ResourceGroup,
    Usage,
    UsageReport,
    redefined,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.policies import BALANCED, STRICT
from coordinator.core.usage.agreement import Agreement
from coordinator.core.usage.columns import ColumnEntries
from coordinator.core.usage.map import UsageMap

MAX_DEPARTED = 64
"""Remembered brokers that left without a farewell; with one more, nothing can be certified."""


@dataclass(slots=True)
class _Word:
    """The newest report of a broker, beyond its rows."""

    incarnation: int
    #: It does not hear all other members.
    bus_silent: bool
    #: Its limits of groups in which it no longer takes part; it lowers them right after.
    ended: dict[LimitKey, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Departed:
    """A broker that left without a farewell, with its last known facts."""

    groups: Mapping[str, ResourceGroup]
    superseded: Mapping[str, tuple[ResourceGroup, ...]]
    announced: Mapping[LimitKey, int]
    left_ns: int

    def definitions(self, name: str) -> tuple[ResourceGroup, ...]:
        """Return the definitions that it may use; empty if it does not know the group."""
        group = self.groups.get(name)
        return () if group is None else (group, *self.superseded.get(name, ()))


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of a certificate besides the certifier's own state.

    Args:
        members: all live brokers.
        usage: their reports.
        agreement: whether they use the same definitions and members as this broker.
        limits: this broker's local limits in force, by group.
        booked: under ``strict``, the brokers whose books are known; None if there are none.
        now_ns: the time.
        kin: the groups that share a limit with the group, itself included; a broker that raises itself
            in one of them asks those that take part in any (transfer/tree_room.py).
        fractions: what each broker has beside its whole target, by this broker's view.
    """

    members: Mapping[str, Member]
    usage: UsageMap
    agreement: Agreement
    limits: Mapping[str, Rates]
    booked: Collection[str] | None
    now_ns: int
    kin: Collection[str] = ()
    fractions: Mapping[str, Fraction] = field(default_factory=dict)


_KNOWN: Final = frozenset({Basis.OWN, Basis.ANNOUNCED})
"""Bases of a limit that is announced in whole numbers, so that its fraction comes on top."""


class Certifier:
    """Keep the facts that certificates need, and make certificates. See the head of statement.py."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        self._words: dict[str, _Word] = {}
        self._departed: dict[str, _Departed] = {}
        self._overflowed = False
        #: Members that sent a farewell; a later registration of the same broker has sent none.
        self._released: set[Account] = set()
        self._members: dict[str, Member] = {}
        self._groups: Mapping[str, ResourceGroup] = {}
        #: Older definitions that a broker may still use; of those with the same policies, one that allows
        #: as much as any of them.
        self._superseded: dict[str, tuple[ResourceGroup, ...]] = {}
        self._counted_ns = 0
        #: When all events that waited while this process stood still have certainly been handled.
        self._awake_ns = 0

    def take(self, report: UsageReport) -> None:
        """Take in an accepted report."""
        if report.leaving:
            self._released.add(Account(report.broker, report.incarnation))
        member = self._members.get(report.broker)
        if member is not None and report.incarnation >= member.incarnation:
            self._departed.pop(report.broker, None)
        word = _Word(report.incarnation, report.bus_silent)
        for group, monitoring_class, usage in _ended(report):
            for dimension in DIMENSIONS_OF[monitoring_class]:
                if limit := usage.limit_of(dimension.unit):
                    word.ended[group, dimension] = limit
        self._words[report.broker] = word

    def counted(self, elapsed_ns: int, now_ns: int) -> None:
        """Note that the gate's counts arrived, ``elapsed_ns`` after the ones before."""
        self._counted_ns = now_ns
        if elapsed_ns > self._longest_pause_ns():
            self._awake_ns = now_ns + self._settings.round_ns

    def set_groups(
        self, before: Mapping[str, ResourceGroup], after: Mapping[str, ResourceGroup]
    ) -> None:
        """Take over the definitions; the old ones count too until all members have confirmed the new."""
        self._groups = after
        for name in redefined(after, before):  # of a group that is gone as well: it may come back
            older = self._superseded.get(name, ())
            self._superseded[name] = _with_one_more(older, before[name])

    def set_members(
        self,
        members: Mapping[str, Member],
        usage: UsageMap,
        groups: Mapping[str, ResourceGroup],
        limits: Mapping[str, Rates],
        now_ns: int,
    ) -> None:
        """Take over the membership; call this before the usage map forgets departed members."""
        for broker in self._members.keys() - members.keys() - {self._settings.broker}:
            account = Account(broker, self._members[broker].incarnation)
            if account not in self._released:
                self._remember(broker, usage, groups, limits, now_ns)
        self._words = {
            broker: word
            for broker, word in self._words.items()
            if broker in members and word.incarnation >= members[broker].incarnation
        }
        self._released &= {Account(each.broker, each.incarnation) for each in members.values()}
        self._members = dict(members)

    def close_round(self, agreement: Agreement) -> None:
        """Forget older definitions once every member has confirmed the new ones."""
        others = self._members.keys() - {self._settings.broker}
        if self._superseded and all(map(agreement.same_definitions, others)):
            self._superseded.clear()

    def stood_still(self, now_ns: int) -> bool:
        """Return whether this process may have stood still while others went on."""
        paused = now_ns - self._counted_ns > self._longest_pause_ns()
        return paused or now_ns < self._awake_ns

    def certificate(
        self, group: ResourceGroup, dimension: Dimension, facts: Facts, obstacle: str
    ) -> Certificate:
        """Return the most that the local limits of a group can add up to.

        Args:
            group: a definition.
            dimension: one that it limits.
            facts: of this moment.
            obstacle: why the announcements of the others prove nothing; empty if they do.
        """
        if is_observed(group):
            return self._nothing(group, dimension, "it is observed: nothing is held back")
        if any(map(is_observed, self._definitions(group))):
            return self._nothing(group, dimension, "a broker may still only observe it")
        booked = self._by_the_books(group, dimension, facts)
        if booked is not None:
            return booked
        if obstacle:
            return self._nothing(group, dimension, obstacle)
        if self.stood_still(facts.now_ns):
            return self._nothing(group, dimension, "this sidecar has just stood still")
        return self._by_word(group, dimension, facts)

    def of_strict_root(
        self, group: ResourceGroup, dimension: Dimension, facts: Facts, whole: Certificate
    ) -> Certificate | None:
        """Return the certificate of a tree's strict root; None while its books prove nothing.

        Args:
            group: the root.
            dimension: one that it limits.
            facts: of this moment.
            whole: the sum of the certificates of its leaves.
        """
        if any(self._superseded.get(name) for name in (group.name, *facts.kin)):
            return None  # a broker may not know yet that a leaf belongs to it
        booked = self._by_the_books(group, dimension, facts)
        if booked is None or booked.holders:
            return None
        return replace(booked, burst=whole.burst)

    def _nothing(self, group: ResourceGroup, dimension: Dimension, obstacle: str) -> Certificate:
        """Return a certificate that says only why none can be made."""
        return Certificate(
            group.name, dimension, _limit(group, dimension), None, 0, 0, obstacle=obstacle
        )

    def _by_the_books(
        self, group: ResourceGroup, dimension: Dimension, facts: Facts
    ) -> Certificate | None:
        """Return the certificate of a strict group; None while a member may not follow its books."""
        definitions = self._definitions(group)
        highest = _highest(definitions, dimension)
        if facts.booked is None or highest is None or not _are(STRICT, definitions):
            return None
        for broker, member in facts.members.items():
            # A broker that joined after the group became strict holds nothing until it follows the books.
            joined_before = member.incarnation <= group.configuration_version
            if broker not in facts.booked and joined_before:
                return None
        departed = [
            holder
            for holder in self._departed_holders(group.name, dimension, facts.now_ns)
            if not _are(STRICT, self._departed[holder.broker].definitions(group.name))
        ]
        most = highest + sum(holder.most for holder in departed)
        return Certificate(
            group.name,
            dimension,
            _limit(group, dimension),
            most,
            newcomer=0,
            burst=self._burst(most, len(facts.members), definitions),
            holders=tuple(departed),
        )

    def _by_word(self, group: ResourceGroup, dimension: Dimension, facts: Facts) -> Certificate:
        """Return the certificate that follows from the announcement of every broker."""
        definitions = self._definitions(group)
        highest = _highest(definitions, dimension)
        if self._overflowed:
            return self._nothing(group, dimension, "too many brokers left without a word")
        if highest is None:
            return self._nothing(group, dimension, "a broker may not know the limit yet")
        departed = {
            holder.broker: holder
            for holder in self._departed_holders(group.name, dimension, facts.now_ns)
        }
        holders = []
        asked = self._is_asked(group, dimension, facts)
        for broker in sorted(facts.members):
            holder = self._holder(group, dimension, broker, highest, facts, asked=asked)
            # A returned broker that was not heard yet may hold its former limit.
            holders.append(max(holder, departed.pop(broker, holder), key=lambda each: each.most))
        holders += departed.values()
        beside = sum(
            facts.fractions.get(each.broker, 0) for each in holders if each.basis in _KNOWN
        )
        most = sum(holder.most for holder in holders) + ceil(beside)
        return Certificate(
            group.name,
            dimension,
            _limit(group, dimension),
            most,
            newcomer=self._newcomer(group, dimension, highest),
            burst=self._burst(most, len(holders), definitions),
            holders=tuple(holders),
        )

    def _newcomer(self, group: ResourceGroup, dimension: Dimension, highest: int) -> int:
        if _are(BALANCED, self._definitions(group)):
            return self._reserve(group, dimension, 1)
        return highest  # it may have raised itself before this broker saw it

    def _holder(
        self,
        group: ResourceGroup,
        dimension: Dimension,
        broker: str,
        highest: int,
        facts: Facts,
        *,
        asked: bool,
    ) -> Holder:
        place = (group.name, dimension)
        if broker == self._settings.broker:
            return Holder(broker, _held(facts.limits, place), Basis.OWN)
        if not _are(BALANCED, self._definitions(group)):
            return Holder(broker, highest, Basis.UNBOUND)
        heard_ns = facts.usage.heard_ns(broker)
        word = self._words.get(broker)
        if word is None or heard_ns is None:
            own = facts.members[self._settings.broker].incarnation
            if facts.members[broker].incarnation < own:
                # It may have raised itself before this broker joined.
                return Holder(broker, highest, Basis.UNTOLD)
            return Holder(broker, self._reserve(group, dimension, 1), Basis.RESERVE)
        if facts.now_ns - heard_ns > self._settings.hold_ns // 2:
            return Holder(broker, highest, Basis.LATE)
        return self._by_its_word(group, dimension, broker, word, highest, facts, asked=asked)

    def _by_its_word(
        self,
        group: ResourceGroup,
        dimension: Dimension,
        broker: str,
        word: _Word,
        highest: int,
        facts: Facts,
        *,
        asked: bool,
    ) -> Holder:
        place = (group.name, dimension)
        # A broker that counts fewer members than this one holds a larger reserve.
        members = len(facts.members) if facts.agreement.same_members(broker) else 1
        reserve = self._reserve(group, dimension, members)
        announced = self._announced(place, broker, facts.usage, highest, reserve)
        if facts.usage.row(broker, place[0], place[1].monitoring_class) is None:
            return Holder(broker, announced, Basis.RESERVE)
        if not asked:
            return Holder(broker, highest, Basis.UNTOLD)
        part = _base(self._definitions(group), dimension) // members
        if word.bus_silent and part > announced:
            return Holder(broker, part, Basis.BUS_SILENT)
        return Holder(broker, announced, Basis.ANNOUNCED)

    def _announced(
        self, place: LimitKey, broker: str, usage: UsageMap, highest: int, reserve: int
    ) -> int:
        """Return the highest limit that a broker may hold by its own announcement."""
        group, dimension = place
        row = usage.row(broker, group, dimension.monitoring_class)
        if row is None:
            return min(highest, max(reserve, self._words[broker].ended.get(place, 0)))
        told = row.usage.limit_of(dimension.unit)
        # It did not know this limit when it reported the row.
        limit = highest if told is None else max(told, reserve)
        return min(highest, max(limit, row.usage.ceiling_of(dimension.unit) or 0))

    def _is_asked(self, group: ResourceGroup, dimension: Dimension, facts: Facts) -> bool:
        """Return whether others must ask this broker before they raise themselves."""
        members = len(facts.members)
        kin = (self._groups[name] for name in facts.kin if name in self._groups)
        return any(
            _held(facts.limits, (each.name, dimension)) > self._reserve(each, dimension, members)
            for each in chain((group,), kin)
        )

    def _reserve(self, group: ResourceGroup, dimension: Dimension, members: int) -> int:
        base = _base(self._definitions(group), dimension)
        return reserve_of(base, members, self._settings)

    def _definitions(self, group: ResourceGroup) -> tuple[ResourceGroup, ...]:
        return (group, *self._superseded.get(group.name, ()))

    def _burst(self, rate: int, buckets: int, definitions: Collection[ResourceGroup]) -> int:
        burst_ns = max(burst_ns_of(group, self._settings.burst_ns) for group in definitions)
        return buckets + rate * burst_ns // NANOS_PER_SECOND

    def _longest_pause_ns(self) -> int:
        # The rest of the session if ZooKeeper was last heard a third of its timeout ago.
        return self._settings.session_timeout_ns // 3

    def _remember(
        self,
        broker: str,
        usage: UsageMap,
        groups: Mapping[str, ResourceGroup],
        limits: Mapping[str, Rates],
        now_ns: int,
    ) -> None:
        if broker in self._departed:
            return  # it was back, and left before it was heard
        if len(self._departed) >= MAX_DEPARTED:
            self._overflowed = True
            return
        announced: dict[LimitKey, int] = {}
        for name, group in groups.items():
            for dimension in Dimension:
                highest = _highest(self._definitions(group), dimension)
                if highest is None or broker not in self._words:
                    continue
                place = (name, dimension)
                reserve = self._reserve(group, dimension, 1)
                takes_part = usage.row(broker, name, dimension.monitoring_class) is not None
                if takes_part and _held(limits, place) <= reserve:
                    continue  # it need not have asked this broker
                announced[place] = self._announced(place, broker, usage, highest, reserve)
        self._departed[broker] = _Departed(groups, dict(self._superseded), announced, now_ns)

    def _departed_holders(self, name: str, dimension: Dimension, now_ns: int) -> list[Holder]:
        holders = []
        for broker, departed in sorted(self._departed.items()):
            definitions = departed.definitions(name)
            highest = _highest(definitions, dimension)
            gone_ns = now_ns - departed.left_ns
            stopped = gone_ns >= self._settings.session_timeout_ns and all(map(_stops, definitions))
            if highest is None or not definitions or stopped:
                continue
            most = highest
            if _are(BALANCED, definitions):
                most = departed.announced.get((name, dimension), highest)
            holders.append(Holder(broker, most, Basis.DEPARTED))
        return holders


def _ended(report: UsageReport) -> Iterator[tuple[str, MonitoringClass, Usage]]:
    """Yield the entries listed because the sender no longer takes part."""
    if isinstance(report.groups, ColumnEntries):
        for monitoring_class, columns in report.groups.columns.items():
            for group in columns.ended():
                yield group, monitoring_class, columns.usage_at(columns.places[group])
        return
    for entry in report.groups:
        for monitoring_class, usage in entry.usages.items():
            if not usage.participants:
                yield entry.group, monitoring_class, usage


def _are(policy: str, definitions: Collection[ResourceGroup]) -> bool:
    return all(group.overshoot_policy == policy for group in definitions)


def _stops(group: ResourceGroup) -> bool:
    """Return whether a broker that is cut off eventually lets nothing through."""
    return group.overshoot_policy == STRICT or group.partition_policy == "stop"


def _limit(group: ResourceGroup, dimension: Dimension) -> int:
    limit = group.limits_rounded_up.of(dimension)
    assert limit is not None, "only what is limited can be certified"
    return limit


def _held(limits: Mapping[str, Rates], place: LimitKey) -> int:
    return limits.get(place[0], Rates()).of(place[1]) or 0


def _base(definitions: Collection[ResourceGroup], dimension: Dimension) -> int:
    """Return the highest rate of which a broker may take its reserve and its equal part."""
    return max((group.base_of(dimension) or 0 for group in definitions), default=0)


def _highest(definitions: Collection[ResourceGroup], dimension: Dimension) -> int | None:
    """Return the highest limit that a broker may use; None if a broker may see no limit."""
    limits = [group.limits_rounded_up.of(dimension) for group in definitions]
    known = [limit for limit in limits if limit is not None]
    return max(known) if known and len(known) == len(limits) else None


def _with_one_more(
    older: tuple[ResourceGroup, ...], group: ResourceGroup
) -> tuple[ResourceGroup, ...]:
    """Return older definitions with one more; of those with the same policies, the most of all.

    Thereby they stay few, however often a group changes while a member goes by one of them.
    """
    same = [group, *(each for each in older if _policies(each) == _policies(group))]
    most = replace(
        group,
        limits=Rates.from_mapping({each: _highest(same, each) for each in Dimension}),
        fractions=(),
        entitled=Rates.from_mapping({each: _base(same, each) for each in Dimension}),
        burst_seconds=max(each.burst_seconds for each in same),
    )
    return (*(each for each in older if _policies(each) != _policies(group)), most)


def _policies(group: ResourceGroup) -> tuple[str, str, str]:
    return group.overshoot_policy, group.partition_policy, group.enforcement
