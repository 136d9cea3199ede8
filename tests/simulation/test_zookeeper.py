"""ZooKeeper's part of the world: sessions that end, members that go, a quorum that is lost."""

from __future__ import annotations

import random

import pytest

from coordinator.core.events import (
    ConnectionChanged,
    ConnectionState,
    EscrowChanged,
    Event,
    GroupsChanged,
    MembersChanged,
    MembershipJoined,
)
from coordinator.core.model import EscrowRecord, Rates, ResourceGroup
from coordinator.simulation.schedule import Schedule
from coordinator.simulation.zookeeper import SimulatedSession, ZooKeeper

SECOND_NS = 1_000_000_000
TIMEOUT_NS = 4 * SECOND_NS


class Ensemble:
    """An ensemble and what its clients were told."""

    def __init__(self) -> None:
        self.schedule = Schedule()
        self.zookeeper = ZooKeeper(self.schedule, random.Random(1), TIMEOUT_NS)
        self.told: dict[str, list[Event]] = {}

    def open(self, broker: str) -> SimulatedSession:
        """A registered client."""
        told = self.told.setdefault(broker, [])
        session = self.zookeeper.open(broker, told.append, lambda: self.schedule.now_ns)
        self.zookeeper.join(session)
        self.wait(0.1)
        return session

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.schedule.run_until(self.schedule.now_ns + round(seconds * SECOND_NS))

    def members(self) -> list[str]:
        """Return the registered members."""
        return [member.broker for member in self.zookeeper.members]

    def states(self, broker: str) -> list[str]:
        """The connection states that a client was told, in order."""
        return [
            event.state.value for event in self.told[broker] if isinstance(event, ConnectionChanged)
        ]


@pytest.fixture
def ensemble() -> Ensemble:
    """With a and b registered."""
    made = Ensemble()
    made.open("a")
    made.open("b")
    return made


def test_a_client_is_told_everything_when_it_connects() -> None:
    """Connected, then members, groups and escrow, then its registration and itself as a member."""
    ensemble = Ensemble()
    ensemble.zookeeper.define(ResourceGroup("orders", Rates(publish_messages=5)))
    ensemble.open("a")

    kinds = {type(event) for event in ensemble.told["a"]}
    told_at_first = {MembersChanged, GroupsChanged, EscrowChanged}
    assert kinds == told_at_first | {ConnectionChanged, MembershipJoined}
    assert ensemble.told["a"][0] == ConnectionChanged(ConnectionState.CONNECTED)
    assert ensemble.members() == ["a"]


def test_a_dead_process_is_a_member_until_its_session_ends(ensemble: Ensemble) -> None:
    """Then the others are told."""
    dead = ensemble.open("c")
    ensemble.zookeeper.abandon(dead)

    ensemble.wait(3.9)
    assert ensemble.members() == ["a", "b", "c"]
    ensemble.wait(0.2)
    assert ensemble.members() == ["a", "b"]
    last = [event for event in ensemble.told["a"] if isinstance(event, MembersChanged)][-1]
    assert [member.broker for member in last.members] == ["a", "b"]


def test_a_short_cut_ends_no_session(ensemble: Ensemble) -> None:
    """SUSPENDED, then CONNECTED, the same registration."""
    session = ensemble.open("c")
    ensemble.zookeeper.cut(session)
    ensemble.wait(3.0)
    ensemble.zookeeper.restore(session)
    ensemble.wait(10.0)

    assert ensemble.states("c") == ["CONNECTED", "SUSPENDED", "CONNECTED"]
    assert ensemble.members() == ["a", "b", "c"]


def test_a_long_cut_ends_the_session_and_the_client_hears_it_when_it_is_back(
    ensemble: Ensemble,
) -> None:
    """As with kazoo, LOST comes only with the reconnection."""
    session = ensemble.open("c")
    ensemble.zookeeper.cut(session)
    ensemble.wait(10.0)
    assert ensemble.members() == ["a", "b"]
    assert ensemble.states("c") == ["CONNECTED", "SUSPENDED"]

    ensemble.zookeeper.restore(session)

    assert ensemble.states("c") == ["CONNECTED", "SUSPENDED", "LOST", "CONNECTED"]


def test_without_a_quorum_no_session_ends(ensemble: Ensemble) -> None:
    """However long it lasts; and afterwards each session has its whole timeout again."""
    dead = ensemble.open("c")
    ensemble.zookeeper.lose_quorum()
    ensemble.zookeeper.abandon(dead)
    ensemble.wait(60.0)
    assert ensemble.members() == ["a", "b", "c"]

    ensemble.zookeeper.regain_quorum()
    ensemble.wait(3.9)
    assert ensemble.members() == ["a", "b", "c"]
    ensemble.wait(0.2)
    assert ensemble.members() == ["a", "b"]
    assert ensemble.states("a") == ["CONNECTED", "SUSPENDED", "CONNECTED"]


def test_who_is_cut_off_stays_so_when_there_is_a_quorum_again(ensemble: Ensemble) -> None:
    """It may have been cut off before or meanwhile; its session ends by its whole timeout."""
    before, meanwhile = ensemble.open("c"), ensemble.open("d")
    ensemble.zookeeper.cut(before)
    ensemble.zookeeper.lose_quorum()
    ensemble.zookeeper.cut(meanwhile)
    ensemble.wait(10.0)
    ensemble.zookeeper.regain_quorum()
    ensemble.wait(3.9)
    assert ensemble.members() == ["a", "b", "c", "d"]
    ensemble.wait(0.2)
    assert ensemble.members() == ["a", "b"]

    for session in before, meanwhile:
        ensemble.zookeeper.restore(session)

    assert ensemble.states("c") == ["CONNECTED", "SUSPENDED", "LOST", "CONNECTED"]
    assert ensemble.states("d") == ["CONNECTED", "SUSPENDED", "LOST", "CONNECTED"]


def test_an_old_session_does_not_take_a_new_registration_with_it(ensemble: Ensemble) -> None:
    """A broker that restarts at once stays a member when the session of its former life ends."""
    former = ensemble.open("c")
    ensemble.zookeeper.abandon(former)
    ensemble.open("c")
    ensemble.wait(10.0)

    assert ensemble.members() == ["a", "b", "c"]


def test_who_is_cut_off_reads_the_definitions_when_it_is_back(ensemble: Ensemble) -> None:
    """A change meanwhile is not lost, and its version has grown."""
    session = ensemble.open("c")
    old = ensemble.zookeeper.define(ResourceGroup("orders", Rates(publish_messages=5)))
    ensemble.zookeeper.cut(session)
    new = ensemble.zookeeper.define(ResourceGroup("orders", Rates(publish_messages=6)))
    ensemble.wait(1.0)
    ensemble.zookeeper.restore(session)
    ensemble.wait(1.0)

    assert new.configuration_version > old.configuration_version
    definitions = [event for event in ensemble.told["c"] if isinstance(event, GroupsChanged)]
    assert definitions[-1] == GroupsChanged((new,))


def test_leaving_is_at_once(ensemble: Ensemble) -> None:
    """No timeout is waited for."""
    session = ensemble.open("c")
    ensemble.zookeeper.leave(session)
    ensemble.wait(0.1)

    assert ensemble.members() == ["a", "b"]


def test_an_escrow_record_is_written_over_the_version_that_was_read_or_not_at_all(
    ensemble: Ensemble,
) -> None:
    """Two write over the same version: the first wins, and both are told the new content."""
    ensemble.zookeeper.define(ResourceGroup("orders", Rates(), overshoot_policy="strict"))
    session = ensemble.open("c")
    record = EscrowRecord("orders", generation=0, version=-1, bases={})
    ensemble.zookeeper.write_escrow(session, record)
    ensemble.wait(0.1)
    ensemble.zookeeper.write_escrow(session, record)
    ensemble.wait(0.1)

    told = [event for event in ensemble.told["a"] if isinstance(event, EscrowChanged)]
    assert [[known.version for known in event.records] for event in told] == [[], [0]]
