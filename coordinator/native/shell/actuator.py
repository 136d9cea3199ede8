"""The shell of native enforcement: the ports of a gate, with no gate.

Six loops, each of which is run again if it fails, whatever the failure is, and stops no other: one writes
entries (at once when a setting changed or the broker itself has reported, and every `WRITTEN_EVERY_S`),
one polls the broker's counters (polling.py), one keeps Pulsar's records and attachments (upkeep.py), one
the dispatch rates of topics (dispatching.py), one the limits of single topics (topic_limiting.py), one
asks brokers that nothing is heard of whether they are there (asking.py). Limits that only a gate can
enforce are accepted and reported as not enforced (`conditions`), so that no reader believes them
enforced.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Final

import structlog

from coordinator.core.allocation.forest import resolve
from coordinator.core.demand.observing import is_observed
from coordinator.core.model import (
    NANOS_PER_SECOND,
    AnyRates,
    Attachments,
    Member,
    Rates,
    ResourceGroup,
)
from coordinator.core.topics import SCALABLE, TopicName
from coordinator.core.traffic import NamespaceTraffic, Traffic
from coordinator.core.transfer.policies import STRICT
from coordinator.insight.model.conditions import Condition, ConditionKind
from coordinator.insight.model.gate_views import (
    GateFigures,
    GateLimits,
    TopicLimitView,
)
from coordinator.native.engine.beyond import beyond_brokers
from coordinator.native.engine.conditions import NOT_NATIVE, NativeCondition, Observed, conditions
from coordinator.native.engine.dispatch import DispatchSteering
from coordinator.native.engine.entries import Amounts
from coordinator.native.engine.outside import (
    EntryTopic,
    NativeAdmin,
    OwnerCounters,
    TopicPolicies,
)
from coordinator.native.engine.owners import base_of, remote_home
from coordinator.native.engine.replication import ReplicationBook
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.table import Statement
from coordinator.native.engine.topic_limits import cannot_hold
from coordinator.native.engine.views import NativeState
from coordinator.native.shell.asking import Asking
from coordinator.native.shell.dispatching import Dispatching
from coordinator.native.shell.polling import Listener, Polling
from coordinator.native.shell.replicating import ReplicatorRates
from coordinator.native.shell.topic_limiting import TopicLimiting
from coordinator.native.shell.upkeep import Upkeep
from coordinator.native.shell.without_gate import WithoutGate
from coordinator.ports import Catalogue, Clock, TopicLimits
from coordinator.runtime.supervision import TaskSupervisor

WRITTEN_EVERY_S: Final = 0.2

_TAKES_EFFECT_NS: Final = NANOS_PER_SECOND
"""Entries that no broker has taken after this time are not waited for: reports must go on."""

log = structlog.get_logger(__name__)


class NativeActuator(WithoutGate):
    """A gate's ports on Pulsar's own limiter.

    Args:
        broker: this sidecar's broker id.
        steering: what is to be written.
        topic: where.
        admin: of the own broker.
        policies: of topics, by the own broker.
        counters: of the own broker.
        clock: monotonic time.
        poll_s: the least time between two polls; 0 polls never, since a gate counts.
        service_url: in whose name the broker reports; empty asks it.
        cluster_group: the group that everything counts against; empty is none.
        margin_permille: by how much records are above the limits.
    """

    def __init__(  # noqa: PLR0913 - each is another port
        self,
        broker: str,
        steering: Steering,
        topic: EntryTopic,
        admin: NativeAdmin,
        policies: TopicPolicies,
        counters: OwnerCounters,
        clock: Clock,
        *,
        poll_s: float,
        service_url: str = "",
        cluster_group: str = "",
        margin_permille: int = 0,
    ) -> None:
        self._broker = broker
        self._steering = steering
        self._topic = topic
        self._clock = clock
        self._margin_permille = margin_permille
        self._seen = Observed()
        self._upkeep = Upkeep(steering, admin, self._seen, clock, service_url=service_url)
        if cluster_group:
            self._upkeep.look_at_all_tenants()
        #: Set when entries have to be written before their time.
        self._due = asyncio.Event()
        self._asking = Asking(steering, clock, self._due.set)
        self._dispatch = DispatchSteering(steering)
        replication = ReplicationBook()
        self._dispatching = Dispatching(
            self._dispatch,
            policies.dispatch,
            ReplicatorRates(policies.replication, replication),
            self._seen,
            clock,
            partial(_detached, steering, admin),
        )
        self._limiting = TopicLimiting(
            policies.publish, policies.dispatch, self._dispatch, self._seen, clock
        )
        self._polling = Polling(
            counters,
            steering,
            self._dispatch,
            self._limiting.book,
            replication,
            self._seen,
            clock,
            poll_s,
        )
        self._polling.polled = self._dispatching.wanted.set
        self._limits: dict[str, AnyRates] = {}
        self._leased: set[str] = set()
        self._lease_until_ns: int | None = None
        #: How much was told, how much of it is in entries that a broker has, and what waits for that.
        self._told = self._in_force = 0
        self._waiting: deque[tuple[int, int, Callable[[], None]]] = deque()
        #: Until the sidecar is told to stop.
        self._writes = True
        self._unenforced: set[str] = set()
        #: What cannot be held of topics' limits, in words, by topic.
        self._unheld: dict[str, str] = {}
        #: The scalable topics that have limits.
        self._scalable: set[str] = set()
        self._groups: Mapping[str, ResourceGroup] = {}
        self._attachments = Attachments()
        self._brokers = 1
        topic.watch(self._heard)

    async def run(self, supervisor: TaskSupervisor) -> None:
        """Enforce, until cancelled.

        Args:
            supervisor: runs each loop, and counts its failures.
        """
        loops = {
            "entries": self._write_always,
            "upkeep": self._upkeep.run,
            "questions": self._asking.run,
        }
        if self._polling.is_wanted:
            loops |= {
                "counters": self._polling.run,
                "dispatch": self._dispatching.run,
                "topics": self._limiting.run,
            }
        async with asyncio.TaskGroup() as tasks:
            for name, loop in loops.items():
                tasks.create_task(supervisor.keep(f"native {name}", loop))

    def catalogue_changed(self, catalogue: Catalogue) -> None:
        """All definitions and attachments as they are now."""
        groups = {name: entry.group for name, entry in catalogue.groups.items()}
        self._upkeep.known = frozenset(groups)
        caps, forest = resolve(groups.values())
        whole = {
            name: group.limits_rounded_up for name, group in caps.items() if not is_observed(group)
        }
        self._steering.set_whole(whole, forest.root_of)
        self._groups = groups
        self._limit_subscriptions()
        if not self._steering.behind_gate:
            strict = (name for name, group in groups.items() if group.overshoot_policy == STRICT)
            self._seen.strict = (*sorted(strict),)
        self._upkeep.wanted.set()
        self._polling.settings_changed()

    def members_changed(self, members: tuple[Member, ...]) -> None:
        """Take the live members."""
        ids = [member.broker for member in members]
        self._steering.set_members(ids)
        rank = ids.index(self._broker) if self._broker in ids else None
        self._upkeep.rank = self._dispatching.rank = self._limiting.rank = rank
        self._brokers = len(ids)
        self._upkeep.wanted.set()

    def names(self, groups: Collection[str] | None = None) -> list[str]:
        """Return the native groups, or those that stand for any of these groups."""
        return self._steering.names(groups)

    def state(self, names: Collection[str] | None = None) -> NativeState:
        """Return the present state, with these native groups or all."""
        now_ns = self._clock.now_ns()
        facts, health = self._seen.facts, self._topic.health()
        return NativeState(
            path="gate+native" if self._steering.behind_gate else "native",
            service_url=self._steering.own_url,
            interval_s=self._steering.interval_s,
            transport=facts.transport if facts else "",
            margin=self._margin_permille / 1000,
            connected=health.connected,
            written=health.written,
            failed=health.failed,
            polled_topics=self._polling.topics,
            poll_s=self._polling.every_s,
            groups=self._steering.views(names),
            limited_topics=sum(1 for _ in self._limiting.book.held()),
            conditions=tuple(self.conditions(now_ns)),
        )

    @property
    def known_interval_s(self) -> int | None:
        """The interval of the broker's own limiter; None until the broker has told it."""
        return self._steering.interval_s if self._seen.facts is not None else None

    def conditions(self, now_ns: int) -> tuple[NativeCondition, ...]:
        """Return the conditions that keep it from being exact."""
        self._note_cannot()
        seen = self._seen
        seen.health = self._topic.health()
        seen.spoke_ns = self._steering.table.spoke_ns(self._steering.own_url)
        seen.strangers = self._steering.table.strangers(now_ns)
        seen.unsteered = self._steering.table.unsteered(self._steering.interval_s, now_ns)
        return tuple(conditions(seen, now_ns))

    def inexact(self, now_ns: int) -> Iterator[Condition]:
        """Yield what to show an operator; limits that no broker can enforce are no news to him."""
        for found in self.conditions(now_ns):
            if found.code != NOT_NATIVE:
                yield Condition(
                    ConditionKind.NATIVE_INEXACT,
                    f"{self._broker} {found.code}",
                    f"{self._broker}: {found.text}",
                    found.fix,
                )

    # Instructions to a gate.

    def listen(self, listener: Listener) -> None:
        """Tell this listener of participants from now on."""
        self._polling.listener = listener

    def watch_traffic(self, resumed: Callable[[], None]) -> None:
        """Call this when traffic passes or waits again after a `collect` that found none."""
        self._polling.resumed = resumed

    def set_limits(self, group: str, limits: AnyRates, *, leased: bool = False) -> None:
        """Enforce these local limits from now on, leased ones until the end of the lease."""
        self._limits[group] = limits
        self._leased.discard(group)
        if leased:
            self._leased.add(group)
        self._steer(group)
        self._tell()

    def hold_lease(self, until_ns: int) -> None:
        """Extend leased limits to this time."""
        self._lease_until_ns = until_ns
        for group in self._leased:
            self._steer(group)

    def remove_limits(self, group: str) -> None:
        """Remove this group's limits."""
        self._limits.pop(group, None)
        self._leased.discard(group)
        self._steering.remove_limits(group)
        self._tell()

    def set_attachments(self, attachments: Attachments) -> None:
        """Count every topic against the groups of these attachments from now on."""
        self._steering.set_attachments(attachments)
        self._attachments = attachments
        self._limit_subscriptions()
        self._upkeep.wanted.set()
        self._polling.settings_changed()
        self._tell()

    def when_in_force(self, then: Callable[[], None]) -> None:
        """Call this when a broker has taken all entries that follow from the instructions so far."""
        if not self._writes or self._in_force == self._told or not self._steering.writes():
            then()
            return
        self._waiting.append((self._told, self._clock.now_ns(), then))

    # Questions to a gate.

    async def collect(self) -> tuple[Traffic, ...]:
        """Return the counts since the last call."""
        traffic = self._steering.collect(self._clock.now_ns())
        self._polling.is_quiet = all(each.is_quiet for each in traffic)
        return traffic

    async def namespace_traffic(self, *, whole: bool = False) -> tuple[NamespaceTraffic, ...]:  # noqa: ARG002
        """Return the counts of each namespace since the last call, always all of them."""
        return self._steering.namespace_traffic()

    async def published_topics(self) -> frozenset[str]:
        """Return the full names of the topics that producers are connected to."""
        return self._polling.published_topics

    def stop_writing(self) -> None:
        """Leave all rows as they are, and let nothing wait for an entry.

        Sidecars that stop together see each other leave. The last one would write entries and a rest for
        brokers that it has just begun to stand in for, and no sidecar would be left to take them back.
        """
        self._writes = False
        self._in_force = self._told
        self._settle()

    async def start(self) -> int:
        """Write entries from now on; return 0: no socket listens."""
        self._steering.start(self._clock.now_ns())
        return 0

    async def figures(self) -> GateFigures:
        """Return the participants of limited namespaces, as of the last poll; nothing is held here."""
        producers, consumers = self._polling.participants()
        return GateFigures(producers=producers, consumers=consumers)

    async def limits(self) -> GateLimits:
        """Return the limits of single topics that are in force."""
        topics = (
            TopicLimitView.limits(topic.limits, topic=name, partitions=topic.partitions)
            for name, topic in self._limiting.book.held()
        )
        return GateLimits(Rates(), None, 0, tuple(topics))

    # Limits that only a gate can enforce.

    def set_broker_limits(self, limits: Rates) -> None:
        """Do nothing: native enforcement has no such limits."""
        self._note("the broker as a whole", limits)

    def set_partition_limits(self, limits: Rates) -> None:
        """Do nothing: native enforcement has no such limits."""
        self._note("partitions", limits)

    def set_topic_limits(self, topic: TopicName, limits: Rates, *, partitions: int = 1) -> None:
        """Limit a topic, all its partitions together, by Pulsar's own policies; no rates, no limit."""
        name = str(topic.whole)
        self._unheld.pop(name, None)
        cannot = cannot_hold(name, limits, partitions)
        if cannot:
            self._unheld[name] = cannot
        if base_of(name):
            self._limiting.set_limit(name, limits, partitions)
            self._polling.settings_changed()

    def topic_limits_changed(self, limits: TopicLimits) -> None:
        """Take all limits of topics, once each is set; those of scalable ones only a gate can hold."""
        topics = (limit.topic for limit in limits.values())
        self._scalable = {str(topic) for topic in topics if topic.domain == SCALABLE}
        self._dispatching.knows_limits = True

    def set_topic_block(self, topic: str, block: object | None) -> None:
        """Do nothing: without a gate backlogs can be evicted, but publishes cannot be held."""
        self._note(f"publishing to {topic}", block)

    def set_subscribe_rate(self, rate: int | None, *, period_s: int = 1) -> None:  # noqa: ARG002
        """Do nothing: native enforcement has no such limits."""
        self._note("subscribing", rate)

    # The loops.

    async def _write_always(self) -> None:
        while True:
            try:
                async with asyncio.timeout(WRITTEN_EVERY_S):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._due.clear()
            try:
                self._write()
            finally:
                self._settle()

    def _write(self) -> None:
        if not self._writes:
            return
        now_ns = self._clock.now_ns()
        for group in self._leased:
            self._steer(group)
        self._steering.decide(now_ns)
        told = self._told
        for broker, amounts in self._steering.to_write(now_ns):
            is_own = broker == self._steering.own_url
            if is_own and self._seen.steered_since_ns is None:
                self._seen.steered_since_ns = now_ns
            self._send(broker, amounts, told if is_own else None)

    def _send(self, broker: str, amounts: Mapping[str, Amounts], told: int | None) -> None:
        """Write a row; that of the own broker has in it how much was told."""

        def done(taken: bool) -> None:  # noqa: FBT001 - a callback's only argument
            if taken and told is not None:
                self._in_force = max(self._in_force, told)
                self._settle()

        self._topic.write(broker, amounts, done, stands_in=told is None)

    def _settle(self) -> None:
        """Call the callbacks whose entries a broker has, or which have waited too long."""
        late_ns = self._clock.now_ns() - _TAKES_EFFECT_NS
        while self._waiting:
            told, since_ns, then = self._waiting[0]
            if told > self._in_force and since_ns > late_ns:
                return
            self._waiting.popleft()
            then()

    # Within.

    def _limit_subscriptions(self) -> None:
        limits = {}
        for owner, groups in self._steering.homes.subscriptions.items():
            whole = self._steering.wholes.of(groups)
            limits[owner] = Rates(
                dispatch_messages=whole.dispatch_messages, dispatch_bytes=whole.dispatch_bytes
            )
        self._limiting.set_subscriptions(limits)

    def _heard(self, said: Statement) -> None:
        if said.broker == self._steering.own_url and not said.sidecar:
            self._seen.skew_ns = said.skew_ns
            self._polling.heard(said)
        if self._steering.take(said, self._clock.now_ns()):
            self._due.set()

    def _tell(self) -> None:
        self._told += 1
        self._due.set()
        self._dispatching.wanted.set()

    def _steer(self, group: str) -> None:
        """Bring a group's limits that are in effect to the entries: nothing once the lease is over."""
        is_over = self._lease_until_ns is None or self._clock.now_ns() > self._lease_until_ns
        if group in self._leased and is_over:
            self._steering.set_limits(group, Rates(0, 0, 0, 0))
        else:
            self._steering.set_limits(group, self._limits.get(group, Rates()))

    def _note(self, what: str, limit: object | None) -> None:
        if limit is None or limit == Rates():
            self._unenforced.discard(what)
        else:
            self._unenforced.add(what)

    def _note_cannot(self) -> None:
        """Collect all limits that no broker's own limiter can hold; a gate before it holds them."""
        if not self._steering.behind_gate:
            has_policies = self._seen.facts is None or self._seen.facts.topic_policies
            beyond = beyond_brokers(
                self._groups, self._attachments, self._brokers, topic_policies=has_policies
            )
            self._seen.cannot = (
                *sorted({*self._unenforced, *self._unheld.values(), *self._scalable, *beyond}),
            )
            remotes = sorted(self._steering.homes.remotes)
            holds = self._dispatch.holds_dispatch
            self._seen.remotes = (*(each for each in remotes if holds(remote_home(each))),)
            self._seen.limits_topics = bool(self._limiting.book.topics)
            self._seen.limits_dispatch = any(
                limit is not None
                for group in self._groups.values()
                for limit in (group.limits.dispatch_messages, group.limits.dispatch_bytes)
            )


async def _detached(steering: Steering, admin: NativeAdmin) -> frozenset[str] | None:
    existing = [name for tenant in await admin.tenants() for name in await admin.namespaces(tenant)]
    return steering.homes.detached(existing)
