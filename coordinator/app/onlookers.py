"""The parts of a sidecar that look on: recorder, counts and backlogs.

Messages pass with or without them, and most run only where the configuration asks for them.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from admin_api.backend import Backlogs
from coordinator.adapters.broker.backlog import HttpBacklogSource
from coordinator.adapters.broker.inventory import HttpInventory
from coordinator.adapters.clock import wall_ms
from coordinator.app import factories
from coordinator.app.parts import SidecarParts
from coordinator.insight.shell.inventory import InventoryWatch
from coordinator.insight.shell.namespace_meter import NamespaceMeter
from coordinator.insight.shell.partition_meter import PartitionMeter
from coordinator.insight.shell.unknown_topics import UnknownTopicsWatch
from coordinator.native.engine.sets import ALL_OF

if TYPE_CHECKING:
    from coordinator.adapters.recorder.rows import EnforcedBy
    from coordinator.native.shell.actuator import NativeActuator


def record(parts: SidecarParts) -> None:
    """Record which path enforces and what each namespace publishes, if there is a recorder."""
    recorder = parts.recorder
    if recorder is None:
        return
    recorder.enforced_by = partial(_enforcement, parts.config.enforcement_path, parts.native)
    meter = NamespaceMeter(parts.gate, recorder, parts.clock)
    parts.runner.keep("namespace counts", meter.run)


def _enforcement(path: str, native: NativeActuator | None) -> EnforcedBy:
    from coordinator.adapters.recorder.rows import EnforcedBy  # noqa: PLC0415 - only to record it

    return EnforcedBy(path, native.known_interval_s if native is not None else None)


def meter_partitions(parts: SidecarParts) -> PartitionMeter:
    """Count what each partition publishes."""
    meter = PartitionMeter(parts.gate, parts.clock)
    parts.runner.keep("partition counts", meter.run)
    parts.runner.sampler.further.append(meter.conditions)
    return meter


def watch_unknown_topics(parts: SidecarParts) -> None:
    """Tell of topics that the gate does not know, if the configuration asks for it."""
    if parts.gate_process is not None and parts.config.unknown_topics == "pass":
        watch = UnknownTopicsWatch(parts.gate_process.unknown_topics, parts.config.broker_id)
        parts.runner.sampler.further.append(watch.conditions)
        parts.runner.keep("unknown topics", watch.run)


async def watch_inventory(parts: SidecarParts, stack: AsyncExitStack) -> None:
    """Tell what has no counterpart in Pulsar, if the configuration asks for it."""
    every_s = parts.config.inventory_seconds
    if not every_s:
        return
    inventory = await stack.enter_async_context(factories.of_broker(HttpInventory, parts.config))
    url = parts.config.broker_web_url
    watch = InventoryWatch(inventory, every_s, url, lambda name: name.startswith(ALL_OF))
    parts.kept.store.watch(watch.catalogue_changed)
    parts.runner.sampler.further.append(watch.conditions)
    parts.runner.keep("inventory", watch.run)


async def backlogs(parts: SidecarParts, stack: AsyncExitStack) -> Backlogs | None:
    """Make the monitor of backlogs, if the configuration asks for it."""
    if not parts.config.backlog_check_seconds:
        return None
    source = await stack.enter_async_context(factories.of_broker(HttpBacklogSource, parts.config))
    return factories.backlogs(
        parts.config, source, parts.gate, parts.clock, parts.runner.supervisor
    )


def look_at_backlogs(parts: SidecarParts, backlogs: Backlogs | None) -> None:
    """Check backlogs and enforce their quotas, if there is a monitor."""
    if backlogs is None:
        return
    backlogs.watch.watch(parts.runner.sampler.backlogs_checked)
    if (recorder := parts.recorder) is not None:
        backlogs.watch.watch(
            lambda views: recorder.backlogs_checked(views, wall_ms(), parts.clock.now_ns())
        )
    parts.runner.keep("backlog checks", backlogs.watch.run)
    parts.runner.keep("backlog quotas", backlogs.enforcement.run)
