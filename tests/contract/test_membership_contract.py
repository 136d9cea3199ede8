"""Membership: what every membership promises, over memory and ZooKeeper."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
from kazoo.client import KazooClient

from coordinator.adapters.clock import MonotonicClock
from coordinator.adapters.zookeeper.membership import ZooKeeperMembership
from coordinator.core.events import ConnectionState
from coordinator.core.model import Member
from coordinator.ports import AlreadyExists, Membership, StoreUnreachable
from tests.contract.listening import Heard, eventually
from tests.contract.sessions import PATIENT_S, new_root, patient, running
from tests.memory.surroundings import MemoryEnsemble, MemoryMembership

Members = tuple[Member, ...]


@dataclass(frozen=True)
class Sidecar:
    """A membership and its trouble: `expire` ends its session and waits until there is a new one."""

    membership: Membership
    connection: Heard[ConnectionState]
    expire: Callable[[], Awaitable[None]]
    stop: Callable[[], Awaitable[None]]


OpenSidecar = Callable[[], Awaitable[Sidecar]]


@pytest.fixture(params=["memory", pytest.param("zookeeper", marks=pytest.mark.cluster)])
async def open_sidecar(request: pytest.FixtureRequest) -> AsyncIterator[OpenSidecar]:
    """A function that starts one more sidecar of the same cluster, connected and not joined."""
    if request.param == "memory":
        ensemble = MemoryEnsemble()

        async def start_in_memory() -> Sidecar:
            return _in_memory(ensemble)

        yield start_in_memory
        return
    hosts = request.getfixturevalue("zookeeper_hosts")
    root = f"/contract-{uuid.uuid4().hex}"
    started: list[Sidecar] = []

    async def start_on_zookeeper() -> Sidecar:
        started.append(await _on_zookeeper(hosts, root))
        return started[-1]

    yield start_on_zookeeper
    for sidecar in started:
        await sidecar.stop()


def _in_memory(ensemble: MemoryEnsemble) -> Sidecar:
    membership = MemoryMembership(ensemble, MonotonicClock(), session_timeout_s=PATIENT_S)
    heard: Heard[ConnectionState] = Heard()
    membership.watch_connection(heard)
    membership.connect()

    async def expire() -> None:
        membership.expire()
        membership.connect()

    async def stop() -> None:
        membership.expire()

    return Sidecar(membership, heard, expire, stop)


async def _on_zookeeper(hosts: str, root: str) -> Sidecar:
    session = patient(hosts, root)
    membership = ZooKeeperMembership(session, version="1")
    heard: Heard[ConnectionState] = Heard()
    membership.watch_connection(heard)
    await session.start()
    await membership.start()
    await heard.until(lambda state: state is ConnectionState.CONNECTED)

    async def stop() -> None:
        await membership.stop()
        await session.stop()

    async def expire() -> None:
        # The server ends a session for all its clients when one of them closes it.
        heard_before = len(heard.values)
        twin = KazooClient(hosts, client_id=session._client.client_id)
        await asyncio.to_thread(twin.start)
        await asyncio.to_thread(twin.stop)
        twin.close()
        await eventually(
            lambda: (
                ConnectionState.LOST in heard.values[heard_before:]
                and heard.last is ConnectionState.CONNECTED
            )
        )

    return Sidecar(membership, heard, expire, stop)


async def _watch(sidecar: Sidecar) -> Heard[Members]:
    heard: Heard[Members] = Heard()
    sidecar.membership.watch_members(heard)
    await heard.until(lambda _: True)
    return heard


async def test_nobody_is_a_member_before_joining(open_sidecar: OpenSidecar) -> None:
    """Watching alone makes no member, and the first thing heard is that there is none."""
    heard = await _watch(await open_sidecar())
    assert heard.last == ()


async def test_a_joined_broker_is_seen_by_everybody_itself_included(
    open_sidecar: OpenSidecar,
) -> None:
    """With its incarnation and its address."""
    sidecars = [await open_sidecar() for _ in range(3)]
    heard = [await _watch(sidecar) for sidecar in sidecars]
    incarnation = await sidecars[1].membership.join("broker-1", "http://one")
    for listener in heard:
        await listener.until(lambda m: m == (Member("broker-1", incarnation, "http://one"),))


async def test_members_are_sorted_by_broker(open_sidecar: OpenSidecar) -> None:
    """As text, the same on every sidecar."""
    brokers = ["b-10", "b-2", "a", "c"]
    sidecars = [await open_sidecar() for _ in brokers]
    heard = await _watch(sidecars[0])
    for sidecar, broker in zip(sidecars, brokers, strict=True):
        await sidecar.membership.join(broker, "")
    members = await heard.until(lambda m: len(m) == len(brokers))
    assert [member.broker for member in members] == sorted(brokers)


async def test_a_late_watcher_hears_of_the_members_there_are(open_sidecar: OpenSidecar) -> None:
    """Now, not at the next change."""
    first, second = await open_sidecar(), await open_sidecar()
    early = await _watch(first)
    await first.membership.join("broker-1", "")
    await early.until(lambda m: len(m) == 1)
    late = await _watch(second)
    await late.until(lambda m: m == early.last)


async def test_joining_again_replaces_the_registration_by_a_larger_incarnation(
    open_sidecar: OpenSidecar,
) -> None:
    """This holds within one session, too."""
    sidecar, witness = await open_sidecar(), await open_sidecar()
    heard = await _watch(witness)
    incarnations = [await sidecar.membership.join("broker-1", f"http://{n}") for n in range(4)]
    assert incarnations == sorted(set(incarnations))
    await heard.until(lambda m: m == (Member("broker-1", incarnations[-1], "http://3"),))


async def test_a_restarted_sidecar_replaces_what_its_earlier_session_left(
    open_sidecar: OpenSidecar,
) -> None:
    """The end of the earlier session does not take the later one's registration with it."""
    earlier, later, witness = [await open_sidecar() for _ in range(3)]
    heard = await _watch(witness)
    before = await earlier.membership.join("broker-1", "http://one", bytes(32))
    after = await later.membership.join("broker-1", "http://one")
    assert after > before
    await heard.until(lambda m: m == (Member("broker-1", after, "http://one"),))
    await earlier.membership.leave()
    await earlier.expire()
    await earlier.membership.join("broker-0", "")
    members = await heard.until(lambda m: len(m) == 2)
    assert members[1] == Member("broker-1", after, "http://one")


async def test_of_two_sidecars_of_one_broker_the_registered_one_stays(
    open_sidecar: OpenSidecar,
) -> None:
    """The other one is refused with its address until its session is over, and then the first one is.

    Each asks again and again, as the core does, and neither pushes the other out.
    """
    first, second, witness = [await open_sidecar() for _ in range(3)]
    heard = await _watch(witness)
    incarnation = await first.membership.join("broker-1", "one:8087")
    for _ in range(3):
        with pytest.raises(
            AlreadyExists, match=r"the sidecar at one:8087 .*registered for broker-1"
        ):
            await second.membership.join("broker-1", "two:8087")
    await second.membership.leave()
    await heard.until(lambda m: m == (Member("broker-1", incarnation, "one:8087"),))

    await first.expire()
    later = await second.membership.join("broker-1", "two:8087")
    with pytest.raises(AlreadyExists, match="the sidecar at two:8087"):
        await first.membership.join("broker-1", "one:8087")
    await heard.until(lambda m: m == (Member("broker-1", later, "two:8087"),))


@pytest.mark.cluster
async def test_the_same_address_on_another_machine_is_another_sidecar(zookeeper_hosts: str) -> None:
    """By default the API listens on loopback, at the same port everywhere."""
    root = new_root()
    one, other = (patient(zookeeper_hosts, root) for _ in range(2))
    first, second = (
        ZooKeeperMembership(session, host=f"host-{name}")
        for session, name in ((one, 1), (other, 2))
    )
    async with running(one, other):
        await first.join("broker-1", "127.0.0.1:8087")
        with pytest.raises(AlreadyExists, match=r"at 127\.0\.0\.1:8087 on host-1 .* broker_id"):
            await second.join("broker-1", "127.0.0.1:8087")


@pytest.mark.cluster
@pytest.mark.parametrize("ephemeral", [True, False])
async def test_a_registration_that_cannot_be_read_is_another_sidecars_while_its_session_lasts(
    zookeeper_hosts: str, ephemeral: bool
) -> None:
    """A node of no session is nothing that would end."""
    root = new_root()
    session, strange = patient(zookeeper_hosts, root), KazooClient(zookeeper_hosts)
    await asyncio.to_thread(strange.start)
    path = f"{root}/brokers/broker-1"
    strange.create(path, b"?", ephemeral=ephemeral, makepath=True)
    membership = ZooKeeperMembership(session)
    async with running(session):
        if ephemeral:
            with pytest.raises(AlreadyExists, match="at an address that cannot be read"):
                await membership.join("broker-1", "one:8087")
            strange.delete(path)
        assert await membership.join("broker-1", "one:8087")
    await asyncio.to_thread(strange.stop)
    strange.close()


async def test_leaving_is_seen_at_once_and_needs_no_registration(
    open_sidecar: OpenSidecar,
) -> None:
    """Leaving twice, or before joining, is fine."""
    sidecar, witness = await open_sidecar(), await open_sidecar()
    heard = await _watch(witness)
    await sidecar.membership.leave()
    await sidecar.membership.join("broker-1", "")
    await heard.until(lambda m: len(m) == 1)
    await sidecar.membership.leave()
    await heard.until(lambda m: m == ())
    await sidecar.membership.leave()


async def test_who_left_can_join_again(open_sidecar: OpenSidecar) -> None:
    """Under a larger incarnation."""
    sidecar = await open_sidecar()
    first = await sidecar.membership.join("broker-1", "")
    await sidecar.membership.leave()
    assert await sidecar.membership.join("broker-1", "") > first


async def test_the_end_of_a_session_ends_the_registration_and_nothing_renews_it(
    open_sidecar: OpenSidecar,
) -> None:
    """Only the core asks again."""
    sidecar, witness = await open_sidecar(), await open_sidecar()
    heard = await _watch(witness)
    own = await _watch(sidecar)
    first = await sidecar.membership.join("broker-1", "")
    await heard.until(lambda m: len(m) == 1)
    await sidecar.expire()
    await heard.until(lambda m: m == ())
    assert ConnectionState.LOST in sidecar.connection.values
    await own.until(lambda m: m == ())
    second = await sidecar.membership.join("broker-1", "")
    assert second > first
    for listener in (heard, own):
        await listener.until(lambda m: m == (Member("broker-1", second, ""),))
    assert [len(m) for m in heard.values] == [0, 1, 0, 1]


async def test_a_confirmed_session_is_known_by_its_connection(open_sidecar: OpenSidecar) -> None:
    """Since when the connection was asked for, and for how long the session lives without a word."""
    asked_ns = time.monotonic_ns()
    sidecar = await open_sidecar()
    before = await sidecar.membership.confirm()
    assert await sidecar.membership.confirm() == before
    assert asked_ns <= before.connected_ns <= time.monotonic_ns()
    assert before.timeout_ns == PATIENT_S * 1_000_000_000
    await sidecar.expire()
    after = await sidecar.membership.confirm()
    assert after.connected_ns > before.connected_ns


async def test_states_are_reported_when_they_change_only(open_sidecar: OpenSidecar) -> None:
    """The same state is never reported twice in a row."""
    sidecar = await open_sidecar()
    await sidecar.expire()
    states = sidecar.connection.values
    assert states[0] is ConnectionState.CONNECTED
    assert all(before is not after for before, after in pairwise(states))


@pytest.mark.parametrize("broker", ["", "..", "a/b", "a\n"])
async def test_a_broker_id_that_is_no_name_is_refused(
    open_sidecar: OpenSidecar, broker: str
) -> None:
    """Before anything is written."""
    sidecar = await open_sidecar()
    with pytest.raises(ValueError, match="is not a name"):
        await sidecar.membership.join(broker, "")


async def test_joining_while_not_connected_says_unreachable() -> None:
    """Suspended or expired, in memory; test_zookeeper_outages has the real thing."""
    membership = MemoryMembership(MemoryEnsemble())
    for make_unreachable in (membership.suspend, membership.expire):
        membership.connect()
        make_unreachable()
        with pytest.raises(StoreUnreachable):
            await membership.join("broker-1", "")
        with pytest.raises(StoreUnreachable):
            await membership.confirm()


async def test_everybody_sees_the_key_that_a_members_reports_are_checked_with(
    open_sidecar: OpenSidecar,
) -> None:
    """As it was shown at the last registration; none from a sidecar that shows none."""
    one, other = await open_sidecar(), await open_sidecar()
    heard: list[Members] = []
    other.membership.watch_members(heard.append)
    key = bytes(range(32))
    await one.membership.join("broker-1", "http://one", key)
    await eventually(lambda: bool(heard) and [each.report_key for each in heard[-1]] == [key])

    await one.membership.join("broker-1", "http://one")
    await eventually(lambda: [each.report_key for each in heard[-1]] == [b""])
