"""Gates with sockets, on free ports of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coordinator.adapters.clock import MonotonicClock
from coordinator.gate.engine.connection_limits import ConnectionLimits
from coordinator.gate.limits.throttle import HELD_BYTES_MAX
from coordinator.gate.server.proxy import Gate
from coordinator.gate.server.supervisor import DEFAULT_PATIENCE, Patience
from coordinator.gate.server.tls import TlsFiles, TlsListener
from coordinator.gate.server.upstream import UpstreamTls
from tests.gate.conftest import Story


def gate_to(
    port: int,
    *,
    listener: Story | None = None,
    held_bytes_max: int = HELD_BYTES_MAX,
    pending_requests_max: int | None = None,
    entrance: TlsFiles | None = None,
    upstream_tls: UpstreamTls | None = None,
    proxy_protocol: int = 0,
    connections: ConnectionLimits | None = None,
    patience: Patience = DEFAULT_PATIENCE,
    listen: tuple[str, int] = ("127.0.0.1", 0),
    upstream_host: str = "127.0.0.1",
) -> Gate:
    """Return a gate, not started, to the broker on this port; with TLS if it is given the files."""
    return Gate(
        listen_host=listen[0],
        listen_port=listen[1],
        upstream_host=upstream_host,
        upstream_port=port,
        listener=listener or Story(),
        clock=MonotonicClock(),
        held_bytes_max=held_bytes_max,
        pending_requests_max=pending_requests_max,
        tls=None if entrance is None else TlsListener("127.0.0.1", 0, entrance),
        upstream_tls=upstream_tls,
        proxy_protocol=proxy_protocol,
        connections=connections,
        patience=patience,
    )


@asynccontextmanager
async def started(gate: Gate) -> AsyncIterator[Gate]:
    """The gate at work; it is closed afterwards."""
    await gate.start()
    try:
        yield gate
    finally:
        await gate.close()
