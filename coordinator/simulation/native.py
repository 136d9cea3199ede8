"""Brokers whose own limiter is steered, beside brokers with gates: Pulsar, and our own steering.

A *native broker* does what Pulsar's does (native/__init__.py): once an interval, at a phase of its own,
it computes its quota from the last line of every broker on the topic, its own included, starts with a
full bucket, and writes a line with its own use when that moved. The sidecar beside it is the product's
own `Steering`, polled and written as by its shell; records in Pulsar are always as they should be.

Two kinds of host: `NativeHost` has no gate, so its counts come from polls; `GatedHost` has a gate, and
the broker's limiter a margin above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any, Final

from coordinator.core.events import ParticipantsChanged
from coordinator.core.model import (
    NANOS_PER_SECOND,
    Attachments,
    MonitoringClass,
    Rates,
    Traffic,
    TrafficKey,
)
from coordinator.native.engine.counting import NamespaceCount
from coordinator.native.engine.entries import NOTHING, Amounts, Record
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.table import Statement
from coordinator.simulation.host import Host
from coordinator.simulation.pip82 import pip82_limit
from coordinator.simulation.schedule import Schedule
from coordinator.simulation.traffic import Load
from coordinator.simulation.valve import STEP_NS, SimulatedLimiter

MARGIN_PERMILLE: Final = 200
"""The margin of a broker's own limiter above its gate's."""

_INTERVAL_S: Final = 1
_INTERVAL_NS: Final = _INTERVAL_S * NANOS_PER_SECOND
_DELAY_NS: Final = 2_000_000
_POLLED_EVERY_NS: Final = NANOS_PER_SECOND // 2
_WRITTEN_EVERY_NS: Final = NANOS_PER_SECOND // 5
_MOVED_PERMILLE: Final = 50
_REPORTS_WITHIN: Final = 5
_THROTTLES_PER_STEP: Final = 2
"""A throttled connection is let go every 20 ms or so."""


class UsageTopic:
    """Pulsar's topic of resource usage: each line reaches all brokers and sidecars, 2 ms later.

    Args:
        schedule: the world's.
        rng: for the phases of brokers.
    """

    def __init__(self, schedule: Schedule, rng: Random) -> None:
        self.schedule = schedule
        self.rng = rng
        self.brokers: dict[str, NativeBroker] = {}
        self.hosts: dict[str, _Steered] = {}

    def say(self, broker: str, amounts: Mapping[str, Amounts], sidecar: str = "") -> None:
        """Write a line in a broker's name; here a sidecar has its broker's name."""
        stands_in = bool(sidecar) and sidecar != broker
        said = Statement(broker, dict(amounts), sidecar, sidecar or broker, stands_in=stands_in)
        self.schedule.after(_DELAY_NS, partial(self._arrive, said))

    def _arrive(self, said: Statement) -> None:
        for broker in self.brokers.values():
            broker.table.setdefault(said.broker, {}).update(said.amounts)
        for host in self.hosts.values():
            host.hear(said)


class NativeBroker:
    """Pulsar's own limiter at one broker, for all its groups.

    Args:
        name: the broker's, in its lines.
        topic: the topic that it reads and writes.
    """

    def __init__(self, name: str, topic: UsageTopic) -> None:
        self.name = name
        self.table: dict[str, dict[str, Amounts]] = {}
        #: The records in Pulsar, by group.
        self.records: dict[str, Record] = {}
        self.running = True
        self._topic = topic
        self._quotas: dict[str, tuple[int | None, int | None]] = {}
        #: Tokens in billionths, by group and unit.
        self._tokens: dict[str, list[int]] = {}
        #: Whether a bucket was empty after the last step.
        self._is_held: dict[str, bool] = {}
        self._filled_ns = topic.schedule.now_ns
        self._used: dict[str, Amounts] = {}
        self._told: dict[str, Amounts] = {}
        self._told_ns = 0
        topic.brokers[name] = self
        topic.schedule.after(topic.rng.randrange(_INTERVAL_NS), self._tick)

    def fits(self, group: str, size: int) -> int | None:
        """Return how many messages of this size may pass now; the one that empties a bucket does.

        None means all that wait.
        """
        self._fill()
        quotas, tokens = self._quotas.get(group), self._tokens.get(group)
        if quotas is None or tokens is None:
            return None
        rooms = [
            -(-tokens[index] // (each * NANOS_PER_SECOND))
            for index, each in enumerate((1, size))
            if quotas[index] is not None
        ]
        return max(0, min(rooms)) if rooms else None

    def take(self, group: str, messages: int, size: int) -> None:
        """Take the tokens of messages that passed."""
        used = self._used.get(group, NOTHING)
        self._used[group] = Amounts(used.messages + messages, used.bytes + messages * size)
        tokens = self._tokens.setdefault(group, [0, 0])
        tokens[0] -= messages * NANOS_PER_SECOND
        tokens[1] -= messages * size * NANOS_PER_SECOND
        quotas = self._quotas.get(group, (None, None))
        self._is_held[group] = any(
            quota is not None and left <= 0 for quota, left in zip(quotas, tokens, strict=True)
        )

    def _fill(self) -> None:
        now_ns = self._topic.schedule.now_ns
        elapsed_ns, self._filled_ns = now_ns - self._filled_ns, now_ns
        for group, quotas in self._quotas.items():
            tokens = self._tokens[group]
            for index, quota in enumerate(quotas):
                most = max(tokens[index], (quota or 0) * NANOS_PER_SECOND)
                tokens[index] = min(most, tokens[index] + (quota or 0) * elapsed_ns)

    def _tick(self) -> None:
        if not self.running:
            return
        self._topic.schedule.after(_INTERVAL_NS, self._tick)
        self._fill()
        for group, record in self.records.items():
            quotas = (
                self._quota(group, record.messages, 0),
                self._quota(group, record.bytes, 1),
            )
            # Waiters would have used the tokens since the last step; the bucket forgets them.
            flown = self._tokens.get(group, [0, 0]) if self._is_held.get(group) else [0, 0]
            self._quotas[group] = quotas
            self._tokens[group] = [
                (quota or 0) * NANOS_PER_SECOND + max(0, more)
                for quota, more in zip(quotas, flown, strict=True)
            ]
        self._report()

    def _quota(self, group: str, record: int, index: int) -> int | None:
        if record < 0:
            return None
        rows = {name: row.get(group, NOTHING)[index] for name, row in self.table.items()}
        return pip82_limit(record, rows.get(self.name, 0), sum(rows.values()))

    def _report(self) -> None:
        used, self._used = self._used, {}
        now_ns = self._topic.schedule.now_ns
        is_old = now_ns - self._told_ns >= _REPORTS_WITHIN * _INTERVAL_NS
        if used and (is_old or any(_moved(self._told.get(g, NOTHING), u) for g, u in used.items())):
            self._told, self._told_ns = used, now_ns
            self._topic.say(self.name, used)


class _Steered(Host):
    """A host that writes its broker's line."""

    def __init__(self, *given: Any, topic: UsageTopic, behind_gate: bool) -> None:
        self._topic = topic
        self._steering = Steering(margin_permille=MARGIN_PERMILLE, behind_gate=behind_gate)
        self._written_ns = 0
        super().__init__(*given)
        self._broker = NativeBroker(self.name, topic)
        self._steering.configure(self.name, _INTERVAL_S)
        self._steering.start(self.now_ns)
        topic.hosts[self.name] = self

    def hear(self, said: Statement) -> None:
        """A message of the topic arrived."""
        if self.running and self._steering.take(said, self.now_ns):
            self._write()

    def _write(self) -> None:
        now_ns = self._written_ns = self.now_ns
        groups = self.state.groups or {}
        self._steering.set_attachments(Attachments({}, {f"t/{name}": name for name in groups}))
        whole = {name: group.limits for name, group in groups.items()}
        self._steering.set_whole(whole, self.state.decider.forest.root_of)
        self._steering.set_members(self.state.members)
        self._broker.records = self._steering.records()
        for name, record in self._broker.records.items():
            self._steering.set_record(name, record)
        self._steering.decide(now_ns)
        for broker, amounts in self._steering.to_write(now_ns):
            self._topic.say(broker, amounts, self.name)

    def _counted(self, elapsed_ns: int, now_ns: int) -> tuple[Traffic, ...]:
        if now_ns - self._written_ns >= _WRITTEN_EVERY_NS:
            self._write()
        return super()._counted(elapsed_ns, now_ns)

    def _limit(self, group: str, limits: Rates, *, leased: bool) -> None:
        super()._limit(group, limits, leased=leased)
        self._steering.set_limits(group, limits)
        self._write()

    def _remove(self, group: str) -> None:
        super()._remove(group)
        self._steering.remove_limits(group)

    def _stop(self) -> None:
        super()._stop()
        self._broker.running = False
        self._topic.brokers.pop(self.name, None)
        self._topic.hosts.pop(self.name, None)


class GatedHost(_Steered):
    """A gate, and the broker's limiter a margin above it."""

    def __init__(self, *given: Any, topic: UsageTopic) -> None:
        super().__init__(*given, topic=topic, behind_gate=True)

    def _admit(self, key: TrafficKey, load: Load, limiter: SimulatedLimiter, now_ns: int) -> int:
        size = load.source.message_bytes
        room = self._broker.fits(key[0], size) if key[1] is MonitoringClass.PUBLISH else None
        waiting = load.waiting if room is None else min(load.waiting, room)
        admitted = limiter.admit(waiting, size, now_ns)
        self._broker.take(key[0], admitted, size)
        return admitted


class NativeHost(_Steered):
    """No gate: the broker's limiter admits, and its counters are polled."""

    def __init__(self, *given: Any, topic: UsageTopic) -> None:
        super().__init__(*given, topic=topic, behind_gate=False)
        self._counts: dict[str, NamespaceCount] = {}
        self._polled_ns = self.now_ns

    def _counted(self, elapsed_ns: int, now_ns: int) -> tuple[Traffic, ...]:
        super()._counted(elapsed_ns, now_ns)
        if now_ns - self._polled_ns >= _POLLED_EVERY_NS:
            self._poll(now_ns)
        return self._steering.collect(now_ns)

    def _flow(self, key: TrafficKey, load: Load, elapsed_ns: int, now_ns: int) -> Traffic | None:  # noqa: ARG002
        group, size = key[0], load.source.message_bytes
        connected = load.arrive(self._schedule.now_ns, min(elapsed_ns, STEP_NS))
        room = self._broker.fits(group, size)
        admitted = load.waiting if room is None else min(load.waiting, room)
        load.waiting -= admitted
        self._broker.take(group, admitted, size)
        self._world.passed(self, key, load, admitted)
        count = self._counts.setdefault(f"t/{group}", NamespaceCount())
        count.messages += admitted
        count.bytes += admitted * size
        count.throttles += _THROTTLES_PER_STEP if load.waiting else 0
        count.producers = int(connected)
        count.producer_topics = load.source.topics if connected else 0
        return None

    def _poll(self, now_ns: int) -> None:
        counts, self._counts = self._counts, {}
        self._steering.count(counts, now_ns - self._polled_ns, now_ns)
        self._polled_ns = now_ns
        for key in self.loads:
            count = counts.get(f"t/{key[0]}", NamespaceCount())
            connected = bool(count.producers)
            if connected is not self._connected.get(key, False):
                self._connected[key] = connected
                self.receive(ParticipantsChanged(*key, count.producers))


def _moved(before: Amounts, after: Amounts) -> bool:
    return any(
        abs(now - was) * 1000 > _MOVED_PERMILLE * was
        for was, now in zip(before, after, strict=True)
    )
