"""The addresses of the cluster's brokers, and of the gates before them.

Each broker registers in the metadata store under which addresses clients reach it: its internal one, and
one for each of its advertised listeners. One listener, which has the same name on every broker, leads to
the broker's gate. A broker answers with the address of the listener by which it was asked, and in some
commands with its internal one; a client that is told any address but a gate's goes round the limits. So
every address that a broker tells a client is one of these:

* a *gate's*: it passes;
* another one of a registered broker, an *internal* address: the address of that broker's gate takes its
  place;
* an internal address of a broker without a gate, or one of no registered broker: it does not pass.

**A broker that is gone** keeps its addresses here until it registers again: the others name it until
they know, and its client looks its topic up again. At most `DEPARTED_MAX` are kept.

**While no registration is known**, because the brokers keep their metadata elsewhere or none has ever
registered, every address passes but the one at which the gate reaches its own broker. The other choice,
to let none pass, would end the service of all clients for a fault of the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

DEPARTED_MAX: Final = 1_000
"""The most brokers whose addresses are kept after they are gone."""

NO_GATE: Final = ""
"""Stands for the address of a gate that does not exist."""


@dataclass(frozen=True, slots=True)
class ServiceUrls:
    """The addresses of one listener, as URLs; empty where it has none.

    Args:
        plain: ``pulsar://host:port``.
        tls: ``pulsar+ssl://host:port``.
    """

    plain: str = ""
    tls: str = ""


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The addresses that a broker registers.

    Args:
        broker: its id in the metadata store: host and port of its web service.
        internal: where brokers reach it.
        listeners: its advertised listeners, by name.
    """

    broker: str
    internal: ServiceUrls
    listeners: Mapping[str, ServiceUrls] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AddressMap:
    """The way from each known address to a gate's.

    Args:
        gates: the gate's address for each known one, its own included; `NO_GATE` where its broker has
            none of that kind.
        own_broker: the addresses at which the gate reaches its broker; used while no other is known.
    """

    gates: Mapping[str, str] = field(default_factory=dict)
    own_broker: frozenset[str] = frozenset()

    @property
    def is_known(self) -> bool:
        """Whether any broker's registration is known."""
        return bool(self.gates)

    def gate_for(self, url: str) -> str | None:
        """Return the address to tell a client instead of this one.

        `NO_GATE` is an address of a known broker whose gate has no such listener; None is an unknown one.
        """
        if self.gates:
            return self.gates.get(url)
        return NO_GATE if url in self.own_broker else url


def host_and_port(host: str, port: int) -> str:
    """Return them as one, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def ways_to(address: str) -> frozenset[str]:
    """Return the addresses that lead to a host and port, with and without TLS."""
    return frozenset((f"pulsar://{address}", f"pulsar+ssl://{address}"))


class KnownBrokers:
    """The registrations of the brokers that are there, and of those that were.

    Args:
        listener: the name of the listener that leads to gates.
    """

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._present: frozenset[str] = frozenset()
        #: By broker; who departed first comes first.
        self._registrations: dict[str, BrokerRegistration] = {}

    def update(self, registrations: Iterable[BrokerRegistration]) -> AddressMap:
        """Take the brokers that are registered now; return the map of all addresses that are known."""
        present = {registration.broker: registration for registration in registrations}
        for broker in present:
            self._registrations.pop(broker, None)
        departed = list(self._registrations)[-DEPARTED_MAX:]
        kept = {broker: self._registrations[broker] for broker in departed}
        self._registrations, self._present = kept | present, frozenset(present)
        return AddressMap(self._ways())

    def with_gate(self) -> int:
        """Return how many registered brokers advertise a listener of the gates' name."""
        return len(self._present) - len(self.without_gate())

    def without_gate(self) -> tuple[str, ...]:
        """Return the registered brokers that advertise no listener of the gates' name."""
        return tuple(
            broker
            for broker, registration in sorted(self._registrations.items())
            if broker in self._present and self._listener not in registration.listeners
        )

    def _ways(self) -> dict[str, str]:
        known = self._registrations
        departed = [known[broker] for broker in known if broker not in self._present]
        present = [known[broker] for broker in known if broker in self._present]
        # An address that changed hands is what the broker that is there says of it.
        found = self._ways_of(departed) | self._ways_of(present)
        found.pop("", None)
        return found

    def _ways_of(self, registrations: Iterable[BrokerRegistration]) -> dict[str, str]:
        ways: dict[str, str] = {}
        gates: dict[str, str] = {}
        for registration in registrations:
            gate = registration.listeners.get(self._listener, ServiceUrls())
            for urls in (registration.internal, *registration.listeners.values()):
                ways |= {urls.plain: gate.plain, urls.tls: gate.tls}
            gates |= {gate.plain: gate.plain, gate.tls: gate.tls}
        return ways | gates
