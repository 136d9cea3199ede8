"""Attachments in ZooKeeper, and why no attachment ever names a group that is gone.

Two nodes stand for one attachment, written in one transaction:

* ``attachments/tenants/<t>`` or ``attachments/namespaces/<t>/<n>``, the attachment itself: which group;
* ``groups/<group>/<t>`` or ``groups/<group>/<t>,<n>``, its *use*: an empty child of the group's node.

ZooKeeper itself then keeps the two sides apart: it refuses to delete a node with children and to create
a child without its parent, and it puts all transactions in one order. So a deletion that comes first
makes the attachment fail, and an attachment that comes first makes the deletion fail; there is no lock,
no counter and nothing to retry between the two. Invariant, kept by every transaction of this module:
an attachment that names a group has its use under that group, hence the group exists.

Changing an attachment is a compare-and-set on the attachment's version: read what is there, then in one
transaction set it, create the new use, delete the old one. Who loses such a race reads again. Creating
a child changes neither version nor mzxid of the group's node, so attachments do not disturb
compare-and-set writes of definitions, and do not look like changes of them.

People with a ZooKeeper shell can break the invariant. Reading before writing repairs what it meets: a
missing use is created, a use that is there already is kept, and if an attachment cannot be read, the
groups are searched for its use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from kazoo.client import TransactionRequest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from coordinator.adapters.zookeeper_session import ZooKeeperSession
from coordinator.ports import NotFound, VersionConflict
from coordinator.wire.documents import (
    DocumentError,
    decode_attachment,
    encode_attachment,
    validate_name,
)

#: How often somebody else may win the race for one and the same attachment.
_MAX_TRIES = 20

#: A transaction lost a race if it fails so: something was not as it was when it was read.
_RACE_LOST = (BadVersionError, NodeExistsError, NoNodeError)


@dataclass(frozen=True, slots=True)
class Owner:
    """A tenant, or a namespace of one, that can be attached to a group.

    Raises:
        ValueError: one of the names cannot be a node's name.
    """

    tenant: str
    namespace: str | None = None

    def __post_init__(self) -> None:
        validate_name(self.tenant)
        if self.namespace is not None:
            validate_name(self.namespace)

    @property
    def attachment(self) -> str:
        """The attachment's node below the root."""
        if self.namespace is None:
            return f"attachments/tenants/{self.tenant}"
        return f"attachments/namespaces/{self.tenant}/{self.namespace}"

    @property
    def use(self) -> str:
        """The use's name below its group's node; a comma is in neither name."""
        return self.tenant if self.namespace is None else f"{self.tenant},{self.namespace}"


class AttachmentWriter:
    """Attaches and detaches, by the protocol above."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session

    async def attach(self, owner: Owner, group: str) -> None:
        """Attach an owner to a group, replacing an earlier attachment.

        Raises:
            NotFound: there is no such group.
            StoreUnreachable: ZooKeeper did not answer; the owner is attached or as it was before.
            VersionConflict: somebody else kept changing this very attachment.
        """
        path = self._session.path(owner.attachment)
        parent = path.rpartition("/")[0]
        await self._session.call(lambda client: client.ensure_path_async(parent))
        for _ in range(_MAX_TRIES):
            if not await self._exists(self._session.path("groups", group)):
                raise NotFound(f"there is no resource group {group}")
            if await self._try_attach(owner, group):
                return
        raise VersionConflict(f"the attachment of {owner.use} kept changing")

    async def detach(self, owner: Owner) -> None:
        """Detach an owner; not attached is fine.

        Raises:
            StoreUnreachable: ZooKeeper did not answer; the owner is detached or as it was before.
            VersionConflict: somebody else kept changing this very attachment.
        """
        for _ in range(_MAX_TRIES):
            if await self._try_detach(owner):
                return
        raise VersionConflict(f"the attachment of {owner.use} kept changing")

    async def _try_attach(self, owner: Owner, group: str) -> bool:
        path = self._session.path(owner.attachment)
        document = encode_attachment(group)
        new_use = self._use(group, owner)
        version, old_uses = await self._read(owner)
        use_exists = await self._exists(new_use)

        def write(transaction: TransactionRequest) -> None:
            if version is None:
                transaction.create(path, document)
            else:
                transaction.set_data(path, document, version)
            if use_exists:
                transaction.check(new_use, -1)
            else:
                transaction.create(new_use)
            for use in old_uses - {new_use}:
                transaction.delete(use)

        return await self._wins(write)

    async def _try_detach(self, owner: Owner) -> bool:
        path = self._session.path(owner.attachment)
        version, uses = await self._read(owner)
        if version is None:
            return True

        def write(transaction: TransactionRequest) -> None:
            transaction.delete(path, version)
            for use in uses:
                transaction.delete(use)

        return await self._wins(write)

    async def _wins(self, write: Callable[[TransactionRequest], None]) -> bool:
        try:
            await self._session.transact(write)
        except _RACE_LOST:
            return False
        return True

    async def _read(self, owner: Owner) -> tuple[int | None, frozenset[str]]:
        """The attachment's version, None if there is none, and the uses that stand for it."""
        path = self._session.path(owner.attachment)
        try:
            data, stat = await self._session.call(lambda client: client.get_async(path))
        except NoNodeError:
            return None, frozenset()
        try:
            groups = [decode_attachment(data)]
        except DocumentError:
            directory = self._session.path("groups")
            groups = await self._session.call(lambda client: client.get_children_async(directory))
        uses = [self._use(group, owner) for group in groups]
        exist = await asyncio.gather(*map(self._exists, uses))
        return stat.version, frozenset(
            use for use, exists in zip(uses, exist, strict=True) if exists
        )

    async def _exists(self, path: str) -> bool:
        return await self._session.call(lambda client: client.exists_async(path)) is not None

    def _use(self, group: str, owner: Owner) -> str:
        return self._session.path("groups", group, owner.use)
