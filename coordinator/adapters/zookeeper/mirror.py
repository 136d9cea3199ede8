"""A copy of some ZooKeeper subtrees, kept fresh, on the event loop's thread alone.

A watch only says that something at a path may have changed; it never carries the change. So the mirror
is level-triggered: a set of *stale* paths, and one task that reads them again until none is left. Every
read sets the next watch, so what changes after the read makes the path stale again and nothing is
missed, however events and answers interleave. The rules:

* every path is stale at the start and after every reconnection, because kazoo forgets all watches when
  the connection drops (kazoo #151); that is also how changes made while away are found;
* a directory that is missing is created, because no watch of its children can stand on a missing node
  (kazoo's own ChildrenWatch ends silently there);
* a node that vanished between the listing and the read is dropped; its parent's watch reports its
  return;
* the owner takes over each difference as it is read, so decoding is spread over the reading; it is told
  that the copy has settled when nothing is stale any more, so a burst of changes is one call. Under
  changes without end it is told every `_PASSES_PER_CALL` passes, but never before everything was read;
* a failure of the owner never ends the mirror: it is counted
  (coordinator.runtime.supervision), and later changes arrive all the same.

A *foreign* subtree is another system's, as the registrations of Pulsar's brokers. Nothing is created
there: the mirror waits for a missing directory, and counts it as read. A leaf is read once after its
creation: the mirror is for leaves whose owner rewrites them every few seconds and changes nothing that
matters here. A directory that ZooKeeper does not let us read counts as missing until the next connection.

kazoo's own recipes were tried and left: TreeCache changes its tree on two threads at once (iterating
``_children`` in one while the other deletes), ChildrenWatch and DataWatch read one node at a time,
synchronously, and a thousand groups take a thousand round trips.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent

from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.core.events import ConnectionState
from coordinator.ports import Refused, StoreUnreachable

#: Requests under way at once: enough to hide the round trip, few enough not to hold up the loop
#: (10,000 nodes in 3.3 s with 64 and with 256, the loop late by 37 ms and by 117 ms at worst).
_WINDOW = 64
_PASSES_PER_CALL = 8
_RETRY_S = 0.5

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Node:
    """A node's content and the numbers that ZooKeeper gave it.

    Args:
        data: the content.
        version: grows by one with every change of the content; what a compare-and-set names.
        created_zxid: the transaction that created the node (czxid).
        modified_zxid: the transaction that last changed its content (mzxid).
        refusal: why ZooKeeper does not let us read it; then the other fields mean nothing.
    """

    data: bytes
    version: int = 0
    created_zxid: int = 0
    modified_zxid: int = 0
    refusal: str = ""


class ZooKeeperMirror:
    """Leaves of fixed depth under some directories.

    Args:
        session: the session to read through.
        directories: path to the depth of its leaves; 1 means that its children are the leaves.
        on_leaf: called with each leaf that changed and its new content, None when it is gone.
        on_settled: called when no path is stale any more; first when everything was read, then also if
            there was nothing. Both are called on the loop's thread.
        foreign: whether the subtrees are another system's; see the module's head.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        directories: Mapping[str, int],
        on_leaf: Callable[[str, Node | None], None],
        on_settled: Callable[[], None],
        *,
        foreign: bool = False,
    ) -> None:
        self._session = session
        self._supervisor = session.supervisor
        #: The name under which its failures are counted.
        self._name = f"mirror of {', '.join(sorted(directories))}"
        self._on_leaf = on_leaf
        self._on_settled = on_settled
        self._foreign = foreign
        self._fixed = frozenset(directories)
        #: Every known directory to the depth of its leaves.
        self._directories = dict(directories)
        #: Every directory that was listed to its children, all of them directories or all leaves.
        self._children: dict[str, frozenset[str]] = {}
        self._leaves: dict[str, Node] = {}
        #: Paths that must be read (again).
        self._stale: set[str] = set(directories)
        #: Why directories cannot be read, of those that were refused the last time.
        self._refused: dict[str, str] = {}
        #: Set when a path may be stale.
        self._wake = asyncio.Event()
        #: Whether a call of `on_settled` is due; after the first load it always is.
        self._unsettled = True
        self._loaded = False
        self._task: asyncio.Task[None] | None = None
        session.watch_state(self._on_state)

    def start(self) -> None:
        """Begin to read, as soon as the session is connected."""
        self._wake.set()
        self._task = asyncio.create_task(self._supervisor.keep(self._name, self._follow))

    async def stop(self) -> None:
        """End reading; nothing is called afterwards."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _on_state(self, state: ConnectionState) -> None:
        if state is ConnectionState.CONNECTED:
            self._invalidate(*self._directories, *self._leaves)

    def _on_event(self, event: WatchedEvent) -> None:
        """Queue the event of kazoo's watch from its thread, and return."""
        # NONE says that the connection dropped; everything is read again when it is back.
        if event.type != EventType.NONE:
            self._session.post(self._invalidate, event.path)

    def _invalidate(self, *paths: str) -> None:
        self._stale.update(paths)
        self._wake.set()

    async def _follow(self) -> None:
        # The requests under way at the last failure are unknown: everything is read again.
        self._invalidate(*self._directories, *self._leaves)
        while True:
            await self._wake.wait()
            await self._session.wait_connected()
            self._wake.clear()
            for _ in range(_PASSES_PER_CALL):
                if not await self._read_stale():
                    await asyncio.sleep(_RETRY_S)
                if not self._stale:
                    break
            if self._stale:
                self._wake.set()
            self._settle()

    def _settle(self) -> None:
        if self._unsettled and (self._loaded or not self._stale):
            self._loaded = True
            self._unsettled = False
            with self._supervisor.guard(self._name):
                self._on_settled()

    async def _read_stale(self) -> bool:
        """Read the stale paths; return False if one could not be read and stays stale."""
        paths = sorted(self._stale)
        for start in range(0, len(paths), _WINDOW):
            window = paths[start : start + _WINDOW]
            self._stale.difference_update(window)
            if not all(await asyncio.gather(*map(self._read, window))):
                return False
        return True

    async def _read(self, path: str) -> bool:
        parent = path.rpartition("/")[0]
        try:
            if path in self._directories:
                await self._read_directory(path)
            elif self._directories.get(parent) == 1:
                await self._read_leaf(path)
            # Anything else was forgotten while its event was under way.
        except StoreUnreachable:
            self._stale.add(path)
            return False
        except Refused as refusal:
            self._note_refusal(path, str(refusal))
            if self._foreign:
                return True
            self._stale.add(path)
            return False
        self._refused.pop(path, None)
        return True

    def _note_refusal(self, path: str, reason: str) -> None:
        """Log it once; a directory is asked for again every half second."""
        if self._refused.get(path) != reason:
            self._refused[path] = reason
            _log.error("zookeeper directory refused", path=path, reason=reason)

    async def _read_directory(self, path: str) -> None:
        def list_children(client: KazooClient) -> object:
            return client.get_children_async(path, watch=self._on_event)

        try:
            names = await self._session.call(list_children)
        except NoNodeError:
            if path not in self._fixed:
                self._forget([path])
                return
            if self._foreign:
                await self._await_directory(path)
                return
            await self._session.call(lambda client: client.ensure_path_async(path))
            names = await self._session.call(list_children)
        children = frozenset(f"{path}/{name}" for name in names)
        self._forget(self._children.get(path, frozenset()) - children)
        self._children[path] = children
        # Not "children that were not listed before": one that was listed, found gone when it was
        # read, and listed again has to be read again.
        new = children - self._directories.keys()
        if not self._foreign:  # whose leaves have no watch, and may have been created anew
            new -= self._leaves.keys()
        depth = self._directories[path] - 1
        if depth:
            self._directories.update(dict.fromkeys(new, depth))
        self._stale.update(new)

    async def _await_directory(self, path: str) -> None:
        """Have a missing directory become stale when it is created; nothing is left of it here."""
        self._forget(self._children.pop(path, frozenset()))
        found = await self._session.call(
            lambda client: client.exists_async(path, watch=self._on_event)
        )
        if found is not None:  # created meanwhile
            self._stale.add(path)

    async def _is_unchanged(self, path: str) -> bool:
        """Return whether a foreign leaf is the very node that was read."""
        known = self._leaves.get(path)
        if known is None or known.refusal:
            return False
        stat = await self._session.call(lambda client: client.exists_async(path))
        return stat is not None and stat.czxid == known.created_zxid

    async def _read_leaf(self, path: str) -> None:
        if self._foreign and await self._is_unchanged(path):
            return
        watch = None if self._foreign else self._on_event

        def get(client: KazooClient) -> object:
            return client.get_async(path, watch=watch)

        try:
            data, stat = await self._session.call(get)
            node = Node(data or b"", stat.version, stat.czxid, stat.mzxid)
        except NoNodeError:
            self._forget([path])
            return
        except Refused as refusal:
            node = Node(b"", refusal=str(refusal))
        # A foreign leaf is known by its creation, and its content may be large.
        known = replace(node, data=b"") if self._foreign else node
        if self._leaves.get(path) != known:
            self._leaves[path] = known
            self._tell_leaf(path, node)

    def _forget(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._forget(self._children.pop(path, ()))
            self._directories.pop(path, None)
            if self._leaves.pop(path, None) is not None:
                self._tell_leaf(path, None)

    def _tell_leaf(self, path: str, node: Node | None) -> None:
        self._unsettled = True
        with self._supervisor.guard(self._name):
            self._on_leaf(path, node)
