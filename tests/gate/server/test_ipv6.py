"""A gate between clients and a broker of either family of addresses."""

from __future__ import annotations

import asyncio

import pytest

from deploy.local.ports import free_block
from tests.gate import peer
from tests.gate.gates import gate_to
from tests.gate.server.hostile_site import Broker
from tests.gate.server.test_proxy import read_frame


@pytest.mark.parametrize(
    ("listens", "clients"),
    [("::", ["127.0.0.1", "::1"]), ("::1", ["::1"]), ("0.0.0.0", ["127.0.0.1"])],
)
@pytest.mark.parametrize("upstream", ["127.0.0.1", "::1"])
async def test_clients_of_the_families_that_a_gate_listens_to_reach_the_broker(
    listens: str, clients: list[str], upstream: str
) -> None:
    """All addresses are those of both families; one address is itself."""
    broker = Broker()
    server = await asyncio.start_server(broker.serve, upstream, 0)
    gate = gate_to(
        server.sockets[0].getsockname()[1],
        listen=(listens, free_block()[0]),
        upstream_host=upstream,
    )
    await gate.start()
    try:
        for host in clients:
            reader, writer = await asyncio.open_connection(host, gate.port)
            writer.write(peer.connect())
            async with asyncio.timeout(120):
                assert await read_frame(reader) == peer.connected()
            writer.transport.abort()
    finally:
        server.close()
        await gate.close()
