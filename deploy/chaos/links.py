"""TCP links that the bench controls: user-space proxies between two parts of the cluster.

A link passes bytes on in both directions until it is told otherwise:

- *stalled*: nothing passes and neither end is told, which is what a partition looks like to TCP. One
  direction alone can be stalled. Bytes wait, as they would in the sender's buffers.
- *slow*: every piece is late by a delay, and pieces follow each other no faster than a rate.
- *lossy*: now and then a direction stands still for as long as TCP needs to send once more what was
  lost; that is all that an application ever sees of lost or doubled packets.
- *severed*: connections are reset, and new ones too, until the link is mended.

All links of a bench share one event loop on a thread of its own; every method may be called from any
other thread and acts at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Self

_HOST = "127.0.0.1"
_PIECE_BYTES = 64 * 1024
#: What TCP waits before it sends once more; doubled when that is lost, too.
_RETRANSMISSION_S = (0.2, 0.4, 0.8)
_CONTROL_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Treatment:
    """The treatment of bytes that pass a link.

    Attributes:
        stalled_out: nothing passes from the one who connected.
        stalled_back: nothing passes to the one who connected.
        severed: connections are reset.
        delay_s: by which every piece is late.
        bytes_per_s: the most that passes; None is no bound.
        loss: the part of pieces that meet a retransmission.
    """

    stalled_out: bool = False
    stalled_back: bool = False
    severed: bool = False
    delay_s: float = 0.0
    bytes_per_s: float | None = None
    loss: float = 0.0


SOUND = Treatment()


class Link:
    """One listening port in front of one other port of this machine."""

    def __init__(self, target_port: int, seed: str) -> None:
        self._target_port = target_port
        # Which pieces are lost follows from the bench's seed, as far as their number does.
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._condition = SOUND
        #: Set while the direction is not stalled: from the one who connected, and back.
        self._flows = (asyncio.Event(), asyncio.Event())
        for flows in self._flows:
            flows.set()
        self.port = 0

    async def open(self, port: int) -> None:
        """Listen on this port; 0 takes any that is free."""
        self._server = await asyncio.start_server(self._accept, _HOST, port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def become(self, condition: Treatment) -> None:
        """From now on be like this."""
        self._condition = condition
        stalled = (condition.stalled_out, condition.stalled_back)
        for flows, stands in zip(self._flows, stalled, strict=True):
            if stands:
                flows.clear()
            else:
                flows.set()
        if condition.severed:
            self._reset()

    async def close(self) -> None:
        """Listen no more and reset what is connected."""
        assert self._server is not None
        self._server.close()
        for pump in tuple(self._pumps):
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        self._reset()

    async def _accept(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        self._writers.add(near_out)
        try:
            far, far_out = await asyncio.open_connection(_HOST, self._target_port)
        except OSError:
            self._abort(near_out)
            return
        self._writers.add(far_out)
        if self._condition.severed:
            self._abort(near_out)
            self._abort(far_out)
            return
        flows_out, flows_back = self._flows
        out = asyncio.create_task(self._pump(near, far_out, flows_out))
        back = asyncio.create_task(self._pump(far, near_out, flows_back))
        self._pumps |= {out, back}
        try:
            # A half-closed connection is finished first; a broken one breaks on both sides.
            await asyncio.gather(out, back)
        except (OSError, asyncio.CancelledError):
            out.cancel()
            back.cancel()
            await asyncio.gather(out, back, return_exceptions=True)
        finally:
            self._pumps -= {out, back}
            for writer in (near_out, far_out):
                writer.close()
                self._writers.discard(writer)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flows: asyncio.Event
    ) -> None:
        while piece := await reader.read(_PIECE_BYTES):
            await self._hold_up(len(piece))
            await flows.wait()
            writer.write(piece)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()

    async def _hold_up(self, size: int) -> None:
        condition = self._condition
        wait_s = condition.delay_s
        if condition.bytes_per_s is not None:
            wait_s += size / condition.bytes_per_s
        if condition.loss and self._random.random() < condition.loss:
            wait_s += self._random.choice(_RETRANSMISSION_S)
        if wait_s:
            await asyncio.sleep(wait_s)

    def _reset(self) -> None:
        for writer in tuple(self._writers):
            self._abort(writer)

    def _abort(self, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        self._writers.discard(writer)


class Links:
    """All links of a bench, and the thread that they live on."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._links: list[Link] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close every link, and the thread."""
        for link in tuple(self._links):
            self.close(link)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, target_port: int, port: int = 0) -> Link:
        """Open a link to a port of this machine, at `port` or any free one."""
        link = Link(target_port, f"{self._seed}/{len(self._links)}")
        self._do(link.open(port))
        self._links.append(link)
        return link

    def close(self, link: Link) -> None:
        """Leave the link's port to others."""
        self._do(link.close())
        self._links.remove(link)

    def become(self, condition: Treatment, *links: Link) -> None:
        """Let these links be like this."""
        for link in links:
            self._do(link.become(condition))

    def mend(self, *links: Link) -> None:
        """Make these links sound again."""
        self.become(SOUND, *links)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_CONTROL_TIMEOUT_S)
