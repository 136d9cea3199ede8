"""Membership as ephemeral nodes: a sidecar is a member for as long as its session lives.

The incarnation is the node's czxid, the number of the transaction that created it. ZooKeeper hands
these out, ever growing, so a later registration of the same broker always has the larger incarnation,
whatever the clocks of the hosts say.

A registration left by an earlier session lives until that session times out. A sidecar that was started
again replaces its own in one transaction (delete and create), so the others see the new incarnation and
no gap. It knows it by the machine and the address of the admin API, at which one process alone can
listen. One of another machine or address is that of a sidecar with the same broker id, given to it by
mistake, or of this one before it was moved: joining is refused for as long as it is there. If the last
to join replaced it, two that run would push each other out for ever.

A member whose document cannot be read is a member all the same, because its broker has traffic in any
case; only its API address and its key are unknown, so its reports are not believed.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import NodeExistsError, NoNodeError

from coordinator.adapters.zookeeper.mirror import Node
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.watched import WatchedRecords
from coordinator.core.events import ConnectionState
from coordinator.core.model import Member
from coordinator.ports import AlreadyExists, Confirmation, StoreUnreachable
from coordinator.wire.documents import (
    DocumentError,
    MemberDocument,
    decode_member,
    encode_member,
    validate_name,
)

#: How often the registration may change between our read and our write while we join.
_MAX_TRIES = 10

_log = structlog.get_logger(__name__)


class ZooKeeperMembership(WatchedRecords[tuple[Member, ...]]):
    """`coordinator.ports.Membership` on ZooKeeper; `stop` ends no registration, `leave` does.

    Args:
        session: the process's session.
        version: this sidecar's release, written beside its address for people to read.
        host: the name of this machine.
    """

    def __init__(self, session: ZooKeeperSession, *, version: str = "", host: str = "") -> None:
        self._version = version
        self._host = host
        self._directory = session.path("brokers")
        self._members: dict[str, Member] = {}
        #: The node that may be ours: set before it is created, because the answer may get lost.
        self._own_path: str | None = None
        super().__init__(session, "membership", {self._directory: 1})

    def watch_connection(self, listener: Callable[[ConnectionState], None]) -> None:
        """See `Membership`."""
        self._session.watch_state(listener)

    def watch_members(self, listener: Callable[[tuple[Member, ...]], None]) -> None:
        """See `Membership`; as `watch`."""
        self.watch(listener)

    async def join(self, broker: str, api_address: str, report_key: bytes = b"") -> int:
        """Register a broker until its session ends; return its incarnation.

        Raises:
            AlreadyExists: another sidecar of the broker is registered.
            StoreUnreachable: ZooKeeper did not answer; the broker may be registered or not, and
                joining again is always safe.
            ValueError: the broker's id cannot be a node's name.
        """
        path = f"{self._directory}/{validate_name(broker)}"
        own = MemberDocument(api_address, report_key, self._host)
        self._own_path = path
        for _ in range(_MAX_TRIES):
            incarnation = await self._create_or_replace(path, own)
            if incarnation is not None:
                return incarnation
        raise StoreUnreachable(f"the registration of {broker} kept changing while joining")

    async def leave(self) -> None:
        """Deregister at once; not registered is fine.

        Raises:
            StoreUnreachable: ZooKeeper did not answer; the registration ends with the session.
        """
        path = self._own_path
        if path is None:
            return
        stat = await self._session.call(lambda client: client.exists_async(path))
        # Another sidecar's registration under our id is not ours to delete.
        if stat is not None and stat.owner_session_id == self._session.session_id():
            try:
                await self._session.call(lambda client: client.delete_async(path))
            except NoNodeError:
                _log.debug("registration gone already", path=path)
        self._own_path = None

    async def confirm(self) -> Confirmation:
        """See `Membership`; raises Refused, too."""
        return await self._session.confirm()

    async def _create_or_replace(self, path: str, own: MemberDocument) -> int | None:
        """Try once; return the incarnation, or None when the node was changed meanwhile."""
        document = encode_member(own, self._version)

        def create(client: KazooClient) -> object:
            return client.create_async(
                path, document, ephemeral=True, makepath=True, include_data=True
            )

        def replace(transaction: TransactionRequest) -> None:
            transaction.delete(path)
            transaction.create(path, document, ephemeral=True)

        try:
            _, stat = await self._session.call(create)
            return int(stat.czxid)
        except NodeExistsError:
            await self._check_that_it_is_ours(path, own)
        try:
            await self._session.transact(replace)
        except (NoNodeError, NodeExistsError):
            return None
        stat = await self._session.call(lambda client: client.exists_async(path))
        if stat is None or stat.owner_session_id != self._session.session_id():
            return None
        return int(stat.czxid)

    async def _check_that_it_is_ours(self, path: str, own: MemberDocument) -> None:
        """Raise AlreadyExists if the registration is another sidecar's."""
        try:
            data, stat = await self._session.call(lambda client: client.get_async(path))
        except NoNodeError:
            return
        if stat.owner_session_id in {None, self._session.session_id()}:  # None: of no session
            return
        try:
            found = decode_member(data)
        except DocumentError:
            found = MemberDocument("an address that cannot be read")
        if (found.host, found.api_address) != (own.host, own.api_address):
            broker = path.rpartition("/")[2]
            raise AlreadyExists(
                f"the sidecar at {found.api_address} on {found.host or 'an unknown host'} is registered "
                f"for {broker}; stop it, or correct broker_id of one of them. This one joins when that "
                "one's session is over"
            )

    def _apply(self, path: str, node: Node | None) -> None:
        broker = path.rpartition("/")[2]
        if node is None:
            self._members.pop(broker, None)
        else:
            self._members[broker] = _member(broker, node)

    def _snapshot(self) -> tuple[Member, ...]:
        return tuple(member for _, member in sorted(self._members.items()))


def _member(broker: str, node: Node) -> Member:
    try:
        document = decode_member(node.data)
    except DocumentError as error:
        _log.warning("member unreadable", broker=broker, reason=node.refusal or str(error))
        document = MemberDocument("")
    return Member(broker, node.created_zxid, document.api_address, document.report_key)
