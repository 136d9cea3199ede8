"""The parts of one sidecar, made from its configuration and connected with each other.

Nothing is started but the recorder and, where the broker's own limiter enforces, its topic: the first
line may be due as soon as the catalogue is known.
"""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.adapters.broker.admin import HttpBrokerAdmin
from coordinator.adapters.clock import MonotonicClock
from coordinator.adapters.pulsar.bus import PulsarBus
from coordinator.adapters.zookeeper.escrow import ZooKeeperEscrow
from coordinator.adapters.zookeeper.membership import ZooKeeperMembership
from coordinator.adapters.zookeeper.registrations import ZooKeeperRegistrations
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.adapters.zookeeper.topic_limits import ZooKeeperTopicLimits
from coordinator.app import factories
from coordinator.app.http import serving
from coordinator.app.runner import Runner
from coordinator.config import Config
from coordinator.core.state import CoordinatorState
from coordinator.gate.process.handle import GateProcess
from coordinator.runtime.gc_tuning import not_collecting
from coordinator.runtime.release import RELEASE
from coordinator.runtime.supervision import TaskSupervisor

if TYPE_CHECKING:
    from coordinator.native.shell.actuator import NativeActuator

    AnyGate = GateProcess | NativeActuator
    """The actuators that also get the settings that only a gate has."""

    from coordinator.adapters.recorder.recorder import ParquetRecorder


@dataclass(frozen=True, slots=True)
class Kept:
    """The state in ZooKeeper, all of it by one session."""

    session: ZooKeeperSession
    store: ZooKeeperStore
    escrow: ZooKeeperEscrow
    topic_limits: ZooKeeperTopicLimits
    membership: ZooKeeperMembership
    registrations: ZooKeeperRegistrations

    @classmethod
    def of(cls, config: Config, supervisor: TaskSupervisor) -> Kept:
        """Make the session of a configuration and everything that it reads and writes."""
        session = factories.session(config, supervisor)
        return cls(
            session,
            ZooKeeperStore(session),
            ZooKeeperEscrow(session),
            ZooKeeperTopicLimits(session),
            ZooKeeperMembership(session, version=RELEASE, host=socket.gethostname()),
            ZooKeeperRegistrations(session, config.zookeeper_brokers_path),
        )


@dataclass(frozen=True, slots=True)
class SidecarParts:
    """The parts that others are composed of; at least one of the two actuators is there."""

    config: Config
    clock: MonotonicClock
    kept: Kept
    bus: PulsarBus
    broker: HttpBrokerAdmin
    recorder: ParquetRecorder | None
    state: CoordinatorState
    runner: Runner
    gate_process: GateProcess | None
    native: NativeActuator | None

    @property
    def gate(self) -> AnyGate:
        """The gate, or what stands in its place."""
        gate = self.gate_process or self.native
        assert gate is not None
        return gate


async def make_parts(
    config: Config, gate_process: GateProcess | None, stack: AsyncExitStack
) -> SidecarParts:
    """Make the parts of a sidecar; the stack closes them.

    Raises:
        ConfigError: a file or place that the configuration names cannot be used.
    """
    supervisor, clock = TaskSupervisor(), MonotonicClock()
    kept = Kept.of(config, supervisor)
    bus = factories.bus(config, supervisor)
    broker = await stack.enter_async_context(factories.of_broker(HttpBrokerAdmin, config))
    recorder = factories.recorder(config)
    if recorder is not None:
        stack.callback(recorder.close)
        recorder.start()
    state = CoordinatorState(config.core_settings())
    runner = Runner(
        state,
        clock=clock,
        store=kept.store,
        membership=kept.membership,
        bus=bus,
        broker=broker,
        api_address=await serving.advertised_address(config),
        drain_timeout_s=config.drain_timeout_seconds,
        supervisor=supervisor,
        checks_invariants=config.check_invariants,
    )
    runner.reception.senders.topics = len(set(config.bus_topics))
    set_trust(runner, config)
    native: NativeActuator | None = None
    if config.is_native:
        with not_collecting():
            from coordinator.app.native import start  # noqa: PLC0415 - 1 MB, for this path only

        native = await start(config, kept, clock, runner, stack)
    return SidecarParts(
        config=config,
        clock=clock,
        kept=kept,
        bus=bus,
        broker=broker,
        recorder=recorder,
        state=state,
        runner=runner,
        gate_process=gate_process,
        native=native,
    )


def set_trust(runner: Runner, config: Config) -> None:
    """Set how old a report may be."""
    runner.reception.senders.age_max_ms = round(config.bus_message_age_max_seconds * 1000) or None
