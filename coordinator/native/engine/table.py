"""Every broker's table, as far as the topic shows it, and the writers of its rows.

A broker's row holds the last entry written in its name. There are three kinds of writers: the broker
itself (at most five intervals apart, with traffic or without), a sidecar, and *strangers*: other
processes that write in a broker's name. Rows never expire at the brokers, so the row of a broker which is
gone has to be set to 0.

A broker is *silent* when it has not reported itself for longer than the five intervals in which it must.
One that was never a member is considered dead then; one whose sidecar has left the membership already
after two, since it reports about once an interval while it has traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.entries import NOTHING, Amounts

REST: Final = "pulsar-quota-rest"
"""The name in which the rest is written; no broker has it."""

_GRACE_NS: Final = 1_000_000_000
_SPEAKS_WITHIN: Final = 5
_SILENT_INTERVALS: Final = 2
_STRANGERS_MAX: Final = 100
_STRANGER_TOLD_NS: Final = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Statement:
    """One message of the topic.

    Args:
        broker: the url in whose name it is.
        amounts: amounts of an interval, by native group; those that do not change are left out.
        sidecar: the id of the sidecar that wrote it; empty if no sidecar did.
        producer: the name of the producer that wrote it.
        skew_ns: the delay of its arrival, by the sender's statement.
    """

    broker: str
    amounts: Mapping[str, Amounts]
    sidecar: str = ""
    producer: str = ""
    skew_ns: int = 0


@dataclass(slots=True)
class _Row:
    amounts: dict[str, Amounts] = field(default_factory=dict)
    #: The time of the broker's own last report, and its producer; None is never.
    spoke_ns: int | None = None
    producer: str = ""
    #: The sidecar that writes in its name.
    sidecar: str = ""
    seen_ns: int = 0
    began_ns: int = 0


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

    def take(self, said: Statement, interval_s: int, now_ns: int) -> None:
        """Take a message of the topic."""
        row = self._rows.setdefault(said.broker, _Row(seen_ns=now_ns, began_ns=now_ns))
        row.amounts.update(said.amounts)
        row.seen_ns = now_ns
        if said.sidecar:
            if said.broker != REST:
                row.sidecar = said.sidecar
            return
        # A broker has one producer; while that one reports, another one is a stranger's.
        apart_ns = _SPEAKS_WITHIN * interval_s * NANOS_PER_SECOND + _GRACE_NS
        heard = row.spoke_ns is not None and now_ns - row.spoke_ns <= apart_ns
        if heard and row.producer != said.producer:
            self._strangers[said.broker, said.producer] = now_ns
            if len(self._strangers) > _STRANGERS_MAX:
                del self._strangers[next(iter(self._strangers))]
            return
        row.spoke_ns, row.producer = now_ns, said.producer

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

    def unsteered(self, members: frozenset[str], interval_s: int, now_ns: int) -> tuple[str, ...]:
        """Return the brokers that report and that no member steers, once they had the time to be.

        Args:
            members: ids of the sidecars that are alive.
            interval_s: of the topic.
            now_ns: the time.
        """
        apart_ns = _SPEAKS_WITHIN * interval_s * NANOS_PER_SECOND + _GRACE_NS
        return tuple(
            name
            for name, row in self._rows.items()
            if name != REST
            and row.sidecar not in members
            and row.spoke_ns is not None
            and now_ns - row.spoke_ns <= apart_ns
            and now_ns - row.began_ns > apart_ns
        )

    def dead(self, members: frozenset[str], interval_s: int, now_ns: int) -> Iterator[str]:
        """Yield the brokers that are gone and whose rows are not 0.

        Args:
            members: ids of the sidecars that are alive.
            interval_s: of the topic.
            now_ns: the time.
        """
        for name, row in self._rows.items():
            if name == REST or row.sidecar in members or not any(map(any, row.amounts.values())):
                continue
            intervals = _SILENT_INTERVALS if row.sidecar else _SPEAKS_WITHIN
            silent_ns = intervals * interval_s * NANOS_PER_SECOND + _GRACE_NS
            heard_ns = row.seen_ns if row.spoke_ns is None else row.spoke_ns
            if now_ns - heard_ns > silent_ns:
                yield name
