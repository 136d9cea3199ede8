"""Every certificate that a sidecar would print is held against what is really in force.

No sidecar may, at any moment, name less than the truth. A certificate is read from outside,
as the admin API does, so a run is the same with and without. It is read at every raise of a limit (what
lowers one breaks no bound) and once a step besides, since a report that arrives makes a bound smaller. As
a certificate costs as much as there are members, it is read by a few sidecars in turn where there are
more than some, and where there are many more, after every few raises.

Held to what it says, with the assumptions that it states (core/certificate/statement.py): by every
sidecar that runs and has read the group's present definition, whatever the network does. A broker that it
does not name holds at most the newcomer's part; one that holds more, that it once knew as a member and
that is cut off counts in full, whether it is named or not. Only who was cut off before this one began may
be unknown to it.

While a sidecar lies nothing is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from weakref import WeakKeyDictionary

from coordinator.core.certificate.statement import Certificate
from coordinator.core.model import Dimension, ResourceGroup
from coordinator.simulation.host import Host
from coordinator.simulation.schedule import Schedule
from coordinator.simulation.valve import STEP_NS
from coordinator.simulation.zookeeper import ZooKeeper

Place = tuple[str, Dimension]

_READS = 32
"""Members that certificates are made of after one raise, on average."""


class CertificateWatch:
    """Reads certificates and complains.

    Args:
        schedule: the world's.
        zookeeper: the world's.
        hosts: who runs, by broker.
        definitions: the groups as they stand in the store.
        complain: ends the run; told the broker and what is wrong.
    """

    def __init__(
        self,
        schedule: Schedule,
        zookeeper: ZooKeeper,
        hosts: Mapping[str, Host],
        definitions: Mapping[str, ResourceGroup],
        complain: Callable[[str, str], None],
    ) -> None:
        self._schedule = schedule
        self._zookeeper = zookeeper
        self._hosts = hosts
        self._definitions = definitions
        self._complain = complain
        self._turn = 0
        #: Members that may be looked at for the raises since the last look.
        self._reads = 0
        self._lied = False
        #: Whom each sidecar has seen as a member.
        self._known: WeakKeyDictionary[Host, set[str]] = WeakKeyDictionary()
        #: Certificates that were asked for, those that said something, and those that said C or less.
        self.asked = 0
        self.said = 0
        self.exact = 0
        schedule.after(STEP_NS, self._each_step)

    def raised(self, place: Place) -> None:
        """A local limit was raised."""
        self._reads += _READS
        if self._reads >= len(self._hosts):
            self.look(place)

    def look(self, place: Place) -> None:
        """Read a place's certificates at the sidecars whose turn it is."""
        self._reads = 0
        self._lied = self._lied or any(host.distort is not None for host in self._hosts.values())
        for host in self._next_hosts():
            self._check(host, place)

    def _each_step(self) -> None:
        self._schedule.after(STEP_NS, self._each_step)
        places = [
            (name, dimension)
            for name, group in self._definitions.items()
            for dimension in Dimension
            if group.limits.of(dimension) is not None
        ]
        if places:
            self.look(places[self._turn % len(places)])

    def _next_hosts(self) -> Iterator[Host]:
        names = list(self._hosts)
        for _ in range(min(len(names), max(1, _READS // max(1, len(names))))):
            self._turn += 1
            yield self._hosts[names[self._turn % len(names)]]

    def _check(self, host: Host, place: Place) -> None:
        name, dimension = place
        group = (host.state.groups or {}).get(name)
        newest = self._definitions[name]
        if group != newest or group.limits.of(dimension) is None or host.paused or self._lied:
            return
        certificate = host.state.certificate(group, dimension, host.now_ns)
        self.asked += 1
        if certificate.most is None:
            return
        self.said += 1
        self.exact += certificate.most <= certificate.limit
        held = self._held_by_those_named(host, certificate)
        if held > certificate.most:
            self._break(host, certificate, held, certificate.most)

    def _held_by_those_named(self, host: Host, certificate: Certificate) -> int:
        place = (certificate.group, certificate.dimension)
        booked = not certificate.newcomer
        named = {holder.broker for holder in certificate.holders}
        registered = {member.broker for member in self._zookeeper.members}
        known = self._known.setdefault(host, set())
        known.update(host.state.members)
        total = 0
        for other in self._hosts.values():
            held = other.limit_of(*place)
            if booked or other.name in named:
                total += held
            elif held <= certificate.newcomer:
                pass  # it has just begun
            elif other.name in registered:
                self._break(host, certificate, held, certificate.newcomer)
            elif other.name in known:
                total += held
        return total

    def _break(self, host: Host, certificate: Certificate, held: int, bound: int) -> None:
        self._complain(
            host.name,
            f"{certificate.group}: certified to be at most {bound:,}, but {held:,} is in force; "
            f"{certificate}",
        )
