"""Every broker's table, as far as the topic shows it, and the writers of its rows.

A broker's row holds the last entry written in its name. There are three kinds of writers: the broker
itself (at most five intervals apart, with traffic or without), a sidecar, and *strangers*: other
processes that write in a broker's name. A broker's report within a second of a sidecar's entry is written
over at once, so the row keeps the entry: a rest that makes up for a report, which covers a part of an
interval or several of them, would outlive writers that die at that moment. What a stranger writes is in
the row, so that it is noticed wherever it was written. Rows never expire at the brokers, so the row of a
broker which is gone has to be set to 0, and again each second for two minutes: a broker that was not
connected to the topic meanwhile did not hear it.

A broker is *silent* when it has not reported itself for longer than the five intervals in which it must,
or when it refused a connection since it did. Silence of fewer intervals tells nothing: a broker whose use
does not move reports once in five. Taken for dead after two, one whose sidecar had died passed 23 % of
its part for some seconds, again and again, by the simulation.
A broker without a live sidecar is *dead* when it is silent, and an *orphan* while it is not. One whose
sidecar lives, as far as the membership says, and has written nothing for a second is *stalled*: its
sidecar has just died, stands still, or has started and does not write yet. Without an entry each report
of such a broker would lower its next quota, so another sidecar *stands in* (standing_in.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.entries import NOTHING, Amounts

REST: Final = "pulsar-quota-rest"
"""The name in which the rest is written; no broker has it."""

SPEAKS_WITHIN: Final = 5
"""Intervals within which a broker reports itself, with traffic or without; `GRACE_NS` for the way."""

GRACE_NS: Final = 1_000_000_000
WRITES_WITHIN_NS: Final = 1_000_000_000
"""A sidecar writes five times a second."""

_ASKED_AFTER_INTERVALS: Final = 1
"""A broker that has not reported for longer, and that no sidecar steers, is asked whether it is there."""

_NAMED_WITHIN: Final = 2
"""Intervals within which a broker names a group that a namespace is attached to."""

_STRANGERS_MAX: Final = 100
_STRANGER_TOLD_NS: Final = 60_000_000_000
_ZEROED_NS: Final = 120_000_000_000
"""A broker looks for the topic of entries again within a minute, the client's longest wait. Until then it
counts a dead broker's entry, so the zero is repeated: a cluster whose topic's own broker died would pass
86 % of the limit until that broker is back, by the simulated story of the demo."""

_ROWS_MAX: Final = 4_096
"""A producer on the topic can invent names; those that were silent longest are forgotten."""

_UNKNOWN_MAX: Final = 20_000
"""Amounts of groups that are not known here, in all rows together; further ones are not kept.

They are kept because a group may become known after its entries. Those that were not are written again
within a second by sidecars, and within `SPEAKS_WITHIN` intervals by brokers.
"""

_NAME_MAX: Final = 1_024
"""Characters of the name of a group that is not known here and kept."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One message of the topic.

    Args:
        broker: the url in whose name it is.
        amounts: amounts of an interval, by native group; those that do not change are left out.
        sidecar: the id of the sidecar that wrote it; empty if no sidecar did.
        producer: the name of the producer that wrote it.
        skew_ns: the delay of its arrival, by the sender's statement.
        stands_in: whether that sidecar is another broker's.
        named: all groups of the message; a broker names each group that it knows an attachment of, and
            leaves out the amounts of those that did not change.
        has_gate: whether that sidecar has a gate, too.
    """

    broker: str
    amounts: Mapping[str, Amounts]
    sidecar: str = ""
    producer: str = ""
    skew_ns: int = 0
    stands_in: bool = False
    named: frozenset[str] = frozenset()
    has_gate: bool = False


@dataclass(slots=True)
class _Row:
    amounts: dict[str, Amounts] = field(default_factory=dict)
    #: The amounts that the broker itself last reported, and when.
    reported: dict[str, tuple[Amounts, int]] = field(default_factory=dict)
    #: The time of the broker's own last report, and its producer; None is never.
    spoke_ns: int | None = None
    producer: str = ""
    #: Its sidecar; empty if it has none, or one that left the membership and has not written since.
    sidecar: str = ""
    has_gate: bool = False
    #: When it last refused a connection; None is never.
    refused_ns: int | None = None
    #: The amounts that its sidecar last wrote, and when.
    entries: dict[str, Amounts] = field(default_factory=dict)
    written_ns: int = 0
    #: By group, when a sidecar last wrote its amounts, the broker's own or one that stands in.
    steered_ns: dict[str, int] = field(default_factory=dict)
    #: The groups that the broker's own last report named, of those that are known here.
    named: frozenset[str] = frozenset()
    seen_ns: int = 0
    began_ns: int = 0
    #: When a sidecar first wrote zeros in the name of a dead broker; None if it is not dead.
    zeroed_ns: int | None = None

    def forget(self, groups: Iterable[str]) -> None:
        """Forget all that is known of these groups."""
        for group in groups:
            for known in (self.amounts, self.reported, self.entries, self.steered_ns):
                known.pop(group, None)

    def is_steered(self, group: str, now_ns: int) -> bool:
        """Return whether a sidecar has just written its amounts of a group, and will again."""
        steered_ns = self.steered_ns.get(group)
        return steered_ns is not None and now_ns - steered_ns <= WRITES_WITHIN_NS


@dataclass(frozen=True, slots=True)
class Stranger:
    """A process that writes in a broker's name and is neither that broker nor a sidecar."""

    broker: str
    producer: str
    seen_ns: int


class Table:
    """The table, built from the same messages as the brokers'."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._strangers: dict[tuple[str, str], int] = {}
        self._members: frozenset[str] = frozenset()
        self._groups: frozenset[str] = frozenset()
        #: The broker and group of each amount of a group that is not known here.
        self._unknown: set[tuple[str, str]] = set()

    def take(self, said: Statement, interval_s: int, now_ns: int) -> frozenset[str]:
        """Take a message of the topic; return the known groups whose amounts it changed."""
        row = self._rows.get(said.broker)
        if row is None:
            row = self._add(said.broker, now_ns)
        before = {group: row.amounts.get(group, NOTHING) for group in said.amounts}
        self._update(row, said, interval_s, now_ns)
        return frozenset(
            group
            for group, amounts in before.items()
            if group in self._groups and row.amounts.get(group, NOTHING) != amounts
        )

    def _update(self, row: _Row, said: Statement, interval_s: int, now_ns: int) -> None:
        amounts_by_group = self._kept(said)
        row.seen_ns = now_ns
        if said.sidecar:
            row.amounts.update(amounts_by_group)
            if said.broker == REST:
                return
            row.steered_ns.update(dict.fromkeys(amounts_by_group, now_ns))
            if not said.stands_in:
                row.sidecar, row.has_gate = said.sidecar, said.has_gate
                row.entries.update(amounts_by_group)
                row.written_ns = now_ns
            return
        # A broker has one producer; while that one reports, another is a stranger's. The rest has none.
        heard = row.spoke_ns is not None and now_ns - row.spoke_ns <= speaks_within_ns(interval_s)
        if said.broker == REST or (heard and row.producer != said.producer):
            row.amounts.update(amounts_by_group)
            self._strangers[said.broker, said.producer] = now_ns
            if len(self._strangers) > _STRANGERS_MAX:
                del self._strangers[next(iter(self._strangers))]
            return
        row.amounts.update(
            (group, amounts)
            for group, amounts in amounts_by_group.items()
            if not row.is_steered(group, now_ns)
        )
        row.spoke_ns, row.producer = now_ns, said.producer
        row.named = said.named & self._groups
        row.reported.update(
            (group, (amounts, now_ns)) for group, amounts in amounts_by_group.items()
        )

    def _kept(self, said: Statement) -> dict[str, Amounts]:
        """Return the amounts of known groups, and of others as far as there is room."""
        kept = {}
        for group, amounts in said.amounts.items():
            if group not in self._groups and (said.broker, group) not in self._unknown:
                if len(self._unknown) >= _UNKNOWN_MAX or len(group) > _NAME_MAX:
                    continue
                self._unknown.add((said.broker, group))
            kept[group] = amounts
        return kept

    def set_groups(self, names: frozenset[str]) -> None:
        """Take the names of all native groups; of others that reports name a bounded number is kept.

        Those of them whose amounts are 0 are forgotten, as are groups that were deleted.
        """
        self._groups = names
        for row in self._rows.values():
            row.forget([g for g, each in row.amounts.items() if g not in names and not any(each)])
        self._unknown = {
            (broker, group)
            for broker, row in self._rows.items()
            for group in row.amounts
            if group not in names
        }

    def broker_started(self, broker: str) -> None:
        """Take the news that a broker is a new process: with a new producer, and no group yet."""
        row = self._rows.get(broker)
        if row is not None:
            row.spoke_ns, row.producer, row.named = None, "", frozenset()

    @property
    def members(self) -> int:
        """The number of live sidecars, this one included."""
        return max(1, len(self._members))

    @property
    def is_all_native(self) -> bool:
        """Whether every live sidecar is known to write for its broker, and to have no gate."""
        writers = {row.sidecar for row in self._rows.values() if not row.has_gate}
        return bool(self._members) and self._members <= writers

    def set_members(self, ids: frozenset[str]) -> None:
        """Take the live sidecars; one that comes back steers its broker once it writes again."""
        self._members = ids
        for row in self._rows.values():
            if row.sidecar and row.sidecar not in ids:
                row.sidecar = ""
                row.entries.clear()

    def brokers(self) -> tuple[str, ...]:
        """Return all brokers that have a row."""
        return tuple(name for name in self._rows if name != REST)

    def of(self, broker: str, group: str) -> Amounts:
        """Return the amounts of a group in a broker's row."""
        row = self._rows.get(broker)
        return NOTHING if row is None else row.amounts.get(group, NOTHING)

    def groups_of(self, broker: str) -> tuple[str, ...]:
        """Return the groups in a broker's row."""
        row = self._rows.get(broker)
        return () if row is None else tuple(row.amounts)

    def others(self, own: str, group: str) -> Amounts:
        """Return the sum of all others, the rest not counted."""
        rows = [
            row.amounts.get(group, NOTHING)
            for name, row in self._rows.items()
            if name not in (own, REST)
        ]
        return Amounts(sum(row.messages for row in rows), sum(row.bytes for row in rows))

    def age_ns(self, broker: str, now_ns: int) -> int:
        """Return the age of the last message in a broker's name."""
        row = self._rows.get(broker)
        return now_ns if row is None else now_ns - row.seen_ns

    def spoke_ns(self, broker: str) -> int | None:
        """Return the time of a broker's own last report."""
        row = self._rows.get(broker)
        return None if row is None else row.spoke_ns

    def strangers(self, now_ns: int) -> tuple[Stranger, ...]:
        """Return the strangers that wrote within the last minute."""
        self._strangers = {
            key: seen for key, seen in self._strangers.items() if now_ns - seen < _STRANGER_TOLD_NS
        }
        return tuple(Stranger(*key, seen) for key, seen in self._strangers.items())

    def unsteered(self, interval_s: int, now_ns: int) -> tuple[str, ...]:
        """Return the brokers that report and have no live sidecar, once it had the time to write."""
        apart_ns = speaks_within_ns(interval_s)
        return tuple(
            name
            for name, row in self._without_sidecar()
            if row.spoke_ns is not None
            and now_ns - row.spoke_ns <= apart_ns
            and now_ns - row.began_ns > apart_ns
        )

    def dead(self, interval_s: int, now_ns: int) -> Iterator[str]:
        """Yield the brokers that are gone, and whose rows are not 0 or have to be set to 0 again."""
        for name, row in self._without_sidecar():
            if not _is_silent(row, interval_s, now_ns):
                row.zeroed_ns = None
            elif any(map(any, row.amounts.values())):
                row.zeroed_ns = now_ns
                yield name
            elif row.zeroed_ns is not None and (
                now_ns - row.zeroed_ns <= _ZEROED_NS and now_ns - row.seen_ns > WRITES_WITHIN_NS
            ):
                yield name

    def doubted(self, interval_s: int, now_ns: int) -> Iterator[str]:
        """Yield the brokers without a live sidecar of which it is not known whether they are there."""
        apart_ns = _ASKED_AFTER_INTERVALS * interval_s * NANOS_PER_SECOND
        for name, row in self._without_sidecar():
            is_zero = not any(map(any, row.amounts.values()))
            is_quiet = now_ns - _heard_ns(row) > apart_ns
            if not is_zero and is_quiet and not _is_silent(row, interval_s, now_ns):
                yield name

    def refuse(self, broker: str, now_ns: int) -> None:
        """Take the news that a broker refuses connections: it is gone until it reports again."""
        row = self._rows.get(broker)
        if row is not None:
            row.refused_ns = now_ns

    def orphans(self, interval_s: int, now_ns: int) -> Iterator[str]:
        """Yield the brokers that live and have no sidecar that does."""
        for name, row in self._without_sidecar():
            if row.spoke_ns is not None and not _is_silent(row, interval_s, now_ns):
                yield name

    def stalled(self, interval_s: int, now_ns: int) -> Iterator[str]:
        """Yield the brokers that live, and whose sidecar is a member and does not write."""
        for name, row in self._rows.items():
            lives = row.spoke_ns is not None and not _is_silent(row, interval_s, now_ns)
            if lives and row.sidecar in self._members and not _writes(row, now_ns):
                yield name

    def is_first(self, own: str, now_ns: int) -> bool:
        """Return whether a broker is the first by name of those whose sidecar writes.

        All sidecars know the same table. If the first one stops to write, the next is the first.
        """
        return all(own <= name for name in self.steered(now_ns))

    def steered(self, now_ns: int) -> Iterator[str]:
        """Yield the brokers whose own sidecar lives and writes."""
        return (
            name
            for name, row in self._rows.items()
            if row.sidecar in self._members and _writes(row, now_ns)
        )

    def entry(self, broker: str, group: str) -> Amounts | None:
        """Return the amounts of a group that the broker's sidecar last wrote; None if it wrote none."""
        row = self._rows.get(broker)
        return None if row is None else row.entries.get(group)

    def names(self, broker: str, group: str) -> bool:
        """Return whether the broker's own last report named a group."""
        row = self._rows.get(broker)
        return row is not None and group in row.named

    def reported(self, broker: str, group: str) -> tuple[Amounts, int | None]:
        """Return the amounts of a group that a broker itself last reported, and when; None is never."""
        row = self._rows.get(broker)
        return (NOTHING, None) if row is None else row.reported.get(group, (NOTHING, None))

    def is_used_by_others(self, own: str, group: str, interval_s: int, now_ns: int) -> bool:
        """Return whether another broker has reported use of a group of late.

        Rows do not tell: the entry of an idle broker is its part of what is left over.
        """
        since_ns = now_ns - speaks_within_ns(interval_s)
        reports = (
            row.reported[group]
            for name, row in self._rows.items()
            if name != own and group in row.reported
        )
        return any(any(amounts) and at_ns >= since_ns for amounts, at_ns in reports)

    def speaking(self, brokers: Iterable[str], interval_s: int, now_ns: int) -> Iterator[str]:
        """Yield those of some brokers that have just reported, as they do with traffic."""
        within_ns = _NAMED_WITHIN * interval_s * NANOS_PER_SECOND + GRACE_NS
        for name in brokers:
            spoke_ns = self.spoke_ns(name)
            if spoke_ns is not None and now_ns - spoke_ns <= within_ns:
                yield name

    def forgotten(
        self,
        brokers: Collection[str],
        attached_ns: Mapping[str, int],
        interval_s: int,
        now_ns: int,
    ) -> frozenset[str]:
        """Return the groups that any of some brokers did not name in its last report.

        One that was named stays so while nothing is heard, as when the broker that serves the topic died.

        Args:
            brokers: that are asked.
            attached_ns: by native group, since when a namespace has been attached to it.
            interval_s: interval of the topic.
            now_ns: the time.
        """
        within_ns = _NAMED_WITHIN * interval_s * NANOS_PER_SECOND + GRACE_NS
        due = {group for group, since_ns in attached_ns.items() if now_ns - since_ns > within_ns}
        return frozenset(
            group for group in due if not all(self.names(name, group) for name in brokers)
        )

    def _without_sidecar(self) -> Iterator[tuple[str, _Row]]:
        return (
            (name, row)
            for name, row in self._rows.items()
            if name != REST and row.sidecar not in self._members
        )

    def _add(self, broker: str, now_ns: int) -> _Row:
        if len(self._rows) >= _ROWS_MAX:
            oldest = min(self._rows, key=lambda name: self._rows[name].seen_ns)
            for group in self._rows.pop(oldest).amounts:
                self._unknown.discard((oldest, group))
        row = self._rows[broker] = _Row(seen_ns=now_ns, began_ns=now_ns)
        return row


def speaks_within_ns(interval_s: int) -> int:
    """Return the time within which each broker reports itself."""
    return SPEAKS_WITHIN * interval_s * NANOS_PER_SECOND + GRACE_NS


def _writes(row: _Row, now_ns: int) -> bool:
    return now_ns - row.written_ns <= WRITES_WITHIN_NS


def _heard_ns(row: _Row) -> int:
    return row.seen_ns if row.spoke_ns is None else row.spoke_ns


def _is_silent(row: _Row, interval_s: int, now_ns: int) -> bool:
    heard_ns = _heard_ns(row)
    if row.refused_ns is not None and row.refused_ns >= heard_ns:
        return True
    return now_ns - heard_ns > speaks_within_ns(interval_s)
