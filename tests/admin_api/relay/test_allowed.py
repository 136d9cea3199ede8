"""Requests of clients and pulsar-admin pass; no other does, in any spelling."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_api.relay.allowed import passes
from admin_api.routes.relay import METHODS
from tests.admin_api.world import Broker, World

Ask = Callable[[str, str, Mapping[str, str]], Awaitable[httpx.Response]]

_TOPIC = "persistent/public/default/t"
MESSAGES = [
    f"admin/v2/{_TOPIC}/subscription/s/position/1",
    f"admin/v2/{_TOPIC}/examinemessage",
    f"admin/v2/{_TOPIC}/ledger/1/entry/0",
    f"admin/v2/{_TOPIC}/messageid/1700000000000",
    f"admin/v2/non-{_TOPIC}/subscription/s/position/1",
    f"topics/{_TOPIC}",
    f"topics/{_TOPIC}/partitions/0",
]
"""Paths by which brokers store and deliver messages."""
OTHERS = [
    "admin/v2/persistent/public/default",
    f"admin/v2/{_TOPIC}",
    f"admin/v2/{_TOPIC}/stats",
    f"admin/v2/{_TOPIC}/terminate",
    f"admin/v2/{_TOPIC}/subscription/s/skip_all",
    f"admin/v2/{_TOPIC}/properties",
    "admin/v2/schemas/public/default/t/schemas",
    "admin/v2/brokers/configuration/values",
    "admin/v2/bookies/all",
    "admin/v2/broker-stats/topics",
    "admin/v2/resource-quotas",
    "admin/v2/worker/cluster",
    "admin/v2/namespacesx/public",
    "admin/v2/Namespaces/public",
    "admin/v2/namespaces",
    "admin/v2/clusters/c/failureDomains",
    "admin/v3/functions/public/default/f",
    "admin/v3/packages/function/public/default/f/v1",
    "admin/v3/sinks/public/default/f",
    "admin/v3/transactions/coordinatorStats",
    "admin/v4/namespaces/public/default",
    "admin/namespaces/public/default",
    "lookup/v2/destination/persistent/t/c/n/x",
    "lookup/v3/topic/persistent/public/default/t",
    f"lookup/v2/topic/{_TOPIC}/bundle/x",
]
_SPELLINGS: list[Callable[[str], str]] = [
    lambda path: path,
    lambda path: f"{path}/",
    lambda path: f"{path};x",
    lambda path: path.replace("/", "//"),
    lambda path: path.replace("/", ";x/"),
    lambda path: path.replace("/", "/./"),
    lambda path: path.replace("/", "%2F"),
    lambda path: path.replace("t", "%74"),
    lambda path: path.replace("t", "%2574"),
    lambda path: path.replace("/", "\\"),
    lambda path: f"/{path}",
    lambda path: path.upper(),
    lambda path: f"admin/v2/namespaces/../../../{path}",
    lambda path: f"admin/v2/namespaces/a/%2e%2e/..;/{path}",
    lambda path: f"admin/v2/namespaces/a%2F..%2F{path}",
    lambda path: f"lookup/v2/topic/persistent/a/b/c%2F..%2F..%2F..%2F..%2F..%2F..%2F..%2F{path}",
    lambda path: f"{path}?_method=GET&method=GET",
    lambda path: f"{path}?/partitions",
    lambda path: f"{path}%3F/partitions%23",
]
CLIMBING = [
    "..",
    ".",
    "%2e%2e",
    "%2E",
    ".%2e",
    "%2e.",
    "a/%2E%2E/b",
    "..;",
    "..;x=y",
    "%2e%2e;",
    ".;/x",
    "%252e%252e",
    "%25252e",
    "%c0%ae%c0%ae",
    "%uff0e",
    "..%00",
    "persistent/t/n/a%2F..%2F..%2Fb",
    "persistent/t/n/..",
    "persistent/t/n/%2e%2e/stats",
]
SPLITTING = [
    "/clusters",
    "a//b",
    "a///",
    ";",
    ";x/clusters",
    "clusters;x",
    "namespaces/public/default/resourcegroup;x",
    "namespaces/public/default;/resourcegroup/rg",
    "persistent/t/n/topic;jsessionid=1",
    "%2Fclusters",
    "%2fclusters",
    "resourcegroups%2Frg",
    "tenants/a%2Fb",
    "namespaces/a%2Fb",
    "namespaces/a/b%2Fresourcegroup%2Frg",
    "namespaces/a/b/resourcegroup%2Frg",
    "persistent/a/b%2Fc",
    "persistent/a/b/c%252Fd",
    "persistent/a/b/c%253Bd",
    "a\\b",
    "..\\..\\x",
    "a%5cb",
    "persistent/a/b/c%5Cd",
    "persistent/a/b/c%255Cd",
]
CONTROLS = [
    "a%00b",
    "persistent/a/b/c%00",
    "persistent/a/b/c%0a",
    "persistent/a/b/c%0D%0AX-Injected:%20y",
    "persistent/a/b/c%1b[2J",
    "persistent/a/b/c%1B%5B2J",
    "persistent/a/b/c%7f",
    "persistent/a/b/c%C2%9B2J",
    "persistent/a/b/c%2500",
    "persistent/a/b/c%2509",
    "persistent/a/b/%FF",
    "persistent/a/b/%ED%A0%80",
    "persistent/a/b/%",
    "persistent/a/b/%4",
    "persistent/a/b/%zz",
    "persistent/a/b/{x}",
    'persistent/a/b/"',
    "persistent/a/b/<x>",
    "persistent/a/b/a|b",
    "persistent/a/b/a^b",
    "persistent/a/b/a`b",
    "persistent/a/b/a[b]",
]


@pytest.fixture
def ask(client: httpx.AsyncClient) -> Ask:
    """Sends targets as they are, which httpx would tidy up."""
    transport = client._transport
    assert isinstance(transport, httpx.ASGITransport)
    app, wanted = transport.app, ""

    async def with_target(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        path, _, query = wanted.partition("?")
        # As the server does.
        taken = {"raw_path": path.encode(), "path": unquote(path)}
        await app({**scope, **taken, "query_string": query.encode()}, receive, send)

    async def ask(method: str, target: str, headers: Mapping[str, str]) -> httpx.Response:
        nonlocal wanted
        wanted = target
        return await client.request(method, "/", headers=headers)

    transport.app = with_target
    return ask


@pytest.mark.parametrize("path", [*MESSAGES, *OTHERS])
def test_what_is_not_on_the_list_passes_in_no_spelling(path: str) -> None:
    """By no method either."""
    for spelled, method in itertools.product(_SPELLINGS, METHODS):
        target, _, query = f"/{spelled(path)}".partition("?")
        assert not passes(method, target.encode(), query.encode()), (method, target)


async def test_the_answer_to_what_does_not_pass_says_where_to_ask(ask: Ask, broker: Broker) -> None:
    """The broker hears nothing, also where a header names another method or path."""
    headers = {"X-HTTP-Method-Override": "GET", "X-Original-URL": "/admin/v2/clusters"}
    for path, method in itertools.product(MESSAGES, ("GET", "POST")):
        refused = await ask(method, f"/{path}", headers)

        assert refused.status_code == 403
        assert refused.json()["reason"] == (
            f"{method} /{path} does not pass: this sidecar passes lookups, tenants, namespaces and "
            "groups, in plain spelling; ask the broker itself: http://broker:8080"
        )
    assert not broker.asked


async def test_what_may_be_read_is_not_written(ask: Ask, broker: Broker) -> None:
    """Clusters, partitions and schemas."""
    for path in ("clusters/c", f"{_TOPIC}/partitions", "schemas/a/b/c/schema", "tenants"):
        for method in METHODS:
            status = (await ask(method, f"/admin/v2/{path}", {})).status_code
            assert status == (204 if method == "GET" else 403), (method, path)
    assert len(broker.asked) == 4


@pytest.mark.parametrize("rests", [CLIMBING, SPLITTING, CONTROLS])
async def test_a_path_of_two_meanings_is_refused(
    ask: Ask, broker: Broker, world: World, rests: list[str]
) -> None:
    """This holds for any method; the answer has the reason, and the broker hears nothing."""
    for rest, method in itertools.product(rests, ["GET", "PUT", "POST", "DELETE", "HEAD"]):
        refused = await ask(method, f"/admin/v2/{rest}", {})

        assert not broker.asked, rest
        # Not 403: the path is one of ours, where the method or a name is refused.
        assert refused.status_code in (400, 403, 405, 412), (rest, refused.text)
        if method != "HEAD" and refused.status_code == 403:
            assert " in plain spelling; " in refused.json()["reason"], rest
    assert not world.views.shown.groups


async def test_so_are_lookups_and_queries(ask: Ask, broker: Broker) -> None:
    """Everything that is relayed."""
    for target in (
        "/lookup/..;/admin/v2/clusters",
        "/lookup/v2;/topic/persistent/t/n/x",
        "/lookup//v2/topic/persistent/t/n/x",
        "/lookup/v2/topic%2Fpersistent/t/n/x",
        "/%6cookup/v2/topic/persistent/public/default/t",
        "/admin/v2/..;/..;/lookup/v2/topic/persistent/t/n/x",
        "/admin/v3/..;/v2/clusters",
        "/admin/v2/clusters?a=\u00e9",
        "/admin/v2/clusters?\x7f",
    ):
        assert (await ask("GET", target, {})).status_code == 403, target
    assert not broker.asked


async def test_what_clients_and_pulsar_admin_send_passes_as_it_is(ask: Ask, broker: Broker) -> None:
    """Names are encoded as Java encodes forms."""
    requests = [
        ("GET", "/admin/v2/clusters"),
        ("GET", "/admin/v2/clusters/standalone"),
        ("GET", "/admin/v2/tenants"),
        *((method, "/admin/v2/tenants/public") for method in ("GET", "PUT", "POST", "DELETE")),
        ("GET", "/admin/v2/namespaces/public"),
        *((method, "/admin/v2/namespaces/a/b") for method in ("GET", "PUT", "DELETE")),
        ("GET", "/admin/v2/namespaces/public/default/topics?mode=ALL"),
        ("PUT", "/admin/v2/namespaces/public/default/0x00000000_0x40000000/unload"),
        ("POST", "/admin/v2/namespaces/public/default/permissions/spiffe:@x"),
        ("POST", "/admin/v2/namespaces/public/default/permissions/subscription/a%3Fb+c%C3%9F"),
        ("GET", "/admin/v2/persistent/public/default/a%2Fb%3Fc%25/partitions"),
        ("GET", "/admin/v2/persistent/public/default/a+b*c~d.e-f_g/partitions"),
        ("GET", "/admin/v2/persistent/public/default/gr%C3%B6%C3%9Fe-%E6%9D%B1/partitions"),
        ("GET", "/admin/v2/non-persistent/public/default/50%25off/partitions"),
        ("GET", "/admin/v2/persistent/public/default/.../partitions"),
        ("GET", "/admin/v2/schemas/public/default/t/schema"),
        ("GET", "/admin/v2/schemas/public/default/a%2Fb/schema/3"),
        ("GET", "/lookup/v2/topic/persistent/public/default/t-partition-0?listenerName=external"),
        ("GET", "/lookup/v2/topic/persistent/public/default/t/bundle?listenerName=external"),
    ]
    for method, path in requests:
        assert (await ask(method, path, {})).status_code == 204, path
    found = [(asked.method, asked.url.raw_path) for asked in broker.asked]
    assert found == [(method, path.encode()) for method, path in requests]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="/\\")))
def test_every_topic_without_such_letters_can_be_named(name: str) -> None:
    """Java's encoding works and Python's; a name that looks escaped does not, nor dots alone."""
    if name in ("", ".", "..") or "%" in name:
        return
    for encoded in (quote_plus(name, safe="*"), quote(name, safe="")):
        assert passes("GET", f"/admin/v2/persistent/a/b/{encoded}/partitions".encode(), b"")


@given(st.binary(max_size=40))
def test_what_passes_climbs_nowhere(rest: bytes) -> None:
    """It has no parameters either; and any bytes pass or do not."""
    if passes("GET", b"/admin/v2/namespaces/" + rest, b""):
        assert b";" not in rest
        assert not {b"", b".", b".."} & set(rest.split(b"/"))
