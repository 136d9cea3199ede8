"""One bus topic: a producer and a reader that are kept connected, and their counters.

Threads. pulsar-client calls back on threads of its own C++ library, and an exception that leaves such a
callback ends the process. So callbacks only count under a lock or put a payload into the bounded
`Inbox`, which wakes the event loop once for many. Calls that block (creating, closing) run in an
executor. Sending does not block: a full queue is an error code.

Reconnection. A producer or reader reconnects by itself once it exists, but gives up on some errors and
backs off for up to a minute. So `BusChannel.run` creates both, looks at them, and creates them anew
after they were disconnected for `_PATIENCE_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pulsar
import structlog
from pulsar.exceptions import PulsarException

from coordinator.runtime.supervision import TaskSupervisor

_OPERATION_TIMEOUT_S = 5
_CONNECTION_TIMEOUT_MS = 2000
_SEND_TIMEOUT_MS = 2000
_MAX_PENDING = 1000
"""Payloads of a topic on their way to the broker at once; more are dropped."""

_CLOSE_S = 2.0
_RECEIVER_QUEUE = 1000
_INBOX_LIMIT = 4096
#: Payloads handed over in one turn of the loop, so that a burst does not hold up everything else.
_HANDED_PER_TURN = 256

_FIRST_RETRY_S = 0.2
_LAST_RETRY_S = 2.0
_LOOK_EVERY_S = 1.0
_PATIENCE_S = 5.0

T = TypeVar("T")

_log = structlog.get_logger(__name__)


def new_client(
    service_url: str, listener_name: str | None, token: str | None, trust_certs_file: str | None
) -> Any:
    """Return a client of a broker; arguments as of `bus.PulsarBus`."""
    return pulsar.Client(
        service_url,
        authentication=None if token is None else pulsar.AuthenticationToken(token),
        operation_timeout_seconds=_OPERATION_TIMEOUT_S,
        connection_timeout_ms=_CONNECTION_TIMEOUT_MS,
        stats_interval_in_seconds=0,
        listener_name=listener_name,
        tls_trust_certs_file_path=trust_certs_file,
        tls_validate_hostname=True,  # pulsar-client's own default is not to look
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


async def close_client(client: Any, executor: Executor) -> None:
    """Close a client, and all that was created with it, and the executor; takes two seconds at most."""

    def close() -> None:
        with contextlib.suppress(PulsarException):
            client.close()

    if client is not None:
        closing = asyncio.get_running_loop().run_in_executor(executor, close)
        done, _ = await asyncio.wait({closing}, timeout=_CLOSE_S)
        if not done:
            _log.warning("bus is slow to close", timeout_s=_CLOSE_S)
    executor.shutdown(wait=False, cancel_futures=True)


@dataclass(slots=True)
class Counters:
    """The fates of payloads, one per topic and payload; guarded by `lock`.

    Attributes:
        in_flight: handed to pulsar-client, result unknown yet.
        sent: acknowledged by a broker.
        received: put into the inbox.
        dropped: not sent, not acknowledged in time, or pushed out of a full inbox.
    """

    in_flight: int = 0
    sent: int = 0
    received: int = 0
    dropped: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Inbox(Generic[T]):
    """Brings what arrives from pulsar-client's threads to listeners on the loop's thread, in order.

    An item that a listener fails on affects no other one. At most `_INBOX_LIMIT` items wait; then the
    oldest is dropped, because the newest report of a broker replaces its earlier ones.

    Args:
        name: under which failures of listeners are counted.
        counters: count what is received, and dropped here.
        supervisor: counts these failures.
    """

    def __init__(self, name: str, counters: Counters, supervisor: TaskSupervisor) -> None:
        self._name = name
        self._counters = counters
        self._supervisor = supervisor
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[Callable[[T], None]] = []
        self._waiting: deque[T] = deque(maxlen=_INBOX_LIMIT)
        #: Whether a call of `_hand_over` is queued on the loop; guarded by the counters' lock.
        self._woken = False

    def open(self) -> None:
        """Deliver to the running event loop."""
        self._loop = asyncio.get_running_loop()

    def watch(self, listener: Callable[[T], None]) -> None:
        """Call the listener with every item."""
        self._listeners.append(listener)

    def put(self, item: T) -> None:
        """Take an item; called on pulsar-client's threads, never raises."""
        with self._counters.lock:
            if len(self._waiting) == _INBOX_LIMIT:
                self._counters.dropped += 1
            self._counters.received += 1
            self._waiting.append(item)
            wake, self._woken = not self._woken, True
        if wake and self._loop is not None:
            # The loop may be closed already while the last items arrive.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._counters.lock:
            count = min(len(self._waiting), _HANDED_PER_TURN)
            items = [self._waiting.popleft() for _ in range(count)]
            self._woken = bool(self._waiting)
        if self._woken:
            asyncio.get_running_loop().call_soon(self._hand_over)
        for item in items:
            self._supervisor.tell(self._name, self._listeners, item)


@dataclass(frozen=True, slots=True)
class _Pair:
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


class BusChannel:
    """One bus topic.

    Args:
        client: the process's pulsar.Client.
        topic: the topic's full name.
        inbox: takes what is received; of this class, payloads.
        counters: shared by the bus's channels.
        executor: for the calls that block.
        compression: pulsar's compression type.
    """

    def __init__(
        self,
        client: Any,
        topic: str,
        *,
        inbox: Inbox[Any],
        counters: Counters,
        executor: Executor,
        compression: Any = pulsar.CompressionType.NONE,
    ) -> None:
        self._client = client
        self._topic = topic
        self._inbox = inbox
        self._counters = counters
        self._executor = executor
        self._compression = compression
        #: None until both exist, and while they are created anew.
        self._pair: _Pair | None = None

    def is_connected(self) -> bool:
        """Return whether payloads can be sent and received."""
        return self._pair is not None and self._pair.is_connected()

    def publish(self, payload: bytes) -> None:
        """Send, or drop and count; returns at once and never raises."""
        pair = self._pair
        if pair is None or not pair.producer.is_connected():
            self._count_dropped()
            return
        with self._counters.lock:
            self._counters.in_flight += 1
        try:
            # Not under the lock: with a full queue the callback is called from inside this call.
            pair.producer.send_async(payload, self._on_sent)
        except PulsarException:
            self._on_sent(pulsar.Result.UnknownError, None)

    async def run(self) -> None:
        """Keep the topic connected until cancelled."""
        delay_s = _FIRST_RETRY_S
        while True:
            try:
                pair = await self._in_executor(self._open)
            except PulsarException as error:
                _log.warning("bus topic unreachable", topic=self._topic, reason=str(error))
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, _LAST_RETRY_S)
                continue
            delay_s = _FIRST_RETRY_S
            self._pair = pair
            _log.info("bus topic connected", topic=self._topic)
            try:
                await self._until_lost(pair)
                _log.warning("bus topic lost", topic=self._topic)
            finally:
                self._pair = None
            await self._in_executor(pair.close)

    async def _in_executor(self, function: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)

    async def _until_lost(self, pair: _Pair) -> None:
        clock = asyncio.get_running_loop().time
        seen_s = clock()
        while clock() - seen_s < _PATIENCE_S:
            await asyncio.sleep(_LOOK_EVERY_S)
            if pair.is_connected():
                seen_s = clock()

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
        """Called on pulsar-client's threads: must not raise, must not block."""
        self._inbox.put(message.data())

    def _on_sent(self, result: Any, _message_id: Any) -> None:
        """Called on pulsar-client's threads: must not raise, must not block."""
        with self._counters.lock:
            self._counters.in_flight -= 1
            if result == pulsar.Result.Ok:
                self._counters.sent += 1
            else:
                self._counters.dropped += 1

    def _count_dropped(self) -> None:
        with self._counters.lock:
            self._counters.dropped += 1
