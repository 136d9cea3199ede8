"""No page of a stranger, and no odd request, changes anything at an admin API without tokens.

What a page could change is read before and after it tried: the nodes in ZooKeeper, the sidecars' answers,
and the topic in Pulsar. One test sends the same requests as a program does, and all of them take effect.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from deploy.local.cluster import Cluster
from deploy.local.sidecars import Sidecars
from tests.attacks.callers import Caller
from tests.attacks.conftest import BROKER, LIMIT, Target
from tests.attacks.raw import RawClient
from tests.integration.world import TENANT, World, eventually, make_world

pytestmark = pytest.mark.cluster

BROKERS = ("broker-1", "broker-2", "broker-3")
ROOT = "/pulsar-quota"
GROUP = "pages"


@dataclass(frozen=True)
class Site:
    """A sidecar whose API a page would like to use, and all that it could change by it."""

    world: World
    zookeeper: KazooClient
    topic: str

    @property
    def port(self) -> int:
        """The API of `BROKER`'s sidecar."""
        return self.world.cluster.broker(BROKER).admin_port

    @property
    def caller(self) -> Caller:
        """A browser, or a program, on this machine."""
        return Caller(self.port)

    def changes(self) -> list[tuple[str, str, object]]:
        """Requests that change something here or, relayed, in Pulsar."""
        topic = self.topic.replace("://", "/")
        namespace = f"/admin/v2/namespaces/{self.world.namespace}"
        return [
            ("PUT", f"/admin/v2/resourcegroups/{GROUP}", {"publishRateInMsgs": 10**6}),
            ("PUT", "/admin/v2/resourcegroups/of-a-page", {"publishRateInMsgs": 0}),
            ("DELETE", f"{namespace}/resourcegroup", None),
            ("POST", f"/admin/v2/tenants/{TENANT}/resourcegroup/{GROUP}", None),
            ("POST", f"/quota/v1/{topic}/publishRate", {"publishThrottlingRateInMsg": 1}),
            ("PUT", "/quota/v1/log-level", {"level": "warning"}),
            (
                "POST",
                f"{namespace}/retention",
                {"retentionTimeInMinutes": 7, "retentionSizeInMB": 7},
            ),
        ]

    def state(self) -> dict[str, Any]:
        """All that these requests would change."""
        namespace, http = self.world.namespace, self.world.http
        web = self.world.cluster.broker(BROKER).web_url
        return {
            "stored": dict(nodes(self.zookeeper, ROOT, ("groups", "attachments", "limits"))),
            "groups": [self.world.get("/admin/v2/resourcegroups", at=name) for name in BROKERS],
            "attached": [self._attached(name) for name in BROKERS],
            "level": self.world.get("/quota/v1/log-level"),
            "retention": http.get(f"{web}/admin/v2/namespaces/{namespace}/retention").text,
        }

    def _attached(self, at: str) -> str:
        url = self.world.sidecars.admin_url(at)
        path = f"/admin/v2/namespaces/{self.world.namespace}/resourcegroup"
        return self.world.http.get(url + path).text


def nodes(
    zookeeper: KazooClient, path: str, children: tuple[str, ...] | None = None
) -> Iterator[tuple[str, tuple[bytes, int]]]:
    """Every node below a path, with its bytes and the transaction that wrote them."""
    try:
        found = zookeeper.get_children(path) if children is None else children
        if children is None:
            data, stat = zookeeper.get(path)
            yield path, (data, stat.mzxid)
    except NoNodeError:
        return
    for name in found:
        yield from nodes(zookeeper, f"{path}/{name}")


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    """Asks sidecars and brokers."""
    with httpx.Client(trust_env=False, timeout=30.0) as http:
        yield http


def make_site(world: World, zookeeper: KazooClient) -> Site:
    """Attach a new namespace to the group."""
    path = f"/admin/v2/resourcegroups/{GROUP}"
    world.put(path, {"publishRateInMsgs": LIMIT}, at=BROKER)
    attach = f"/admin/v2/namespaces/{world.namespace}/resourcegroup/{GROUP}"
    world.http.post(world.sidecars.admin_url(BROKER) + attach).raise_for_status()
    site = Site(world, zookeeper, world.topic_of[BROKER])
    eventually(lambda: site.state()["attached"] == [GROUP] * len(BROKERS), "all sidecars know")
    return site


def new_world(cluster: Cluster, sidecars: Sidecars, http: httpx.Client) -> World:
    """A namespace that no test has seen, in a cluster of an earlier run neither."""
    return make_world(cluster, sidecars, http, f"{TENANT}/pages{time.time_ns()}")


@pytest.fixture(scope="module")
def site(cluster: Cluster, sidecars: Sidecars, http: httpx.Client, zookeeper: KazooClient) -> Site:
    """One that every test leaves as it is."""
    return make_site(new_world(cluster, sidecars, http), zookeeper)


PAGES = {
    "a name bound to loopback": {"Host": "evil.example"},
    "the same, as its own origin": {
        "Host": "evil.example:8087",
        "Origin": "http://evil.example:8087",
        "Sec-Fetch-Site": "same-origin",
    },
    "another origin": {"Origin": "http://evil.example"},
    "no origin that it tells": {"Origin": "null"},
    "another port of this machine": {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"},
    "another site": {"Sec-Fetch-Site": "cross-site"},
}


@pytest.mark.parametrize("page", list(PAGES))
def test_a_page_changes_and_relays_nothing(site: Site, page: str) -> None:
    """Each request is refused, counted and told in the log; what it would change stays as it is."""
    headers = PAGES[page]
    status, reason = (421, "host") if "Host" in headers else (403, "origin")
    before, counted = site.state(), refused(site, reason)
    for method, path, body in site.changes():
        answer = site.caller.ask(method, path, body, headers)
        assert answer.status == status, (method, path, answer.text)
        assert answer.reason.startswith(tuple(f"{name}: " for name in headers))
    relayed = site.caller.ask("GET", "/admin/v2/clusters", headers=headers)

    assert relayed.status == status
    assert site.state() == before
    assert refused(site, reason) == counted + len(site.changes()) + 1
    log = site.world.sidecars.log_file(BROKER).read_text()
    assert f'"reason": "{reason}"' in log


def refused(site: Site, reason: str) -> float:
    """The number of requests that the API has refused for a reason."""
    return Target(site.world).figure("api_refused_total", reason=reason)


def test_a_page_at_a_rebound_name_reads_nothing(site: Site) -> None:
    """It could read the answer: to its browser, the API is a part of the page's own site."""
    for path in (
        "/",
        "/quota/v1/groups",
        "/metrics",
        "/admin/v2/resourcegroups",
        "/quota/v1/audit",
    ):
        answer = site.caller.ask("GET", path, headers={"Host": "evil.example"})
        assert answer.status == 421
        assert GROUP not in answer.text


def test_the_same_requests_of_a_program_take_effect(
    cluster: Cluster, sidecars: Sidecars, http: httpx.Client, zookeeper: KazooClient
) -> None:
    """So the pages were refused for what they are."""
    site = make_site(new_world(cluster, sidecars, http), zookeeper)
    before = site.state()
    for method, path, body in site.changes():
        answer = site.caller.ask(method, path, body)
        assert 200 <= answer.status < 300, (method, path, answer.text)
    try:
        eventually(
            lambda: all(site.state()[name] != known for name, known in before.items()), "changed"
        )
    finally:
        for method, path, body in (
            ("PUT", "/quota/v1/log-level", before["level"]),
            ("DELETE", f"/admin/v2/tenants/{TENANT}/resourcegroup", None),
            ("DELETE", "/admin/v2/resourcegroups/of-a-page", None),
            ("PUT", f"/admin/v2/resourcegroups/{GROUP}", {"publishRateInMsgs": LIMIT}),
        ):
            assert site.caller.ask(method, path, body).status in (200, 204), path
    # The next test compares what all sidecars know.
    eventually(
        lambda: not any("of-a-page" in groups for groups in site.state()["groups"]), "all forget it"
    )


NO_NUMBERS = {
    "5,000 digits": "9" * 5_000,
    "20 digits": "9" * 20,
    "negative": "-1",
    "signed": "+1",
    "a power": "1e3",
    "two": "1 2",
    "hexadecimal": "0x10",
    "superscript": "\xb2",
    "Arabic": "٣".encode().decode("latin-1"),
    "a terminal's command": "\x9b31m",
}


@pytest.mark.parametrize("number", list(NO_NUMBERS))
def test_a_last_event_id_that_is_no_number_of_a_note_is_refused(site: Site, number: str) -> None:
    """By name, and without a traceback in the log."""
    log = site.world.sidecars.log_file(BROKER)
    begins = log.stat().st_size
    answer = site.caller.ask(
        "GET", "/quota/v1/events", headers={"Last-Event-ID": NO_NUMBERS[number]}
    )

    assert (answer.status, answer.reason.partition(":")[0]) == (400, "Last-Event-ID")
    assert b"Traceback" not in log.read_bytes()[begins:]


@pytest.mark.parametrize("number", ["0", "0" * 19, "9" * 19, ""])
def test_a_last_event_id_from_anywhere_begins_a_stream(site: Site, number: str) -> None:
    """Of the past, of the future, of none: the stream tells what there is."""
    answer = site.caller.ask(
        "GET", "/quota/v1/events", headers={"Last-Event-ID": number}, reads=len("retry: ")
    )
    assert (answer.status, answer.text) == (200, "retry: ")


def test_a_last_event_id_larger_than_any_head_ends_the_connection(site: Site) -> None:
    """With a reason; the next caller is served."""
    answer = site.caller.ask("GET", "/quota/v1/events", headers={"Last-Event-ID": "9" * 66_000})
    assert (answer.status, answer.reason) == (400, "The head is larger than 65536 bytes")
    eventually(
        lambda: site.caller.ask("GET", "/quota/v1/ready").status == 200, "the next is served"
    )


RATES = ("publishRateInMsgs", "publishRateInBytes", "dispatchRateInMsgs", "dispatchRateInBytes")
SPELLED = {
    "of requests": {
        "publishRateInmsgs": 20,
        "PublishRateInbytes": 10**7,
        "DispatchRateInmsgs": 30,
        "DispatchRateInbytes": 10**8,
    },
    "of answers": {
        "PublishRatelimitinmsgs": 20,
        "PublishRatelimitinbytes": 10**7,
        "DispatchRatelimitinmsgs": 30,
        "DispatchRatelimitinbytes": 10**8,
    },
}


@pytest.mark.verify
@pytest.mark.parametrize("spelling", list(SPELLED))
def test_a_limit_in_pip_82s_own_spelling_holds(
    target: Target, zookeeper: KazooClient, spelling: str
) -> None:
    """At every sidecar, in ZooKeeper, and for what a client publishes."""
    world, caller = target.world, Caller(target.admin_port)
    path = f"/admin/v2/resourcegroups/{world.group}"
    before = world.get(path)
    expected = dict(zip(RATES, SPELLED[spelling].values(), strict=True))
    try:
        assert caller.ask("PUT", path, SPELLED[spelling]).status == 204
        for name in BROKERS:
            eventually(
                partial(lambda at: world.get(path, at=at) == expected, name), f"{name} knows"
            )
        stored = json.loads(zookeeper.get(f"{ROOT}/groups/{world.group}")[0])
        assert {name: stored[name] for name in RATES} == expected
        with RawClient(target.port) as client:
            assert client.open_producer(target.topic)
            target.measure()
            client.publish(2.0)
            messages, _ = target.passed()
        assert messages <= expected["publishRateInMsgs"] * 3, f"{messages} in 2 s"
    finally:
        world.put(path, before, at=BROKER)


@pytest.mark.parametrize("exists", [True, False])
def test_an_unknown_field_with_a_value_is_refused_by_name(
    target: Target, zookeeper: KazooClient, *, exists: bool
) -> None:
    """It makes no group without a limit, and leaves the limit of one that there is."""
    name = target.world.group if exists else "never-made"
    path, node = f"/admin/v2/resourcegroups/{name}", f"{ROOT}/groups/{name}"
    before = zookeeper.get(node) if exists else None
    for field in ("publishRateInMsg", "publishThrottlingRateInMsg", "burst", "\x1b[2J"):
        body = {field: 5, "dispatchRateInMsgs": 10**6}
        answer = Caller(target.admin_port).ask("PUT", path, body)
        assert answer.status == 400
        assert answer.reason.startswith(
            f"{field}: unknown field; known are ".replace("\x1b", r"\x1b")
        )

    after = zookeeper.get(node) if zookeeper.exists(node) else None
    assert after == before


OWNERS = {
    "role": "/quota/v1/roles/{}/resourcegroup",
    "subscription": f"/quota/v1/subscriptions/persistent/{TENANT}/ns/t/{{}}/resourcegroup",
    "cluster": "/quota/v1/clusters/{}/replication/resourcegroup",
}
"""The path of an owner's group, by the field that a refusal of the owner's name begins with."""

UNSHOWN = ("a%00b", "a%0Ab", "a%0A", "%1B[2J", "%E2%80%AE", "x" * 256, "x" * 10_240)
NO_OWNERS = {
    "role": (*UNSHOWN, "", "*", "*a", "a*b"),
    "subscription": (*UNSHOWN, ""),
    "cluster": (*UNSHOWN, "%2F", "a%2Fb", "a%20b", "%", "*"),
}
NO_GROUPS = (
    *("", "/", ".", "..", "%2E%2E", "a/b", "a%2Fb", "a%252Fb", "%00", "a%0Ab", "%"),
    *(f"{GROUP}/", f"{GROUP}%2F", f"{GROUP}%0A", f"/{GROUP}", "x" * 256, "x" * 10_240),
)


@contextmanager
def attached(site: Site, owner: str) -> Iterator[None]:
    """Attach an owner, by the path of its group, and detach it with a slash behind the path."""
    assert site.caller.ask("PUT", f"{owner}/{GROUP}").status == 204, owner
    try:
        assert site.caller.ask("GET", f"{owner}/").text == GROUP
        yield
    finally:
        assert site.caller.ask("DELETE", f"{owner}/").status == 204, owner


@pytest.mark.parametrize("field", list(OWNERS))
def test_a_bad_name_of_an_owner_or_of_its_group_changes_nothing(site: Site, field: str) -> None:
    """With any method, with a slash behind it or not: 400, and the reason begins with what is wrong."""
    kept = OWNERS[field].format("kept")
    asked = [
        (m, f"{kept}/{group}", "ResourceGroup") for m in ("POST", "PUT") for group in NO_GROUPS
    ]
    for owner in map(OWNERS[field].format, NO_OWNERS[field]):
        asked += [(method, f"{owner}/{GROUP}", field) for method in ("POST", "PUT")]
        asked += [(method, owner + end, field) for method in ("GET", "DELETE") for end in ("", "/")]
    with attached(site, kept):
        before = site.state()
        for method, path, what in asked:
            answer = site.caller.ask(method, path)
            assert answer.status == 400, (method, path, answer.text)
            assert answer.reason.startswith(f"{what} "), (method, path, answer.text)
        assert site.state() == before


ODD_OWNERS = {
    "role": ("..", "%2E%2E", "..%2F..%2Fgroups%2F" + GROUP, "%", "%25", "a//b"),
    "subscription": ("..", "%2E%2E", "..%2F..%2Fgroups%2F" + GROUP, "%", "%25", "*"),
    "cluster": ("..", "%2E%2E", "..."),
}


@pytest.mark.parametrize("field", list(OWNERS))
def test_an_odd_name_of_an_owner_has_nodes_of_its_own(site: Site, field: str) -> None:
    """One among the attachments and one below its group, for as long as it is attached."""
    with attached(site, OWNERS[field].format("kept")):
        before = site.state()["stored"]
        for name in ODD_OWNERS[field]:
            with attached(site, OWNERS[field].format(name)):
                after = site.state()["stored"]
            below = [path.split("/")[2:-1] for path in sorted(after.keys() - before.keys())]
            assert [where[0] for where in below] == ["attachments", "groups"], name
            assert below[1] == ["groups", GROUP]
            assert before.items() <= after.items()
            assert site.state()["stored"] == before


NO_TENANTS = (
    *(*UNSHOWN, "..", "%2E%2E", "...", "%2F", "a%2Fb", "a%252Fb", "a%20b", "%", "*", "t%C3%A4nant"),
    *(f"{TENANT}%00", f"{TENANT}%20", f"{TENANT};x"),
)
UNKNOWN_TENANTS = ("no-such-tenant", "a.b=c", "DEFAULT-ROLE")
OF_TENANTS = {
    "/admin/v2/tenants/{}/resourcegroup": "Tenant",
    "/admin/v2/namespaces/{}/ns/resourcegroup": "Namespace",
}
"""Paths of groups that begin with a tenant, and what does not exist where there is no such tenant."""


def requests_about(owner: str) -> list[tuple[str, str]]:
    """Methods and paths that read, set and remove the group of an owner, by the path of that group."""
    return [
        *((method, f"{owner}/{GROUP}") for method in ("POST", "PUT")),
        *((method, owner + end) for method in ("GET", "DELETE") for end in ("", "/")),
    ]


@pytest.mark.parametrize("path", list(OF_TENANTS))
def test_a_hostile_name_of_a_tenant_changes_nothing(site: Site, path: str) -> None:
    """412 as Pulsar has it for what is no name, 404 for a name of no tenant; the reason says which."""
    before = site.state()
    for tenant in NO_TENANTS:
        for method, target in requests_about(path.format(tenant)):
            answer = site.caller.ask(method, target)
            assert answer.status == 412, (method, target, answer.text)
            assert answer.reason.startswith("Tenant name is not valid: use 1 to 255 letters")
    for tenant in UNKNOWN_TENANTS:
        for method, target in requests_about(path.format(tenant)):
            answer = site.caller.ask(method, target)
            assert (answer.status, answer.reason) == (404, f"{OF_TENANTS[path]} does not exist"), (
                method,
                target,
            )
    assert site.state() == before


NO_DEFAULT_ROLES = (
    *("DEFAULT-ROLE", "default_role", "default-role%20", "default-role%2F", "default-role%00"),
    *("default-role;x", "default-role/x", "default-role%250", "%64efault-role/"),
)


def test_an_odd_spelling_of_the_default_role_and_a_bad_group_of_it_change_nothing(
    site: Site,
) -> None:
    """A path that is nearly its own leads nowhere, and a bad name of a group is told as everywhere."""
    before = site.state()
    for role in NO_DEFAULT_ROLES:
        for method, target in requests_about(f"/quota/v1/{role}/resourcegroup"):
            answer = site.caller.ask(method, target)
            assert answer.status == 404, (method, target, answer.text)
            assert answer.reason.startswith("Nothing answers under /quota/v1/"), answer.text
    for group, method in itertools.product(NO_GROUPS, ("POST", "PUT")):
        answer = site.caller.ask(method, f"/quota/v1/default-role/resourcegroup/{group}")
        assert answer.status == 400, (method, group, answer.text)
        assert answer.reason.startswith("ResourceGroup "), (method, group, answer.text)
    assert site.state() == before


NOT_UTF_8 = ("%FF", "a%FFb", "%E9", "%C0%AE", "%ED%A0%80", "%F0%9F%98")
NAMED = (
    *("/admin/v2/resourcegroups/{}", "/quota/v1/explain/{}", "/nothing/{}"),
    *(f"/admin/v2/tenants/{TENANT}/resourcegroup/{{}}", "/admin/v2/tenants/{}/resourcegroup"),
    f"/admin/v2/namespaces/{TENANT}/{{}}/resourcegroup/{GROUP}",
    *(path.format("{}") for path in OWNERS.values()),
    f"/quota/v1/default-role{{}}/resourcegroup/{GROUP}",
    *(f"/quota/v1/persistent/{TENANT}/ns/{{}}/{what}" for what in ("publishRate", "backlog")),
    *(f"/quota/v1/persistent/{{}}/ns/t/{what}" for what in ("dispatchRate", "backlog")),
    f"/quota/v1/topic/{TENANT}/{{}}/t/publishRate",
    *(f"/admin/v2/namespaces/{TENANT}/{{}}", f"/lookup/v2/topic/persistent/{TENANT}/ns/{{}}"),
)
"""Paths with a name of each kind: some are answered here, some by the broker, one by none."""


@pytest.mark.parametrize("name", NOT_UTF_8)
def test_a_path_that_is_not_utf_8_changes_nothing(site: Site, name: str) -> None:
    """By any method, whatever it names: 400, and the reason quotes what was sent; each is counted."""
    before, counted = site.state(), refused(site, "path")
    asked = list(itertools.product(("GET", "POST", "PUT", "DELETE"), NAMED))
    for method, path in asked:
        target = path.format(name)
        body = {"publishThrottlingRateInMsg": 1} if method in ("POST", "PUT") else None
        answer = site.caller.ask(method, target, body)
        part = next(part for part in target.split("/") if name in part)
        assert (answer.status, answer.reason) == (
            400,
            f"path: '{part}' is not UTF-8: write it as percent-encoded UTF-8",
        ), (method, target)
    assert site.state() == before
    assert refused(site, "path") == counted + len(asked)
