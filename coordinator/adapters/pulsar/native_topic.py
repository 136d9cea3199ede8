"""Pulsar's own topic of resource usage; Pulsar's client is in a process of its own (`client`).

Each message names its sidecar in a property, which brokers ignore. Brokers drop messages that are older
than two intervals by their own clock, so each message is passed on with the delay of its arrival.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog

from coordinator.adapters.pulsar.client.frames import ClientSettings, Received
from coordinator.adapters.pulsar.client.handle import ClientProcess
from coordinator.adapters.pulsar.native_messages import HAS_GATE, SIDECAR, STANDS_IN, decode, encode
from coordinator.core.topics import RESOURCE_USAGE_TOPIC
from coordinator.native.engine.entries import Amounts
from coordinator.native.engine.outside import TopicHealth
from coordinator.native.engine.table import Statement
from coordinator.runtime.supervision import TaskSupervisor
from coordinator.wire.fields import BadReport

_NANOS_PER_MS = 1_000_000

_log = structlog.get_logger(__name__)


class NativeTopic:
    """`coordinator.native.engine.outside.EntryTopic` on Pulsar.

    Args:
        service_url: URL of a broker, best the own one.
        sidecar: this sidecar's id.
        has_gate: whether it has a gate, too.
        listener_name: the brokers' advertised listener that lookups answer with.
        token: authenticates to the broker; None sends none.
        tls_trust_certs_file: trusted authorities for ``pulsar+ssl``; None is certifi's list.
        supervisor: the process's supervisor.
    """

    def __init__(
        self,
        service_url: str,
        sidecar: str,
        *,
        has_gate: bool = False,
        listener_name: str | None = None,
        token: str | None = None,
        tls_trust_certs_file: str | None = None,
        supervisor: TaskSupervisor | None = None,
    ) -> None:
        settings = ClientSettings(
            service_url, [RESOURCE_USAGE_TOPIC], listener_name, token, tls_trust_certs_file
        )
        self._properties = {SIDECAR: sidecar} | ({HAS_GATE: "true"} if has_gate else {})
        self._supervisor = supervisor or TaskSupervisor()
        self._client = ClientProcess("native topic", settings, self._arrived, self._supervisor)
        self._listeners: list[Callable[[Statement], None]] = []
        self._bad = 0

    def watch(self, listener: Callable[[Statement], None]) -> None:
        """See `EntryTopic`."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Begin to connect, and never give up."""
        await self._client.start()

    async def stop(self) -> None:
        """Let what was written go out, then close; takes a few seconds at most."""
        await self._client.stop()

    def write(
        self,
        broker: str,
        amounts: Mapping[str, Amounts],
        done: Callable[[bool], None],
        *,
        stands_in: bool,
    ) -> None:
        """See `EntryTopic`."""
        properties = self._properties | ({STANDS_IN: "true"} if stands_in else {})
        self._client.publish(encode(broker, amounts), properties, done)

    def health(self) -> TopicHealth:
        """See `EntryTopic`."""
        client = self._client
        connected = all(client.connected().values())
        return TopicHealth(
            connected, "" if connected else client.reason, client.sent, client.unsent
        )

    def _arrived(self, message: Received) -> None:
        skew_ns = time.time_ns() - message.published_ms * _NANOS_PER_MS
        try:
            found = decode(message.payload)
        except BadReport as error:
            self._bad += 1
            if self._bad == 1:
                _log.warning("not a report of usage", topic=RESOURCE_USAGE_TOPIC, reason=str(error))
            return
        properties = message.properties
        said = Statement(
            found.broker,
            found.amounts,
            properties.get(SIDECAR, ""),
            message.producer,
            skew_ns,
            STANDS_IN in properties,
            found.named,
            HAS_GATE in properties,
        )
        self._supervisor.tell("native topic", self._listeners, said)
