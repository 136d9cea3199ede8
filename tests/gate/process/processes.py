"""A gate in a process of its own, in front of a broker of a few lines."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, Generic, TypeVar

from coordinator.config import Config
from coordinator.gate.process.handle import GateProcess
from coordinator.gate.process.service import LocalGate
from coordinator.gate.process.spawning import PROGRAM, spawned
from coordinator.ports import GateGone
from tests.config.nowhere import NOWHERE
from tests.gate import peer
from tests.gate.conftest import TOPIC, Story
from tests.gate.gates import gate_to
from tests.gate.server.test_proxy import Client, FakeBroker

_SPEAKS_S = 0.1

G = TypeVar("G", LocalGate, GateProcess)


def config(upstream: int, **settings: Any) -> Config:
    """Of which a gate goes by its own keys only."""
    places = {"gate_listen": "127.0.0.1:0", "gate_upstream": f"127.0.0.1:{upstream}"}
    return replace(NOWHERE, **(places | settings))


class Site(Generic[G]):
    """A gate in front of a fake broker."""

    def __init__(
        self,
        gate: G,
        port: int,
        broker: FakeBroker,
        story: Story,
    ) -> None:
        self.gate: G = gate
        self.port, self.broker, self.story = port, broker, story
        self.clients: list[Client] = []

    async def client(self) -> Client:
        """Connect, and open producer 1."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self.clients.append(client)
        await client.opens(peer.producer(TOPIC))
        return client


class ProcessSite(Site[GateProcess]):
    """A site with a gate in a process of its own."""

    process: subprocess.Popen[bytes]


@asynccontextmanager
async def site(
    *, speaks: bool = True, program: Sequence[str] = PROGRAM, **settings: Any
) -> AsyncIterator[ProcessSite]:
    """A gate at work in its process, which ends with the block.

    Args:
        speaks: whether it hears something all the time, as from a coordinator; else it soon stands still.
        program: the program that is the gate.
        settings: of its configuration.
    """
    story = Story()
    with spawned(program) as child:
        async with (
            FakeBroker() as broker,
            GateProcess.over(child, config(broker.port, **settings)) as gate,
        ):
            gate.listen(story)
            here = ProcessSite(gate, await gate.start(), broker, story)
            here.process = child.process
            async with closing(here), speaking(gate) if speaks else nullcontext():
                yield here


@asynccontextmanager
async def speaking(gate: GateProcess) -> AsyncIterator[None]:
    """Let a gate hear something all the time, as from a coordinator."""

    async def speak() -> None:
        with suppress(GateGone):
            while True:
                await gate.figures()
                await asyncio.sleep(_SPEAKS_S)

    task = asyncio.create_task(speak())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@asynccontextmanager
async def site_here() -> AsyncIterator[Site[LocalGate]]:
    """A gate at work in this process."""
    story = Story()
    async with FakeBroker() as broker:
        desk = LocalGate(gate_to(broker.port, listener=story))
        async with closing(Site(desk, await desk.start(), broker, story)) as here:
            yield here


@asynccontextmanager
async def closing(here: Site[G]) -> AsyncIterator[Site[G]]:
    """In the end clients leave, and the gate is closed."""
    try:
        yield here
    finally:
        for client in here.clients:
            client.writer.close()
        await here.gate.close()
