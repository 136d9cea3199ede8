"""One topic: a producer and a reader of Pulsar's client library that are kept connected.

Messages are useful only while they are fresh, so one is rather lost than delayed: no batching, a short
send timeout, nothing sent while the topic is not connected.

Threads. What blocks (creating, closing) runs on a thread of the topic's own; the library calls back on
threads of its own, and those calls only fill the `Outbox`. Sending does not block: a full queue is an
error code.

Reconnection. A producer or reader reconnects by itself once it exists, but gives up on some errors and
backs off for up to a minute. So `TopicClient.run` creates both, looks at them, and creates them anew
after they were disconnected for `_PATIENCE_S`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pulsar
from pulsar.exceptions import PulsarException

from coordinator.adapters.pulsar.client.frames import ClientSettings, Publish, Received, SendOutcome
from coordinator.adapters.pulsar.client.outbox import Outbox

_OPERATION_TIMEOUT_S = 5
_CONNECTION_TIMEOUT_MS = 2000
_SEND_TIMEOUT_MS = 2000
_MAX_PENDING = 1000
"""Messages of a topic on their way to the broker at once; more are refused."""

_RECEIVER_QUEUE = 1000

_FIRST_RETRY_S = 0.2
_LAST_RETRY_S = 2.0
_LOOK_EVERY_S = 1.0
_PATIENCE_S = 5.0

_COMPRESSIONS: Final[Mapping[str, Any]] = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
}


def new_client(settings: ClientSettings) -> Any:
    """Return a client of the library.

    It gets no Python logger: the library would call it on its own threads and has deadlocked on the GIL
    doing so (apache/pulsar #16527). Its errors go to the console.
    """
    token = settings.token
    return pulsar.Client(
        settings.service_url,
        authentication=None if token is None else pulsar.AuthenticationToken(token),
        operation_timeout_seconds=_OPERATION_TIMEOUT_S,
        connection_timeout_ms=_CONNECTION_TIMEOUT_MS,
        stats_interval_in_seconds=0,
        listener_name=settings.listener_name,
        tls_trust_certs_file_path=settings.tls_trust_certs_file,
        tls_validate_hostname=True,  # pulsar-client's own default is not to look
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


class _Pair(NamedTuple):
    """A producer and a reader of the same topic."""

    producer: Any
    reader: Any

    def is_connected(self) -> bool:
        return bool(self.producer.is_connected() and self.reader.is_connected())

    def close(self) -> None:
        """Close both; blocks. A broken one may fail to close, which is ignored."""
        for part in (self.producer, self.reader):
            with contextlib.suppress(PulsarException):
                part.close()


class TopicClient:
    """One topic.

    Args:
        client: the library's client.
        topic: the topic's full name.
        outbox: takes what arrives, and the answers to publishes.
        stopped: set when all is to end.
        compression: of payloads, as the settings name it.

    Attributes:
        reason: why the last attempt to connect failed; empty if it did not.
    """

    def __init__(
        self,
        client: Any,
        topic: str,
        outbox: Outbox,
        stopped: threading.Event,
        compression: str,
    ) -> None:
        self._client = client
        self._topic = topic
        self._outbox = outbox
        self._stopped = stopped
        self._compression = _COMPRESSIONS[compression]
        #: None until both exist, and while they are created anew.
        self._pair: _Pair | None = None
        self.reason = ""

    def is_connected(self) -> bool:
        """Return whether messages can be sent and received."""
        return self._pair is not None and self._pair.is_connected()

    def publish(self, message: Publish) -> None:
        """Send, or refuse; returns at once and never raises."""

        def sent(result: Any, _message_id: Any) -> None:
            self._outbox.answer(SendOutcome(message.number, result == pulsar.Result.Ok))

        pair = self._pair
        if pair is None or not pair.producer.is_connected():
            sent(pulsar.Result.NotConnected, None)
            return
        try:
            pair.producer.send_async(message.payload, sent, properties=dict(message.properties))
        except PulsarException:
            sent(pulsar.Result.UnknownError, None)

    def run(self) -> None:
        """Keep the topic connected until all is stopped; blocks."""
        delay_s = _FIRST_RETRY_S
        while not self._stopped.is_set():
            try:
                pair = self._open()
            except PulsarException as error:
                self.reason = f"{type(error).__name__}: {error}"
                self._stopped.wait(delay_s)
                delay_s = min(2 * delay_s, _LAST_RETRY_S)
                continue
            delay_s = _FIRST_RETRY_S
            self.reason, self._pair = "", pair
            self._until_lost(pair)
            self._pair = None
            pair.close()

    def _until_lost(self, pair: _Pair) -> None:
        seen_s = time.monotonic()
        while time.monotonic() - seen_s < _PATIENCE_S:
            if self._stopped.wait(_LOOK_EVERY_S):
                return
            if pair.is_connected():
                seen_s = time.monotonic()

    def _open(self) -> _Pair:
        """Create producer and reader; blocks for up to the client's operation timeout each."""
        producer = self._client.create_producer(
            self._topic,
            send_timeout_millis=_SEND_TIMEOUT_MS,
            compression_type=self._compression,
            max_pending_messages=_MAX_PENDING,
            block_if_queue_full=False,
            batching_enabled=False,
        )
        try:
            reader = self._client.create_reader(
                self._topic,
                pulsar.MessageId.latest,
                reader_listener=self._on_message,
                receiver_queue_size=_RECEIVER_QUEUE,
            )
        except PulsarException:
            producer.close()
            raise
        return _Pair(producer, reader)

    def _on_message(self, _reader: Any, message: Any) -> None:
        """Called on the library's threads: must not raise, must not block."""
        with contextlib.suppress(
            UnicodeDecodeError
        ):  # any producer can send names that are no text
            self._outbox.put(
                Received(
                    message.producer_name(),
                    message.publish_timestamp(),
                    message.properties(),
                    message.data(),
                )
            )
