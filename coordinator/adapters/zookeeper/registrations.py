"""The brokers' own registrations in ZooKeeper, followed as brokers come and go.

Pulsar's brokers register as ephemeral nodes, which only they write. A registration that cannot be read is
a fault of that broker alone: it is logged, and the broker's last one stays.
"""

from __future__ import annotations

from typing import Final

import structlog

from coordinator.adapters.zookeeper.mirror import Node
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.watched import WatchedRecords
from coordinator.core.addresses import BrokerRegistration
from coordinator.wire.documents import DocumentError
from coordinator.wire.registrations import decode_registration

DEFAULT_PATH: Final = "/loadbalance/brokers"

_log = structlog.get_logger(__name__)


class ZooKeeperRegistrations(WatchedRecords[tuple[BrokerRegistration, ...]]):
    """The registrations of Pulsar's brokers, sorted by broker.

    Args:
        session: the process's session.
        path: the node below which brokers register.
    """

    def __init__(self, session: ZooKeeperSession, path: str = DEFAULT_PATH) -> None:
        self._registrations: dict[str, BrokerRegistration] = {}
        super().__init__(session, "registrations", {path: 1}, foreign=True)

    def _apply(self, path: str, node: Node | None) -> None:
        broker = path.rpartition("/")[2]
        if node is None:
            self._registrations.pop(broker, None)
            return
        try:
            self._registrations[broker] = _read(broker, node)
        except DocumentError as error:
            _log.error("registration of a broker unreadable", path=path, reason=str(error))

    def _snapshot(self) -> tuple[BrokerRegistration, ...]:
        return tuple(self._registrations[broker] for broker in sorted(self._registrations))


def _read(broker: str, node: Node) -> BrokerRegistration:
    if node.refusal:
        raise DocumentError(node.refusal)
    return decode_registration(broker, node.data)
