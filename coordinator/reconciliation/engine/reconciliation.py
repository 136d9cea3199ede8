"""Reconciliation of one broker: the account of every namespace and class, and what escaped of it.

Nothing is exempt by its name. Brokers themselves write a little without a client, to any namespace: 175
bytes for a change of a topic's policies, 80 bytes for a health check, as much again for each broker
that reads it; and compaction reads its topic twice, by a subscription that any client may name (4.2.4).
This is counted and shown like all else; what is below `SMALL`, a stated rate, is no condition.
The row `BUS` is no condition, as all its traffic goes round gates by design: what others than sidecars
publish there is dropped and told by the alert ForeignReports.

Bounds: at most `ACCOUNTS_MAX` accounts; an idle one makes room for a new one, and a row without room is
not reconciled and counted (`left_out`). At most `SERIES_MAX` rows have totals of their own; what
escapes in further ones is told as `OTHERS`, without a condition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from coordinator.core.model import Attachments, MonitoringClass
from coordinator.insight.model.conditions import Condition, ConditionKind
from coordinator.insight.model.printable import printable
from coordinator.insight.model.reconciliation_views import (
    EscapedTraffic,
    EscapeView,
    UncountedView,
)
from coordinator.reconciliation.engine.account import NamespaceAccount, Rate
from coordinator.reconciliation.engine.counting import (
    BUS,
    ENDED,
    ENDED_ROW,
    GATE_FORGOT,
    NOTHING,
    GateBook,
    Increases,
    Row,
    Volume,
)

ACCOUNTS_MAX: Final = 20_000
"""The most accounts: two for each of 10,000 namespaces."""

SERIES_MAX: Final = 1_000
"""The most rows with totals of their own."""

SMALL: Final = 1_000
"""Bytes per second below which escaped traffic is no condition; brokers write some themselves."""

STEP: Final = 200
"""Accounts that are read before other tasks run: about 2 ms."""

OTHERS: Final = "(others)"
"""Stands for all further namespaces; no name in Pulsar has parentheses."""

FIX: Final = (
    "give clients the gates' addresses, and close the broker's own port to all but brokers and sidecars; "
    "docs/ways.md says how for proxies, WebSocket and Functions, and how compaction looks"
)
_UNCOUNTED_FIX: Final = (
    "list the namespace's topics and their subscriptions (pulsar-admin topics), and delete these"
)
_UNCOMPARED: Final = (GATE_FORGOT, ENDED)
_IN_WORDS: Final = {
    MonitoringClass.PUBLISH: "published to",
    MonitoringClass.DISPATCH: "dispatched from",
}


def sentence_of(row: Row, rate: Rate) -> str:
    """Return what escapes, in words for operators."""
    namespace, monitoring_class = row
    return (
        f"{rate.bytes:,.0f} bytes/s ({rate.messages:,.0f} messages/s) {_IN_WORDS[monitoring_class]} "
        f"{namespace} go round the gate"
    )


def uncounted_view(namespace: str) -> UncountedView:
    """Return a namespace of which the broker's metrics miss topics, in words that are safe to show."""
    name = printable(namespace)
    return UncountedView(
        namespace=name,
        sentence=f"topics or subscriptions of {name} have names that the broker's metrics cannot hold "
        "(a line feed, or a backslash at the end), so traffic of theirs round the gate is not seen",
        fix=_UNCOUNTED_FIX,
    )


class _Span(NamedTuple):
    """The time of a reading: that of the one before, its own, and how long the broker's answer took."""

    since_ns: int | None
    now_ns: int
    took_ns: int

    @property
    def elapsed_ns(self) -> int:
        return 0 if self.since_ns is None else self.now_ns - self.since_ns


@dataclass(slots=True)
class Reconciliation:
    """Every account.

    Args:
        broker: the broker's name.
        cluster_group: the group that all traffic counts against; empty is none.
        accounts_max: the most accounts.
        series_max: the most rows with totals of their own.
    """

    broker: str
    cluster_group: str = ""
    accounts_max: int = ACCOUNTS_MAX
    series_max: int = SERIES_MAX
    attachments: Attachments = field(default_factory=Attachments)
    readings: int = 0
    #: Rows of the last reading that had no room.
    left_out: int = 0
    #: Namespaces, in order, of which the last reading missed topics.
    uncounted: tuple[str, ...] = ()
    _accounts: dict[Row, NamespaceAccount] = field(default_factory=dict)
    _gate: GateBook = field(default_factory=GateBook)
    _read_ns: int | None = None
    #: The reading that last looked for idle accounts: each looks over all of them once at most.
    _made_room: int = 0
    #: What escaped since the start, by row; further ones are `OTHERS`.
    _totals: dict[Row, Volume] = field(default_factory=dict)
    #: What of it was taken to be recorded.
    _recorded: dict[Row, Volume] = field(default_factory=dict)
    #: The rates of the rows in which it goes on.
    _rates: dict[Row, Rate] = field(default_factory=dict)

    @property
    def reconciled(self) -> int:
        """The number of accounts."""
        return len(self._accounts)

    def read(
        self,
        broker: Increases,
        gate_totals: Mapping[Row, Volume],
        *,
        took_ns: int,
        now_ns: int,
        uncounted: Collection[str] = (),
    ) -> Iterator[None]:
        """Take a reading, in steps of `STEP` accounts; it is taken when the iterator ends.

        Args:
            broker: the increases that the broker counted.
            gate_totals: the gate's counters, read after the broker's.
            took_ns: the time that the broker's answer took.
            now_ns: the time.
            uncounted: namespaces of which the broker's answer misses topics.
        """
        self.uncounted = tuple(sorted(uncounted))
        span = _Span(self._read_ns, now_ns, took_ns)
        self._read_ns = now_ns
        self.readings += 1
        self.left_out = 0
        gate = self._gate.read(gate_totals)
        #: Dispatched as far as the gate and the accounts of dispatch know.
        known: Volume | None = NOTHING
        named = broker.keys() | gate.keys() | self._accounts.keys()
        for number, row in enumerate(sorted(named, key=_name), 1):
            if not number % STEP:
                yield
            passed = gate.get(row, NOTHING)
            risen = NOTHING
            if row[0] not in _UNCOMPARED:
                risen = self._read_row(row, broker.get(row, NOTHING), passed, span)
            if row[1] is MonitoringClass.DISPATCH and row[0] != GATE_FORGOT and known is not None:
                known = None if passed is None else known.plus(passed).plus(risen)
        if ENDED_ROW in broker:
            in_bytes = None if known is None else Volume(0, known.bytes)
            self._read_row(ENDED_ROW, broker[ENDED_ROW], in_bytes, span)

    def _read_row(
        self, row: Row, broker: Volume | None, gate: Volume | None, span: _Span
    ) -> Volume:
        """Read one account; return by how much its escaped traffic rose, told or not."""
        account = self._accounts.get(row) or self._open(row, span.since_ns)
        if account is None:
            return NOTHING
        before = account.risen
        escaped = account.read(
            broker, gate, elapsed_ns=span.elapsed_ns, took_ns=span.took_ns, now_ns=span.now_ns
        )
        if escaped != NOTHING:
            self._tell(row, escaped)
        self._rates.pop(row, None)
        goes_on = account.goes_on(span.elapsed_ns, span.now_ns)
        rate = account.rate() if goes_on else Rate()
        if rate.bytes >= SMALL and row in self._totals:
            self._rates[row] = rate
        return account.risen.less(before)

    def escapes(self) -> Iterator[EscapeView]:
        """Yield every row that escaped, the largest rate first."""
        for row in sorted(self._totals, key=lambda row: (-self._rate(row).bytes, _name(row))):
            rate, total = self._rate(row), self._totals[row]
            yield EscapeView(
                namespace=row[0],
                monitoring_class=row[1],
                escaping=row in self._rates and row[0] != BUS,
                messages_per_second=round(rate.messages, 1),
                bytes_per_second=round(rate.bytes, 1),
                messages=total.messages,
                bytes=total.bytes,
                sentence=sentence_of(row, rate),
                fix=FIX,
            )

    def to_record(self) -> tuple[EscapedTraffic, ...]:
        """Return what escaped since the last call, by row."""
        found = []
        for (namespace, monitoring_class), total in self._totals.items():
            row = namespace, monitoring_class
            since = total.less(self._recorded.get(row, NOTHING))
            if since != NOTHING:
                groups = self._groups_of(namespace)
                found.append(EscapedTraffic(namespace, groups, monitoring_class, *since))
        self._recorded = dict(self._totals)
        return tuple(found)

    def conditions(self, _now_ns: int) -> Iterator[Condition]:
        """Yield the conditions that hold as of the last reading."""
        kind = ConditionKind.TRAFFIC_ROUND_THE_GATE
        for row, rate in self._rates.items():
            if row[0] != BUS:
                subject = f"{self.broker} {row[0]} {row[1].value}"
                yield Condition(kind, subject, f"{self.broker}: {sentence_of(row, rate)}")
        for namespace in self.uncounted:
            sentence = f"{self.broker}: {uncounted_view(namespace).sentence}"
            yield Condition(kind, f"{self.broker} {namespace} uncounted", sentence)

    def rates(self) -> Mapping[Row, Rate]:
        """Return the rates that escape now, by resource group and class."""
        found: dict[Row, Rate] = {}
        for (namespace, monitoring_class), rate in self._rates.items():
            for group in self._groups_of(namespace):
                row = group, monitoring_class
                known = found.get(row, Rate())
                found[row] = Rate(known.messages + rate.messages, known.bytes + rate.bytes)
        return found

    def sentences_of(self, group: str, monitoring_class: MonitoringClass) -> tuple[str, ...]:
        """Return what escapes now in the namespaces of a group, in words."""
        return tuple(
            sentence_of(row, rate)
            for row, rate in self._rates.items()
            if row[1] is monitoring_class and group in self._groups_of(row[0])
        )

    def _groups_of(self, namespace: str) -> tuple[str, ...]:
        tenant, _, local = namespace.partition("/")
        if not local:  # a row that stands for others
            return ()
        groups = self.attachments.groups_of(tenant, local)
        if self.cluster_group and self.cluster_group not in groups:
            return (*groups, self.cluster_group)
        return groups

    def _rate(self, row: Row) -> Rate:
        return self._rates.get(row, Rate())

    def _tell(self, row: Row, escaped: Volume) -> None:
        if row not in self._totals and len(self._totals) >= self.series_max:
            row = OTHERS, row[1]
        self._totals[row] = self._totals.get(row, NOTHING).plus(escaped)

    def _open(self, row: Row, since_ns: int | None) -> NamespaceAccount | None:
        """Return a new account, or None if there is no room for it."""
        if len(self._accounts) >= self.accounts_max and self._made_room < self.readings:
            self._made_room = self.readings
            self._accounts = {
                known: account
                for known, account in self._accounts.items()
                if known in self._rates or not account.is_idle()
            }
        if len(self._accounts) >= self.accounts_max:
            self.left_out += 1
            return None
        account = self._accounts[row] = NamespaceAccount(since_ns)
        return account


def _name(row: Row) -> tuple[str, str]:
    return row[0], row[1].value
