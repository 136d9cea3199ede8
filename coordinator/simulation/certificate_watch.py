"""Every certificate that a sidecar would print is held against what is really in force.

No sidecar may, at any moment, name less than the truth. A certificate is read from outside,
as the admin API does, so a run is the same with and without. It is read at every raise of a limit (what
lowers one breaks no bound) by a few sidecars in turn, as it costs as much as there are members, and where
there are many members after every few raises. A report that arrives makes a bound smaller, too: one
sidecar reads its certificate in every step of 50 ms, so that each of five reads several times a round.

Held to what it says, with the assumptions that it states (core/certificate/statement.py): by every
sidecar that runs and has read the group's present definition, whatever the network does. A broker that it
does not name holds at most the newcomer's part; one that holds more, that it once knew as a member and
that is cut off counts in full, whether it is named or not. Only who was cut off before this one began may
be unknown to it.

While a sidecar lies nothing is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from weakref import WeakKeyDictionary

from coordinator.core.certificate.statement import Certificate
from coordinator.core.model import Dimension, LimitKey, ResourceGroup
from coordinator.simulation.host import Host
from coordinator.simulation.schedule import Schedule
from coordinator.simulation.valve import STEP_NS
from coordinator.simulation.zookeeper import ZooKeeper

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
        self._steps = 0
        #: The number of sidecars that read a certificate in every step.
        self.readers_per_step = 1
        #: The number of members whose certificates may be read, by the raises since the last reading.
        self._reads = 0
        self._lied = False
        #: Whom each sidecar has seen as a member.
        self._known: WeakKeyDictionary[Host, set[str]] = WeakKeyDictionary()
        #: Certificates that were asked for, those that said something, and those that said C or less.
        self.asked = 0
        self.said = 0
        self.exact = 0
        schedule.after(STEP_NS, self._each_step)

    def raised(self, place: LimitKey) -> None:
        """A local limit was raised."""
        self._reads += _READS
        if self._reads >= len(self._hosts):
            self._reads = 0
            readers = max(1, _READS // max(1, len(self._hosts)))
            self._turn = self._read(place, self._turn, readers)

    def _read(self, place: LimitKey, turn: int, readers: int) -> int:
        """Have sidecars read a place's certificates, from this turn on; return the next turn."""
        self._lied = self._lied or any(host.distort is not None for host in self._hosts.values())
        hosts = list(self._hosts.values())
        end = turn + min(len(hosts), readers)
        for number in range(turn, end):
            self._check(hosts[number % len(hosts)], place)
        return end

    def _each_step(self) -> None:
        self._schedule.after(STEP_NS, self._each_step)
        self._steps += 1
        places = [
            (name, dimension)
            for name, group in self._definitions.items()
            for dimension in Dimension
            if group.limits.of(dimension) is not None
        ]
        if places:
            # A sidecar reads all places before the next one does.
            turn, number = divmod(self._steps, len(places))
            self._read(places[number], turn * self.readers_per_step, self.readers_per_step)

    def _check(self, host: Host, place: LimitKey) -> None:
        name, dimension = place
        group = (host.state.groups or {}).get(name)
        newest = self._definitions[name]
        # A sidecar derives more from the definitions of a tree than each of them says.
        known = all(
            (own := (host.state.groups or {}).get(each.name)) is not None
            and own.configuration_version == each.configuration_version
            for each in (self._definitions.values() if host.state.decider.forest else (newest,))
        )
        if group is None or not known or host.paused or self._lied:
            return
        if group.limits.of(dimension) is None:
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
            held = sum(
                other.limit_of(leaf, place[1])
                for leaf in host.state.decider.forest.leaves_of.get(place[0], place[:1])
            )
            is_named = other.name in named
            if booked or (is_named and other.session.member is not None):
                total += held
            elif held <= certificate.newcomer:
                pass  # it has just begun, maybe in place of a process that is named
            elif other.name in registered and not is_named:
                self._break(host, certificate, held, certificate.newcomer)
            elif is_named or other.name in known:
                total += held
        return total

    def _break(self, host: Host, certificate: Certificate, held: int, bound: int) -> None:
        self._complain(
            host.name,
            f"{certificate.group}: certified to be at most {bound:,}, but {held:,} is in force; "
            f"{certificate}",
        )
