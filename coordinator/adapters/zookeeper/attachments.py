"""Attachments in ZooKeeper, and why no attachment ever names a deleted group.

Two nodes stand for one attachment, written in one transaction:

* ``attachments/tenants/<t>`` or ``attachments/namespaces/<t>/<n>``, the attachment itself: which group;
* ``groups/<group>/<t>`` or ``groups/<group>/<t>,<n>``, its *use*: an empty child of the group's node.

Other owners stand where a namespace would, below tenants that no cluster has (`owner_names`).

ZooKeeper itself then keeps the two sides apart: it refuses to delete a node with children and to create
a child without its parent, and it puts all transactions in one order. So a deletion that comes first
makes the attachment fail, and an attachment that comes first makes the deletion fail; there is no lock,
no counter and nothing to retry between the two. Invariant, kept by every transaction of this module:
an attachment that names a group has its use under that group, hence the group exists.

A tenant's admin attaches to a group that names the tenant: the definition is read before, and the
transaction checks that it is still that one.

Changing an attachment is a compare-and-set on the attachment's version: read it, then in one transaction
set it, create the new use, delete the old one. A sidecar that loses such a race reads again. Creating a
child changes neither version nor mzxid of the group's node, so attachments do not disturb compare-and-set
writes of definitions, and do not look like changes of them.

Users of a ZooKeeper shell can break the invariant. Reading before writing repairs what it meets: a
missing use is created, an existing use is kept, and if an attachment cannot be read, the groups are
searched for its use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from kazoo.client import TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from coordinator.adapters.zookeeper.audit import ZooKeeperAudit
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.core.owners import OwnerKind, TrafficOwner
from coordinator.ports import (
    ANONYMOUS,
    ANYTHING,
    Anything,
    NotFound,
    Origin,
    Protected,
    Unreadable,
    VersionConflict,
    check_allowed,
)
from coordinator.wire.documents import (
    OWNER_SCHEMA,
    SCHEMA,
    DocumentError,
    decode_attachment,
    decode_group,
    encode_attachment,
    is_super_users,
    validate_name,
)
from coordinator.wire.owner_names import kind_at, owner_node, place_of

#: How often other writers may win the race for the same attachment.
_MAX_TRIES = 20

_ANY_VERSION = -1

#: A transaction that fails so lost a race: a node had changed since it was read.
_RACE_LOST = (BadVersionError, NodeExistsError, NoNodeError)


@dataclass(frozen=True, slots=True)
class AttachmentNode:
    """An owner that can be attached to a group, and its places in the store.

    Args:
        attachment: the attachment's node below the root.
        use: the use's name below its group's node; a comma is in no name.
        subject: the audit trail's name of the owner.
        schema: of the attachment's document.
    """

    attachment: str
    use: str
    subject: str
    schema: int

    @classmethod
    def of(cls, owner: TrafficOwner) -> Self:
        """Return the places of an owner; raises ValueError if no tenant or namespace has this name."""
        schema = SCHEMA
        match owner.kind:
            case OwnerKind.TENANT:
                name = _tenant(owner.name)
                return cls(f"attachments/tenants/{name}", name, owner.subject, schema)
            case OwnerKind.NAMESPACE:
                tenant, _, namespace = owner.name.partition("/")
                place, node = _tenant(tenant), validate_name(namespace)
            case kind:
                place, node, schema = place_of(kind), owner_node(owner), OWNER_SCHEMA
        return cls(
            f"attachments/namespaces/{place}/{node}", f"{place},{node}", owner.subject, schema
        )


def _tenant(name: str) -> str:
    if kind_at(validate_name(name)) is not OwnerKind.NAMESPACE:
        raise ValueError(f"{name} is no tenant: the store keeps attachments of another kind there")
    return name


@dataclass(frozen=True, slots=True)
class _Current:
    """An attachment as it was read.

    ``version`` is None when there is none, ``group`` also when it cannot be read; ``uses`` are the
    nodes that stand for it; ``is_super_users`` is whether a tenant's admin may not replace it.
    """

    version: int | None = None
    group: str | None = None
    uses: frozenset[str] = frozenset()
    is_super_users: bool = False

    def check(self, owner: AttachmentNode, expected: str | Anything | None) -> None:
        """Check the precondition of a change; raises VersionConflict."""
        if expected is not ANYTHING and self.group != expected:
            raise VersionConflict(f"{owner.subject} was attached otherwise meanwhile")

    def check_right(self, owner: AttachmentNode, group: str | None, by: Origin) -> None:
        """Check the right of this author to change it; raises Protected."""
        if self.is_super_users and not by.is_super_user and group != self.group:
            raise Protected(f"attached {owner.subject}", by.actor)


class AttachmentWriter:
    """Attaches and detaches, by the protocol above."""

    def __init__(self, session: ZooKeeperSession, audit: ZooKeeperAudit) -> None:
        self._session = session
        self._audit = audit

    async def attach(
        self,
        owner: TrafficOwner,
        group: str,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = ANONYMOUS,
    ) -> None:
        """Attach an owner, as `GroupStore.attach`; where ZooKeeper did not answer, it may have been.

        It raises VersionConflict, too, where others kept changing this attachment.
        """
        node, group = AttachmentNode.of(owner), validate_name(group)
        await self._audit.prepare()
        path = self._session.path(node.attachment)
        parent = path.rpartition("/")[0]
        await self._session.call(lambda client: client.ensure_path_async(parent))
        for _ in range(_MAX_TRIES):
            allowed_at = await self._version_that_allows(group, by)
            current = await self._read(node)
            current.check(node, expected)
            current.check_right(node, group, by)
            if await self._try_attach(node, group, allowed_at, current, by):
                return
        raise VersionConflict(f"the attachment of {node.use} kept changing")

    async def detach(
        self,
        owner: TrafficOwner,
        *,
        expected: str | Anything | None = ANYTHING,
        by: Origin = ANONYMOUS,
    ) -> None:
        """Detach an owner, as `GroupStore.detach`; where ZooKeeper did not answer, it may have been.

        It raises VersionConflict, too, where others kept changing this attachment.
        """
        node = AttachmentNode.of(owner)
        await self._audit.prepare()
        for _ in range(_MAX_TRIES):
            current = await self._read(node)
            current.check(node, expected)
            current.check_right(node, None, by)
            if await self._try_detach(node, current, by):
                return
        raise VersionConflict(f"the attachment of {node.use} kept changing")

    async def _version_that_allows(self, group: str, by: Origin) -> int:
        """Return the version of the group's node in which its definition lets the author attach."""
        path = self._session.path("groups", group)
        try:
            data, stat = await self._session.call(lambda client: client.get_async(path))
            if by.is_super_user:
                return _ANY_VERSION
            check_allowed(decode_group(group, data, stat.mzxid), by)
        except NoNodeError as error:
            raise NotFound(f"there is no resource group {group}") from error
        except DocumentError as error:
            raise Unreadable(f"resource group {group}: {error}") from error
        return int(stat.version)

    async def _try_attach(
        self, owner: AttachmentNode, group: str, allowed_at: int, current: _Current, by: Origin
    ) -> bool:
        path = self._session.path(owner.attachment)
        stays = current.group == group and (current.is_super_users or not by.is_super_user)
        document = encode_attachment(
            group,
            by.actor,
            by_super_user=by.is_super_user or (stays and current.is_super_users),
            schema=owner.schema,
        )
        new_use = self._use(group, owner)
        use_exists = await self._exists(new_use)
        if use_exists and stays and current.uses == {new_use}:
            return True

        def write(transaction: TransactionRequest) -> None:
            transaction.check(self._session.path("groups", group), allowed_at)
            if current.version is None:
                transaction.create(path, document)
            else:
                transaction.set_data(path, document, current.version)
            if use_exists:
                transaction.check(new_use, -1)
            else:
                transaction.create(new_use)
            for use in current.uses - {new_use}:
                transaction.delete(use)
            self._audit.record(transaction, owner.subject, current.group, group, by)

        return await self._wins(write)

    async def _try_detach(self, owner: AttachmentNode, current: _Current, by: Origin) -> bool:
        path = self._session.path(owner.attachment)
        if current.version is None:
            return True

        def write(transaction: TransactionRequest) -> None:
            transaction.delete(path, current.version)
            for use in current.uses:
                transaction.delete(use)
            self._audit.record(transaction, owner.subject, current.group, None, by)

        return await self._wins(write)

    async def _wins(self, write: Callable[[TransactionRequest], None]) -> bool:
        try:
            results: list[Any] = await self._session.transact(write)
        except _RACE_LOST:
            return False
        await self._audit.recorded(results)
        return True

    async def _read(self, owner: AttachmentNode) -> _Current:
        path = self._session.path(owner.attachment)
        try:
            data, stat = await self._session.call(lambda client: client.get_async(path))
        except NoNodeError:
            return _Current()
        group = None
        try:
            group = decode_attachment(data, owner.schema)
            groups = [group]
        except DocumentError:
            directory = self._session.path("groups")
            groups = await self._session.call(lambda client: client.get_children_async(directory))
        uses = [self._use(group, owner) for group in groups]
        exist = await asyncio.gather(*map(self._exists, uses))
        there = (use for use, exists in zip(uses, exist, strict=True) if exists)
        return _Current(stat.version, group, frozenset(there), is_super_users(data))

    async def _exists(self, path: str) -> bool:
        return await self._session.call(lambda client: client.exists_async(path)) is not None

    def _use(self, group: str, owner: AttachmentNode) -> str:
        return self._session.path("groups", group, owner.use)
