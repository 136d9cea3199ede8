"""The parts of a sidecar that bring limits to its actuator, and see what goes round a gate."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import structlog

from coordinator.adapters.broker.counters import MetricsCounters
from coordinator.app import factories
from coordinator.app.addresses import AddressCourier
from coordinator.app.parts import SidecarParts
from coordinator.app.topic_limits import TopicLimitCourier
from coordinator.config import Config
from coordinator.core.lifecycle import Lifecycle
from coordinator.gate.process.handle import GateProcess
from coordinator.insight.model.views import HealthView
from coordinator.ports import TrafficGate
from coordinator.reconciliation.shell.reconciler import Reconciler

if TYPE_CHECKING:
    from coordinator.app.parts import AnyGate

log = structlog.get_logger(__name__)


def limit_broker(gate: AnyGate, config: Config) -> None:
    """Set the limits that the configuration has beside those of groups."""
    gate.set_broker_limits(config.broker_limits)
    gate.set_partition_limits(config.partition_limits)
    gate.set_subscribe_rate(config.subscribe_rate, period_s=config.subscribe_rate_period_seconds)


def limit_topics(parts: SidecarParts) -> TopicLimitCourier:
    """Bring the limits of topics to the gate or the broker and, of scalable ones, to the core."""
    courier = TopicLimitCourier(parts.gate, parts.broker)
    parts.kept.topic_limits.watch(courier.changed)
    if parts.gate_process is not None:
        parts.kept.topic_limits.watch(parts.runner.topic_limits_changed)
    elif parts.native is not None:
        parts.kept.topic_limits.watch(parts.native.topic_limits_changed)
    return courier


def enforcing(parts: SidecarParts) -> TrafficGate:
    """Return what carries out the core's limits: a gate, the broker's own limiter, or both."""
    if parts.gate_process is None or parts.native is None:
        return parts.gate
    from coordinator.native.shell.both import GateAndNative  # noqa: PLC0415 - for this path only

    return GateAndNative(parts.gate_process, parts.native)


async def reconciler(parts: SidecarParts, stack: AsyncExitStack) -> Reconciler | None:
    """Keep comparing what the broker counts with what the gate passes, where there is a gate."""
    config = parts.config
    if parts.gate_process is None or not config.reconciles:
        return None
    counters = await stack.enter_async_context(
        factories.of_broker(MetricsCounters, config, passed_only=True)
    )
    made = factories.reconciler(
        config, counters.read, parts.gate_process.passed_totals, parts.clock, parts.recorder
    )
    parts.kept.store.watch(made.catalogue_changed)
    parts.runner.sampler.further.append(made.accounts.conditions)
    parts.runner.keep("reconciliation", made.run)
    return made


async def follow_addresses(
    parts: SidecarParts, gate: GateProcess, stack: AsyncExitStack
) -> asyncio.Event:
    """Let the gate know the cluster's addresses; return the event that is set when it first does."""
    courier = AddressCourier(
        gate.set_addresses,
        parts.config.gate_listener_name,
        lambda: _sidecars(parts.runner.views.health()),
    )
    registrations = parts.kept.registrations
    registrations.watch(courier.changed)
    parts.runner.sampler.further.append(courier.conditions)
    stack.push_async_callback(registrations.stop)
    await registrations.start()
    return courier.informed


def _sidecars(health: HealthView) -> int | None:
    return len(health.members) if health.state is Lifecycle.ACTIVE else None


async def open_gate(gate: AnyGate, *informed: asyncio.Event) -> None:
    """Let clients in once all of this is known."""
    for event in informed:
        await event.wait()
    await gate.start()
    log.info("gate open")
