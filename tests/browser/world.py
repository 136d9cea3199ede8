"""A cluster for the dashboard: one real sidecar on memory adapters, and peers that report to it.

The sidecar is the product's own runner, core and admin API, served over HTTP. The peers exist as members
and as the reports that they send; what they admit follows from their part of a group's limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import uvicorn

from admin_api.app import create_app
from admin_api.backend import AdminBackend, Backlogs
from admin_api.changes.echo import Echo
from admin_api.requests.access import Access
from coordinator.adapters.clock import MonotonicClock
from coordinator.app.operation_tracker import OperationTracker
from coordinator.app.runner import Runner
from coordinator.core.model import (
    Dimension,
    GroupUsage,
    Member,
    MonitoringClass,
    Rate,
    Rates,
    ResourceGroup,
    Usage,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.core.traffic import Traffic
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.shell.partition_meter import PartitionMeter
from coordinator.wire import reports
from coordinator.wire.signature import Signer, split_signature
from tests.admin_api.world import FixedGate, FixedLogLevel
from tests.app.sidecars import RecordingGate
from tests.contract.listening import eventually
from tests.memory.escrow import MemoryEscrow
from tests.memory.operations import MemoryOperations
from tests.memory.store import MemoryStore
from tests.memory.surroundings import (
    MemoryBrokerAdmin,
    MemoryBus,
    MemoryEnsemble,
    MemoryMembership,
    MemoryTopic,
)
from tests.memory.topic_limits import MemoryTopicLimits

PUBLISH = MonitoringClass.PUBLISH
OWN = "broker-1"


@dataclass
class Peer:
    """Another broker: what it wants of each group, per second; None is more than it gets."""

    member: Member
    wants: dict[str, int | None] = field(default_factory=dict)
    sequence: int = 0
    signer: Signer = field(default_factory=Signer)


class DashboardWorld:
    """The sidecar, its peers, and the address of the page."""

    def __init__(self, round_s: float = 0.2) -> None:
        self.round_s = round_s
        self.round_ns = round(round_s * 1_000_000_000)
        self.store = MemoryStore()
        #: What is known of backlogs; None is a sidecar that does not look.
        self.backlogs: Backlogs | None = None
        #: What partitions use, and which delayed messages there were; None is not counted.
        self.partitions: PartitionMeter | None = None
        self.delayed: DelayedView | None = None
        self.ensemble = MemoryEnsemble()
        self.topic = MemoryTopic()
        self.gate = RecordingGate()
        self.membership = MemoryMembership(self.ensemble)
        self.broker = MemoryBrokerAdmin()
        self.broker.tenants = {"acme", "public"}
        self.broker.namespaces = {"acme/orders", "acme/bills", "public/default"}
        self.bus = MemoryBus(self.topic, name=OWN)
        self.topic.subscribe(self._hear)
        #: The latest report of the sidecar, which every peer has received.
        self._heard: dict[int, int] = {}
        self._own: tuple[str, ...] = ()
        self._counted_ns = time.monotonic_ns()
        self.peers: dict[str, Peer] = {}
        self.url = ""
        self.state = CoordinatorState(CoreSettings(broker=OWN, round_ns=self.round_ns))
        self.runner = Runner(
            self.state,
            clock=MonotonicClock(),
            store=self.store,
            membership=self.membership,
            bus=self.bus,
            broker=self.broker,
            api_address="127.0.0.1:8087",
            drain_timeout_s=1.0,
        )

    async def limit(self, name: str, **limits: int) -> None:
        """Create a group."""
        await self.store.create_group(ResourceGroup(name, Rates(**limits)))

    def join(
        self, broker: str, wants: Mapping[str, int | None], api_address: str = "127.0.0.1:9000"
    ) -> None:
        """A peer appears."""
        signer = Signer()
        member = self.ensemble.register(broker, api_address, signer.public_key)
        self.peers[broker] = Peer(member, dict(wants), signer=signer)

    def leave(self, broker: str) -> None:
        """A peer is gone."""
        self.ensemble.unregister(self.peers.pop(broker).member)

    def own_traffic(self, *groups: str) -> None:
        """The own gate admits what it may, and holds producers of these groups all the time."""
        self._own = groups
        for name in groups:
            self.runner.participants_changed(name, PUBLISH, 1)

    @property
    def _known(self) -> Mapping[str, ResourceGroup]:
        return self.state.groups or {}

    async def _play(self) -> None:
        while True:
            for peer in list(self.peers.values()):
                peer.sequence += 1
                report = UsageReport(
                    peer.member.broker,
                    peer.member.incarnation,
                    peer.sequence,
                    self.round_ns,
                    tuple(self._entry(peer, name) for name in peer.wants if name in self._known),
                    complete=True,
                    answers=self._heard,
                )
                self.topic.send(peer.signer.sign(reports.encode(report)))
                await asyncio.sleep(0)
            await asyncio.sleep(self.round_s)

    def _hear(self, payload: bytes) -> None:
        names = {group.configuration_version: name for name, group in self._known.items()}
        report = reports.decode(split_signature(payload).report, names)
        if report.broker == OWN:
            self._heard = {report.incarnation: report.sequence}

    def _entry(self, peer: Peer, name: str) -> GroupUsage:
        """The peer holds what the law gives it, and admits of what it wants as much as it may."""
        decision = self.state.decider.decisions.get((name, Dimension.PUBLISH_MESSAGES))
        split = None if decision is None else decision.split
        wants = peer.wants[name]
        part = None if split is None else split.target_of(peer.member.broker)
        held = wants is None or (part is not None and wants > part)
        admitted = (part if held else wants) or 0
        usage = Usage(
            messages=round(admitted * self.round_s),
            messages_throttled_permille=1000 if held else 0,
            messages_demand=None if held else wants,
            messages_limit=part,
            participants=2,
            topics=1,
        )
        return GroupUsage(name, self._known[name].configuration_version, {PUBLISH: usage})

    def _local_limit(self, name: str) -> Rate:
        return self.gate.limits.get(name, Rates()).of(Dimension.PUBLISH_MESSAGES) or 0

    async def _own_counts(self) -> tuple[Traffic, ...]:
        now_ns = time.monotonic_ns()
        elapsed_ns, self._counted_ns = now_ns - self._counted_ns, now_ns
        return tuple(
            Traffic(
                name,
                PUBLISH,
                int(self._local_limit(name) * elapsed_ns // 10**9),
                messages_held_ns=elapsed_ns,
                participants=1,
                topics=1,
            )
            for name in self._own
        )

    @asynccontextmanager
    async def running(self, access: Access | None = None) -> AsyncIterator[DashboardWorld]:
        """Serve the page until the block ends."""
        self.gate.collect = self._own_counts  # type: ignore[method-assign]
        following = OperationTracker(self.state, MonotonicClock(), MemoryOperations())
        topic_limits = MemoryTopicLimits(self.store)
        backend = AdminBackend(
            store=self.store,
            topic_limits=topic_limits,
            groups_seen=Echo(self.store.watch),
            topics_seen=Echo(topic_limits.watch),
            broker=self.broker,
            views=self.runner.views,
            history=self.runner.sampler,
            operation_log=following,
            gate=FixedGate(counted_apart=self.delayed),
            bus=self.bus,
            log_level=FixedLogLevel(),
            access=access or Access(),
            backlogs=self.backlogs,
            partitions=self.partitions,
            delayed_group="late" if self.delayed else "",
        )
        config = uvicorn.Config(
            create_app(backend), log_config=None, lifespan="off", timeout_graceful_shutdown=1
        )
        server = _Server(config)
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self.runner.start(self.gate, MemoryEscrow(self.store))
        self.membership.connect()
        tasks = [
            asyncio.create_task(server.serve(sockets=[listening])),
            asyncio.create_task(self._play()),
            asyncio.create_task(following.run(self.runner.supervisor)),
        ]
        try:
            await eventually(lambda: server.started and self.runner.views.health().ready, "ready")
            yield self
        finally:
            server.should_exit = True
            for task in tasks[1:]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.runner.close()
            listening.close()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them to the tests."""
        yield
