"""The admin API of a sidecar: what it answers from, and the server that is loaded beside the start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from admin_api.backend import AdminBackend, Backlogs
from admin_api.changes.echo import Echo
from admin_api.coordinator_loop import CoordinatorLoop
from admin_api.requests.access import Access
from coordinator.adapters.zookeeper.operations import ZooKeeperOperations
from coordinator.app import onlookers
from coordinator.app.http import serving
from coordinator.app.operation_tracker import OperationTracker
from coordinator.app.parts import SidecarParts
from coordinator.config import Config
from coordinator.reconciliation.shell.reconciler import Reconciler
from coordinator.runtime.gc_tuning import keep_what_is_loaded, not_collecting
from coordinator.runtime.logs import LogLevel

if TYPE_CHECKING:
    from fastapi import FastAPI


async def serve(
    parts: SidecarParts,
    *,
    access: Access,
    log_level: LogLevel,
    backlogs: Backlogs | None,
    reconciler: Reconciler | None,
    stack: AsyncExitStack,
) -> None:
    """Serve the admin API."""
    config, runner = parts.config, parts.runner
    backend = _backend(parts, access, log_level, backlogs, reconciler)
    api = await stack.enter_async_context(
        serving.serving(config, partial(_app, config, backend), backend.refusals.add)
    )
    runner.spawn(api.ends())
    runner.spawn(_keep_what_is_loaded(api))


def _backend(
    parts: SidecarParts,
    access: Access,
    log_level: LogLevel,
    backlogs: Backlogs | None,
    reconciler: Reconciler | None,
) -> AdminBackend:
    config, kept, runner = parts.config, parts.kept, parts.runner
    operations = ZooKeeperOperations(kept.session)
    record = None if parts.recorder is None else parts.recorder.operation_changed
    following = OperationTracker(parts.state, parts.clock, operations, record)
    runner.spawn(following.run(runner.supervisor))
    return AdminBackend(
        store=kept.store,
        topic_limits=kept.topic_limits,
        groups_seen=Echo(kept.store.watch),
        topics_seen=Echo(kept.topic_limits.watch),
        broker=parts.broker,
        views=runner.views,
        history=runner.sampler,
        operation_log=following,
        log_level=log_level,
        gate=parts.gate,
        bus=parts.bus,
        access=access,
        coordinator_loop=CoordinatorLoop(asyncio.get_running_loop()),
        requests_per_second=config.admin_requests_per_second,
        hosts=serving.hosts(config),
        gate_listener=config.gate_listener_name,
        backlogs=backlogs,
        partitions=onlookers.meter_partitions(parts),
        cluster_group=config.cluster_group,
        delayed_group=config.delayed_group,
        native=parts.native,
        reconciling=reconciler,
        enforcement_path=config.enforcement_path,
        proves_roles=config.proves_roles,
    )


@asynccontextmanager
async def _app(config: Config, backend: AdminBackend) -> AsyncIterator[FastAPI]:
    """Make the admin API, and the parts that live with it on its loop; loaded where it runs."""
    with not_collecting():
        from admin_api.app import create_app  # noqa: PLC0415
        from coordinator.adapters.broker.relay import HttpBrokerRelay  # noqa: PLC0415

    async with HttpBrokerRelay(config.broker_web_url) as relay:
        yield create_app(replace(backend, relay=relay if config.admin_pass_through else None))


async def _keep_what_is_loaded(api: serving.AdminApi) -> None:
    await api.loaded.wait()
    keep_what_is_loaded()
