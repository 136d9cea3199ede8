"""The addresses of brokers and gates, on their way from the brokers' registrations to the gate.

A broker that advertises no gate is a condition, and a line of the log when it appears: clients of gates
are told to ask again for its topics, and all others are left alone. Another condition are fewer sidecars
than brokers that advertise one: clients are sent to a gate that does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

import structlog

from coordinator.core.addresses import AddressMap, BrokerRegistration, KnownBrokers
from coordinator.insight.model.conditions import Condition, ConditionKind

_log = structlog.get_logger(__name__)


class AddressCourier:
    """Gives the gate the map of the cluster's addresses, each time that it changes.

    Args:
        tell: gives the gate the map.
        listener: the name of the brokers' advertised listener that leads to gates; empty checks nothing.
        sidecars: returns how many sidecars there are; None while that is not known.
    """

    def __init__(
        self, tell: Callable[[AddressMap], None], listener: str, sidecars: Callable[[], int | None]
    ) -> None:
        self._tell = tell
        self._sidecars = sidecars
        self._listener = listener
        self._brokers = KnownBrokers(listener)
        self._map = AddressMap()
        self._without_gate: tuple[str, ...] = ()
        #: Set once the registrations were read: the gate may open.
        self.informed = asyncio.Event()

    def changed(self, registrations: Sequence[BrokerRegistration]) -> None:
        """Take all registrations; called when they are first known, and after every change."""
        if self._listener:
            self._follow(registrations)
        self.informed.set()

    def conditions(self, _now_ns: int) -> Iterator[Condition]:
        """Yield the registered brokers that advertise no gate, and that gates are missing."""
        for broker in self._without_gate:
            yield Condition(
                ConditionKind.WITHOUT_GATE,
                broker,
                f"the broker {broker} advertises no listener {self._listener}, so no gate names it to "
                "clients",
            )

        sidecars, gates = self._sidecars(), self._brokers.with_gate()
        if sidecars is not None and sidecars < gates:
            yield Condition(
                ConditionKind.WITHOUT_SIDECAR,
                self._listener,
                f"{gates} brokers advertise the listener {self._listener}, but the number of sidecars is "
                f"{sidecars}: clients that are sent to a missing gate get no connection",
            )

    def _follow(self, registrations: Sequence[BrokerRegistration]) -> None:
        found = self._brokers.update(registrations)
        if found != self._map:
            self._map = found
            self._tell(found)
        elif not found.is_known:
            _log.warning(
                "no broker is registered in this ZooKeeper, lookup answers are not checked; correct "
                "zookeeper_brokers_path if the brokers' metadataStoreUrl has a chroot"
            )
        without_gate = self._brokers.without_gate()
        if set(without_gate) - set(self._without_gate):
            _log.warning(
                "brokers without a gate, lookups of their topics fail; add the listener to their "
                "advertisedListeners, or correct gate_listener_name",
                brokers=without_gate,
                listener=self._listener,
            )
        self._without_gate = without_gate
