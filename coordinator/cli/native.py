"""``pulsar-quota native``: native enforcement, and how to restore the brokers' own limits."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from coordinator.cli.client import AdminClient
from coordinator.cli.configuration import Settings, load_or_refuse
from coordinator.cli.failures import CommandFailed, WrongUse
from coordinator.cli.output import counted, echo, print_json, rate
from coordinator.cli.session import session_of
from coordinator.config import Config, ConfigError
from coordinator.native.engine.views import NativeState
from coordinator.runtime.logs import configure_logs

_WITHIN_S = 20.0

_GIVEN_BACK_WITHIN_S = 900.0
"""Some hundred topics a second are looked at."""

_SHOWN = 5
"""Namespaces whose rates could not be given back that are named."""

app = typer.Typer(
    no_args_is_help=True, help="Enforcement by Pulsar's own limiters, without a gate."
)


def native_state(client: AdminClient) -> NativeState:
    """Return the state of native enforcement with all its groups, which come in pages."""
    first, *more = client.parts(NativeState, "native")
    return replace(
        first, groups=first.groups + tuple(view for part in more for view in part.groups)
    )


@app.command()
def show(context: typer.Context) -> None:
    """Show what the sidecar writes for its broker, and what keeps that from being exact."""
    session = session_of(context)
    with session.connect() as client:
        found = native_state(client)
    if session.as_json:
        print_json(found)
        return
    if found.path == "gate":
        echo(
            "path gate: the sidecar's own gate holds limits, and no limiter of the broker is steered"
        )
        return
    echo(f"path {found.path}, as {found.service_url or 'an unknown broker'}")
    for group in found.groups:
        echo(f"{group.name}: entry {_both(group.entry)}, rest {_both(group.rest)}")
        if group.dispatch_topics:
            topics = counted(group.dispatch_topics, "topic")
            echo(f"  dispatch {_both(group.dispatch)}, by the rates of {topics}")
    if found.limited_topics:
        topics = counted(found.limited_topics, "topic")
        echo(f"{topics} with limits of their own, in force at all brokers")
    for condition in found.conditions:
        echo(f"{condition.code}: {condition.text}\n  -> {condition.fix}")


def _both(units: tuple[int | None, int | None]) -> str:
    messages, size = (rate(each) for each in units)
    return f"{messages} messages and {size} bytes"


@app.command()
def off(
    context: typer.Context,
    config: Annotated[Path, typer.Option(help="The configuration of any sidecar.", metavar="FILE")],
    settings: Settings = None,
) -> None:
    """Leave Pulsar's own resource groups to Pulsar again, once no sidecar runs any more.

    Records return from their part of the limit to the whole limit, namespaces to the narrowest of their
    groups, and topics and namespaces to the publish and dispatch rates that they had.
    """
    loaded = load_or_refuse(config, settings)
    configure_logs("warning")  # to standard error, as the outcome alone is printed
    try:
        done = asyncio.run(_off(loaded))
    except ConfigError as error:
        raise WrongUse(str(error)) from error
    except TimeoutError as error:
        raise CommandFailed(
            f"ZooKeeper or the broker did not answer in {_WITHIN_S:g} s, or not all is given back in "
            f"{_GIVEN_BACK_WITHIN_S:g} s."
        ) from error
    session_of(context).tell({"done": done}, "\n".join(done) if done else "Nothing to do.")


async def _off(config: Config) -> list[str]:
    # Only this command needs the adapters, which take a while to load.
    from coordinator.adapters.broker.native_admin import HttpNativeAdmin  # noqa: PLC0415
    from coordinator.adapters.zookeeper.membership import ZooKeeperMembership  # noqa: PLC0415
    from coordinator.adapters.zookeeper.store import ZooKeeperStore  # noqa: PLC0415
    from coordinator.app import factories  # noqa: PLC0415
    from coordinator.app.native import native_topic, topic_policies  # noqa: PLC0415
    from coordinator.native.shell.giving_back import GivingBack  # noqa: PLC0415
    from coordinator.ports import PortError  # noqa: PLC0415
    from coordinator.runtime.release import RELEASE  # noqa: PLC0415

    async with AsyncExitStack() as stack, asyncio.timeout(_WITHIN_S) as within:
        session = factories.session(config)
        store, membership = ZooKeeperStore(session), ZooKeeperMembership(session, version=RELEASE)
        admin = await stack.enter_async_context(factories.of_broker(HttpNativeAdmin, config))
        topic = native_topic(config)
        policies = await topic_policies(config, stack)
        giving_back = GivingBack(admin, policies, topic, config.cluster_group)
        store.watch(giving_back.catalogue_changed)
        membership.watch_members(giving_back.members_changed)
        for part in (session, store, membership):
            stack.push_async_callback(part.stop)
            await part.start()
        try:
            # A client of Pulsar that is closed while it connects keeps this process from its end.
            await giving_back.check_that_none_is_alive()
            within.reschedule(asyncio.get_running_loop().time() + _GIVEN_BACK_WITHIN_S)
            stack.push_async_callback(topic.stop)
            await topic.start()
            done = await giving_back.run()
        except PortError as error:
            raise CommandFailed(str(error)) from error
        if giving_back.failed:
            some = "; ".join(giving_back.failed[:_SHOWN])
            raise CommandFailed(
                f"In {len(giving_back.failed)} namespaces not all rates are given back: {some}"
            )
        return done
