"""The brokers' own registrations in ZooKeeper, followed as brokers come and go.

Pulsar's brokers register as ephemeral nodes, which only they write. A registration that cannot be read is
a fault of that broker alone: it is logged, and the broker's last one stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from coordinator.adapters.zookeeper.mirror import Node, ZooKeeperMirror
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.core.addresses import BrokerRegistration
from coordinator.wire.documents import DocumentError
from coordinator.wire.registrations import decode_registration

DEFAULT_PATH: Final = "/loadbalance/brokers"

_log = structlog.get_logger(__name__)


class ZooKeeperRegistrations:
    """The registrations of Pulsar's brokers.

    Args:
        session: the process's session.
        path: the node below which brokers register.
    """

    def __init__(self, session: ZooKeeperSession, path: str = DEFAULT_PATH) -> None:
        self._session = session
        self._mirror = ZooKeeperMirror(session, {path: 1}, self._apply, self._tell, foreign=True)
        self._listeners: list[Callable[[tuple[BrokerRegistration, ...]], None]] = []
        self._registrations: dict[str, BrokerRegistration] = {}
        #: The registrations last passed on; None until all were read once.
        self._told: tuple[BrokerRegistration, ...] | None = None

    async def start(self) -> None:
        """Begin to follow; returns at once, with ZooKeeper up or down."""
        self._mirror.start()

    async def stop(self) -> None:
        """End following; no listener is called afterwards."""
        await self._mirror.stop()

    def watch(self, listener: Callable[[tuple[BrokerRegistration, ...]], None]) -> None:
        """Call the listener with all registrations, sorted by broker, now and after every change.

        "Now" is as soon as they are known.
        """
        self._listeners.append(listener)
        if self._told is not None:
            listener(self._told)

    def _apply(self, path: str, node: Node | None) -> None:
        broker = path.rpartition("/")[2]
        if node is None:
            self._registrations.pop(broker, None)
            return
        try:
            self._registrations[broker] = _read(broker, node)
        except DocumentError as error:
            _log.error("registration of a broker unreadable", path=path, reason=str(error))

    def _tell(self) -> None:
        self._told = tuple(self._registrations[broker] for broker in sorted(self._registrations))
        self._session.supervisor.tell("registrations", self._listeners, self._told)


def _read(broker: str, node: Node) -> BrokerRegistration:
    if node.refusal:
        raise DocumentError(node.refusal)
    return decode_registration(broker, node.data)
