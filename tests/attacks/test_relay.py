"""No client stores or reads messages by a sidecar's HTTP address, whatever it asks and in what spelling.

What an address passes on goes round the gate, so no limit counts it. The brokers themselves answer what
reads: that shows what is kept from them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing

import httpx
import pytest

from deploy.clients import quiet_client
from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.attacks.callers import Caller
from tests.attacks.conftest import Target
from tests.integration.world import TENANT, make_world

pytestmark = pytest.mark.cluster

CONTENT = b"a message that a limit counts"
OVERRIDES = {
    "X-HTTP-Method-Override": "GET",
    "X-HTTP-Method": "GET",
    "X-Original-URL": "/admin/v2/clusters",
    "X-Rewrite-URL": "/admin/v2/clusters",
}
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH")
SPELLINGS: list[Callable[[str], str]] = [
    lambda path: path,
    lambda path: f"{path}/",
    lambda path: f"{path};x=1",
    lambda path: f"{path}?_method=GET",
    lambda path: f"{path}#/partitions",
    lambda path: f"{path}%23/partitions",
    lambda path: f"{path}%3Fx/partitions",
    lambda path: path.replace("/", "//"),
    lambda path: path.replace("/", "/./"),
    lambda path: path.replace("/", ";x/").removeprefix(";x"),
    lambda path: path.replace("/admin/v2", "/admin/v2/namespaces/a/../..", 1),
    lambda path: path.replace("/admin/v2", "/admin/v2/namespaces/a/%2e%2e/%2e%2e", 1),
    lambda path: path.replace("/admin/v2", "/admin/v2/namespaces/a/..;/..;", 1),
    lambda path: path.replace("/admin/v2", "/admin/v2/namespaces/a%2F..%2F..", 1),
    lambda path: path.replace("/admin/v2", "/lookup/..;/admin/v2", 1),
    lambda path: path.replace("persistent", "%70ersistent"),
    lambda path: path.replace("persistent", "%2570ersistent"),
    lambda path: path.replace("persistent", "Persistent"),
    lambda path: path.replace("persistent", "persistent%00"),
    lambda path: path.replace("/", "\\").replace("\\", "/", 1),
    lambda path: path.upper(),
]


@pytest.fixture(scope="module")
def stored(cluster: Cluster, sidecars: Sidecars) -> Iterator[Target]:
    """A topic of its own, with a subscription and a message that it has not read."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        target = Target(make_world(cluster, sidecars, http, f"{TENANT}/relayed"))
        with closing(quiet_client(target.broker.service_url)) as client:
            client.subscribe(target.topic, "s").close()
            client.create_producer(target.topic, batching_enabled=False).send(CONTENT)
        yield target


def reads(target: Target) -> dict[str, str]:
    """Every way by which a broker hands out a message over HTTP."""
    topic = f"/admin/v2/{target.topic.replace('://', '/')}"
    stats = target.world.http.get(f"{target.broker.web_url}{topic}/internalStats").json()
    ledger = stats["ledgers"][-1]["ledgerId"]
    return {
        "position": f"{topic}/subscription/s/position/1",
        "examine": f"{topic}/examinemessage?initialPosition=latest&messagePosition=1",
        "entry": f"{topic}/ledger/{ledger}/entry/0",
    }


def writes(target: Target) -> list[str]:
    """Every way by which a broker takes messages, or code that sends them, over HTTP."""
    namespace, topic = target.namespace, target.topic.replace("://", "/")
    return [
        f"/topics/{topic}",
        f"/topics/{topic}/partitions/0",
        f"/admin/v2/schemas/{namespace}/t/schema",
        f"/admin/v2/{topic}/properties",
        f"/admin/v2/{topic}/subscription/other",
        f"/admin/v3/functions/{namespace}/f",
        f"/admin/v3/sources/{namespace}/f",
        f"/admin/v3/sinks/{namespace}/f",
        f"/admin/v3/packages/function/{namespace}/f/v1",
        f"/admin/v2/functions/{namespace}/f",
    ]


def test_no_request_reads_a_message(stored: Target) -> None:
    """A broker answers each path with the message; a sidecar in no spelling and by no method."""
    caller = Caller(stored.admin_port)
    for name, path in reads(stored).items():
        direct = stored.world.http.get(stored.broker.web_url + path)
        assert CONTENT in direct.content, (name, direct.text)
        for spelled, method in itertools.product(SPELLINGS, METHODS):
            refused = caller.ask(method, spelled(path))
            assert refused.status in (400, 403, 404, 405), (method, spelled(path), refused.text)
            assert CONTENT.decode() not in refused.text
        told = caller.ask("GET", path, headers=OVERRIDES)
        assert (told.status, told.reason.split(": ")[-1]) == (403, stored.broker.web_url), told.text
    assert stored.dispatched() == 0


def test_no_request_stores_a_message(stored: Target) -> None:
    """The topic's entries, subscriptions and schema are the same after all of them."""
    before, caller = _kept(stored), Caller(stored.admin_port)
    body = {"producerName": "p", "messages": [{"payload": "eA=="}]}
    for path in writes(stored):
        for spelled, method in itertools.product(SPELLINGS, ("POST", "PUT")):
            refused = caller.ask(method, spelled(path), body)
            assert refused.status in (400, 403, 404, 405), (method, spelled(path), refused.text)
        told = caller.ask("POST", path, body, OVERRIDES)
        assert (told.status, told.reason.split(": ")[-1]) == (403, stored.broker.web_url), told.text
    assert _kept(stored) == before


def _kept(target: Target) -> tuple[int, list[str], int]:
    http, topic = target.world.http, f"/admin/v2/{target.topic.replace('://', '/')}"
    stats = http.get(f"{target.broker.web_url}{topic}/internalStats").json()
    schema = http.get(
        f"{target.broker.web_url}/admin/v2/schemas/{target.namespace}/t/schema",
        follow_redirects=True,
    )
    assert schema.status_code == httpx.codes.NOT_FOUND
    return stats["entriesAddedCounter"], sorted(stats["cursors"]), stats["numberOfEntries"]
