"""``python -m benchmarks.gate_process gate|bare --listen PORT --upstream PORT``: what stands between.

``gate`` is the gate with a group that limits everything, at rates that no client reaches, so that every
check is made, and with one that limits publishing to little; ``bare`` is what any proxy in asyncio costs
at least: bytes from one socket to the other.
Prints a line once it listens, and runs until it is terminated. Processor time is read from outside.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import uvloop

from coordinator.adapters.clock import MonotonicClock
from coordinator.core.model import NANOS_PER_SECOND, Attachments, Rates
from coordinator.gate.limits.counters import NoListener
from coordinator.gate.server.proxy import Gate
from coordinator.runtime.gc_tuning import keep_what_is_loaded
from deploy.local import processes

TENANT: Final = "bench"
"""Its namespace ``limited`` is attached to a group that no client exhausts, ``held`` to one that is."""

HELD_RATE: Final = 1_000
"""The limit of the namespace ``held``, in messages published per second."""

_HIGH: Final = 1024 * 1024
_RATES: Final = Rates(10**8, 10**11, 10**8, 10**11)


async def _gate(listen: int, upstream: int) -> None:
    gate = Gate(
        listen_host="127.0.0.1",
        listen_port=listen,
        upstream_host="127.0.0.1",
        upstream_port=upstream,
        listener=NoListener(),
        clock=MonotonicClock(),
    )
    namespaces = {f"{TENANT}/limited": "group", f"{TENANT}/held": "held"}
    gate.set_attachments(Attachments({}, namespaces))
    gate.set_limits("group", _RATES)
    gate.set_limits("held", Rates(publish_messages=HELD_RATE))
    await gate.start()


class _Side(asyncio.Protocol):
    """One side of a bare pass-through."""

    def __init__(self, upstream: int | None) -> None:
        self._upstream = upstream
        self.transport: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self.other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Dial, if this is the client's side."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_HIGH)
        self.transport.get_extra_info("socket").setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )
        if self._upstream is not None:
            self._dialling = asyncio.create_task(self._dial(self._upstream))

    async def _dial(self, upstream: int) -> None:
        other = _Side(None)
        other.other = self
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: other, "127.0.0.1", upstream)
        self.other = other
        for data in self._waiting:
            other.write(data)

    def write(self, data: bytes) -> None:
        """Send."""
        assert self.transport is not None
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Hand on."""
        if self.other is None:
            self._waiting.append(data)
        else:
            self.other.write(data)

    def pause_writing(self) -> None:
        """The other side is not read as long as this one takes nothing."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """It takes again."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Close the other side."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


async def _bare(listen: int, upstream: int) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: _Side(upstream), "127.0.0.1", listen, backlog=1024)


async def _serve(kind: str, listen: int, upstream: int) -> None:
    await (_gate if kind == "gate" else _bare)(listen, upstream)
    keep_what_is_loaded()
    sys.stdout.write("listens\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


class Process:
    """A running gate or pass-through."""

    def __init__(self, pid: int, port: int) -> None:
        self._pid = pid
        self.port = port

    def processor_s(self) -> float:
        """Processor time of its one busy thread since its start, in seconds."""
        return int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[0]) / NANOS_PER_SECOND

    def resident_bytes(self) -> int:
        """Memory that it has now."""
        return processes.resident_bytes(self._pid)


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def running(kind: str, listen: int, upstream: int) -> Iterator[Process]:
    """A process of this kind, ended at the end."""
    arguments = (kind, "--listen", str(listen), "--upstream", str(upstream))
    command = (sys.executable, "-m", __spec__.name, *arguments)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603 - this module
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError(f"{kind} does not listen on port {listen}")
            yield Process(process.pid, listen)
        finally:
            process.terminate()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate_process", description=__doc__)
    parser.add_argument("kind", choices=("gate", "bare"))
    parser.add_argument("--listen", type=int, required=True)
    parser.add_argument("--upstream", type=int, required=True)
    options = parser.parse_args()
    uvloop.run(_serve(options.kind, options.listen, options.upstream))


if __name__ == "__main__":
    main()
