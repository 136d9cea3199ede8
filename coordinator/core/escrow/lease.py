"""The lease: until when this sidecar is certainly still a member, whatever ZooKeeper decides meanwhile.

Under ``strict`` a dead broker's quota is inherited as soon as ZooKeeper drops its session, so a broker
must have stopped before ZooKeeper drops it. kazoo reports a broken connection up to two thirds of the
session timeout T late. This sidecar therefore asks every ``T / 8`` for a *confirmation*: a write that
changes nothing, with the moment at which it was asked for. An answer proves the following, and no more
(ZooKeeper 3.4 to 3.9, from its source):

* The leader ends a session no earlier than T after it last heard of it (it rounds up to a tick). But it
  does not hear of requests: a follower answers reads and pings by itself, forwards writes without
  counting them, and reports the sessions that it heard only when the leader pings it, twice a tick. A
  follower that is cut off from its leader answers reads for ``syncLimit`` ticks, far longer than T.
* All messages between a follower and the leader arrive in order. Let A, B and C be confirmations
  over one connection, B asked for at least ``T / 3`` after A was answered, and C after B was. The leader
  answered B after a ping that it had sent at most half a tick before; the follower replied to that ping,
  A included, before it forwarded C; so when C is answered, the leader has heard of the session, after A
  was sent. Half a tick is at most ``T / 4``, as ZooKeeper grants no session less than two ticks.
* A connection that is opened, or opened again, is made valid by the leader, which counts as being heard
  of: of that, one confirmation afterwards is enough. It takes the place of A and B.
* An answered write had a majority behind it after it was sent. So no other leader was elected before,
  and one that is elected later gives every session the whole of T again. A read or a "sync" says
  nothing of that: a leader that was deposed, and does not know, answers both.

So the lease lasts T from when A was *sent*, never from an answer, less ``T / 20`` for clocks that do not
run equally fast and for pings that are late. In peace it reaches a third of T ahead, or a little more,
which is how long ZooKeeper may be silent before strict groups stop. A T that the servers shortened counts
as they granted it, one that they lengthened does not. Not covered: servers that grant less than two ticks
(``minSessionTimeout``), observers that follow a follower, and hosts whose monotonic clock stands still
while they are suspended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.core.events import ConnectionState
from coordinator.core.model import ResourceGroup
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.policies import STRICT

_RENEWALS_PER_TIMEOUT = 8
_HEARD_WITHIN = 3
_MARGIN = 20

#: Confirmations remembered: enough for the longest wait between two that prove something.
_REMEMBERED = 16

_NEVER_NS = -(1 << 63)


def needs_lease(group: ResourceGroup) -> bool:
    """Return whether a group's limit must be given up before any other broker can have it."""
    return group.overshoot_policy == STRICT or group.partition_policy != "hold"


@dataclass(frozen=True, slots=True)
class _Confirmed:
    """An answered confirmation."""

    asked_ns: int
    answered_ns: int


class Lease:
    """The time until which this sidecar's session certainly lives. See the module's head."""

    def __init__(self, settings: CoreSettings) -> None:
        self._renewal_ns = settings.session_timeout_ns // _RENEWALS_PER_TIMEOUT
        self._timeout_ns = settings.session_timeout_ns
        self._connected = False
        self._asked_ns: int | None = None
        self._connected_ns: int | None = None
        self._confirmed: deque[_Confirmed] = deque(maxlen=_REMEMBERED)
        #: The end of the lease; None before there was one in this session, and while none is needed.
        self.until_ns: int | None = None
        #: Whether any group needs the lease.
        self.needed = False

    def holds(self, now_ns: int) -> bool:
        """Return whether no other sidecar can have seen the end of this one's session."""
        return self.until_ns is not None and now_ns < self.until_ns

    def is_over(self, now_ns: int) -> bool:
        """Return whether a needed lease has ended."""
        return self.until_ns is not None and now_ns >= self.until_ns

    def need(self, *, needed: bool) -> None:
        """Start or stop keeping a lease."""
        self.needed = needed
        if not needed:
            self._forget()

    def connection_changed(self, state: ConnectionState) -> None:
        """Note the state of the connection; a new connection is confirmed at once."""
        self._connected = state is ConnectionState.CONNECTED
        self._asked_ns = None
        if state is ConnectionState.LOST:
            self._forget()

    @property
    def next_ns(self) -> int:
        """Return the time of the next action while needed: to ask, or to see the lease end."""
        ask_ns = _NEVER_NS if self._asked_ns is None else self._asked_ns + self._renewal_ns
        return ask_ns if self.until_ns is None else min(ask_ns, self.until_ns)

    def ask(self, now_ns: int) -> bool:
        """Return whether to ask for a confirmation now; if so, note it as asked for."""
        due = self._asked_ns is None or now_ns - self._asked_ns >= self._renewal_ns
        if not (self.needed and self._connected and due):
            return False
        self._asked_ns = now_ns
        return True

    def confirmed(self, asked_ns: int, connected_ns: int, timeout_ns: int, now_ns: int) -> None:
        """Take in the answer to a confirmation.

        Args:
            asked_ns: when it was asked for, before it was sent.
            connected_ns: when the connection that carried question and answer was asked for.
            timeout_ns: the session timeout that the servers granted with that connection.
            now_ns: the time, no earlier than the answer.
        """
        if not self.needed:
            return
        if connected_ns != self._connected_ns:
            self._connected_ns = connected_ns
            self._confirmed.clear()
        timeout_ns = min(timeout_ns, self._timeout_ns)
        heard_ns = max(connected_ns, self._heard_since(asked_ns, timeout_ns // _HEARD_WITHIN))
        until_ns = heard_ns + timeout_ns - timeout_ns // _MARGIN
        if until_ns > (now_ns if self.until_ns is None else self.until_ns):
            self.until_ns = until_ns
        self._confirmed.append(_Confirmed(asked_ns, now_ns))

    def _heard_since(self, asked_ns: int, lag_ns: int) -> int:
        """Return a moment since when the leader has certainly heard of the session, else the earliest.

        ``asked_ns`` is C's; B is the latest that was answered before, A the latest far enough
        before B.
        """
        latest_b_ns = _latest_answered_by(self._confirmed, asked_ns)
        return _latest_answered_by(self._confirmed, latest_b_ns - lag_ns)

    def _forget(self) -> None:
        self.until_ns = self._asked_ns = self._connected_ns = None
        self._confirmed.clear()


def _latest_answered_by(confirmed: Iterable[_Confirmed], moment_ns: int) -> int:
    """Return when the latest of the confirmations answered by this moment was asked for."""
    answered = (known.asked_ns for known in confirmed if known.answered_ns <= moment_ns)
    return max(answered, default=_NEVER_NS)
