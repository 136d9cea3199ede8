"""The limits of single topics in ZooKeeper, one node ``limits/<tenant>/<namespace>/<topic>`` each.

The last part is the topic's domain and its local name, with characters that a node's name cannot hold
written as in a URL: ``persistent,my%2Ftopic``. They are written by compare-and-set (`versioned`).

Limits that cannot be read are logged; the last ones that could be read stay in force.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote, unquote

import structlog
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from coordinator.adapters.zookeeper.mirror import Node
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.versioned import AuditedChange, Found, VersionedNodes
from coordinator.adapters.zookeeper.watched import WatchedRecords
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

_DEPTH = 3

_log = structlog.get_logger(__name__)


class ZooKeeperTopicLimits(WatchedRecords[TopicLimits]):
    """`coordinator.ports.TopicLimitStore` on ZooKeeper."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._nodes = VersionedNodes(session)
        self._directory = session.path("limits")
        self._limits: dict[str, TopicLimit] = {}
        super().__init__(session, "topic limits", {self._directory: _DEPTH})

    def known(self) -> TopicLimits:
        """See `TopicLimitStore`."""
        return self._told or {}

    async def read(self, topic: TopicName) -> TopicLimit:
        """See `TopicLimitStore`."""
        try:
            data, version = await self._nodes.read(self._path(topic))
            return TopicLimit(topic, decode_topic_limit(data), version, tenants_own_in(data))
        except NoNodeError as error:
            raise _not_found(topic) from error
        except DocumentError as error:
            raise Unreadable(f"the limits of {topic}: {error}") from error

    async def write(self, limit: TopicLimit, *, by: Origin = ANONYMOUS) -> TopicLimit:
        """See `TopicLimitStore`."""
        topic = limit.topic
        path, subject = self._path(topic), topic_subject(topic)
        data = encode_topic_limit(topic, limit.limits, limit.tenants_own)

        async def change(found: Found) -> AuditedChange:
            return AuditedChange(_readable(found), limit.limits, by)

        try:
            if limit.version is None:
                created = AuditedChange(None, limit.limits, by)
                version = await self._nodes.create(path, subject, data, created)
            else:
                version = await self._nodes.replace(path, subject, data, limit.version, change)
        except NodeExistsError as error:
            raise AlreadyExists(f"there are limits of {topic} already") from error
        except NoNodeError as error:
            raise _not_found(topic) from error
        except BadVersionError as error:
            raise _conflict(topic) from error
        return replace(limit, version=version)

    async def remove(self, limit: TopicLimit, *, by: Origin = ANONYMOUS) -> None:
        """See `TopicLimitStore`."""
        topic = limit.topic

        async def change(found: Found) -> AuditedChange:
            return AuditedChange(_readable(found), None, by)

        if limit.version is None:
            raise _conflict(topic)
        try:
            await self._nodes.remove(self._path(topic), topic_subject(topic), limit.version, change)
        except NoNodeError as error:
            raise _not_found(topic) from error
        except BadVersionError as error:
            raise _conflict(topic) from error

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

    def _snapshot(self) -> TopicLimits:
        return dict(self._limits)


def _readable(found: Found) -> Rates | None:
    try:
        return decode_topic_limit(found.data)
    except DocumentError:
        return None


def _not_found(topic: TopicName) -> NotFound:
    return NotFound(f"there are no limits of {topic}")


def _conflict(topic: TopicName) -> VersionConflict:
    return VersionConflict(f"the limits of {topic} were changed meanwhile")
