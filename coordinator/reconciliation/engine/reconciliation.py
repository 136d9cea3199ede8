"""Reconciliation of one broker: every namespace's account, and its escaped traffic.

A reading goes in three steps. `read` takes the increases; `suspects` names the namespaces whose rise is
beyond the uncertainty; and `tell` tells each, with the way that was found meanwhile. An excess that is
not told stays in its account and is a suspect again at the next reading.

Bounds: at most `NAMESPACES_MAX` accounts; an idle one makes room for a new one, and a namespace without
room is not reconciled and counted (`ReconciliationState.left_out`). At most `SERIES_MAX` namespaces have
totals of their own; the escaped traffic of further ones is told as `OTHERS`, without an alarm or a
charge. While the gate itself counts namespaces together, as it has too many, the increases are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.core.model import Attachments
from coordinator.insight.model.alarms import AlarmCondition, AlarmKind
from coordinator.insight.model.gate_views import StrandedClient
from coordinator.insight.model.reconciliation_views import (
    EscapedTraffic,
    EscapeView,
    ReconciliationView,
)
from coordinator.reconciliation.engine.account import NamespaceAccount, Rate
from coordinator.reconciliation.engine.counting import NOTHING, GateBook, Increase, PublishedCount
from coordinator.reconciliation.engine.ways import WayFinding, stranded_view, uncounted_view

NAMESPACES_MAX: Final = 10_000
"""The most accounts."""

SERIES_MAX: Final = 1_000
"""The most namespaces with totals of their own."""

STEP: Final = 200
"""Namespaces that are read before other tasks run: about 2 ms."""

OTHERS: Final = "(others)"
"""Stands for all further namespaces; no name in Pulsar has parentheses."""

GATE_OTHERS: Final = "(others)/(others)"
"""The gate's name of the namespaces that it counts together."""

PULSARS_OWN: Final = "pulsar/system"
"""The namespace of Pulsar's own topics; brokers publish to them over their internal listener."""

_HEALTH_CHECKS: Final = re.compile(r"pulsar/(?:[^/]+/)?[^/:]+:[0-9]+")
"""A broker's own namespace, to which it publishes when it is asked for its health."""


@dataclass(frozen=True, slots=True)
class Escape:
    """One namespace in which traffic went round the gate.

    Args:
        namespace: tenant/namespace.
        total: escaped since the start.
        replicated: geo-replication's part of the difference, which is exempt.
        is_escaping: whether it goes on.
        rate: per second, while it goes on.
        finding: the most likely way.
    """

    namespace: str
    total: PublishedCount
    replicated: PublishedCount
    is_escaping: bool
    rate: Rate
    finding: WayFinding

    @property
    def sentence(self) -> str:
        """Return the sentence for operators."""
        rate = self.rate
        return (
            f"{rate.messages:,.0f} messages/s (+-{rate.uncertainty:,.0f}) of {self.namespace} go round "
            f"the gate, {self.finding.sentence}"
        )

    def view(self) -> EscapeView:
        """Return it as an answer."""
        return EscapeView(
            namespace=self.namespace,
            escaping=self.is_escaping,
            messages_per_second=round(self.rate.messages, 1),
            bytes_per_second=round(self.rate.bytes, 1),
            uncertainty=round(self.rate.uncertainty, 1),
            messages=self.total.messages,
            bytes=self.total.bytes,
            replicated_messages=self.replicated.messages,
            way=self.finding.way.value,
            sentence=self.sentence,
            fix=self.finding.way.fix,
        )


@dataclass(frozen=True, slots=True)
class ReconciliationState:
    """Reconciliation at this moment.

    Args:
        is_on: whether counters are compared at all.
        interval_s: from one reading to the next.
        readings: since the start.
        error: why the last reading failed; empty if it did not.
        reconciled: namespaces that are compared.
        left_out: namespaces that are not, as there are too many.
        charges: whether escaped traffic is charged to groups.
        escapes: the namespaces in which traffic escaped, the largest rate first.
        others: escaped in further namespaces.
        uncounted: namespaces in which the broker does not count all topics readably.
        stranded: clients that do not reach the gate though the broker serves their topic.
    """

    is_on: bool = False
    interval_s: float = 0.0
    readings: int = 0
    error: str = ""
    reconciled: int = 0
    left_out: int = 0
    charges: bool = False
    escapes: tuple[Escape, ...] = ()
    others: PublishedCount = NOTHING
    uncounted: tuple[str, ...] = ()
    stranded: tuple[StrandedClient, ...] = ()

    def view(self) -> ReconciliationView:
        """Return it as an answer."""
        return ReconciliationView(
            on=self.is_on,
            interval_seconds=self.interval_s,
            readings=self.readings,
            error=self.error,
            namespaces=self.reconciled,
            left_out=self.left_out,
            charges=self.charges,
            escapes=tuple(escape.view() for escape in self.escapes),
            other_messages=self.others.messages,
            uncounted=tuple(map(uncounted_view, self.uncounted)),
            stranded=tuple(map(stranded_view, self.stranded)),
        )


class Reconciliation:
    """Every namespace's account.

    Args:
        exempt: namespaces that are not compared, beside Pulsar's own and those of health checks.
        cluster_group: the group that all traffic counts against; empty is none.
        namespaces_max: the most accounts.
        series_max: the most namespaces with totals of their own.
    """

    def __init__(
        self,
        exempt: Collection[str] = (),
        *,
        cluster_group: str = "",
        namespaces_max: int = NAMESPACES_MAX,
        series_max: int = SERIES_MAX,
    ) -> None:
        self.exempt = frozenset(exempt) | {PULSARS_OWN, GATE_OTHERS}
        self._cluster_group = cluster_group
        self._namespaces_max = namespaces_max
        self._series_max = series_max
        self._accounts: dict[str, NamespaceAccount] = {}
        self._gate = GateBook()
        self._gate_others = NOTHING
        self._read_ns: int | None = None
        self._interval_ns = 0
        #: By namespace that escaped: the way that was found last.
        self._findings: dict[str, WayFinding] = {}
        #: By namespace: what of its total was taken to be recorded.
        self._recorded: dict[str, PublishedCount] = {}
        #: The namespaces that told something at their last reading, so that a reader sees few.
        self._escaping: dict[str, Rate] = {}
        self.attachments = Attachments()
        self.readings = 0
        self.left_out = 0
        self.others = NOTHING
        #: Namespaces, in order, of which the last reading missed topics.
        self.uncounted: tuple[str, ...] = ()

    @property
    def reconciled(self) -> int:
        """The number of accounts."""
        return len(self._accounts)

    def read(
        self,
        broker: Mapping[str, Increase],
        gate_totals: Mapping[str, PublishedCount],
        *,
        took_ns: int,
        now_ns: int,
        uncounted: Collection[str] = (),
    ) -> Iterator[None]:
        """Take a reading, in steps of `STEP` namespaces; it is taken when the iterator ends.

        Args:
            broker: the increases that the broker counted.
            gate_totals: the gate's counters, read after the broker's.
            took_ns: the time that the broker's answer took.
            now_ns: the time.
            uncounted: namespaces of which the broker's answer misses topics.
        """
        self.uncounted = tuple(sorted(frozenset(uncounted) - self.exempt))
        before_ns, self._read_ns = self._read_ns, now_ns
        elapsed_ns = 0 if before_ns is None else now_ns - before_ns
        self._interval_ns = elapsed_ns
        self.readings += 1
        gate = self._gate.read(gate_totals)
        others = gate_totals.get(GATE_OTHERS, NOTHING)
        is_apart, self._gate_others = others == self._gate_others, others
        self.left_out = 0
        named = broker.keys() | gate.keys() | self._accounts.keys()
        for number, namespace in enumerate(sorted(named - self.exempt), 1):
            if not number % STEP:
                yield
            if _HEALTH_CHECKS.fullmatch(namespace):
                continue
            account = self._accounts.get(namespace) or self._open(namespace, before_ns)
            if account is None:
                continue
            counted = broker.get(namespace)
            increase = NOTHING if counted is None else counted.published
            is_known = is_apart and (counted is None or counted.is_known)
            account.read(
                increase if is_known else None,
                gate.get(namespace, NOTHING),
                elapsed_ns=elapsed_ns,
                took_ns=took_ns,
                now_ns=now_ns,
            )
        self._escaping = {
            name: self._accounts[name].rate(finding.replicated_permille)
            for name, finding in self._findings.items()
            if self._escapes(name, now_ns)
        }

    def suspects(self) -> tuple[str, ...]:
        """Return the namespaces whose rise is beyond the uncertainty, the largest first."""
        excesses = ((name, account.excess.messages) for name, account in self._accounts.items())
        found = {name: messages for name, messages in excesses if messages}
        return tuple(sorted(found, key=lambda name: (-found[name], name)))

    def tell(self, namespace: str, finding: WayFinding, now_ns: int) -> None:
        """Tell the excess of a suspect, by the way that was found."""
        account = self._accounts[namespace]
        escaped = account.tell(finding.replicated_permille, now_ns)
        if namespace in self._findings or len(self._findings) < self._series_max:
            self._findings[namespace] = finding
            if self._escapes(namespace, now_ns):
                self._escaping[namespace] = account.rate(finding.replicated_permille)
        else:
            self.others = self.others.plus(escaped)

    def escapes(self) -> Iterator[Escape]:
        """Yield every namespace that escaped, the largest rate first."""
        for name in sorted(self._findings, key=lambda each: (-self._rate_of(each).messages, each)):
            account = self._accounts[name]
            yield Escape(
                namespace=name,
                total=account.told,
                replicated=account.replicated,
                is_escaping=name in self._escaping,
                rate=self._rate_of(name),
                finding=self._findings[name],
            )

    def to_record(self) -> tuple[EscapedTraffic, ...]:
        """Return what escaped since the last call, by namespace, `OTHERS` for all further ones."""
        found: list[EscapedTraffic] = []
        for name, finding in self._findings.items():
            groups = self._groups_of(name)
            self._take(found, name, groups, finding.way.value, self._accounts[name].told)
        self._take(found, OTHERS, (), "", self.others)
        return tuple(found)

    def _take(
        self,
        found: list[EscapedTraffic],
        name: str,
        groups: tuple[str, ...],
        way: str,
        total: PublishedCount,
    ) -> None:
        before, self._recorded[name] = self._recorded.get(name, NOTHING), total
        messages, size = total.messages - before.messages, total.bytes - before.bytes
        if messages or size:
            found.append(EscapedTraffic(name, groups, way, messages, size))

    def sightings(self, broker: str) -> Iterator[AlarmCondition]:
        """Yield the conditions for alarms."""
        for escape in self.escapes():
            if not escape.is_escaping:
                continue
            text = f"{broker}: {escape.sentence}"
            yield AlarmCondition(
                AlarmKind.TRAFFIC_ROUND_THE_GATE, f"{broker} {escape.namespace}", text
            )
        for namespace in self.uncounted:
            text = f"{broker}: {uncounted_view(namespace).sentence}"
            yield AlarmCondition(
                AlarmKind.TRAFFIC_ROUND_THE_GATE, f"{broker} {namespace} uncounted", text
            )

    def by_group(self) -> Mapping[str, Rate]:
        """Return the rates that escape now, by resource group."""
        found: dict[str, Rate] = {}
        for namespace, rate in self._escaping.items():
            for group in self._groups_of(namespace):
                known = found.get(group, Rate())
                found[group] = Rate(*map(sum, zip(known, rate, strict=True)))
        return found

    def namespaces_of(self, group: str) -> tuple[Escape, ...]:
        """Return the namespaces of a group in which traffic escapes now."""
        return tuple(
            escape
            for escape in self.escapes()
            if escape.is_escaping and group in self._groups_of(escape.namespace)
        )

    def _groups_of(self, namespace: str) -> tuple[str, ...]:
        tenant, _, local = namespace.partition("/")
        groups = self.attachments.groups_of(tenant, local)
        if self._cluster_group and self._cluster_group not in groups:
            return (*groups, self._cluster_group)
        return groups

    def _rate_of(self, namespace: str) -> Rate:
        return self._escaping.get(namespace, Rate())

    def _escapes(self, namespace: str, now_ns: int) -> bool:
        account = self._accounts.get(namespace)
        return account is not None and account.escapes(self._interval_ns, now_ns)

    def _open(self, namespace: str, since_ns: int | None) -> NamespaceAccount | None:
        """Return a new account, or None if there is no room for it."""
        if len(self._accounts) >= self._namespaces_max:
            self._forget_idle()
        if len(self._accounts) >= self._namespaces_max:
            self.left_out += 1
            return None
        account = self._accounts[namespace] = NamespaceAccount(since_ns)
        return account

    def _forget_idle(self) -> None:
        """Forget idle accounts; those that escaped keep their totals."""
        self._accounts = {
            name: account
            for name, account in self._accounts.items()
            if name in self._findings or not account.is_idle()
        }
