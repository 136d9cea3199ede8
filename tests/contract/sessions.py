"""Sessions of ZooKeeper with more patience than a sidecar has.

A machine that stands still for some seconds must not end the session of a test, or a request of it, that
is about something else.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

from kazoo.client import KazooClient

from coordinator.adapters.zookeeper.access import ZooKeeperAccess
from coordinator.adapters.zookeeper.session import (
    DEFAULT_ROOT,
    NO_ACCESS_CONTROL,
    ZooKeeperSession,
)

PATIENT_S = 30.0
"""For a session and for a request; as long as the test cluster grants it."""


def patient(
    hosts: str, root: str = DEFAULT_ROOT, access: ZooKeeperAccess = NO_ACCESS_CONTROL
) -> ZooKeeperSession:
    """A session that is not started yet."""
    return ZooKeeperSession(
        hosts,
        root=root,
        session_timeout_s=PATIENT_S,
        request_timeout_s=PATIENT_S,
        access=access,
    )


def new_root() -> str:
    """A root that no other test has."""
    return f"/contract-{uuid.uuid4().hex}"


class Part(Protocol):
    """A session, or what stands on one."""

    async def start(self) -> None:
        """Begin."""

    async def stop(self) -> None:
        """End."""


@asynccontextmanager
async def running(*parts: Part) -> AsyncIterator[None]:
    """These parts, started one after the other and stopped in the reverse order."""
    async with AsyncExitStack() as started:
        for part in parts:
            await part.start()
            started.push_async_callback(part.stop)
        yield


@asynccontextmanager
async def an_operator(hosts: str) -> AsyncIterator[KazooClient]:
    """A client that acts as an operator with a ZooKeeper shell, or as any other writer."""
    client = KazooClient(hosts)
    await asyncio.to_thread(client.start)
    try:
        yield client
    finally:
        await asyncio.to_thread(client.stop)
        client.close()
