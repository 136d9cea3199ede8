"""A gate between clients and a broker of either family of addresses."""

from __future__ import annotations

import asyncio

import pytest

from deploy.local.ports import free_block
from tests.gate import peer
from tests.gate.gates import gate_to, started
from tests.gate.server.test_proxy import Client, FakeBroker


@pytest.mark.parametrize(
    ("listens", "clients"),
    [("::", ["127.0.0.1", "::1"]), ("::1", ["::1"]), ("0.0.0.0", ["127.0.0.1"])],
)
@pytest.mark.parametrize("upstream", ["127.0.0.1", "::1"])
async def test_clients_of_the_families_that_a_gate_listens_to_reach_the_broker(
    listens: str, clients: list[str], upstream: str
) -> None:
    """All addresses are those of both families; one address is itself."""
    async with FakeBroker(upstream) as broker:
        gate = gate_to(broker.port, listen=(listens, free_block()[0]), upstream_host=upstream)
        async with started(gate):
            for host in clients:
                client = Client(*await asyncio.open_connection(host, gate.port))
                assert await client.asks(peer.connect()) == peer.connected()
                client.writer.transport.abort()
