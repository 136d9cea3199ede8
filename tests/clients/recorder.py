"""A TCP proxy in the place of gates that writes down what clients and brokers say to each other.

`python -m tests.clients.recorder STATE_DIR OUT DELAY_S` listens at the gate port of every broker of
a running cluster without sidecars, and appends one line of JSON per frame to OUT until it is ended.
What brokers say is passed on late by DELAY_S, so that requests of one connection are under way at
the same time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from pathlib import Path
from typing import TextIO

from deploy.local.cluster import Cluster
from tests.clients.decoding import split

_numbers = itertools.count(1)


class Recorder:
    """Forwards connections and writes down their frames."""

    def __init__(self, out: TextIO, delay_s: float = 0.0) -> None:
        self._out = out
        self._delay_s = delay_s

    async def serve(self, name: str, port: int, upstream_port: int) -> asyncio.Server:
        """Listen at a port and forward to another."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            number = next(_numbers)
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", upstream_port)
            await asyncio.gather(
                self._pump(name, number, ">", reader, up_writer),
                self._pump(name, number, "<", up_reader, writer),
            )

        return await asyncio.start_server(accept, "127.0.0.1", port)

    async def _pump(
        self,
        name: str,
        number: int,
        way: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        pending = bytearray()
        try:
            while data := await reader.read(1 << 16):
                pending += data
                for frame in split(pending):
                    self._write(name, number, way, frame)
                if way == "<" and self._delay_s:
                    await asyncio.sleep(self._delay_s)
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        self._write(name, number, way, b"")
        writer.close()

    def _write(self, name: str, number: int, way: str, frame: bytes) -> None:
        line = {"at": time.time(), "broker": name, "connection": number, "way": way}
        self._out.write(json.dumps({**line, "frame": frame.hex()}) + "\n")
        self._out.flush()


async def main(state_dir: Path, out: Path, delay_s: float) -> None:
    """Record until ended."""
    with out.open("a") as file:
        recorder = Recorder(file, delay_s)
        servers = [
            await recorder.serve(broker.name, broker.gate_port, broker.gate_upstream_port)
            for broker in Cluster(state_dir).brokers
        ]
        await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])))
