"""Brokers whose own limiter is steered, beside brokers with gates: Pulsar, and our own steering.

The broker is that of native_broker.py. The sidecar beside it is the product's own `Steering`, polled and
written as by its shell, which reads and writes records as the shell's upkeep does.

Two kinds of host: `NativeHost` has no gate, so its counts come from polls; `GatedHost` has a gate, and
the broker's limiter a margin above it.
"""

from __future__ import annotations

from typing import Any, Final

from coordinator.core.events import Event, ParticipantsChanged
from coordinator.core.model import (
    NANOS_PER_SECOND,
    AnyRates,
    Attachments,
    MonitoringClass,
    TrafficKey,
)
from coordinator.core.traffic import Traffic
from coordinator.native.engine.counting import NamespaceCount
from coordinator.native.engine.entries import Record, rises
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.table import Statement
from coordinator.simulation.host import Host
from coordinator.simulation.native_broker import INTERVAL_S, NativeBroker, UsageTopic
from coordinator.simulation.traffic import Load
from coordinator.simulation.valve import STEP_NS, SimulatedLimiter

MARGIN_PERMILLE: Final = 200
"""The margin of a broker's own limiter above its gate's."""

_POLLED_EVERY_NS: Final = NANOS_PER_SECOND // 2
_WRITTEN_EVERY_NS: Final = NANOS_PER_SECOND // 5
_LOOKED_EVERY_NS: Final = 2 * NANOS_PER_SECOND
_LOOKS_WITHIN_NS: Final = (10_000_000, 150_000_000)
_UNUSED_AFTER_NS: Final = 3600 * NANOS_PER_SECOND
_THROTTLES_PER_STEP: Final = 2
"""A throttled connection is let go every 20 ms or so."""


class _Steered(Host):
    """A host that writes its broker's line."""

    def __init__(
        self, *given: Any, topic: UsageTopic, behind_gate: bool, headroom_permille: int = 0
    ) -> None:
        self._topic = topic
        self._steering = Steering(
            margin_permille=MARGIN_PERMILLE if behind_gate else 0,
            headroom_permille=headroom_permille,
            behind_gate=behind_gate,
        )
        self._written_ns = self._looked_ns = 0
        self._sidecar_runs = True
        self._has_started = False
        self._wrong_ns: dict[str, int] = {}
        self._wanted: dict[str, Record] = {}
        super().__init__(*given)
        self._reader = f"sidecar of {self.name}"
        self.server = NativeBroker(self.name, topic)
        self._steering.configure(self.name, INTERVAL_S)
        topic.join(self._reader, self._hear)

    def receive(self, event: Event) -> None:
        """Give the core an event; a sidecar that is dead takes none."""
        if self._sidecar_runs:
            super().receive(event)

    def kill_sidecar(self) -> None:
        """End the sidecar; its broker and its clients go on."""
        self._sidecar_runs = False
        self._topic.leave(self._reader)
        for group in dict.fromkeys(group for group, _ in self._limiters):
            self._remove(group)
        self._zookeeper.abandon(self.session)

    def _hear(self, said: Statement) -> None:
        if self.running and self._steering.take(said, self.now_ns):
            self._write()

    def _write(self) -> None:
        if not self._sidecar_runs:
            return
        now_ns = self._written_ns = self.now_ns
        groups = self.state.groups or {}
        self._steering.set_attachments(Attachments({}, {f"t/{name}": name for name in groups}))
        if groups and not self._has_started:
            self._has_started = True
            self._steering.start(now_ns)
        whole = {name: group.limits for name, group in groups.items()}
        self._steering.set_whole(whole, self.state.decider.forest.root_of)
        self._steering.set_members(self.state.members)
        self._look_when_due(now_ns)
        for broker in self._steering.doubted(now_ns):
            if broker not in self._topic.brokers:
                self._steering.table.refuse(broker, now_ns)
        self._steering.decide(now_ns)
        for broker, amounts in self._steering.to_write(now_ns):
            stands_in = broker != self.name
            said = Statement(broker, dict(amounts), self.name, self._reader, stands_in=stands_in)
            self._topic.say(self._reader, said)

    def _look_when_due(self, now_ns: int) -> None:
        wanted = self._steering.records()
        if wanted == self._wanted and now_ns - self._looked_ns < _LOOKED_EVERY_NS:
            return
        self._wanted, self._looked_ns = wanted, now_ns
        self._schedule.after(self._topic.rng.randint(*_LOOKS_WITHIN_NS), self._look)

    def _look(self) -> None:
        """Do what the shell's upkeep does: see each record, and write it if that is its turn."""
        if not (self.running and self._sidecar_runs):
            return
        now_ns = self.now_ns
        members = sorted(self.state.members)
        least = self._steering.least_records()
        for group, wanted in self._steering.records().items():
            seen = self._topic.records.get(group)
            self._steering.set_record(group, seen)
            if seen == wanted or self.name not in members:
                self._wrong_ns.pop(group, None)
                continue
            has_room = seen is not None and not rises(seen, least[group])
            waits = has_room and self._steering.is_used(group, now_ns)
            turn_ns = members.index(self.name) * _LOOKED_EVERY_NS + waits * _UNUSED_AFTER_NS
            if now_ns - self._wrong_ns.setdefault(group, now_ns) >= turn_ns:
                self._topic.write_record(group, wanted)
                self._steering.set_record(group, wanted)

    def _counted(self, elapsed_ns: int, now_ns: int) -> tuple[Traffic, ...]:
        if now_ns - self._written_ns >= _WRITTEN_EVERY_NS:
            self._write()
        return super()._counted(elapsed_ns, now_ns)

    def _limit(self, group: str, limits: AnyRates, *, leased: bool) -> None:
        super()._limit(group, limits, leased=leased)
        self._steering.set_limits(group, limits)
        self._write()

    def _remove(self, group: str) -> None:
        super()._remove(group)
        self._steering.remove_limits(group)

    def _stop(self) -> None:
        super()._stop()
        self.server.stop()
        self._topic.leave(self._reader)


class GatedHost(_Steered):
    """A gate, and the broker's limiter a margin above it."""

    def __init__(self, *given: Any, topic: UsageTopic) -> None:
        super().__init__(*given, topic=topic, behind_gate=True)

    def _admit(self, key: TrafficKey, load: Load, limiter: SimulatedLimiter, now_ns: int) -> int:
        size = load.source.message_bytes
        room = self.server.fits(key[0], size) if key[1] is MonitoringClass.PUBLISH else None
        waiting = load.waiting if room is None else min(load.waiting, room)
        admitted = limiter.admit(waiting, size, now_ns)
        self.server.take(key[0], admitted, size)
        return admitted


class NativeHost(_Steered):
    """No gate: the broker's limiter admits, and its counters are polled."""

    def __init__(self, *given: Any, topic: UsageTopic, headroom_permille: int = 0) -> None:
        super().__init__(
            *given, topic=topic, behind_gate=False, headroom_permille=headroom_permille
        )
        self._counts: dict[str, NamespaceCount] = {}
        self._polled_ns = self.now_ns

    def _counted(self, elapsed_ns: int, now_ns: int) -> tuple[Traffic, ...]:
        super()._counted(elapsed_ns, now_ns)
        if now_ns - self._polled_ns >= _POLLED_EVERY_NS and not self.server.stands_still:
            self._poll(now_ns)
        return self._steering.collect(now_ns)

    def _flow(self, key: TrafficKey, load: Load, elapsed_ns: int, now_ns: int) -> Traffic | None:  # noqa: ARG002
        group, size = key[0], load.source.message_bytes
        connected = load.arrive(self._schedule.now_ns, min(elapsed_ns, STEP_NS))
        room = self.server.fits(group, size)
        admitted = load.waiting if room is None else min(load.waiting, room)
        load.waiting -= admitted
        self.server.take(group, admitted, size)
        self._world.passed(self, key, load, admitted)
        count = self._counts.setdefault(f"t/{group}", NamespaceCount())
        count.messages += admitted
        count.bytes += admitted * size
        is_throttled = load.waiting and not self.server.stands_still
        count.throttles += _THROTTLES_PER_STEP if is_throttled else 0
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
