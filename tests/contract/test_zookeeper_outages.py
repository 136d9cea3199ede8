"""ZooKeeper freezes, dies, comes back and holds nonsense: what store and membership make of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from coordinator.adapters.zookeeper.membership import ZooKeeperMembership
from coordinator.adapters.zookeeper.session import ZooKeeperSession
from coordinator.adapters.zookeeper.store import ZooKeeperStore
from coordinator.core.events import ConnectionState
from coordinator.core.model import Member, Rates, ResourceGroup
from coordinator.ports import Catalogue, NotFound, StoreUnreachable, Unreadable, Versioned
from tests.contract.listening import Heard, eventually
from tests.contract.own_zookeeper import OwnZooKeeper
from tests.contract.sessions import PATIENT_S, an_operator, running
from tests.contract.stores import ACME, ORDERS

pytestmark = pytest.mark.cluster

CONNECTED, SUSPENDED, LOST = (
    ConnectionState.CONNECTED,
    ConnectionState.SUSPENDED,
    ConnectionState.LOST,
)
GOLD = ResourceGroup("gold", Rates(publish_messages=100))


@dataclass
class Sidecar:
    """Everything that one sidecar has to do with ZooKeeper."""

    session: ZooKeeperSession
    store: ZooKeeperStore
    membership: ZooKeeperMembership
    states: Heard[ConnectionState] = field(default_factory=Heard)
    catalogues: Heard[Catalogue] = field(default_factory=Heard)
    members: Heard[tuple[Member, ...]] = field(default_factory=Heard)


@asynccontextmanager
async def a_sidecar(
    hosts: str, session_timeout_s: float = PATIENT_S, request_timeout_s: float = PATIENT_S
) -> AsyncIterator[Sidecar]:
    """A sidecar that is started and watches, connected or not."""
    session = ZooKeeperSession(
        hosts, session_timeout_s=session_timeout_s, request_timeout_s=request_timeout_s
    )
    sidecar = Sidecar(session, ZooKeeperStore(session), ZooKeeperMembership(session))
    sidecar.membership.watch_connection(sidecar.states)
    sidecar.membership.watch_members(sidecar.members)
    sidecar.store.watch(sidecar.catalogues)
    async with running(session, sidecar.store, sidecar.membership):
        yield sidecar


async def _is(state: ConnectionState, sidecar: Sidecar) -> None:
    await sidecar.states.until(lambda current: current is state)


async def test_starting_without_zookeeper_waits_for_it(own_zookeeper: OwnZooKeeper) -> None:
    """No state is reported before the first connection, and then all goes by itself."""
    own_zookeeper.kill()
    async with a_sidecar(own_zookeeper.hosts, request_timeout_s=5.0) as sidecar:
        with pytest.raises(StoreUnreachable):
            await sidecar.membership.join("broker-1", "")
        assert sidecar.states.values == []
        await asyncio.to_thread(own_zookeeper.start)
        await _is(CONNECTED, sidecar)
        assert await sidecar.catalogues.until(lambda _: True) == Catalogue()
        await sidecar.membership.join("broker-1", "")
        await sidecar.members.until(lambda m: len(m) == 1)


@pytest.mark.verify
async def test_requests_to_a_frozen_zookeeper_are_unreachable_in_time(
    own_zookeeper: OwnZooKeeper,
) -> None:
    """Connections stay open without an answer, so the client's own deadline ends the request."""
    async with a_sidecar(own_zookeeper.hosts, request_timeout_s=1.0) as sidecar:
        await _is(CONNECTED, sidecar)
        own_zookeeper.freeze()
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: sidecar.store.read_group("gold"),
            lambda: sidecar.store.create_group(GOLD),
            lambda: sidecar.store.update_group(GOLD, 0),
            lambda: sidecar.store.delete_group("gold"),
            lambda: sidecar.store.attach(ACME, "gold"),
            lambda: sidecar.store.detach(ORDERS),
            lambda: sidecar.membership.join("broker-1", ""),
            sidecar.membership.leave,
            sidecar.membership.confirm,
        ]
        for call in calls:
            before_s = time.monotonic()
            with pytest.raises(StoreUnreachable):
                await call()
            assert time.monotonic() - before_s < 60.0
        own_zookeeper.thaw()


@pytest.mark.verify
async def test_a_short_freeze_suspends_and_the_registration_lives_on(
    own_zookeeper: OwnZooKeeper,
) -> None:
    """SUSPENDED, then CONNECTED with the same incarnation."""
    async with a_sidecar(own_zookeeper.hosts, session_timeout_s=20.0) as sidecar:
        incarnation = await sidecar.membership.join("broker-1", "")
        await sidecar.members.until(lambda m: len(m) == 1)
        own_zookeeper.freeze()
        await _is(SUSPENDED, sidecar)
        own_zookeeper.thaw()
        await _is(CONNECTED, sidecar)
        assert sidecar.states.values == [CONNECTED, SUSPENDED, CONNECTED]
        # A change proves that watches stand again, whatever the interruption did to them.
        await sidecar.store.create_group(GOLD)
        await sidecar.catalogues.until(lambda c: "gold" in c.groups)
        assert sidecar.members.last == (Member("broker-1", incarnation, ""),)


async def test_who_keeps_asking_a_frozen_zookeeper_notices_that_it_is_silent(
    own_zookeeper: OwnZooKeeper,
) -> None:
    """Each request is a sign of our life, not of the server's."""
    async with a_sidecar(own_zookeeper.hosts, session_timeout_s=6.0) as sidecar:
        await _is(CONNECTED, sidecar)
        own_zookeeper.freeze()
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(_ask_often(sidecar))
            await _is(SUSPENDED, sidecar)
            asking.cancel()
        own_zookeeper.thaw()
        await _is(CONNECTED, sidecar)
        await sidecar.store.create_group(GOLD)


async def _ask_often(sidecar: Sidecar) -> None:
    while True:
        asking = asyncio.ensure_future(sidecar.store.read_group("gold"))
        asking.add_done_callback(lambda done: done.exception())
        await asyncio.sleep(0.1)


async def test_a_registration_outlives_a_silent_zookeeper_or_is_said_to_be_lost(
    own_zookeeper: OwnZooKeeper,
) -> None:
    """The state is SUSPENDED while no server answers: no server can expire a session meanwhile."""
    async with a_sidecar(own_zookeeper.hosts, session_timeout_s=6.0) as sidecar:
        first = await sidecar.membership.join("broker-1", "")
        own_zookeeper.kill()
        await _is(SUSPENDED, sidecar)
        await asyncio.to_thread(own_zookeeper.start)
        await _is(CONNECTED, sidecar)
        assert sidecar.states.values in (
            [CONNECTED, SUSPENDED, CONNECTED],
            [CONNECTED, SUSPENDED, LOST, CONNECTED],
        )
        second = await sidecar.membership.join("broker-1", "")
        assert second > first
        await sidecar.members.until(lambda m: m == (Member("broker-1", second, ""),))


async def test_changes_made_while_away_are_heard_on_return(own_zookeeper: OwnZooKeeper) -> None:
    """Changed, created, deleted and detached, with no watch standing."""
    async with a_sidecar(own_zookeeper.hosts) as sidecar, an_operator(own_zookeeper.hosts) as shell:
        created = await sidecar.store.create_group(GOLD)
        await sidecar.store.create_group(replace(GOLD, name="silver"))
        await sidecar.store.attach(ACME, "gold")
        await sidecar.catalogues.until(lambda c: bool(c.attachments.tenants))
        # Only the sidecar is cut off: its client is told to drop what it connects to.
        connection = sidecar.session._client._connection
        reconnect = connection._connect
        connection._connect = _refuse
        connection._socket.shutdown(2)
        await _is(SUSPENDED, sidecar)
        root = "/pulsar-quota"
        await asyncio.to_thread(shell.set, f"{root}/groups/gold", b'{"schema":1,"law":"max-min"}')
        await asyncio.to_thread(shell.delete, f"{root}/groups/silver")
        await asyncio.to_thread(shell.create, f"{root}/groups/bronze", b'{"schema":1}')
        await asyncio.to_thread(shell.delete, f"{root}/attachments/tenants/acme")
        connection._connect = reconnect
        catalogue = await sidecar.catalogues.until(lambda c: "bronze" in c.groups)
        assert sorted(catalogue.groups) == ["bronze", "gold"]
        assert catalogue.groups["gold"].group.limits == Rates()
        assert catalogue.groups["gold"].version > created.version
        assert catalogue.attachments.tenants == {}


def _refuse(*_: object) -> None:
    raise ConnectionRefusedError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_dead_client_is_replaced_and_everything_goes_on(
    own_zookeeper: OwnZooKeeper,
) -> None:
    """A reply out of order ends kazoo's connection thread for good."""
    async with a_sidecar(own_zookeeper.hosts, 6.0, request_timeout_s=5.0) as sidecar:
        await sidecar.membership.join("broker-1", "")
        await sidecar.members.until(lambda m: len(m) == 1)
        # What kazoo does not expect ends its connection thread for good.
        client = sidecar.session._client
        client._connection._read_socket = _misunderstand
        with pytest.raises(StoreUnreachable):
            await sidecar.store.create_group(GOLD)
        await eventually(lambda: sidecar.session._client is not client)
        await _is(CONNECTED, sidecar)
        assert LOST in sidecar.states.values
        await sidecar.store.create_group(replace(GOLD, name="silver"))
        await sidecar.catalogues.until(lambda c: "silver" in c.groups)
        await sidecar.membership.join("broker-1", "")
        await sidecar.members.until(lambda m: len(m) == 1)


def _misunderstand(*_: object) -> None:
    raise RuntimeError("xids do not match")


@pytest.mark.verify
async def test_stopping_while_zookeeper_is_frozen_takes_seconds_only(
    own_zookeeper: OwnZooKeeper,
) -> None:
    """A sidecar that is told to stop must not wait for ZooKeeper."""
    async with a_sidecar(own_zookeeper.hosts) as sidecar:
        await _is(CONNECTED, sidecar)
        own_zookeeper.freeze()
        before_s = time.monotonic()
    assert time.monotonic() - before_s < 20.0
    own_zookeeper.thaw()


NONSENSE = [
    b"",
    b"{",
    b"[" * 100_000,
    b"\xff\xfe",
    b"[]",
    b"{}",
    b'{"schema":"1"}',
    b'{"schema":true}',
    b'{"schema":0}',
    b'{"schema":3,"group":"gold"}',
    b'{"schema":2,"parent":7,"group":7}',
    b'{"schema":1,"publishRateInMsgs":-2,"group":7}',
    b'{"schema":1,"publishRateInMsgs":1.0005,"group":"a/b"}',
    b'{"schema":1,"publishRateInMsgs":true}',
    b'{"schema":1,"publishRateInMsgs":1e999}',
    b'{"schema":1,"dispatchRateInBytes":9223372036854775808}',
    b'{"schema":1,"law":"of the jungle"}',
    b'{"schema":1,"law":["max-min"]}',
    b'{"schema":1,"overshootPolicy":null}',
    b'{"schema":1,"partitionPolicy":{}}',
]


async def test_an_unreadable_entry_keeps_its_last_definition_and_disturbs_nothing_else(
    own_zookeeper: OwnZooKeeper,
) -> None:
    """This holds for any bytes; readable bytes repair it."""
    async with a_sidecar(own_zookeeper.hosts) as sidecar, an_operator(own_zookeeper.hosts) as shell:
        good = await sidecar.store.create_group(GOLD)
        await sidecar.store.attach(ACME, "gold")
        await sidecar.catalogues.until(lambda c: bool(c.attachments.tenants))
        group_path = "/pulsar-quota/groups/gold"
        tenant_path = "/pulsar-quota/attachments/tenants/acme"
        for number, nonsense in enumerate(NONSENSE):
            await asyncio.to_thread(shell.set, group_path, nonsense)
            await asyncio.to_thread(shell.set, tenant_path, nonsense)
            other = await sidecar.store.create_group(replace(GOLD, name=f"other-{number}"))
            catalogue = await sidecar.catalogues.until(partial(_has, other))
            assert catalogue.groups["gold"] == good
            assert catalogue.attachments.tenants == {"acme": "gold"}
            assert set(catalogue.faults) == {group_path, tenant_path}
            with pytest.raises(Unreadable):
                await sidecar.store.read_group("gold")
            assert all(catalogue.faults.values())
        seen = sidecar.store.faults_seen
        await asyncio.to_thread(shell.set, group_path, b'{"schema":1,"future":"field"}')
        await asyncio.to_thread(shell.set, tenant_path, b'{"schema":1,"group":"other-0"}')
        healed = await sidecar.catalogues.until(lambda c: not c.faults)
        assert healed.groups["gold"].group.limits == Rates()
        assert healed.attachments.tenants == {"acme": "other-0"}
        assert sidecar.store.faults_seen == seen


def _has(group: Versioned, catalogue: Catalogue) -> bool:
    return catalogue.groups.get(group.group.name) == group


async def test_a_fault_is_counted_once_until_it_changes(own_zookeeper: OwnZooKeeper) -> None:
    """The same nonsense written again is no news."""
    async with a_sidecar(own_zookeeper.hosts) as sidecar, an_operator(own_zookeeper.hosts) as shell:
        await sidecar.store.create_group(GOLD)
        for _ in range(3):
            await asyncio.to_thread(shell.set, "/pulsar-quota/groups/gold", b"nonsense")
        await sidecar.catalogues.until(lambda c: bool(c.faults))
        await sidecar.store.create_group(replace(GOLD, name="other"))
        await sidecar.catalogues.until(lambda c: "other" in c.groups)
        assert sidecar.store.faults_seen == 1


async def test_an_unreadable_group_can_be_attached_to_and_deleted(
    own_zookeeper: OwnZooKeeper,
) -> None:
    """Attachments go by the group's existence, not by its definition."""
    async with a_sidecar(own_zookeeper.hosts) as sidecar, an_operator(own_zookeeper.hosts) as shell:
        await sidecar.store.create_group(GOLD)
        await asyncio.to_thread(shell.set, "/pulsar-quota/groups/gold", b"nonsense")
        await sidecar.store.attach(ACME, "gold")
        await sidecar.store.detach(ACME)
        await sidecar.store.delete_group("gold")
        last = await sidecar.catalogues.until(lambda c: not c.groups and not c.faults)
        assert last == Catalogue()


async def test_an_unreadable_attachment_can_be_replaced_and_frees_its_group(
    own_zookeeper: OwnZooKeeper,
) -> None:
    """Its use is found by searching the groups."""
    async with a_sidecar(own_zookeeper.hosts) as sidecar, an_operator(own_zookeeper.hosts) as shell:
        await sidecar.store.create_group(GOLD)
        await sidecar.store.create_group(replace(GOLD, name="silver"))
        repairs: list[Callable[[], Awaitable[None]]] = [
            lambda: sidecar.store.attach(ACME, "silver"),
            lambda: sidecar.store.detach(ACME),
        ]
        for repair in repairs:
            await sidecar.store.attach(ACME, "gold")
            await asyncio.to_thread(shell.set, "/pulsar-quota/attachments/tenants/acme", b"{")
            await repair()
            await sidecar.store.delete_group("gold")
            await sidecar.store.create_group(GOLD)


async def test_directories_that_are_removed_come_back(own_zookeeper: OwnZooKeeper) -> None:
    """Kazoo's own ChildrenWatch would end silently here."""
    async with a_sidecar(own_zookeeper.hosts) as sidecar, an_operator(own_zookeeper.hosts) as shell:
        await sidecar.membership.join("broker-1", "")
        await sidecar.store.create_group(GOLD)
        await sidecar.store.attach(ORDERS, "gold")
        await sidecar.catalogues.until(lambda c: bool(c.attachments.namespaces))
        await sidecar.members.until(lambda m: len(m) == 1)
        for path in ("groups", "brokers", "attachments/tenants", "attachments/namespaces"):
            await asyncio.to_thread(shell.delete, f"/pulsar-quota/{path}", recursive=True)
        await sidecar.catalogues.until(lambda c: c == Catalogue())
        await sidecar.members.until(lambda m: m == ())
        await sidecar.membership.join("broker-1", "")
        await sidecar.store.create_group(GOLD)
        await sidecar.store.attach(ORDERS, "gold")
        await sidecar.catalogues.until(lambda c: bool(c.attachments.namespaces))
        await sidecar.members.until(lambda m: len(m) == 1)


async def test_a_member_with_an_unreadable_document_is_a_member(
    own_zookeeper: OwnZooKeeper,
) -> None:
    """Its broker's traffic is there in any case."""
    async with a_sidecar(own_zookeeper.hosts) as sidecar, an_operator(own_zookeeper.hosts) as shell:
        await sidecar.members.until(lambda _: True)
        path = "/pulsar-quota/brokers/broker-2"
        await asyncio.to_thread(shell.create, path, b"{", ephemeral=True)
        stat = await asyncio.to_thread(shell.exists, path)
        await sidecar.members.until(lambda m: m == (Member("broker-2", stat.czxid, ""),))


async def test_a_node_whose_name_is_none_is_a_fault(own_zookeeper: OwnZooKeeper) -> None:
    """ZooKeeper allows names that Pulsar does not."""
    async with a_sidecar(own_zookeeper.hosts) as sidecar, an_operator(own_zookeeper.hosts) as shell:
        await sidecar.store.create_group(GOLD)
        await asyncio.to_thread(shell.create, "/pulsar-quota/groups/not a name", b'{"schema":1}')
        catalogue = await sidecar.catalogues.until(lambda c: bool(c.faults))
        assert list(catalogue.groups) == ["gold"]


@pytest.mark.verify
async def test_a_thousand_groups_are_few_calls(own_zookeeper: OwnZooKeeper) -> None:
    """A burst of changes is coalesced, and a starting sidecar hears all at once."""
    async with a_sidecar(own_zookeeper.hosts) as sidecar:
        names = [f"group-{number}" for number in range(1000)]
        for start in range(0, len(names), 50):
            some = (replace(GOLD, name=name) for name in names[start : start + 50])
            await asyncio.gather(*map(sidecar.store.create_group, some))
        await sidecar.catalogues.until(lambda c: len(c.groups) == len(names))
        assert len(sidecar.catalogues.values) < len(names) / 2
    async with a_sidecar(own_zookeeper.hosts) as late:
        await late.catalogues.until(lambda _: True)
        assert len(late.catalogues.values) == 1
        assert len(late.catalogues.last.groups) == len(names)
        with pytest.raises(NotFound):
            await late.store.read_group("group-1000")
