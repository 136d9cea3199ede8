"""Native enforcement as one state: settings and messages in, entries and counts out.

It is told the time, and the caller decides when; nothing here waits or reads a clock. The state holds,
per native group:

* its *part* here: of the local limits of all groups that it counts against (parts.py);
* its *entry*: the part less the trim, times the interval (entries.py, trim.py);
* the *rest*: the room in the record beyond all entries, so that no quota is scaled up. Every
  sidecar knows the same table and computes the same rest; one that sees it wrong, or old, writes it.
  Sidecars that change their entries at the same moment write a rest that knows no change but their
  own, and the last of these stays. So the first sidecar by name looks at each change that it hears,
  and corrects the rest at once: without that a broker keeps 75 to 120 % of its part for an interval
  about once a change, by the simulated story of the demo;
* *zero* for brokers that are gone, and entries for those whose sidecar does not write (standing_in.py).

A sidecar that starts leaves its broker's row as it is until its own entry takes no more than a quarter
of it away: the broker's clients stay while it is away, and a restart must not throttle them. After
`_TAKES_OVER_WITHIN_NS` it writes in any case. To groups that nothing was attached to before, this does
not apply: no sidecar has written for them, and their rows are what clients use without a limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND, AnyRates, Attachments, Dimension, Rate, Rates
from coordinator.core.traffic import NamespaceTraffic, Traffic
from coordinator.native.engine.counting import NamespaceCount
from coordinator.native.engine.early import EarlyTopics
from coordinator.native.engine.entries import (
    NOTHING,
    UNLIMITED,
    Amounts,
    Record,
    capacity_of,
    entry_of,
)
from coordinator.native.engine.group import NativeGroup, NativeView
from coordinator.native.engine.parts import split
from coordinator.native.engine.rest import differ, rest, scale
from coordinator.native.engine.sets import GroupSet, Homes, name_of
from coordinator.native.engine.standing_in import rows_to_stand_in_for
from coordinator.native.engine.table import (
    REST,
    WRITES_WITHIN_NS,
    Statement,
    Table,
    speaks_within_ns,
)
from coordinator.native.engine.traffic import of_groups, of_namespaces
from coordinator.native.engine.trim import WHOLE
from coordinator.native.engine.turns import in_turn, used, whole_now
from coordinator.native.engine.wholes import Wholes

_REST_AGE_NS: Final = NANOS_PER_SECOND
_TAKES_OVER_WITHIN_NS: Final = 10 * NANOS_PER_SECOND
_HEARD_WITHIN_NS: Final = 2 * NANOS_PER_SECOND
"""A broker with traffic reports itself within this time; before it was heard its row is not known."""

_KEPT_PERMILLE: Final = 750
"""The part of its broker's row that the first entry of a sidecar leaves."""

_WANTS_PERMILLE: Final = 1100
"""The demand of a native group is its admitted rate times this, if no producer waits."""


_NO_RECORD: Final = Record(UNLIMITED, UNLIMITED)
"""Of groups that only subscriptions are attached to, which Pulsar need not know."""


class Steering:
    """All of it, at one sidecar.

    Args:
        cluster_group: the group that everything counts against; empty is none.
        margin_permille: by how much the records are above the limits. Where a gate stands before this
            broker its entries are, too, so that the broker's limiter leaves the gate alone.
        headroom_permille: how much more than that the records have room for, so that they need not be
            written when limits are raised; the rest keeps it.
        behind_gate: whether one does.
    """

    def __init__(
        self,
        *,
        cluster_group: str = "",
        margin_permille: int = 0,
        headroom_permille: int = 0,
        behind_gate: bool = False,
    ) -> None:
        self.wholes = Wholes(margin_permille, headroom_permille)
        self._entry_permille = self.wholes.record_permille if behind_gate else WHOLE
        self.behind_gate = behind_gate
        self.interval_s = 1
        #: In whose name this broker's entries are; empty until it is known.
        self.own_url = ""
        self.table = Table()
        self.early = EarlyTopics()
        #: When the broker was last seen to start.
        self._broker_started_ns = 0
        self._limits: dict[str, AnyRates] = {}
        self.homes = Homes(cluster_group)
        #: The native group of each set of groups, and those of namespaces, which Pulsar has records of.
        self.by_set: dict[GroupSet, NativeGroup] = {}
        self._published: dict[GroupSet, NativeGroup] = {}
        self._records: dict[str, Record | None] = {}
        #: Native groups that this broker's row once had something in, written by this sidecar.
        self._written: set[str] = set()
        #: The brokers that it stood in for when it last wrote.
        self._stood_in_for: frozenset[str] = frozenset()
        #: None until it may write.
        self._started_ns: int | None = None
        #: Groups that something was attached to when it started.
        self._inherited: frozenset[str] = frozenset()
        self._namespaces: dict[str, NamespaceCount] = {}
        #: The namespaces that were published to at the last poll.
        self._publishing: frozenset[str] = frozenset()

    # What is told.

    def configure(self, own_url: str, interval_s: int, *, reads_entries: bool = True) -> None:
        """Take the broker's facts about its own configuration."""
        self.own_url = own_url
        self.wholes.are_read = reads_entries
        if interval_s != self.interval_s:
            self.interval_s = interval_s
            self.by_set.clear()
            self._resolve()

    def start(self, now_ns: int) -> None:
        """Write from now on, as soon as that takes nothing away from the broker's clients."""
        self._started_ns = now_ns
        self._inherited = self.homes.attached

    def set_limits(self, group: str, limits: AnyRates) -> None:
        """Take a group's local limits from now on."""
        self._limits[group] = limits

    def remove_limits(self, group: str) -> None:
        """Remove a group's local limits."""
        self._limits.pop(group, None)

    def set_whole(self, limits: Mapping[str, Rates], in_trees: Iterable[str] = ()) -> None:
        """Take the limits of all groups, of observed ones none, and which of them belong to trees."""
        self.wholes.take(limits, in_trees)

    def set_attachments(self, attachments: Attachments) -> None:
        """Take the attachments."""
        self.homes.set_attachments(attachments)
        self._resolve()

    def set_namespaces(self, existing: Iterable[str]) -> None:
        """Take the namespaces of attached tenants, or all of them if all traffic counts."""
        self.homes.set_existing(existing)
        self._resolve()

    def set_members(self, ids: Iterable[str]) -> None:
        """Take the ids of the live sidecars."""
        self.table.set_members(frozenset(ids))

    def set_record(self, name: str, record: Record | None) -> None:
        """Take a record as it was seen in Pulsar; None if there is none."""
        if self._records.get(name) != record:
            for native in self.by_set.values():
                if native.name == name:
                    native.unsettle()
        self._records[name] = record

    def take(self, said: Statement, now_ns: int) -> bool:
        """Take a message of the topic; tell whether entries have to be written again."""
        changed = self.table.take(said, self.interval_s, now_ns)
        if changed and said.sidecar and self._is_rest_wrong(changed, now_ns):
            return True
        if said.broker == REST or said.broker in self._stood_in_for:
            return not said.sidecar
        if said.broker != self.own_url:
            return False
        # An entry that looks like a sidecar's may be forged as well; its content decides.
        return not said.sidecar or any(
            said.amounts.get(native.name, native.entry) != native.entry
            for native in self.by_set.values()
            if native.name in self._written
        )

    def broker_started(self, now_ns: int) -> None:
        """Take the news that the own broker is a new process."""
        self._broker_started_ns = now_ns
        self.table.broker_started(self.own_url)
        self.early.broker_started(self._names(), self.interval_s, now_ns)

    def count(
        self, counts: Mapping[str, NamespaceCount], elapsed_ns: int, now_ns: int
    ) -> dict[str, tuple[int, int]]:
        """Take a poll of the broker's counters; return producers and consumers by group, as of now."""
        totals: dict[GroupSet, NamespaceCount] = {}
        self._publishing = frozenset(name for name, count in counts.items() if count.messages)
        for namespace, count in counts.items():
            groups = self.homes.all.get(namespace)
            if groups is None:
                continue
            totals.setdefault(groups, NamespaceCount()).add(count)
            if namespace in self.homes.namespaces:
                self._namespaces.setdefault(namespace, NamespaceCount()).add(count)
        if self.early.is_expected:
            sets = self.homes.namespaces
            loaded = {name: name_of(sets[name]) for name in counts if name in sets}
            self.early.poll(loaded, lambda name: self.table.names(self.own_url, name), now_ns)
        for groups, native in self.by_set.items():
            native.counted(totals.get(groups, NamespaceCount()), elapsed_ns, now_ns)
        connected: dict[str, tuple[int, int]] = {}
        for groups, total in totals.items():
            for group in groups:
                producers, consumers = connected.get(group, (0, 0))
                connected[group] = producers + total.producers, consumers + total.consumers
        return connected

    # What is asked.

    def doubted(self, now_ns: int) -> tuple[str, ...]:
        """Return the brokers that this sidecar has to ask whether they are there; it is the first."""
        if not self._written or not self.table.is_first(self.own_url, now_ns):
            return ()
        found = self.table.doubted(self.interval_s, now_ns)
        return tuple(name for name in found if name != self.own_url)

    def writes(self) -> bool:
        """Whether it writes its broker's row."""
        return bool(self._written)

    def records(self) -> dict[str, Record]:
        """Return the records as they should be in Pulsar."""
        record, interval_s = self.wholes.record, self.interval_s
        return {each.name: record(groups, interval_s) for groups, each in self._published.items()}

    def least_records(self) -> dict[str, Record]:
        """Return the lowest records under which the limits can be reached."""
        record, interval_s = self.wholes.least_record, self.interval_s
        return {each.name: record(groups, interval_s) for groups, each in self._published.items()}

    def attachments(self) -> dict[str, str]:
        """Return the native group that each namespace should be attached to in Pulsar."""
        return {namespace: name_of(groups) for namespace, groups in self.homes.namespaces.items()}

    def is_used(self, name: str, now_ns: int) -> bool:
        """Return whether messages are published to a native group, here or elsewhere, or may be.

        After a start that is known once every broker had the time to report.
        """
        listened_ns = 0 if self._started_ns is None else now_ns - self._started_ns
        if listened_ns <= speaks_within_ns(self.interval_s):
            return True
        here = any(
            native.name == name
            and any(pacer.rate or pacer.held_permille for pacer in native.pacers)
            for native in self._published.values()
        )
        return here or self.table.is_used_by_others(self.own_url, name, self.interval_s, now_ns)

    def forgotten(self, attached_ns: Mapping[str, int], now_ns: int) -> frozenset[str]:
        """Return the native groups of which a broker knows no attachment, though there is one.

        A broker names every group that it knows an attachment of in each of its reports, and says
        nothing if it knows none. Asked are the own broker, and those stood in for while they speak.

        Args:
            attached_ns: by native group, since when a namespace has been attached to it.
            now_ns: the time.
        """
        if self.table.age_ns(self.own_url, now_ns) > WRITES_WITHIN_NS:
            return frozenset()  # it hears nothing, not even itself
        speaking = self.table.speaking(self._stood_in_for, self.interval_s, now_ns)
        brokers = {self.own_url, *speaking}
        known_ns = {
            group: max(at_ns, self._broker_started_ns) for group, at_ns in attached_ns.items()
        }
        return self.table.forgotten(brokers, known_ns, self.interval_s, now_ns)

    def collect(self, now_ns: int) -> tuple[Traffic, ...]:
        """Return the traffic since the last call, of every group with participants or news."""
        return of_groups(self.by_set.values(), now_ns)

    def namespace_traffic(self) -> tuple[NamespaceTraffic, ...]:
        """Return the counts of each namespace since the last call, poll by poll."""
        found, self._namespaces = self._namespaces, {}
        return of_namespaces(found, self.homes.namespaces)

    def decide(self, now_ns: int) -> None:
        """Compute the parts and entries from the present facts."""
        wants: list[dict[GroupSet, int | None]] = [{}, {}]
        for groups, native in self._published.items():
            for unit, pacer in enumerate(native.pacers):
                rate = pacer.rate * _WANTS_PERMILLE // 1000
                wants[unit][groups] = None if pacer.held_permille else rate
        messages = split(self._local_now(Dimension.PUBLISH_MESSAGES, now_ns), wants[0])
        bytes_ = split(self._local_now(Dimension.PUBLISH_BYTES, now_ns), wants[1])
        for groups, native in self._published.items():
            parts = messages[groups], bytes_[groups]
            native.set_parts(parts, self._scales(native), now_ns)
            target = native.target()
            scaled = Amounts(*(rate * self._entry_permille // WHOLE for rate in target))
            native.entry = entry_of(scaled, self.interval_s)
            if not self.behind_gate and self.wholes.takes_turns(groups, self.interval_s):
                native.entry = in_turn(native.entry, self.interval_s, now_ns)

    def to_write(self, now_ns: int) -> Iterator[tuple[str, Mapping[str, Amounts]]]:
        """Yield the rows to write now, by broker; the own one always."""
        if not self.own_url:
            return
        own = {
            native.name: native.entry
            for native in self._published.values()
            if self._is_told(native) and self._takes_over(native, now_ns)
        }
        gone = dict.fromkeys(self._written - own.keys(), NOTHING)
        self._written = set(own)
        if own or gone:
            yield self.own_url, {**gone, **own}
        if not self.writes():
            self._stood_in_for = frozenset()
            return
        kept = self._rest_to_write(now_ns)
        if kept:
            yield REST, kept
        for broker in tuple(self.table.dead(self.interval_s, now_ns)):
            if broker != self.own_url:
                yield broker, dict.fromkeys(self.table.groups_of(broker), NOTHING)
        entries = {
            native.name: native.entry
            for native in self._published.values()
            if native.name in self._written
        }
        stood_in_for = dict(
            rows_to_stand_in_for(self.table, self.own_url, entries, self.interval_s, now_ns)
        )
        self._stood_in_for = frozenset(stood_in_for)
        yield from stood_in_for.items()

    def names(self, groups: Collection[str] | None = None) -> list[str]:
        """Return the native groups, or those that stand for any of these groups."""
        asked = None if groups is None else frozenset(groups)
        return [
            native.name
            for native in self.by_set.values()
            if asked is None or not asked.isdisjoint(native.groups)
        ]

    def views(self, names: Collection[str] | None = None) -> tuple[NativeView, ...]:
        """Return the present state of these native groups, or of every one."""
        wanted = self.by_set
        if names is not None:
            asked = frozenset(names)
            wanted = {groups: each for groups, each in wanted.items() if each.name in asked}
        namespaces: dict[GroupSet, list[str]] = {}
        for namespace, groups in self.homes.namespaces.items():
            if groups in wanted:
                namespaces.setdefault(groups, []).append(namespace)
        record, interval_s = self.wholes.record, self.interval_s
        return tuple(
            native.view(
                tuple(namespaces.get(groups, ())),
                record=record(groups, interval_s) if groups in self._published else _NO_RECORD,
                record_seen=self._records.get(native.name),
                others=self.table.others(self.own_url, native.name),
                rest=self.table.of(REST, native.name),
            )
            for groups, native in wanted.items()
        )

    def overflowing(self) -> dict[str, str]:
        """Return the namespaces whose native groups let more pass here than the broker's limiter would.

        Of these groups, those that were published to at the last poll; each with its native group.
        """
        over = {native.name for native in self._published.values() if native.overflows_now}
        return {
            namespace: name
            for namespace in self._publishing
            if (groups := self.homes.namespaces.get(namespace))
            and (name := name_of(groups)) in over
        }

    # Within.

    def _resolve(self) -> None:
        self.by_set = {
            groups: self.by_set.get(groups) or NativeGroup(groups, self.interval_s)
            for groups in self.homes.all.values()
        }
        self._published = {groups: self.by_set[groups] for groups in self.homes.namespaces.values()}
        self.table.set_groups(self._names())

    def _takes_over(self, native: NativeGroup, now_ns: int) -> bool:
        """Return whether the first entry of a group may be written, or one was."""
        if native.name in self._written or self.behind_gate:
            return True
        if self._started_ns is None:
            return False
        if not self._inherited.issuperset(native.groups):
            return True
        waited_ns = now_ns - self._started_ns
        if self.table.spoke_ns(self.own_url) is None:
            return waited_ns > _HEARD_WITHIN_NS * self.interval_s
        row = self.table.of(self.own_url, native.name)
        takes_little = all(
            entry * WHOLE >= present * _KEPT_PERMILLE
            for entry, present in zip(native.entry, row, strict=True)
        )
        return takes_little or waited_ns > _TAKES_OVER_WITHIN_NS

    def _names(self) -> frozenset[str]:
        return frozenset(native.name for native in self._published.values())

    def _is_told(self, native: NativeGroup) -> bool:
        """Return whether the local limits of all its groups are known."""
        return all(group in self._limits for group in native.groups)

    def local(self, dimension: Dimension) -> dict[str, Rate]:
        """Return the local limits of one dimension, of the groups that have one."""
        rates = {group: limits.of(dimension) for group, limits in self._limits.items()}
        return {group: rate for group, rate in rates.items() if rate is not None}

    def _local_now(self, dimension: Dimension, now_ns: int) -> dict[str, int]:
        return {
            group: whole_now(rate, self.interval_s, now_ns)
            for group, rate in self.local(dimension).items()
        }

    def _scales(self, native: NativeGroup) -> tuple[int, int]:
        record = self._records.get(native.name)
        if record is None:
            return WHOLE, WHOLE
        others = self.table.others(self.own_url, native.name)
        kept = self.table.of(REST, native.name)
        messages, bytes_ = (
            scale(capacity, own + other + rest_here, self.interval_s)
            for capacity, own, other, rest_here in zip(
                capacity_of(record, self.interval_s), native.entry, others, kept, strict=True
            )
        )
        return messages, bytes_

    def _is_rest_wrong(self, names: frozenset[str], now_ns: int) -> bool:
        """Return whether it is this sidecar that has to correct the rest of any of these groups."""
        if not self._written or not self.table.is_first(self.own_url, now_ns):
            return False
        rests = (
            (self._rest_of(native, now_ns), self.table.of(REST, native.name))
            for native in self._published.values()
            if native.name in names
        )
        return any(wanted is not None and differ(wanted, seen) for wanted, seen in rests)

    def _rest_to_write(self, now_ns: int) -> dict[str, Amounts]:
        wanted: dict[str, Amounts] = {}
        is_wrong = False
        for native in self._published.values():
            seen = self.table.of(REST, native.name)
            wanted_rest = self._rest_of(native, now_ns)
            if wanted_rest is None:
                continue
            if any(wanted_rest) or any(seen):
                wanted[native.name] = wanted_rest
            is_wrong = is_wrong or differ(wanted_rest, seen)
        is_old = self.table.age_ns(REST, now_ns) > _REST_AGE_NS
        return wanted if is_wrong or (is_old and any(map(any, wanted.values()))) else {}

    def _rest_of(self, native: NativeGroup, now_ns: int) -> Amounts | None:
        """Return the room in its record beyond all entries; None while that is unknown."""
        record = self._records.get(native.name)
        if record is None or native.name not in self._written:
            return None
        others = self.table.others(self.own_url, native.name)
        if self.wholes.is_of_a_tree(native.groups):
            most: tuple[int | None, int | None] = self._steered(native, others, now_ns)
        else:
            room = self.wholes.room(native.groups)
            most = used(room, self.table.members, self.interval_s)
        amounts = [
            rest(capacity, whole, own + other, self.interval_s)
            for capacity, whole, own, other in zip(
                capacity_of(record, self.interval_s), most, native.entry, others, strict=True
            )
        ]
        return Amounts(*amounts)

    def _steered(self, native: NativeGroup, others: Amounts, now_ns: int) -> tuple[int, int]:
        """Return what the entries of all sidecars stand for, per second: the group's part of its tree."""
        orphans = [
            self.table.of(broker, native.name)
            for broker in self.table.orphans(self.interval_s, now_ns)
            if broker != self.own_url
        ]
        messages, bytes_ = (
            -(-(own + other - sum(orphan[unit] for orphan in orphans)) // self.interval_s)
            for unit, (own, other) in enumerate(zip(native.entry, others, strict=True))
        )
        return messages, bytes_
