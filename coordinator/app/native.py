"""Native enforcement as a part of the sidecar; loaded where the configuration asks for it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from coordinator.adapters.broker.counters import MetricsCounters
from coordinator.adapters.broker.native_admin import HttpNativeAdmin
from coordinator.adapters.broker.rate_policies import HttpRatePolicies
from coordinator.adapters.pulsar.native_topic import NativeTopic
from coordinator.app import factories
from coordinator.app.runner import Runner
from coordinator.config import Config
from coordinator.native.engine.outside import TopicPolicies
from coordinator.native.engine.rate_policy import DISPATCH, PUBLISH, REPLICATION
from coordinator.native.engine.steering import Steering
from coordinator.native.shell.actuator import NativeActuator
from coordinator.native.shell.polling import POLLS_EVERY_S
from coordinator.ports import Clock
from coordinator.runtime.supervision import TaskSupervisor

if TYPE_CHECKING:
    from coordinator.app.parts import Kept


async def start(
    config: Config, kept: Kept, clock: Clock, runner: Runner, stack: AsyncExitStack
) -> NativeActuator:
    """Make the actuator that steers the broker's own limiter, and start it; the stack ends it."""
    topic = native_topic(config, runner.supervisor)
    admin = await stack.enter_async_context(factories.of_broker(HttpNativeAdmin, config))
    counters = await stack.enter_async_context(factories.of_broker(MetricsCounters, config))
    policies = await topic_policies(config, stack)
    native = _actuator(config, topic, admin, policies, counters, clock)
    kept.store.watch(native.catalogue_changed)
    kept.membership.watch_members(native.members_changed)
    stack.push_async_callback(topic.stop)
    await topic.start()
    runner.sampler.further.append(native.inexact)
    runner.spawn(native.run(runner.supervisor))
    return native


def native_topic(config: Config, supervisor: TaskSupervisor | None = None) -> NativeTopic:
    """Return Pulsar's own topic of resource usage."""
    return NativeTopic(
        config.bus_service_url,
        config.broker_id,
        has_gate=config.has_gate,
        listener_name=config.bus_listener_name,
        token=factories.secret("bus_token_file", config.bus_token_file) or None,
        tls_trust_certs_file=config.bus_tls_ca_file or None,
        supervisor=supervisor,
    )


async def topic_policies(config: Config, stack: AsyncExitStack) -> TopicPolicies:
    """Return the policies of topics, by the own broker's admin REST, until the end of the stack."""
    publish, dispatch, replication = [
        await stack.enter_async_context(
            factories.of_broker(partial(HttpRatePolicies, policy=policy), config)
        )
        for policy in (PUBLISH, DISPATCH, REPLICATION)
    ]
    return TopicPolicies(publish, dispatch, replication)


def _actuator(
    config: Config,
    topic: NativeTopic,
    admin: HttpNativeAdmin,
    policies: TopicPolicies,
    counters: MetricsCounters,
    clock: Clock,
) -> NativeActuator:
    """Return the actuator that steers the broker's own limiter."""
    margin_permille = config.native_margin_permille
    steering = Steering(
        cluster_group=config.cluster_group,
        margin_permille=margin_permille,
        headroom_permille=round(config.native_headroom * 1000),
        behind_gate=config.has_gate,
    )
    return NativeActuator(
        config.broker_id,
        steering,
        topic,
        admin,
        policies,
        counters,
        clock,
        poll_s=0.0 if config.has_gate else POLLS_EVERY_S,
        service_url=config.native_service_url,
        cluster_group=config.cluster_group,
        margin_permille=margin_permille,
    )
