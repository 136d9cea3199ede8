"""A sidecar that needs no server: the product's runner, core, gate and API on memory adapters."""

from __future__ import annotations

from dataclasses import dataclass

from admin_api.backend import AdminBackend
from admin_api.changes.echo import Echo
from coordinator.adapters.clock import MonotonicClock
from coordinator.app.operation_tracker import OperationTracker
from coordinator.app.runner import Runner
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.gate.limits.modes import Modes
from coordinator.gate.process.service import LocalGate
from coordinator.gate.server.proxy import Gate
from coordinator.runtime.logs import LogLevel
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

_BROKER = "broker-1"


@dataclass(frozen=True, slots=True)
class MemorySidecar:
    """Its parts, of which nothing is started.

    Args:
        store: where its groups are.
        membership: by which it will know of the others, of whom there are none.
        runner: drives its core.
        gate: leads nowhere.
        following: follows changes.
        backend: what its API and its metrics stand on.
    """

    store: MemoryStore
    membership: MemoryMembership
    runner: Runner
    gate: LocalGate
    following: OperationTracker
    backend: AdminBackend


def memory_sidecar(log_level: LogLevel, *, delayed_group: str = "") -> MemorySidecar:
    """Put one together.

    Args:
        log_level: from where on it logs.
        delayed_group: the group of delayed messages; none when empty.
    """
    clock, store, broker = MonotonicClock(), MemoryStore(), MemoryBrokerAdmin()
    bus, membership = MemoryBus(MemoryTopic(), name=_BROKER), MemoryMembership(MemoryEnsemble())
    state = CoordinatorState(CoreSettings(broker=_BROKER))
    runner = Runner(
        state,
        clock=clock,
        store=store,
        membership=membership,
        bus=bus,
        broker=broker,
        api_address="127.0.0.1:1",
        drain_timeout_s=1.0,
    )
    gate = Gate(
        listen_host="127.0.0.1",
        listen_port=0,
        upstream_host="127.0.0.1",
        upstream_port=1,
        listener=runner,
        clock=clock,
        modes=Modes(delayed_group=delayed_group),
    )
    desk = LocalGate(gate)
    topic_limits = MemoryTopicLimits(store)
    following = OperationTracker(state, clock, MemoryOperations())
    backend = AdminBackend(
        store=store,
        topic_limits=topic_limits,
        groups_seen=Echo(store.watch),
        topics_seen=Echo(topic_limits.watch),
        broker=broker,
        views=runner.views,
        history=runner.sampler,
        operation_log=following,
        gate=desk,
        bus=bus,
        log_level=log_level,
    )
    return MemorySidecar(store, membership, runner, desk, following, backend)
