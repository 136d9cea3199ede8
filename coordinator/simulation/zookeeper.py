"""ZooKeeper as its clients see it: sessions, ephemeral membership, watched group definitions, a quorum.

* A session ends ``session_timeout_ns`` after the leader last heard of it: its ephemeral node goes and the
  others are told. The client itself hears LOST only once it is back, as with kazoo; until then it knows
  SUSPENDED, told late, and its own clock.
* The leader hears of a session when it is connected, and else when it pings the follower, twice a tick of
  half the timeout. A cut takes with it whom the follower has not told of: sessions end as early as they
  ever may. A real ensemble also rounds up to the next tick.
* Without a quorum no client is connected and no session ends: the leader that comes next grants every
  session its whole timeout again.
* An incarnation is the czxid of the ephemeral node: one counter for the whole ensemble, it only grows.
* A watch says that something changed, the client then reads: what it reads is the state at that moment,
  and several changes may be read as one.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from coordinator.core.events import (
    ConnectionChanged,
    ConnectionState,
    EscrowChanged,
    Event,
    GroupsChanged,
    MembersChanged,
    MembershipJoined,
    SessionConfirmed,
)
from coordinator.core.model import EscrowRecord, Member, ResourceGroup
from coordinator.simulation.schedule import Schedule

_LATENCY_NS = (1_000_000, 5_000_000)
"""A watch, a read, a write: 1 to 5 ms each."""

_LEADER_PINGS_PER_TIMEOUT = 4
_CLIENT_PINGS_PER_TIMEOUT = 3
_NOTICED_WITHIN = 2 / 3
_REMEMBERED = 16


@dataclass(slots=True)
class SimulatedSession:
    """One client's session."""

    broker: str
    tell: Callable[[Event], None]
    #: The client's.
    clock: Callable[[], int]
    reachable: bool = True
    #: Nothing passes between the client and the ensemble, whether or not there is a quorum.
    cut_off: bool = False
    #: When the connection was made, by the client's clock and by the true time.
    connected_ns: int = 0
    opened_ns: int = 0
    #: When its follower received its latest requests.
    received_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    #: The server has dropped it; the client does not know until it is back.
    expired: bool = False
    #: The process ended; no listener is left.
    abandoned: bool = False
    #: Counts how often contact was lost, so that an old countdown does not end a new contact.
    cuts: int = 0
    member: Member | None = field(default=None)
    #: What a watch has told of and will be read in a moment.
    unread: set[Callable[[], Event]] = field(default_factory=set)


class ZooKeeper:
    """The ensemble and the sessions of all clients."""

    def __init__(self, schedule: Schedule, rng: random.Random, session_timeout_ns: int) -> None:
        self._schedule = schedule
        self._rng = rng
        self._session_timeout_ns = session_timeout_ns
        self._sessions: list[SimulatedSession] = []
        self._members: dict[str, Member] = {}
        self._groups: dict[str, ResourceGroup] = {}
        self._escrow: dict[str, EscrowRecord] = {}
        self._zxid = 0
        self._quorum = True
        self._leader_ping_ns = session_timeout_ns // _LEADER_PINGS_PER_TIMEOUT
        self._leader_phase_ns = rng.randrange(self._leader_ping_ns)

    @property
    def members(self) -> tuple[Member, ...]:
        """The registered members, sorted by broker."""
        return tuple(member for _, member in sorted(self._members.items()))

    def open(
        self, broker: str, tell: Callable[[Event], None], clock: Callable[[], int]
    ) -> SimulatedSession:
        """Start a session for a sidecar; it is told everything as soon as it is connected."""
        session = SimulatedSession(broker, tell, clock, reachable=self._quorum)
        self._connect(session)
        self._sessions.append(session)
        if session.reachable:
            self._welcome(session)
        return session

    def join(self, session: SimulatedSession) -> None:
        """Register the sidecar under a new incarnation; nothing comes of it while it is cut off."""
        self._later(partial(self._register, session))

    def confirm(self, session: SimulatedSession, asked_ns: int) -> None:
        """A write that changes nothing; answered only over the connection that carried it."""
        self._later(partial(self._confirm, session, asked_ns))

    def leave(self, session: SimulatedSession) -> None:
        """Take the registration back, in its turn after a join that is under way."""
        self._later(partial(self._unregister, session))

    def abandon(self, session: SimulatedSession) -> None:
        """Lose a process that was killed: its session ends by the timeout."""
        session.abandoned = True
        self.cut(session)

    def close(self, session: SimulatedSession) -> None:
        """End the session of a process that stops in order."""
        session.abandoned = True
        self._end(session)

    def cut(self, session: SimulatedSession) -> None:
        """Nothing passes between this client and the ensemble any more; the client notices it late."""
        session.cut_off = True
        notice_ns = self._rng.randrange(round(self._session_timeout_ns * _NOTICED_WITHIN))
        self._cut(session, notice_ns)

    def restore(self, session: SimulatedSession) -> None:
        """The client is back; if that took too long it hears that its session is over."""
        session.cut_off = False
        if session.reachable or session.abandoned or not self._quorum:
            return
        self._connect(session)
        if session.expired:
            session.expired = False
            self._tell(session, ConnectionChanged(ConnectionState.LOST))
        self._welcome(session)

    def lose_quorum(self) -> None:
        """The ensemble answers no client; no session ends meanwhile."""
        self._quorum = False
        for session in list(self._sessions):
            self._cut(session, notice_ns=0)

    def regain_quorum(self) -> None:
        """The ensemble answers again; a session that no client reaches has its whole timeout left."""
        self._quorum = True
        for session in list(self._sessions):
            if session.cut_off:
                self._count_down(session, self._session_timeout_ns)
            else:
                self.restore(session)

    def define(self, group: ResourceGroup) -> ResourceGroup:
        """Write a definition; its configuration version is the number of the write."""
        self._zxid += 1
        written = replace(group, configuration_version=self._zxid)
        self._groups[group.name] = written
        self._notify(self._read_groups)
        return written

    def write_escrow(self, session: SimulatedSession, record: EscrowRecord) -> None:
        """Write a strict group's record over the version that it names; another writer may be first."""
        self._later(partial(self._write_escrow, session, record))

    def remove_escrow(self, session: SimulatedSession, record: EscrowRecord) -> None:
        """Remove the record of a group that is gone."""
        self._later(partial(self._remove_escrow, session, record))

    def _write_escrow(self, session: SimulatedSession, record: EscrowRecord) -> None:
        known = self._escrow.get(record.group)
        version = -1 if known is None else known.version
        if not session.reachable or record.group not in self._groups or record.version != version:
            return
        self._zxid += 1
        generation = self._zxid if known is None else known.generation
        self._escrow[record.group] = replace(record, generation=generation, version=version + 1)
        self._notify(self._read_escrow)

    def _remove_escrow(self, session: SimulatedSession, record: EscrowRecord) -> None:
        known = self._escrow.get(record.group)
        if session.reachable and known is not None and known.version == record.version:
            del self._escrow[record.group]
            self._notify(self._read_escrow)

    def _confirm(self, session: SimulatedSession, asked_ns: int) -> None:
        if session.reachable:
            session.received_ns.append(self._schedule.now_ns)
            event = SessionConfirmed(asked_ns, session.connected_ns, self._session_timeout_ns)
            self._later(partial(self._answer, session, session.cuts, event))

    def _answer(self, session: SimulatedSession, cuts: int, event: Event) -> None:
        if session.cuts == cuts:
            self._tell(session, event)

    def _read_escrow(self) -> Event:
        return EscrowChanged(tuple(record for _, record in sorted(self._escrow.items())))

    def _read_groups(self) -> Event:
        return GroupsChanged(tuple(group for _, group in sorted(self._groups.items())))

    def _read_members(self) -> Event:
        return MembersChanged(self.members)

    def _register(self, session: SimulatedSession) -> None:
        if not session.reachable:
            return
        self._zxid += 1
        session.member = Member(session.broker, self._zxid)
        self._members[session.broker] = session.member
        self._tell(session, MembershipJoined(self._zxid))
        self._notify(self._read_members)

    def _unregister(self, session: SimulatedSession) -> None:
        if session.reachable:
            self._drop_member(session)

    def _drop_member(self, session: SimulatedSession) -> None:
        member = session.member
        session.member = None
        if member is not None and self._members.get(session.broker) == member:
            del self._members[session.broker]
            self._notify(self._read_members)

    def _end(self, session: SimulatedSession) -> None:
        session.expired = True
        session.reachable = False
        if session.abandoned and session in self._sessions:
            self._sessions.remove(session)
        self._drop_member(session)

    def _connect(self, session: SimulatedSession) -> None:
        session.reachable = self._quorum
        session.cuts += 1
        session.connected_ns = session.clock()
        session.opened_ns = self._schedule.now_ns
        session.received_ns.clear()

    def _cut(self, session: SimulatedSession, notice_ns: int) -> None:
        if not session.reachable:
            return
        session.reachable = False
        session.cuts += 1
        silent_ns = self._schedule.now_ns - self._heard_ns(session)
        self._count_down(session, self._session_timeout_ns - silent_ns)
        self._schedule.after(notice_ns, partial(self._notice, session, session.cuts))

    def _notice(self, session: SimulatedSession, cuts: int) -> None:
        if session.cuts == cuts:
            self._tell(session, ConnectionChanged(ConnectionState.SUSPENDED))

    def _heard_ns(self, session: SimulatedSession) -> int:
        """Return the time at which the leader, as of its last ping, last heard of a connected session."""
        now_ns, period_ns = self._schedule.now_ns, self._leader_ping_ns
        ping_ns = now_ns - (now_ns - self._leader_phase_ns) % period_ns
        # A real client pings less often while it sends requests; this one always pings.
        client_ping_ns = self._session_timeout_ns // _CLIENT_PINGS_PER_TIMEOUT
        own_ns = ping_ns - (ping_ns - session.opened_ns) % client_ping_ns
        received_ns = max(own_ns, *(at for at in session.received_ns if at <= ping_ns), 0)
        told_ns = received_ns + (self._leader_phase_ns - received_ns) % period_ns
        return max(session.opened_ns, min(told_ns, ping_ns))

    def _count_down(self, session: SimulatedSession, left_ns: int) -> None:
        self._schedule.after(max(0, left_ns), partial(self._time_out, session, session.cuts))

    def _time_out(self, session: SimulatedSession, cuts: int) -> None:
        if self._quorum and not session.reachable and session.cuts == cuts:
            self._end(session)

    def _welcome(self, session: SimulatedSession) -> None:
        self._tell(session, ConnectionChanged(ConnectionState.CONNECTED))
        for read in (self._read_escrow, self._read_members, self._read_groups):
            self._will_read(session, read)

    def _notify(self, read: Callable[[], Event]) -> None:
        for session in self._sessions:
            self._will_read(session, read)

    def _will_read(self, session: SimulatedSession, read: Callable[[], Event]) -> None:
        if read not in session.unread:
            session.unread.add(read)
            self._later(partial(self._read, session, read))

    def _read(self, session: SimulatedSession, read: Callable[[], Event]) -> None:
        session.unread.discard(read)
        if session.reachable:  # a client that is cut off reads everything when it is back
            self._tell(session, read())

    @staticmethod
    def _tell(session: SimulatedSession, event: Event) -> None:
        if not session.abandoned:
            session.tell(event)

    def _later(self, action: Callable[[], None]) -> None:
        self._schedule.after(self._rng.randint(*_LATENCY_NS), action)
