"""Sidecars on memory adapters, which share a store and a bus in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from coordinator.adapters.clock import MonotonicClock
from coordinator.app.runner import Runner
from coordinator.core.handling import Handling
from coordinator.core.model import AnyRates, Attachments, Dimension, MonitoringClass, Rate, Rates
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic
from coordinator.ports import Recorder
from tests.memory.escrow import MemoryEscrow
from tests.memory.store import MemoryStore
from tests.memory.surroundings import (
    MemoryBrokerAdmin,
    MemoryBus,
    MemoryEnsemble,
    MemoryMembership,
    MemoryTopic,
)

PUBLISH = MonitoringClass.PUBLISH


@dataclass
class RecordingGate:
    """A gate that remembers what it was told and counts what the test says."""

    limits: dict[str, AnyRates] = field(default_factory=dict)
    attachments: Attachments = field(default_factory=Attachments)
    told: list[str] = field(default_factory=list)
    traffic: tuple[Traffic, ...] = ()
    lease_until_ns: int | None = None
    leased: set[str] = field(default_factory=set)
    collected: int = 0
    handlings: dict[str, Handling] = field(default_factory=dict)

    def hold_lease(self, until_ns: int) -> None:
        self.lease_until_ns = until_ns

    def set_limits(self, group: str, limits: AnyRates, *, leased: bool = False) -> None:
        self.limits[group] = limits
        self.leased = self.leased - {group} | ({group} if leased else set())
        self.told.append("limits")

    def remove_limits(self, group: str) -> None:
        del self.limits[group]

    def set_handling(self, group: str, handling: Handling) -> None:
        self.handlings[group] = handling

    def set_attachments(self, attachments: Attachments) -> None:
        self.attachments = attachments
        self.told.append("attachments")

    def when_in_force(self, then: Callable[[], None]) -> None:
        then()

    def watch_traffic(self, resumed: Callable[[], None]) -> None:
        self.resumed = resumed

    async def collect(self) -> tuple[Traffic, ...]:
        self.collected += 1
        return self.traffic

    async def drain(self, timeout_s: float) -> None:
        self.told.append(f"drain {timeout_s}")


@dataclass
class World:
    """The store and the bus that several sidecars share."""

    store: MemoryStore = field(default_factory=MemoryStore)
    escrow: MemoryEscrow = field(init=False)
    ensemble: MemoryEnsemble = field(default_factory=MemoryEnsemble)
    topic: MemoryTopic = field(default_factory=MemoryTopic)

    def __post_init__(self) -> None:
        self.escrow = MemoryEscrow(self.store)

    @asynccontextmanager
    async def sidecar(
        self,
        broker: str,
        recorder: Recorder | None = None,
        *,
        gate: RecordingGate | None = None,
        checks_invariants: bool = True,
        api_address: str = "127.0.0.1:1",
    ) -> AsyncIterator[Sidecar]:
        """A running sidecar."""
        membership = MemoryMembership(self.ensemble)
        admin = MemoryBrokerAdmin()
        gate = gate or RecordingGate()
        runner = Runner(
            CoordinatorState(CoreSettings(broker=broker, round_ns=200_000_000)),
            clock=MonotonicClock(),
            store=self.store,
            membership=membership,
            bus=MemoryBus(self.topic, name=broker),
            broker=admin,
            api_address=api_address,
            drain_timeout_s=3.0,
            checks_invariants=checks_invariants,
        )
        runner.start(gate, self.escrow, recorder)
        membership.connect()
        try:
            yield Sidecar(runner, gate, membership, admin)
            assert "invariants" not in runner.supervisor.failures
        finally:
            await runner.close()


@dataclass
class Sidecar:
    """One runner with the adapters that a test may disturb."""

    runner: Runner
    gate: RecordingGate
    membership: MemoryMembership
    admin: MemoryBrokerAdmin

    def saturate(self, group: str = "orders") -> None:
        """Connect a producer that always wants more than it gets."""
        self.gate.traffic = (
            Traffic(group, PUBLISH, messages=1, messages_held_ns=10**9, participants=1),
        )
        self.runner.participants_changed(group, PUBLISH, 1)

    @property
    def limit(self) -> Rate | None:
        """Messages per second that the gate enforces."""
        return self.gate.limits.get("orders", Rates()).of(Dimension.PUBLISH_MESSAGES)

    def limit_of(self, group: str) -> Rate:
        """The same of another group, which is limited."""
        limit = self.gate.limits[group].of(Dimension.PUBLISH_MESSAGES)
        assert limit is not None
        return limit


def shares(runner: Runner) -> dict[str, Rate | None]:
    """Every broker's local limit as one sidecar knows it."""
    return {
        row.broker: row.limits.of(Dimension.PUBLISH_MESSAGES)
        for row in runner.views.group_view("orders").brokers
    }
