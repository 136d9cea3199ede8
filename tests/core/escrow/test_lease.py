"""The lease: what confirmations prove, held against a connection in which everything takes its time.

The connection is ZooKeeper's own, as lease.py describes it: client, follower and leader, messages in
order in each direction, pings of the leader whose answers say who was heard. At every answer the worst is
assumed: that the connection breaks now and all that is under way is lost. The lease must then end before
the leader may end the session.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from coordinator.core.escrow import lease
from coordinator.core.escrow.lease import Lease
from coordinator.core.events import ConnectionState
from coordinator.core.settings import CoreSettings

Delays = tuple[int, int, int, int]

T = 2400
LEADER_PING = T // 4
STEP = T // 80
SETTINGS = CoreSettings("b1", session_timeout_ns=T)


def a_lease() -> Lease:
    """One that is needed, of a sidecar that is connected."""
    made = Lease(SETTINGS)
    made.need(needed=True)
    made.connection_changed(ConnectionState.CONNECTED)
    return made


@dataclass
class Connection:
    """From a client over a follower to the leader and back; messages never overtake each other."""

    lease: Lease
    #: How long a message takes: client to follower, follower to leader, and back. May change once.
    delays: Delays
    later_delays: Delays
    changes_at: int
    ping_phase: int
    now: int = 0
    heard: int = 0
    touched: bool = False
    #: How often the lease would have been too long, and how often it went on at all.
    too_long: int = 0
    extended: int = 0
    _queue: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _latest: dict[int, int] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def run(self, until: int) -> None:
        """Connect at 0, then ask whenever the lease wants to; the leader pings."""
        for moment in range(self.ping_phase, until, LEADER_PING):
            self._at(moment, partial(self._send, 2, self._ping_at_follower))
        self._send(0, lambda: self._send(1, self._valid_at_leader))
        while self._queue and self.now < until:
            self.now, _, action = heapq.heappop(self._queue)
            action()

    def _valid_at_leader(self) -> None:
        self.heard = self.now
        self._send(2, lambda: self._send(3, self._step))

    def _step(self) -> None:
        if self.lease.ask(self.now):
            self._send(0, partial(self._at_follower, self.now))
        self._at(self.now + STEP, self._step)

    def _at_follower(self, asked: int) -> None:
        self.touched = True
        self._send(1, lambda: self._send(2, lambda: self._send(3, partial(self._answer, asked))))

    def _ping_at_follower(self) -> None:
        if self.touched:
            self._send(1, self._heard_at_leader)
        self.touched = False

    def _heard_at_leader(self) -> None:
        self.heard = self.now

    def _answer(self, asked: int) -> None:
        before = self.lease.until_ns
        self.lease.confirmed(asked, 0, T, self.now)
        if self.lease.until_ns is not None and self.lease.until_ns != before:
            self.extended += 1
            self.too_long += self.lease.until_ns > self.heard + T

    def _send(self, leg: int, arrival: Callable[[], None]) -> None:
        delay = (self.later_delays if self.now >= self.changes_at else self.delays)[leg]
        self._latest[leg] = max(self._latest.get(leg, 0), self.now + delay)
        self._at(self._latest[leg], arrival)

    def _at(self, moment: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (moment, next(self._numbers), action))


def all_connections() -> Iterator[Connection]:
    """Fast and slow on every leg, changing at some moment, with the leader's pings at any moment."""
    either = (1, T // 10)
    legs: list[Delays] = list(itertools.product(either, either, either, either))
    for before, after in itertools.product(legs, legs):
        for changes_at, phase in itertools.product((T // 2, T), range(0, LEADER_PING, T // 16)):
            yield Connection(a_lease(), before, after, changes_at, phase)


def test_however_long_messages_take_the_lease_ends_before_the_session_may() -> None:
    """Exhaustively: 2,048 connections, each broken at every one of its answers."""
    extended = 0
    for connection in all_connections():
        connection.run(until=2 * T)
        assert connection.too_long == 0, connection
        extended += connection.extended
    assert extended > 10_000


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("_MARGIN", -8),
        ("_HEARD_WITHIN", -3),
        (
            "_latest_answered_by",
            lambda confirmed, _: max((c.asked_ns for c in confirmed), default=0),
        ),
    ],
    ids=["longer than the session", "a follower tells at once", "the last answer is enough"],
)
def test_a_lease_that_is_concluded_too_early_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, mistake: object
) -> None:
    """The same connections show each of these to be wrong."""
    monkeypatch.setattr(lease, name, mistake)

    def is_caught_by(connection: Connection) -> bool:
        connection.run(until=3 * T)
        return connection.too_long > 0

    assert any(map(is_caught_by, all_connections()))


def test_in_peace_the_lease_reaches_a_third_of_the_timeout_ahead() -> None:
    """ZooKeeper may be silent for that long before traffic stops."""
    ahead = []
    held = a_lease()
    for now in range(0, 10 * T, STEP):
        if held.ask(now):
            if now > 3 * T and held.until_ns is not None:
                ahead.append(held.until_ns - now)
            held.confirmed(now, 0, T, now + 1)
    assert min(ahead) >= T * 32 // 100


@pytest.mark.parametrize(
    ("confirmed", "timeout", "until"),
    [
        # The leader has made it valid: the lease counts from then, not from the answer.
        ([(500, 400)], T, 400 + T - T // 20),
        # Long after the connection was made.
        ([(2 * T, 0)], T, None),
        # One follower does not tell what another one has heard.
        ([(T, 0), (2 * T, 0), (2 * T + 10, 1), (2 * T + 20, 1)], T, None),
        # The servers' timeout counts where it is shorter: others wait for the configured one at most.
        ([(10, 0)], T // 2, T // 2 - T // 40),
        ([(10, 0)], 2 * T, T - T // 20),
    ],
    ids=["new", "long ago", "of two connections", "shortened timeout", "lengthened timeout"],
)
def test_a_lease_lasts_as_long_as_its_confirmations_prove(
    confirmed: list[tuple[int, int]], timeout: int, until: int | None
) -> None:
    """Each is asked for at a moment, on a connection made at another; without proof is no lease."""
    held = a_lease()
    for asked_ns, connected_ns in confirmed:
        held.confirmed(asked_ns, connected_ns, timeout, asked_ns + 1)

    assert held.until_ns == until
    last_ns = confirmed[-1][0] + 1
    assert held.holds(last_ns) is (until is not None)
    assert not held.is_over(last_ns)


def test_no_lease_is_asked_for_without_a_strict_group_or_a_connection() -> None:
    """No group that is strict, or no connection."""
    held = Lease(SETTINGS)
    held.connection_changed(ConnectionState.CONNECTED)
    assert not held.ask(0)
    held.need(needed=True)
    assert held.ask(0)
    assert not held.ask(T // 8 - 1)
    assert held.ask(T // 8)
    held.connection_changed(ConnectionState.SUSPENDED)
    assert not held.ask(T)


def test_a_lost_session_takes_its_lease_with_it() -> None:
    """The lease forgets its open questions."""
    lost, forgotten = a_lease(), a_lease()
    for held in (lost, forgotten):
        held.confirmed(10, 0, T, 20)
        assert held.holds(30)
    lost.connection_changed(ConnectionState.LOST)
    forgotten.need(needed=False)
    assert lost.until_ns is None
    assert forgotten.until_ns is None
