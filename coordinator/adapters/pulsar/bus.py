"""The report bus on non-persistent Pulsar topics; Pulsar's client is in a process of its own (`client`).

Reports are useful only while they are fresh, so this bus rather loses one than delays it. Lost reports
are counted. Several topics, owned by several brokers, carry the same reports, so that the loss of one
broker (a gap of about 12 s) does not silence the bus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from coordinator.adapters.pulsar.client.frames import ClientSettings, Received
from coordinator.adapters.pulsar.client.handle import ClientProcess
from coordinator.ports import BusHealth
from coordinator.runtime.supervision import TaskSupervisor

_NO_PROPERTIES: Final[Mapping[str, str]] = {}


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
        compression: Literal["none", "lz4"] = "none",
        supervisor: TaskSupervisor | None = None,
    ) -> None:
        if not topics:
            raise ValueError("a report bus needs at least one topic")
        settings = ClientSettings(
            service_url,
            list(dict.fromkeys(topics)),
            listener_name,
            token,
            tls_trust_certs_file,
            compression,
        )
        self._supervisor = supervisor or TaskSupervisor()
        self._client = ClientProcess("bus", settings, self._arrived, self._supervisor)
        self._listeners: list[Callable[[bytes], None]] = []

    async def start(self) -> None:
        """Begin to connect, and never give up; returns at once, with the broker up or down."""
        await self._client.start()

    async def stop(self) -> None:
        """Let published payloads go out, then close; takes a few seconds at most."""
        await self._client.stop()

    def watch(self, listener: Callable[[bytes], None]) -> None:
        """See `ReportBus`."""
        self._listeners.append(listener)

    def publish(self, payload: bytes) -> None:
        """Send on every topic; returns at once, drops where not connected and counts that."""
        self._client.publish(payload, _NO_PROPERTIES)

    def health(self) -> BusHealth:
        """See `ReportBus`."""
        client = self._client
        dropped = client.unsent + client.overflowed
        return BusHealth(client.connected(), client.sent, client.received, dropped, client.ended)

    @property
    def client_pid(self) -> int | None:
        """The process of Pulsar's client; None while there is none."""
        return self._client.pid

    def _arrived(self, message: Received) -> None:
        self._supervisor.tell("bus", self._listeners, message.payload)
