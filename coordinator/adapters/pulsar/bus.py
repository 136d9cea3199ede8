"""The report bus on non-persistent Pulsar topics, over pulsar-client.

Reports are useful only while they are fresh, so this bus rather loses one than delays it: no batching, a
short send timeout, nothing sent while a topic is not connected, bounded queues everywhere. Lost reports
are counted. Several topics, owned by several brokers, carry the same reports, so that the loss of one
broker (a gap of about 12 s) does not silence the bus.

One `pulsar.Client` per process; it must be created after a fork, hence in `start`. It gets no Python
logger: pulsar-client would call it on its own threads and has deadlocked on the GIL doing so
(apache/pulsar #16527). Its errors go to the console. How a topic is kept connected: `channel`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Literal

import pulsar

from coordinator.adapters.pulsar.channel import (
    BusChannel,
    Counters,
    Inbox,
    close_client,
    new_client,
)
from coordinator.ports import BusHealth
from coordinator.runtime.supervision import TaskSupervisor

Compression = Literal["none", "lz4"]

_COMPRESSIONS: Final[Mapping[Compression, Any]] = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
}
_FLUSH_S = 1.0
_POLL_S = 0.02


class PulsarBus:
    """`coordinator.ports.ReportBus` on Pulsar; a payload counts once per bus topic.

    Args:
        service_url: ``pulsar://`` or ``pulsar+ssl://`` address of a broker, best the own one.
        topics: the bus topics; the same on every sidecar.
        listener_name: the brokers' advertised listener that lookups answer with; beside a broker that is
            ``internal``, because the external one leads through the gate.
        token: authenticates to the broker; None sends none.
        tls_trust_certs_file: trusted authorities for ``pulsar+ssl``; None is certifi's list.
        compression: what payloads are compressed with, ``none`` or ``lz4``, which halves reports of many
            groups and saves nothing for a few.
        supervisor: the process's supervisor.

    Raises:
        ValueError: there is no topic.
    """

    def __init__(  # all that a bus is told
        self,
        service_url: str,
        topics: Sequence[str],
        *,
        listener_name: str | None = None,
        token: str | None = None,
        tls_trust_certs_file: str | None = None,
        compression: Compression = "none",
        supervisor: TaskSupervisor | None = None,
    ) -> None:
        if not topics:
            raise ValueError("a report bus needs at least one topic")
        self._new_client = partial(
            new_client, service_url, listener_name, token, tls_trust_certs_file
        )
        self._topics = tuple(dict.fromkeys(topics))
        self._compression = _COMPRESSIONS[compression]
        self._counters = Counters()
        self._supervisor = supervisor or TaskSupervisor()
        self._inbox: Inbox[bytes] = Inbox("bus", self._counters, self._supervisor)
        # One thread per topic, and one to close the client while they are still busy.
        self._executor = ThreadPoolExecutor(len(self._topics) + 1, "pulsar-bus")
        self._client: Any = None
        #: By topic; empty before `start` and from `stop` on, which is what makes publishing drop.
        self._channels: dict[str, BusChannel] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begin to connect, and never give up; returns at once, with the broker up or down."""
        self._inbox.open()
        self._client = self._new_client()
        for topic in self._topics:
            self._channels[topic] = BusChannel(
                self._client,
                topic,
                inbox=self._inbox,
                counters=self._counters,
                executor=self._executor,
                compression=self._compression,
            )
        self._tasks = {
            asyncio.create_task(self._supervisor.keep(f"bus topic {topic}", channel.run))
            for topic, channel in self._channels.items()
        }

    async def stop(self) -> None:
        """Let published payloads go out, then close; takes a few seconds at most."""
        self._channels = {}
        await self._flush()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await close_client(self._client, self._executor)

    def watch(self, listener: Callable[[bytes], None]) -> None:
        """See `ReportBus`."""
        self._inbox.watch(listener)

    def publish(self, payload: bytes) -> None:
        """Send on every topic; returns at once, drops where not connected and counts that."""
        for channel in self._channels.values():
            channel.publish(payload)
        if not self._channels:
            with self._counters.lock:
                self._counters.dropped += len(self._topics)

    def health(self) -> BusHealth:
        """See `ReportBus`."""
        connected = dict.fromkeys(self._topics, False)
        for topic, channel in self._channels.items():
            connected[topic] = channel.is_connected()
        with self._counters.lock:
            counters = self._counters
            return BusHealth(connected, counters.sent, counters.received, counters.dropped)

    async def _flush(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_S):
                while self._counters.in_flight:  # noqa: ASYNC110  # other threads count it down
                    await asyncio.sleep(_POLL_S)
