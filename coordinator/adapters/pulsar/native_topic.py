"""Pulsar's own topic of resource usage, over pulsar-client.

Written like the bus: no batching, a short send timeout, nothing queued while it is not connected. Each
message names its sidecar in a property, which brokers ignore. Brokers drop messages that are older than
two intervals by their own clock, so each message is passed on with the delay of its arrival.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import pulsar
import structlog
from pulsar.exceptions import PulsarException

from coordinator.adapters.pulsar.channel import (
    BusChannel,
    Counters,
    Inbox,
    close_client,
    new_client,
)
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
        self._new_client = partial(
            new_client, service_url, listener_name, token, tls_trust_certs_file
        )
        self._properties = {SIDECAR: sidecar} | ({HAS_GATE: "true"} if has_gate else {})
        self._counters = Counters()
        self._supervisor = supervisor or TaskSupervisor()
        #: What is dropped here was written all the same, so it has counters of its own.
        self._inbox: Inbox[_Arrival] = Inbox("native topic", Counters(), self._supervisor)
        self._inbox.watch(self._arrived)
        self._executor = ThreadPoolExecutor(2, "pulsar-native")
        self._listeners: list[Callable[[Statement], None]] = []
        self._client: Any = None
        self._channel: _Channel | None = None
        self._task: asyncio.Task[None] | None = None
        self._bad = 0

    def watch(self, listener: Callable[[Statement], None]) -> None:
        """See `EntryTopic`."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Begin to connect, and never give up."""
        self._inbox.open()
        self._client = self._new_client()
        self._channel = _Channel(
            self._client,
            RESOURCE_USAGE_TOPIC,
            inbox=self._inbox,
            counters=self._counters,
            executor=self._executor,
        )
        keeping = self._supervisor.keep("native topic", self._channel.run)
        self._task = asyncio.create_task(keeping)

    async def stop(self) -> None:
        """Close; messages that no broker has taken yet are lost."""
        self._channel = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await close_client(self._client, self._executor)

    def write(
        self,
        broker: str,
        amounts: Mapping[str, Amounts],
        done: Callable[[bool], None],
        *,
        stands_in: bool,
    ) -> None:
        """See `EntryTopic`."""
        if self._channel is None:
            done(False)
            return
        properties = self._properties | ({STANDS_IN: "true"} if stands_in else {})
        self._channel.send(encode(broker, amounts), properties, done)

    def health(self) -> TopicHealth:
        """See `EntryTopic`."""
        channel = self._channel
        connected = channel is not None and channel.is_connected()
        with self._counters.lock:
            sent, dropped = self._counters.sent, self._counters.dropped
        reason = "" if connected or channel is None else channel.reason
        return TopicHealth(connected, reason, sent, dropped)

    def _arrived(self, arrival: _Arrival) -> None:
        """Handle one message, on the loop."""
        payload, properties, producer, skew_ns = arrival
        try:
            found = decode(payload)
        except BadReport as error:
            self._bad += 1
            if self._bad == 1:
                _log.warning("not a report of usage", topic=RESOURCE_USAGE_TOPIC, reason=str(error))
            return
        sidecar, stands_in = properties.get(SIDECAR, ""), STANDS_IN in properties
        said = Statement(
            found.broker,
            found.amounts,
            sidecar,
            producer,
            skew_ns,
            stands_in,
            found.named,
            HAS_GATE in properties,
        )
        for listener in self._listeners:
            listener(said)


class _Arrival(NamedTuple):
    """A message as it arrived."""

    payload: bytes
    properties: Mapping[str, str]
    producer: str
    skew_ns: int


class _Channel(BusChannel):
    """A bus channel whose messages name their writer, and whose sends report their result."""

    def __init__(self, *settings: Any, **more: Any) -> None:
        super().__init__(*settings, **more)
        self._loop = asyncio.get_running_loop()
        #: Why the last attempt to connect failed.
        self.reason = ""

    def send(
        self, payload: bytes, properties: Mapping[str, str], done: Callable[[bool], None]
    ) -> None:
        """Send; call back on the loop whether a broker took it."""
        pair = self._pair
        if pair is None or not pair.producer.is_connected():
            self._count_dropped()
            done(False)
            return

        def sent(result: Any, message_id: Any) -> None:
            self._on_sent(result, message_id)
            # The loop may be closed already while the last answers arrive.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(done, result == pulsar.Result.Ok)

        with self._counters.lock:
            self._counters.in_flight += 1
        try:
            pair.producer.send_async(payload, sent, properties=dict(properties))
        except PulsarException:
            sent(pulsar.Result.UnknownError, None)

    def _open(self) -> Any:
        try:
            pair = super()._open()
        except PulsarException as error:
            self.reason = f"{type(error).__name__}: {error}"
            raise
        self.reason = ""
        return pair

    def _on_message(self, _reader: Any, message: Any) -> None:
        """Called on pulsar-client's threads: must not raise, must not block."""
        skew_ns = time.time_ns() - message.publish_timestamp() * _NANOS_PER_MS
        with contextlib.suppress(
            UnicodeDecodeError
        ):  # any producer can send names that are no text
            self._inbox.put(
                _Arrival(message.data(), message.properties(), message.producer_name(), skew_ns)
            )
