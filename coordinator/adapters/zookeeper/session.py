"""One ZooKeeper session per process: kazoo's threads on one side, the event loop on the other.

Rules of this module, each of them learnt from kazoo 2.11's source or by measuring:

* **kazoo's threads only queue onto the loop.** A state listener runs on the connection's own thread,
  so one synchronous call in it stops the connection for ever (kazoo #355, #241, #491).
* **Nothing blocks the loop.** Requests use kazoo's ``*_async`` calls; their results become futures.
  Only ``stop`` joins kazoo's threads, and does that in a thread of its own.
* **Every request has a deadline** and waits for the connection within it before it is handed to kazoo.
  kazoo would queue a request while it is disconnected and run it after the caller has given up.
* **The back-off is bounded** (1 s; kazoo's own default is an hour).
* **A silent connection is dropped.** kazoo counts every request that it sends as a sign of life, so it
  never notices a server that answers nothing while requests go on. If requests get no answer for as long
  as kazoo itself would wait (two thirds of the session's timeout), the socket is closed, and kazoo goes
  to the next server.
* **A dead client is replaced.** kazoo's connection thread ends for good on an unexpected reply, such as
  one out of order, and reports it only if it was connected before. A new client is needed:
  a stopped one keeps its own "close" request queued and would end its next session with it. The new
  one has a session of its own, so the old one is lost, and must not be confirmed by the new one.

The session is *confirmed* by a transaction that checks a node and changes nothing: it needs a majority
like any write, and wakes no watch. The core concludes what that proves, from the time at which the
connection was asked for (coordinator.core.escrow.lease).

Only a server can report LOST; the core counts how long SUSPENDED may last before the others have dropped
this sidecar (coordinator.core.degradation).

States are reported in order and only when they change: CONNECTED, SUSPENDED, LOST. There is no report
until the first connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

import structlog
from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RequestTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
    ZookeeperError,
)
from kazoo.protocol.serialization import Connect
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from coordinator.adapters.clock import MonotonicClock
from coordinator.adapters.zookeeper.access import ZooKeeperAccess, on_attempts, refusal
from coordinator.core.events import ConnectionState
from coordinator.ports import Confirmation, Refused, StoreUnreachable
from coordinator.runtime.supervision import TaskSupervisor

DEFAULT_ROOT = "/pulsar-quota"
NO_ACCESS_CONTROL = ZooKeeperAccess()
_RETRY_DELAY_S = 0.1
_RETRY_MAX_DELAY_S = 1.0
_STOP_TIMEOUT_S = 5.0
_SUPERVISION_INTERVAL_S = 0.5

#: Answers that every adapter handles.
_ANSWERS: tuple[type[Exception], ...] = (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)

#: Answers that leave open whether the request was carried out.
_NO_ANSWERS: tuple[type[Exception], ...] = (
    AuthFailedError,
    ConnectionLoss,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionExpiredError,  # and its subclass ConnectionClosedError
    SessionMovedError,
    ThrottledOpError,
)

_log = structlog.get_logger(__name__)


class ZooKeeperSession:
    """A session that keeps itself up from `start` to `stop`.

    Args:
        hosts: ``host:port``, comma-separated.
        root: the node under which everything of ours lives.
        session_timeout_s: how long after the last heartbeat ZooKeeper drops this sidecar; servers
            clamp it to 2..20 of their ticks.
        request_timeout_s: the deadline of one request, waiting for the connection included.
        access: the sidecar's credentials, and its trust in the servers.
        supervisor: the process's supervisor.

    Raises:
        ValueError: the root is not an absolute path below ``/``.
    """

    def __init__(
        self,
        hosts: str,
        *,
        root: str = DEFAULT_ROOT,
        session_timeout_s: float = 4.0,
        request_timeout_s: float = 3.0,
        access: ZooKeeperAccess = NO_ACCESS_CONTROL,
        supervisor: TaskSupervisor | None = None,
    ) -> None:
        if not root.startswith("/") or root.endswith("/") or "//" in root:
            raise ValueError(f"root must look like {DEFAULT_ROOT}, got {root!r}")
        self._root = root
        #: Runs this session's tasks.
        self.supervisor = supervisor or TaskSupervisor()
        self._session_timeout_s = session_timeout_s
        self._request_timeout_s = request_timeout_s
        self._hosts = hosts
        self._access = access
        #: The fault that an operator must mend before the next connection can succeed.
        self._refusal: str | None = None
        self._clock = MonotonicClock()
        #: Of the present or last connection; set by kazoo's threads, before they report CONNECTED.
        self._connection: Confirmation | None = None
        self._client = self._new_client()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[Callable[[ConnectionState], None]] = []
        self._state: ConnectionState | None = None
        self._connected = asyncio.Event()
        self._supervising: asyncio.Task[None] | None = None
        #: When the first request after the last answer was sent; None while nothing is awaited.
        self._asked_ns: int | None = None

    def session_id(self) -> int:
        """Return ZooKeeper's number of the session: the owner of its ephemeral nodes.

        Raises:
            StoreUnreachable: there is no session at the moment.
        """
        client_id = self._client.client_id
        if client_id is None:
            raise StoreUnreachable("ZooKeeper is not connected")
        return int(client_id[0])

    @property
    def state(self) -> ConnectionState | None:
        """Return the last state reported, None before the first connection."""
        return self._state

    def path(self, *parts: str) -> str:
        """Return the absolute path of a node below the root."""
        return "/".join((self._root, *parts))

    def watch_state(self, listener: Callable[[ConnectionState], None]) -> None:
        """Call the listener with every change of the state, on the loop's thread."""
        self._listeners.append(listener)

    async def start(self) -> None:
        """Begin to connect, and never give up; returns at once, with ZooKeeper up or down."""
        self._loop = asyncio.get_running_loop()
        self._client.start_async()
        keeping = self.supervisor.keep("zookeeper session", self._supervise)
        self._supervising = asyncio.create_task(keeping)

    async def stop(self) -> None:
        """End the session, which removes its ephemeral nodes; takes a few seconds at the most."""
        if self._supervising is not None:
            self._supervising.cancel()
            await asyncio.wait({self._supervising})
        stopping = asyncio.create_task(asyncio.to_thread(_stop_client, self._client))
        done, _ = await asyncio.wait({stopping}, timeout=_STOP_TIMEOUT_S)
        if not done:
            _log.warning("zookeeper session is slow to close", timeout_s=_STOP_TIMEOUT_S)

    async def wait_connected(self) -> None:
        """Return as soon as the session is connected; has no deadline."""
        await self._connected.wait()

    async def call(self, operation: Callable[[KazooClient], Any]) -> Any:
        """Carry out one request, given as a function that calls one of kazoo's ``*_async`` methods.

        Raises:
            StoreUnreachable: no answer in time, or none that says whether it was carried out.
            NoNodeError, NodeExistsError, BadVersionError, NotEmptyError: kazoo's own, for the
                adapter to translate.
            Refused: any other answer, such as a missing permission.
        """
        try:
            async with asyncio.timeout(self._request_timeout_s):
                await self._connected.wait()
                return await self._as_future(operation(self._client))
        except TimeoutError as error:
            text = f"no answer from ZooKeeper within {self._request_timeout_s} s"
            raise StoreUnreachable(": ".join(filter(None, (text, self._refusal)))) from error
        except ZookeeperError as error:
            raise _translated(error) from error

    async def confirm(self) -> Confirmation:
        """Have a majority confirm the session; return the facts of the connection that did.

        Raises:
            StoreUnreachable: no answer in time, or none over the connection that was there before.
            Refused: any other answer.
        """
        sent_over: Confirmation | None = None

        def check(transaction: TransactionRequest) -> None:
            nonlocal sent_over
            sent_over = self._connection
            transaction.check(self._root, -1)

        with contextlib.suppress(NoNodeError):  # an answer like any other
            await self.transact(check)
        if sent_over is None or sent_over is not self._connection:
            raise StoreUnreachable("the connection to ZooKeeper was lost meanwhile")
        return sent_over

    async def transact(self, build: Callable[[TransactionRequest], None]) -> list[Any]:
        """Carry out several writes, all or none; return kazoo's result of each.

        Raises:
            As `call`, for the first write that failed; then nothing was changed.
        """

        def commit(client: KazooClient) -> Any:
            transaction = client.transaction()
            build(transaction)
            return transaction.commit_async()

        # kazoo answers with exceptions as values; those before and after the one that failed only
        # say that they were rolled back or never tried.
        results: list[Any] = await self.call(commit)
        for result in results:
            if isinstance(result, ZookeeperError) and not isinstance(
                result, RolledBackError | RuntimeInconsistency
            ):
                raise _translated(result)
        return results

    def post(self, function: Callable[..., None], *args: Any) -> None:
        """Call a function on the loop's thread: the only thing that kazoo's threads may do."""
        # The loop may be closed when stop() was slow and kazoo's threads outlived it.
        with contextlib.suppress(RuntimeError):
            assert self._loop is not None, "post() before start()"
            self._loop.call_soon_threadsafe(function, *args)

    def _as_future(self, result: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._asked_ns is None:
            self._asked_ns = self._clock.now_ns()

        def settle() -> None:
            self._asked_ns = None
            # Done already when the deadline passed; kazoo may also set a result twice.
            if future.done():
                return
            if result.exception is not None:
                future.set_exception(result.exception)
            else:
                future.set_result(result.value)

        result.rawlink(lambda _: self.post(settle))
        return future

    def _on_kazoo_state(self, state: str) -> None:
        """Queue kazoo's state from its connection's thread, and return."""
        self.post(self._apply_kazoo_state, state)

    def _apply_kazoo_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._connected.set()
            self._report(ConnectionState.CONNECTED)
            return
        self._connected.clear()
        self._asked_ns = None
        if state == KazooState.LOST:
            self._report(ConnectionState.LOST)
        elif self._state is not ConnectionState.LOST:
            self._report(ConnectionState.SUSPENDED)

    def _report(self, state: ConnectionState) -> None:
        if state is self._state:
            return
        self._state = state
        _log.info("zookeeper connection changed", state=state.value)
        self.supervisor.tell("zookeeper session", self._listeners, state)

    def _new_client(self) -> KazooClient:
        # kazoo takes KazooRetry objects only, not subclasses, and silently ignores anything else.
        delays = {"delay": _RETRY_DELAY_S, "max_delay": _RETRY_MAX_DELAY_S}
        client = KazooClient(
            hosts=self._hosts,
            timeout=self._session_timeout_s,
            **self._access.options(),
            connection_retry=KazooRetry(max_tries=-1, **delays),
            command_retry=KazooRetry(max_tries=-1, deadline=self._request_timeout_s, **delays),
        )
        client.add_listener(self._on_kazoo_state)
        self._note_connections(client)
        on_attempts(client, self._access, lambda refused: self.post(self._note_refusal, refused))
        return client

    def _note_connections(self, client: KazooClient) -> None:
        """Record when each connection was asked for, and the timeout that was granted with it.

        kazoo keeps neither, so this stands around the exchange of the first request and its answer.
        """
        connection = client._connection  # noqa: SLF001
        exchange = connection._invoke  # noqa: SLF001

        def invoke(timeout: float, request: Any, xid: int | None = None) -> Any:
            asked_ns = self._clock.now_ns()
            answer = exchange(timeout, request, xid)
            if isinstance(request, Connect) and answer[0].time_out > 0:  # else the session is over
                self._connection = Confirmation(asked_ns, answer[0].time_out * 1_000_000)
            return answer

        connection._invoke = invoke  # noqa: SLF001

    def _note_refusal(self, found: str | None) -> None:
        """Log once a fault that an operator must mend."""
        if found is not None and found != self._refusal:
            _log.error("zookeeper refuses", hosts=self._hosts, reason=found)
        self._refusal = found

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(_SUPERVISION_INTERVAL_S)
            # kazoo has no public way to tell that its connection thread has ended.
            if self._client._connection.connection_stopped.is_set():  # noqa: SLF001
                await self._replace_dead_client()
            elif self._is_silent():
                self._hang_up()

    async def _replace_dead_client(self) -> None:
        _log.error("zookeeper client died", hosts=self._hosts)
        await asyncio.to_thread(_stop_client, self._client)
        if self._state is not None:  # its session was the only one that there ever was
            self._apply_kazoo_state(KazooState.LOST)
        self._client = self._new_client()
        self._client.start_async()

    def _is_silent(self) -> bool:
        if self._connection is None or self._asked_ns is None:
            return False
        silence_ns = self._clock.now_ns() - self._asked_ns
        return silence_ns > self._connection.timeout_ns * 2 // 3

    def _hang_up(self) -> None:
        """Close the socket under kazoo's thread, to which the server seems to have closed it."""
        _log.warning("zookeeper is silent")
        with contextlib.suppress(OSError):  # closed meanwhile
            self._client._connection._socket.shutdown(socket.SHUT_RDWR)  # noqa: SLF001


def _translated(error: Exception) -> Exception:
    """Return the exception for the session's caller, given one of kazoo's errors."""
    if isinstance(error, _ANSWERS):
        return error
    text = f"ZooKeeper: {refusal(error) or f'{type(error).__name__} {error}'}".rstrip()
    return StoreUnreachable(text) if isinstance(error, _NO_ANSWERS) else Refused(text)


def _stop_client(client: KazooClient) -> None:
    client.stop()
    client.close()
