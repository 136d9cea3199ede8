"""Pages of strangers reach nothing: neither by a name that was bound to loopback, nor from elsewhere."""

from __future__ import annotations

import itertools

import httpx
import pytest

from admin_api.requests.hosts import Hosts
from tests.admin_api.keys import access, token
from tests.admin_api.world import Broker, World

GROUP = "/admin/v2/resourcegroups/orders"
CLEAR_BACKLOG = "/admin/v2/namespaces/public/default/clearBacklog"
READ_AND_CHANGED = [("PUT", GROUP), ("GET", "/quota/v1/ready")]
REACHED = [("GET", "/quota/v1/groups"), ("GET", "/"), ("POST", CLEAR_BACKLOG)]
LOOPBACK = ["127.0.0.1", "127.0.0.1:8087", "127.8.9.1:1", "localhost", "LocalHost:80", "[::1]:8087"]
FOREIGN = [
    "evil.example",
    "evil.example:8087",
    "10.0.0.1",
    "0.0.0.0",
    "0.0.0.0:8087",
    "[::2]",
    "[::]:8087",
    "[::ffff:127.0.0.1]",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil.localhost",
    "localhosts",
    "2130706433",
    "0x7f000001",
    "017700000001",
    "127.1",
    "0177.0.0.1",
]
MALFORMED = [
    "",
    " ",
    "user@localhost",
    "evil.example@127.0.0.1",
    "localhost.",
    "localhost.:8087",
    "127.0.0.1.",
    "::1",
    "[::1",
    "[::1%25lo]:8087",
    "[127.0.0.1]",
    "localhost:",
    "localhost:99999",
    "localhost:80:80",
    "localhost:-1",
    "localhost:8087, evil.example",
    "localhost/evil",
    "localhost\\@evil.example",
    "http://localhost",
    "loc%61lhost",
    "lócalhost",
    "a..b",
    "x" * 300,
]


def no_hosts(world: World, broker: Broker | None = None, **changes: object) -> httpx.AsyncClient:
    """A client of a sidecar whose configuration names no hosts."""
    relay = Broker().relay if broker is None else broker.relay
    return world.client(None, **({"hosts": (), "relay": relay} | changes))


async def test_loopback_by_its_spelling_is_served(world: World) -> None:
    """Any port is served, because a forwarder changes it."""
    async with no_hosts(world) as client:
        for host, (method, path) in itertools.product(LOOPBACK, READ_AND_CHANGED):
            answer = await client.request(method, path, headers={"Host": host}, content=b"{}")
            assert answer.is_success, (host, path, answer.text)


@pytest.mark.parametrize(("hosts", "status"), [(FOREIGN, 421), (MALFORMED, 400)])
async def test_without_tokens_every_other_host_is_refused(
    world: World, hosts: list[str], status: int
) -> None:
    """Reading as well: a page that was rebound could read the answer. The reason names the key."""
    broker = Broker()
    async with no_hosts(world, broker) as client:
        for host, (method, path) in itertools.product(hosts, [*READ_AND_CHANGED, *REACHED]):
            headers = [(b"Host", host.encode("latin-1"))]
            refused = await client.request(method, path, headers=headers, content=b"{}")

            assert refused.status_code == status, (host, path)
            assert refused.json()["reason"].startswith("Host: ")
            assert "admin_hosts" in refused.json()["reason"]
    assert not world.views.shown.groups
    assert not broker.asked


@pytest.mark.parametrize("hosts", [(), ("localhost", "evil.example"), ("localhost", "localhost")])
@pytest.mark.parametrize("keys", [True, False])
async def test_no_host_and_two_hosts_are_refused(
    world: World, hosts: tuple[str, ...], keys: bool
) -> None:
    """Two parties could take another one each; with tokens none is needed."""
    app = world.client(None, **({"access": access()} if keys else {}), hosts=())
    sent: list[dict[str, object]] = []
    transport = app._transport
    assert isinstance(transport, httpx.ASGITransport)
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/quota/v1/ready",
        "raw_path": b"/quota/v1/ready",
        "query_string": b"",
        "headers": [(b"host", host.encode()) for host in hosts],
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "server": ("127.0.0.1", 8087),
        "http_version": "1.1",
    }

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    await transport.app(scope, receive, send)  # type: ignore[arg-type]

    assert sent[0]["status"] == (200 if keys and not hosts else 400)


@pytest.mark.parametrize(
    ("named", "host", "status"),
    [
        ("broker-1.example", "broker-1.example:8087", 200),
        ("broker-1.example", "BROKER-1.example", 200),
        ("broker-1.example:443", "broker-1.example:443", 200),
        ("broker-1.example:443", "broker-1.example", 421),
        ("10.0.0.7", "10.0.0.7:8087", 200),
        ("[fd00::7]", "[FD00:0::7]:8087", 200),
        ("broker-1.example", "x.broker-1.example", 421),
    ],
)
async def test_the_configuration_names_more_hosts(
    world: World, named: str, host: str, status: int
) -> None:
    """A host with a port is served at that port only."""
    async with world.client(hosts=(named,)) as client:
        answer = await client.get("/quota/v1/ready", headers={"Host": host})
    assert answer.status_code == status


async def test_with_tokens_any_host_is_served(world: World) -> None:
    """A page that was rebound has no token, and a service has many names."""
    async with no_hosts(world, access=access()) as client:
        headers = {"Host": "pulsar-quota.svc:8087", "Authorization": f"Bearer {token('admin')}"}
        assert (await client.put(GROUP, json={}, headers=headers)).status_code == 204
        headers = {"Host": "evil.example"}
        assert (await client.put(GROUP, json={}, headers=headers)).status_code == 401


CHANGES = [
    ("PUT", GROUP),
    ("DELETE", GROUP),
    ("POST", "/admin/v2/tenants/public/resourcegroup/orders"),
    ("POST", "/quota/v1/persistent/public/default/t/publishRate"),
    ("PUT", "/quota/v1/log-level"),
    ("POST", "/quota/v1/audit/0/rollback"),
    ("POST", CLEAR_BACKLOG),
    ("GET", "/admin/v2/clusters"),
    ("OPTIONS", "/admin/v2/clusters"),
    ("GET", "/%61dmin/v2/clusters"),
    ("GET", "/lookup/v2/topic/persistent/public/default/t"),
]
PAGES = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Origin": "http://localhost:8087"},
    {"Origin": "http://127.0.0.1:8087.evil.example"},
    {"Origin": "http://127.0.0.1:8087@evil.example"},
    {"Origin": "https://127.0.0.1"},
    {"Origin": "file://"},
    {"Origin": ""},
    {"Origin": "http://127.0.0.1:8087 http://evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "Cross-Site"},
    {"Sec-Fetch-Site": "whatever comes next"},
    {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
    {"Origin": "http://127.0.0.1:8087", "Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("keys", [True, False])
async def test_a_page_of_another_site_changes_and_relays_nothing(world: World, keys: bool) -> None:
    """Tokens change nothing: another site must not use a browser that holds one."""
    broker = Broker()
    headers = {"Host": "127.0.0.1:8087", "Authorization": f"Bearer {token('admin')}"}
    changes = {"access": access()} if keys else {}
    async with no_hosts(world, broker, **changes) as client:
        for page, (method, path) in itertools.product(PAGES, CHANGES):
            refused = await client.request(method, path, headers=headers | page, content=b"{}")

            assert refused.status_code == 403, (page, path, refused.text)
            assert refused.json()["reason"].startswith(("Origin: ", "Sec-Fetch-Site: "))
    assert not world.views.shown.groups
    assert not broker.asked


@pytest.mark.parametrize(
    ("host", "page"),
    [
        ("127.0.0.1:8087", {}),
        ("127.0.0.1:8087", {"Origin": "http://127.0.0.1:8087"}),
        ("localhost:8087", {"Origin": "http://localhost:8087", "Sec-Fetch-Site": "same-origin"}),
        ("[::1]:8087", {"Origin": "http://[::1]:8087"}),
        ("127.0.0.1", {"Origin": "http://127.0.0.1"}),
        ("127.0.0.1:80", {"Origin": "http://127.0.0.1"}),
        ("quota.example", {"Origin": "https://quota.example"}),
        ("127.0.0.1:8087", {"Origin": "https://quota.example"}),
        ("127.0.0.1:8087", {"Origin": "https://quota.example:443"}),
        ("127.0.0.1:8087", {"Sec-Fetch-Site": "none"}),
    ],
)
async def test_programs_and_our_own_pages_go_on_working(
    world: World, host: str, page: dict[str, str]
) -> None:
    """A proxy that speaks TLS may stand between, and keep the host or replace it by a named one."""
    broker = Broker()
    async with no_hosts(world, broker, hosts=("quota.example",)) as client:
        headers = {"Host": host} | page
        assert (await client.put(GROUP, json={}, headers=headers)).status_code == 204
        assert (await client.post(CLEAR_BACKLOG, headers=headers)).status_code == 204


async def test_a_link_from_elsewhere_opens_the_dashboard(world: World) -> None:
    """Reading what is ours is harmless: no page elsewhere is shown the answer."""
    headers = {"Host": "localhost:8087", "Sec-Fetch-Site": "cross-site"}
    async with no_hosts(world) as client:
        assert (await client.get("/", headers=headers)).status_code == 200
        answer = await client.get("/quota/v1/groups", headers=headers)
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


def test_a_name_that_is_no_host_names_nothing() -> None:
    """The configuration refuses it; here it opens nothing."""
    assert Hosts(["*", "user@x"])._named == []
