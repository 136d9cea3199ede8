"""Limits of roles, single subscriptions and replication on real brokers that authenticate clients."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote

import httpx
import jwt
import pulsar
import pytest

from deploy.clients import quiet_client
from deploy.local.cluster import Cluster
from deploy.local.layout import ClusterOptions
from deploy.local.sidecars import Sidecars
from tests.admin_api.keys import SECRET, in_seconds, token
from tests.gate import peer
from tests.integration import companions
from tests.integration.raw_role import CONNECTED, ERROR, NEVER, PRODUCER_SUCCESS, SEND_RECEIPT, Raw
from tests.integration.steady import Steady
from tests.integration.world import TENANT, World, eventually, make_world
from tests.pulsar_version import pulsar_version

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]

LIMIT = 50
FREE = 60
"""The rate at which bob publishes to each broker."""
ADMIN = {"Authorization": f"Bearer {token('admin')}"}
CORRECT = "$apr1$abcdefgh$ZwCv133gy1bjX2PgjiZVm."
"""The hash of the password "correct"."""
_PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three brokers that ask for tokens and ask again each second; alice and strangers are limited."""
    directory = tmp_path_factory.mktemp("roles")
    secret, own, users = (directory / name for name in ("secret", "admin.token", "users"))
    users.write_text(f"bob:{CORRECT}\n")
    secret.write_bytes(SECRET)
    own.write_text(token("admin"))
    brokers = {
        "authenticationEnabled": "true",
        "authenticationProviders": f"{_PROVIDER}Token,{_PROVIDER}Basic",
        "basicAuthConf": f"file://{users}",
        "authenticationRefreshCheckSeconds": "1",
        "anonymousUserRole": "launcher",
        "superUserRoles": "admin,launcher",
        "proxyRoles": "proxy",
        "tokenSecretKey": f"file://{secret}",
        "brokerClientAuthenticationPlugin": _PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{token('admin')}",
    }
    options = ClusterOptions(
        state_dir=tmp_path_factory.mktemp("cluster"),
        pulsar=pulsar_version(),
        broker_settings=brokers,
        quick=True,
    )
    settings = {
        "auth_secret_key_file": str(secret),
        "super_user_roles": ["admin"],
        "gate_basic_roles": True,
        "gate_proxy_roles": ["proxy"],
        "replication_peer_addresses": ["127.0.0.1"],
        "bus_token_file": str(own),
        "broker_token_file": str(own),
    }
    with (
        Cluster.start(options) as cluster,
        Sidecars(cluster, directory, settings) as sidecars,
        httpx.Client(trust_env=False, timeout=30.0, headers=ADMIN) as http,
    ):
        sidecars.start()
        yield attached(make_world(cluster, sidecars, http, f"{TENANT}/roles"))


def attached(world: World) -> World:
    """Return a world in which alice, and all but bob, have groups; each has topics of its own."""
    for group, rate in (("slow", LIMIT), ("rest", LIMIT), ("free", -1)):
        world.put(f"/admin/v2/resourcegroups/{group}", {"publishRateInMsgs": rate}, at="broker-1")
    for role, group in (("alice", "slow"), ("bob", "free")):
        world.put(f"/quota/v1/roles/{role}/resourcegroup/{group}", None, at="broker-2")
    world.put("/quota/v1/default-role/resourcegroup/rest", None, at="broker-3")
    topics = {
        f"{role} at {broker}": topic
        for role in ("alice", "bob", "rest")
        for broker, topic in world.topics.one_for_each_broker(world.namespace, role).items()
    }
    for name in topics:  # until every gate counts by them
        broker = name.partition(" at ")[2]
        eventually(
            lambda at=broker: world.get("/quota/v1/groups/rest", at)["attachments"]["defaultRole"],  # type: ignore[misc]
            f"{broker} knows the default",
        )
    return replace(world, topic_of=topics)


def of(world: World, role: str) -> dict[str, str]:
    """The topics that a role publishes to, by name."""
    return {name: topic for name, topic in world.topic_of.items() if name.startswith(f"{role} ")}


def load(world: World, role: str, credentials: str, clients: int = 1) -> Steady:
    """Producers at the topics of a role, which offer nothing yet."""
    sizes = dict.fromkeys(of(world, role).values(), 100)
    return Steady(world.sidecars.service_url, sizes, 20, credentials, clients)


def total(rates: dict[str, float], role: str) -> float:
    """Return the rate that all brokers took in at the topics of a role."""
    return sum(rate for name, rate in rates.items() if name.startswith(f"{role} "))


def has_limit(rates: dict[str, float], role: str) -> bool:
    """Return whether a role publishes as much as it may."""
    return abs(total(rates, role) - LIMIT) <= LIMIT * 0.2


def only_alice_waits(rates: dict[str, float]) -> bool:
    """Return whether alice has her limit, and bob all that he offers."""
    return has_limit(rates, "alice") and total(rates, "bob") >= 3 * FREE * 0.85


def offer(world: World, alice: Steady, bob: Steady) -> None:
    """Have both publish at all brokers, alice far above her limit."""
    alice.offers(dict.fromkeys(of(world, "alice").values(), 2 * LIMIT))
    bob.offers(dict.fromkeys(of(world, "bob").values(), FREE))


def seen(world: World, role: str) -> tuple[int, int, int]:
    """The producers, messages and milliseconds held of a role, at all gates."""
    rows = [
        row
        for broker in ("broker-1", "broker-2", "broker-3")
        for row in world.get("/quota/v1/roles", at=broker)
        if row["role"] == role
    ]
    keys = ("participants", "messages", "heldMillis")
    producers, messages, held = (sum(row[key] for row in rows) for key in keys)
    return producers, messages, held


def gone(world: World, *names: str) -> None:
    """Wait until no producer of these roles is connected; those of other tests may still be going."""
    for name in names:
        eventually(lambda at=name: seen(world, at)[0] == 0, f"{name} has left")  # type: ignore[misc]


def test_connections_of_a_role_share_its_limit_across_brokers_beside_a_free_one(
    roles: World,
) -> None:
    """In one namespace: twelve connections of alice at three brokers have 50/s together, bob's all."""

    def taken_in() -> int:
        counters = [roles.topics.counters(topic) for topic in of(roles, "alice").values()]
        return sum(each.messages_in for each in counters)

    gone(roles, "alice", "bob")
    before, counted = seen(roles, "alice"), taken_in()
    bobs = seen(roles, "bob")[2]
    with (
        load(roles, "alice", token("alice"), clients=4) as alice,
        load(roles, "bob", token("bob")) as bob,
        roles.held_to(LIMIT, of(roles, "alice")),
    ):
        offer(roles, alice, bob)
        roles.comes_to(only_alice_waits, "alice at her limit and bob at none", 3.0)
        producers, messages, held = seen(roles, "alice")
        assert (producers, held > before[2]) == (12, True)
        assert messages - before[1] - LIMIT <= taken_in() - counted
        assert seen(roles, "bob")[2] == bobs, "bob waits for alice"
        told = roles.get("/quota/v1/explain/slow", at="broker-1")["roles"]
        assert [each.partition(":")[0] for each in told] == ["Role alice"]
        metrics = roles.http.get(roles.sidecars.admin_url("broker-1") + "/metrics").text
        assert 'pulsar_quota_role_throttled_seconds_total{group="slow"' in metrics


@pytest.mark.parametrize("role", ["anyone", "al\x00ice\n\u202e", "x" * 10_240], ids=str.__len__)
def test_a_role_of_any_name_is_limited_by_the_default_and_no_other_by_it(
    roles: World, role: str
) -> None:
    """Control characters and 10 kB are a name like any other, and shown nowhere."""
    shown, topics = role if role == "anyone" else "(others)", of(roles, "rest")
    gone(roles, "alice", shown)
    before, held = seen(roles, "alice")[1], seen(roles, shown)[2]
    with load(roles, "rest", token(role)) as stranger, roles.held_to(LIMIT, topics):
        stranger.offers(dict.fromkeys(topics.values(), LIMIT))
        eventually(lambda: seen(roles, shown)[2] > held, "the stranger waits")
        eventually(lambda: seen(roles, shown)[0] == 3, "the stranger's producers are counted")
        roles.comes_to(lambda rates: has_limit(rates, "rest"), "the stranger at the limit", 1.5)
    assert seen(roles, "alice")[1] == before, "the stranger borrows the limit of alice"


FORGED = jwt.encode({"sub": "bob"}, b"another secret that no broker knows", "HS256")
EXPIRED = token("bob", exp=in_seconds(-60))
UNSIGNED = jwt.encode({"sub": "bob"}, "", "none")


@pytest.mark.parametrize("password", ["correct", "wrong"])
def test_a_user_of_method_basic_is_a_role_once_the_broker_has_taken_the_password(
    roles: World, password: str
) -> None:
    """A wrong one opens nothing, and counts for no role."""
    gone(roles, "bob")
    before = seen(roles, "bob")[1]
    client = quiet_client(
        roles.sidecars.service_url,
        authentication=pulsar.AuthenticationBasic("bob", password),
        operation_timeout_seconds=5 if password == "wrong" else 30,
    )
    try:
        opens = password == "correct"
        refused = pytest.raises(pulsar.PulsarException)
        with contextlib.nullcontext() if opens else refused:
            client.create_producer(of(roles, "bob")["bob at broker-1"]).send(b"")
        producers, messages, _ = seen(roles, "bob")
        assert (producers, messages - before) == (int(opens), int(opens))
    finally:
        client.shutdown()


@pytest.mark.parametrize("credentials", [FORGED, EXPIRED, UNSIGNED, "[" * 20_000, ""])
def test_a_token_that_does_not_hold_opens_nothing(roles: World, credentials: str) -> None:
    """The broker refuses it, and the gate counts for no role meanwhile."""
    gone(roles, "alice", "bob", "anonymous")
    before = {role: seen(roles, role) for role in ("alice", "bob", "anonymous")}
    with Raw(roles, credentials) as client:
        assert client.await_(ERROR)
    assert {role: seen(roles, role) for role in before} == before


def answers(roles: World, credentials: str) -> None:
    """Publish as alice beyond her limit; answer the challenge when her token has run out with this.

    The broker closes the connection, and bob's are not held back by it.
    """
    stop = threading.Event()
    gone(roles, "bob")
    held = seen(roles, "bob")[2]
    with (
        load(roles, "bob", token("bob")) as bob,
        Raw(roles, token("alice", exp=in_seconds(7))) as client,
    ):
        bob.offers(dict.fromkeys(of(roles, "bob").values(), FREE))
        client.await_(CONNECTED)
        client.send(peer.producer(of(roles, "alice")["alice at broker-1"]))
        client.await_(PRODUCER_SUCCESS)
        flood = threading.Thread(target=client.publish, args=(stop,))
        flood.start()
        try:
            client.answer(credentials)
            with pytest.raises((EOFError, ConnectionError)):
                client.await_(NEVER)
        finally:
            stop.set()
            flood.join()
        assert seen(roles, "bob")[2] == held, "bob waits"


@pytest.mark.parametrize("credentials", [FORGED, EXPIRED])
def test_no_answer_that_does_not_hold_leaves_the_limit(roles: World, credentials: str) -> None:
    """Until it is closed the connection keeps its role."""
    with roles.held_to(LIMIT, of(roles, "alice")):
        answers(roles, credentials)


def test_an_answer_with_the_token_of_another_role_ends_the_connection(roles: World) -> None:
    """Bob's token, from a connection of alice; alice has her limit as before."""
    answers(roles, token("bob"))
    gone(roles, "alice")
    with (
        load(roles, "alice", token("alice")) as alice,
        roles.held_to(LIMIT, of(roles, "alice")),
    ):
        alice.offers(dict.fromkeys(of(roles, "alice").values(), LIMIT))
        roles.comes_to(lambda rates: has_limit(rates, "alice"), "alice at her limit", 1.5)
        held = seen(roles, "alice")[2]
        eventually(lambda: seen(roles, "alice")[2] > held, "alice waits")


def test_a_client_that_renews_its_token_keeps_its_connection_and_its_limit(roles: World) -> None:
    """A stock client, whose tokens hold for some seconds each."""
    gone(roles, "alice")
    given = []

    def renewed() -> str:
        given.append(token("alice", exp=in_seconds(5)))
        return given[-1]

    client = quiet_client(
        roles.sidecars.service_url,
        authentication=pulsar.AuthenticationToken(renewed),
    )
    topics = of(roles, "alice")
    try:
        producers = [
            client.create_producer(topic, batching_enabled=False, send_timeout_millis=0)
            for topic in topics.values()
        ]
        shown = len(given)
        with roles.held_to(LIMIT, topics):
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                for producer in producers:
                    producer.send_async(b"x" * 100, lambda *_: None)
                time.sleep(0.01)
        assert len(given) > shown, "no token was renewed"
        assert seen(roles, "alice")[0] == 3
    finally:
        client.shutdown()


@pytest.fixture(scope="module")
def proxy(roles: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Pulsar's proxy before the gates, with a role of its own that they believe; its address."""
    directory = tmp_path_factory.mktemp("proxy")
    (directory / "secret").write_bytes(SECRET)
    gates = [broker.gate_port for broker in roles.cluster.brokers]
    settings = {
        "authenticationEnabled": "true",
        "authenticationProviders": f"{_PROVIDER}Token",
        "tokenSecretKey": f"file://{directory / 'secret'}",
        "brokerServiceURL": f"pulsar://127.0.0.1:{gates[0]}",
        "brokerProxyAllowedTargetPorts": ",".join(map(str, gates)),
        "checkActiveBrokers": False,
        "brokerClientAuthenticationPlugin": _PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{token('proxy')}",
    }
    with companions.proxy(roles.cluster, directory, settings) as running:
        yield f"pulsar://127.0.0.1:{running.port}"


def test_a_client_behind_pulsars_proxy_is_the_role_that_the_proxy_names(
    roles: World, proxy: str
) -> None:
    """Alice has her limit at all three brokers; the proxy's own role has no producer."""
    gone(roles, "alice", "proxy")
    topics = of(roles, "alice")
    through = Steady(proxy, dict.fromkeys(topics.values(), 100), 20, token("alice"))
    with through as alice, roles.held_to(LIMIT, topics):
        alice.offers(dict.fromkeys(topics.values(), LIMIT))
        roles.comes_to(lambda rates: has_limit(rates, "alice"), "alice at her limit", 1.5)
        assert (seen(roles, "alice")[0], seen(roles, "proxy")[0]) == (3, 0)


def test_a_client_that_names_another_role_as_a_proxy_does_keeps_its_own(roles: World) -> None:
    """Only a proxy of the configuration is believed; alice in bob's name has her limit."""
    gone(roles, "alice", "bob")
    before = seen(roles, "alice")[1], seen(roles, "bob")[1]
    with Raw(roles, token("alice"), original="bob") as client:
        client.await_(CONNECTED)
        client.send(peer.producer(of(roles, "alice")["alice at broker-1"]))
        client.await_(PRODUCER_SUCCESS)
        client.send(peer.send(sequence_id=1, checksum=False))
        client.await_(SEND_RECEIPT)
        assert (seen(roles, "alice")[1], seen(roles, "bob")[1]) == (before[0] + 1, before[1])


MESSAGES = 6 * LIMIT


def limited(roles: World, path: str, group: str, **limits: int) -> None:
    """Attach what has this path to a group of its own, and wait until the gates know."""
    roles.put(f"/admin/v2/resourcegroups/{group}", limits, at="broker-1")
    roles.put(f"/quota/v1/{path}/resourcegroup/{group}", None, at="broker-2")
    for broker in ("broker-1", "broker-2", "broker-3"):
        url = roles.sidecars.admin_url(broker) + f"/quota/v1/{path}/resourcegroup"
        eventually(lambda at=url: roles.http.get(at).text == group, f"{broker} knows it")  # type: ignore[misc]


def as_bob(roles: World) -> pulsar.Client:
    """A stock client without a limit."""
    return quiet_client(
        roles.sidecars.service_url,
        authentication=pulsar.AuthenticationToken(token("bob")),
    )


def test_a_single_subscription_is_limited_and_its_neighbour_is_not(roles: World) -> None:
    """Of one topic, with stock consumers."""
    topic = of(roles, "bob")["bob at broker-1"]
    path = f"subscriptions/{topic.replace('://', '/')}/audit"
    limited(roles, path, "audit", dispatchRateInMsgs=LIMIT)
    client = as_bob(roles)
    try:
        audit, free = (client.subscribe(topic, name) for name in ("audit", "free"))
        producer = client.create_producer(topic, batching_enabled=False)
        began = time.monotonic()
        for _ in range(MESSAGES):
            producer.send_async(b"", lambda *_: None)
        for _ in range(MESSAGES):
            free.acknowledge(free.receive(30_000))
        got, until = 0, time.monotonic() + 3
        with contextlib.suppress(pulsar.Timeout):
            while time.monotonic() < until:
                audit.receive(2_000)
                got += 1
        took = time.monotonic() - began
        assert LIMIT <= got <= LIMIT * (took + 1), f"{got} in {took:.2f} s"
    finally:
        client.close()


def test_what_one_remote_cluster_replicates_is_limited_and_anothers_is_not(roles: World) -> None:
    """Producers with the names of brokers' replicators, from an address that the sidecars list."""
    topic = of(roles, "bob")["bob at broker-2"]
    limited(roles, "clusters/west/replication", "west", publishRateInMsgs=LIMIT)
    client = as_bob(roles)
    receipts = {"west": 0, "north": 0}

    def received(cluster: str) -> None:
        receipts[cluster] += 1

    try:
        producers = {
            name: client.create_producer(
                topic,
                f"pulsar.repl.{name}-->local",
                batching_enabled=False,
                send_timeout_millis=0,
            )
            for name in receipts
        }
        began = time.monotonic()
        for name, producer in producers.items():
            for _ in range(MESSAGES):
                producer.send_async(b"", lambda *_, at=name: received(at))
        eventually(lambda: receipts["north"] == MESSAGES, "north is not limited")
        time.sleep(1)
        passed, took = receipts["west"], time.monotonic() - began
        assert passed <= LIMIT * (took + 0.65), f"{passed} in {took:.2f} s"
        eventually(lambda: receipts["west"] >= 2 * LIMIT, "west goes on")
    finally:
        client.shutdown()


def test_what_cannot_be_a_role_is_refused_by_a_running_sidecar(roles: World) -> None:
    """By name, and nothing is attached by it."""
    url = roles.sidecars.admin_url("broker-1")
    before = roles.get("/quota/v1/groups/slow")["attachments"]
    for role, reason in (
        ("*", "matches every role"),
        ("a*b", "a pattern has one *"),
        ("a\nb", "printable"),
        ("x" * 10_240, "at most 255 bytes"),
    ):
        path = f"/quota/v1/roles/{quote(role, safe='')}/resourcegroup/slow"
        refused = roles.http.put(url + path)
        assert (refused.status_code, reason in refused.json()["reason"]) == (400, True)
    path = "/quota/v1/roles/eve/resourcegroup/slow"
    for headers, status in (({"Authorization": f"Bearer {token('eve')}"}, 403), ({}, 401)):
        with httpx.Client(trust_env=False, timeout=30.0, headers=headers) as other:
            assert other.put(url + path).status_code == status
    assert roles.get("/quota/v1/groups/slow")["attachments"] == before
