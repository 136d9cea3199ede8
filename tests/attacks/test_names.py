"""A name commands no terminal: neither through a real sidecar's log nor through what the command prints.

Clients, callers and a writer to ZooKeeper give every name that they may give such a value; a role does in
tests/integration/test_hostile_roles.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import quote

import pytest
from kazoo.client import KazooClient

from tests.attacks.callers import Caller
from tests.attacks.conftest import BROKER, Target
from tests.attacks.raw import CONNECT, ERROR, PRODUCER_SUCCESS, SUCCESS, RawClient
from tests.attacks.terminal import ESCAPED, Log, assert_harmless, assert_prints_harmless, printed
from tests.cli.test_hostile_names import HOSTILE
from tests.gate import peer
from tests.integration.world import eventually

pytestmark = pytest.mark.cluster

LOOKUP_RESPONSE = 24


@pytest.fixture
def log(target: Target) -> Log:
    """That of the attacked sidecar."""
    return Log(target.world.sidecars.log_file(BROKER))


def refused_names() -> dict[str, tuple[bytes, bytes]]:
    """CONNECT, and a request behind it, whose name the gate tells in its log."""
    return {
        "tenant of a producer": (CONNECT, peer.producer(f"persistent://{HOSTILE}/n/t")),
        "domain of a consumer": (CONNECT, peer.subscribe(f"{HOSTILE}://t/n/t")),
        "namespace of a consumer": (CONNECT, peer.subscribe(f"persistent://t/{HOSTILE}/t")),
        "broker": (peer.command(2, (1, "x"), (4, 19), (6, HOSTILE)), b""),
    }


@pytest.mark.parametrize("way", list(refused_names()))
def test_a_name_that_the_gate_refuses_is_told_as_text(target: Target, log: Log, way: str) -> None:
    """The log has it in escapes; of a flood it tells no more, so the client comes again."""
    connect, request = refused_names()[way]

    def is_told() -> bool:
        with RawClient(target.port, connect=connect) as client:
            client.send(request)
            assert client.wait_for({ERROR}), "not refused"
        return log.tells()

    eventually(is_told, "told")
    log.assert_harmless()


def accepted_names(target: Target) -> dict[str, tuple[bytes, bytes]]:
    """CONNECT, and a request behind it, with names that are for the broker to judge."""
    topic = target.topic
    connect = peer.command(2, (1, HOSTILE), (3, HOSTILE), (4, 19), (5, HOSTILE), (7, HOSTILE))
    consumer = ((1, topic), (2, HOSTILE), (3, 1), (4, 1), (5, 1), (6, HOSTILE), (13, 1))
    return {
        "client": (connect, peer.producer(topic)),
        "producer": (CONNECT, peer.producer(topic, name=HOSTILE)),
        "replicator": (CONNECT, peer.producer(topic, name=f"pulsar.repl.{HOSTILE}")),
        "consumer": (CONNECT, peer.command(4, *consumer)),
        "lookup": (CONNECT, peer.command(23, (1, hostile_topic(target)), (2, 1), (4, HOSTILE))),
    }


def hostile_topic(target: Target, number: int = 0) -> str:
    """A topic's name that Pulsar accepts."""
    return f"persistent://{target.namespace}/{HOSTILE}{number}"


def opens_a_hostile_topic(client: RawClient, target: Target) -> bool:
    """Whether one of some such topics falls to the attacked broker, and gets a producer there.

    That broker may own a single one of the namespace's dozen bundles, which few names can all miss.
    """
    for number in range(1, 400):
        topic = hostile_topic(target, number)
        client.ask(peer.command(23, (1, topic), (2, 2 * number)), {LOOKUP_RESPONSE})
        if client.open_producer(topic, number, 2 * number + 1):
            return True
    return False


def test_a_name_that_the_broker_accepts_is_shown_to_nobody_raw(target: Target, log: Log) -> None:
    """While such clients are connected and publish, and when they leave."""
    accepted = set()
    with ExitStack() as stack:
        for way, (connect, request) in accepted_names(target).items():
            client = stack.enter_context(RawClient(target.port, connect=connect))
            client.send(request)
            answer = client.wait_for({PRODUCER_SUCCESS, SUCCESS, LOOKUP_RESPONSE, ERROR})
            if answer is not None and answer.kind != ERROR:
                accepted.add(way)
                client.publish(0.3)
        client = stack.enter_context(RawClient(target.port))
        assert opens_a_hostile_topic(client, target)
        url = target.world.sidecars.admin_url(BROKER)
        assert_prints_harmless(
            url, ("status",), ("top", "--once"), ("explain", target.world.group), ("doctor",)
        )
    assert {"producer", "consumer", "lookup"} <= accepted
    log.assert_harmless()


def test_a_name_in_a_request_to_the_api_is_told_as_text(target: Target, log: Log) -> None:
    """Of a group, a tenant, a topic, a page: in escapes, in the answer and in the log."""
    caller, name = Caller(target.admin_port), quote(HOSTILE, safe="")
    for method, path in (
        ("PUT", f"/admin/v2/resourcegroups/{name}"),
        ("POST", f"/admin/v2/tenants/{name}/resourcegroup/{target.world.group}"),
        ("POST", f"/admin/v2/namespaces/{target.namespace}/resourcegroup/{name}"),
        ("POST", f"/quota/v1/persistent/{target.namespace}/{name}/publishRate"),
        ("GET", f"/admin/v2/persistent/{target.namespace}/{name}/partitions"),
    ):
        answer = caller.ask(method, path, {"publishThrottlingRateInMsg": 5})
        assert answer.status in (400, 403, 404, 412), (path, answer.text)
        assert_harmless(answer.text)
    for header in ("Origin", "Sec-Fetch-Site", "Host"):
        page = {header: "http://\x9b31m\x85evil.example"}
        answer = caller.ask("PUT", "/admin/v2/resourcegroups/never-made", {}, page)
        assert answer.status in (400, 403), answer.text
        assert_harmless(answer.text)

    eventually(log.tells, "told")
    log.assert_harmless()


@pytest.fixture
def strangers_group(target: Target, zookeeper: KazooClient) -> Iterator[str]:
    """A group in ZooKeeper whose law is none, and further entries that name nothing; their first name."""
    groups, name = "/pulsar-quota/groups", f"hostile-{target.world.group}"
    text = "".join(f"\\u{ord(letter):04x}" for letter in HOSTILE)
    entries = {
        f"{groups}/{name}": f'{{"schema":1,"law":"{text}"}}',
        f"{groups}/\u202e{name}": HOSTILE,
        f"/pulsar-quota/attachments/tenants/\u202e{name}": f'{{"schema":1,"group":"{text}"}}',
    }
    try:
        for path, document in entries.items():
            zookeeper.create(path, document.encode(), makepath=True)
        yield name
    finally:
        for path in entries:
            zookeeper.delete(path)


def test_an_entry_of_a_stranger_in_zookeeper_is_told_as_text(
    target: Target, log: Log, strangers_group: str
) -> None:
    """It is a fault of that entry alone; the doctor and the log tell it in escapes."""
    world, url = target.world, target.world.sidecars.admin_url(BROKER)
    eventually(
        lambda: len(world.get("/quota/v1/catalogue/faults", at=BROKER)) == 3, "all are found"
    )
    said = printed(url, "doctor")
    assert rf"\x1b{ESCAPED}" in said
    assert_harmless(said)
    assert_prints_harmless(
        url,
        ("status",),
        ("conditions",),
        ("operations",),
        ("audit", "list"),
        ("groups", "list"),
        ("groups", "get", HOSTILE),
        ("explain", strangers_group),
        ("--json", "doctor"),
    )
    assert log.tells()
    log.assert_harmless()
