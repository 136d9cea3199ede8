"""The limits of single topics in ZooKeeper, one node ``limits/<tenant>/<namespace>/<topic>`` each.

The last part is the topic's domain and its local name, with characters that a node's name cannot hold
written as in a URL: ``persistent,my%2Ftopic``. A version is the node's mzxid, and a write checks two
things in one transaction, as for groups (`definitions`): the node is unchanged since the read, and no
node was removed from its namespace since, which is counted by rewriting the namespace's own (empty)
content.

Limits that cannot be read are logged; the last ones that could be read stay in force.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

import structlog
from kazoo.client import TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from coordinator.adapters.zookeeper.audit import ZooKeeperAudit
from coordinator.adapters.zookeeper.mirror import Node, ZooKeeperMirror
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.core.model import Rates
from coordinator.core.topics import TopicName
from coordinator.ports import (
    ANONYMOUS,
    AlreadyExists,
    NotFound,
    Origin,
    TopicLimit,
    TopicLimits,
    Unreadable,
    VersionConflict,
)
from coordinator.wire.audit import topic_subject
from coordinator.wire.documents import (
    DocumentError,
    decode_topic_limit,
    encode_topic_limit,
    tenants_own_in,
    validate_limited_topic,
)

#: How often others may remove a node of the namespace between a read and a write.
_MAX_TRIES = 64

_DEPTH = 3

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    """A node as it was read; ``removals`` is the version of the namespace's node before that."""

    data: bytes
    node_version: int
    mzxid: int
    removals: int

    @property
    def readable(self) -> Rates | None:
        try:
            return decode_topic_limit(self.data)
        except DocumentError:
            return None


class ZooKeeperTopicLimits:
    """`coordinator.ports.TopicLimitStore` on ZooKeeper."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._audit = ZooKeeperAudit(session)
        self._directory = session.path("limits")
        self._mirror = ZooKeeperMirror(session, {self._directory: _DEPTH}, self._apply, self._tell)
        self._listeners: list[Callable[[TopicLimits], None]] = []
        self._limits: dict[str, TopicLimit] = {}
        #: The limits last passed on; None until all were read once.
        self._told: TopicLimits | None = None

    async def start(self) -> None:
        """Begin to copy; returns at once, with ZooKeeper up or down."""
        self._mirror.start()

    async def stop(self) -> None:
        """End copying; no listener is called afterwards."""
        await self._mirror.stop()

    def watch(self, listener: Callable[[TopicLimits], None]) -> None:
        """Call the listener with all limits as soon as they are known and after every change."""
        self._listeners.append(listener)
        if self._told is not None:
            listener(self._told)

    def known(self) -> TopicLimits:
        """See `TopicLimitStore`."""
        return self._told or {}

    async def read(self, topic: TopicName) -> TopicLimit:
        """See `TopicLimitStore`."""
        path = self._path(topic)
        try:
            data, stat = await self._session.call(lambda client: client.get_async(path))
            limits = decode_topic_limit(data)
            return TopicLimit(topic, limits, stat.mzxid, tenants_own_in(data))
        except NoNodeError as error:
            raise _not_found(topic) from error
        except DocumentError as error:
            raise Unreadable(f"the limits of {topic}: {error}") from error

    async def write(self, limit: TopicLimit, *, by: Origin = ANONYMOUS) -> TopicLimit:
        """See `TopicLimitStore`."""
        data = encode_topic_limit(limit.topic, limit.limits, limit.tenants_own)
        await self._audit.prepare()
        if limit.version is None:
            mzxid = await self._create(limit, data, by)
        else:
            mzxid = await self._replace(limit, data, by)
        return replace(limit, version=mzxid)

    async def remove(self, limit: TopicLimit, *, by: Origin = ANONYMOUS) -> None:
        """See `TopicLimitStore`."""
        path = self._path(limit.topic)
        await self._audit.prepare()

        def write(found: _Found, transaction: TransactionRequest) -> None:
            transaction.set_data(_parent(path), b"", found.removals)
            transaction.delete(path, found.node_version)
            subject = topic_subject(limit.topic)
            self._audit.record(transaction, subject, found.readable, None, by)

        await self._compare_and_set(limit, write)

    async def _create(self, limit: TopicLimit, data: bytes, by: Origin) -> int:
        path = self._path(limit.topic)
        await self._session.call(lambda client: client.ensure_path_async(_parent(path)))

        def write(transaction: TransactionRequest) -> None:
            transaction.create(path, data)
            # Only a change of content answers with the transaction's number, and that is the version.
            transaction.set_data(path, data, 0)
            self._audit.record(transaction, topic_subject(limit.topic), None, limit.limits, by)

        try:
            results = await self._session.transact(write)
        except NodeExistsError as error:
            raise AlreadyExists(f"there are limits of {limit.topic} already") from error
        await self._audit.recorded(results)
        return int(results[1].mzxid)

    async def _replace(self, limit: TopicLimit, data: bytes, by: Origin) -> int:
        path = self._path(limit.topic)

        def write(found: _Found, transaction: TransactionRequest) -> None:
            transaction.check(_parent(path), found.removals)
            transaction.set_data(path, data, found.node_version)
            subject = topic_subject(limit.topic)
            self._audit.record(transaction, subject, found.readable, limit.limits, by)

        results = await self._compare_and_set(limit, write)
        return int(results[1].mzxid)

    async def _compare_and_set(
        self, limit: TopicLimit, write: Callable[[_Found, TransactionRequest], None]
    ) -> list[Any]:
        for _ in range(_MAX_TRIES):
            found = await self._find(limit.topic)
            if found.mzxid != limit.version:
                break
            try:
                results = await self._session.transact(partial(write, found))
            except (BadVersionError, NoNodeError):
                continue
            await self._audit.recorded(results)
            return results
        raise VersionConflict(f"the limits of {limit.topic} were changed meanwhile")

    async def _find(self, topic: TopicName) -> _Found:
        path = self._path(topic)
        try:
            # In this order: a removal after the first answer makes the transaction fail.
            _, parent = await self._session.call(lambda client: client.get_async(_parent(path)))
            data, stat = await self._session.call(lambda client: client.get_async(path))
        except NoNodeError as error:
            raise _not_found(topic) from error
        return _Found(data, stat.version, stat.mzxid, parent.version)

    def _path(self, topic: TopicName) -> str:
        validate_limited_topic(topic)
        node = f"{topic.domain},{quote(topic.local_name, safe='')}"
        return f"{self._directory}/{topic.tenant}/{topic.namespace}/{node}"

    def _topic_at(self, path: str) -> TopicName | None:
        tenant, namespace, node = path.removeprefix(self._directory + "/").split("/")
        domain, _, local_name = node.partition(",")
        return TopicName.parse(f"{domain}://{tenant}/{namespace}/{unquote(local_name)}")

    def _apply(self, path: str, node: Node | None) -> None:
        topic = self._topic_at(path)
        if topic is None:
            _log.error("topic limits unreadable", path=path, reason="that is no topic's name")
        elif node is None:
            self._limits.pop(str(topic), None)
        else:
            try:
                validate_limited_topic(topic)
                limits = decode_topic_limit(node.data)
                own = tenants_own_in(node.data)
            except ValueError as error:
                _log.error("topic limits unreadable", path=path, reason=node.refusal or str(error))
            else:
                self._limits[str(topic)] = TopicLimit(topic, limits, node.modified_zxid, own)

    def _tell(self) -> None:
        self._told = dict(self._limits)
        self._session.supervisor.tell("topic limits", self._listeners, self._told)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _not_found(topic: TopicName) -> NotFound:
    return NotFound(f"there are no limits of {topic}")
