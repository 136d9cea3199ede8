"""A path that the broker might read as another one does not reach it; one of Pulsar's tools does."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_api.errors import ApiError
from admin_api.relay.targets import check_target
from tests.admin_api.relay.test_relay import Broker
from tests.admin_api.world import World

Ask = Callable[[str, str], Awaitable[httpx.Response]]

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


@contextlib.asynccontextmanager
async def asking(world: World, broker: Broker) -> AsyncIterator[Ask]:
    """Sends targets as they are, which httpx would tidy up."""
    async with world.client(relay=broker.relay) as client:
        transport = client._transport
        assert isinstance(transport, httpx.ASGITransport)
        app, wanted = transport.app, ""

        async def with_target(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            path, _, query = wanted.partition("?")
            # As the server does.
            taken = {"raw_path": path.encode(), "path": unquote(path)}
            await app({**scope, **taken, "query_string": query.encode()}, receive, send)

        async def ask(method: str, target: str) -> httpx.Response:
            nonlocal wanted
            wanted = target
            return await client.request(method, "/")

        transport.app = with_target
        yield ask


@pytest.mark.parametrize("rests", [CLIMBING, SPLITTING, CONTROLS])
async def test_a_path_of_two_meanings_is_refused(world: World, rests: list[str]) -> None:
    """This holds for any method; the answer has the reason, and the broker hears nothing."""
    broker = Broker()
    async with asking(world, broker) as ask:
        for rest, method in itertools.product(rests, ["GET", "PUT", "POST", "DELETE", "HEAD"]):
            refused = await ask(method, f"/admin/v2/{rest}")

            assert not broker.asked, rest
            # Not 400: the path is one of ours, where the method or the namespace's name is refused.
            assert refused.status_code in (400, 405, 412), (rest, refused.text)
            if method != "HEAD" and refused.status_code == 400:
                reasons = ("The path holds ", "ResourceGroup name")
                assert refused.json()["reason"].startswith(reasons), rest
    assert not world.views.shown.groups


async def test_so_are_lookups_and_queries(world: World) -> None:
    """Everything that is relayed."""
    broker = Broker()
    async with asking(world, broker) as ask:
        for target in (
            "/lookup/..;/admin/v2/clusters",
            "/lookup/v2;/topic/persistent/t/n/x",
            "/lookup//v2/topic/persistent/t/n/x",
            "/lookup/v2/topic%2Fpersistent/t/n/x",
            "/admin/v2/..;/..;/lookup/v2/topic/persistent/t/n/x",
            "/admin/v3/..;/v2/clusters",
            "/admin/v2/clusters?a=\u00e9",
            "/admin/v2/clusters?\x7f",
        ):
            assert (await ask("GET", target)).status_code == 400, target
    assert not broker.asked


async def test_what_pulsars_tools_send_passes_as_it_is(world: World) -> None:
    """Names are encoded as Java encodes forms."""
    broker = Broker()
    paths = [
        "/admin/v2/clusters",
        "/admin/v2/clusters/",
        "/admin/v2/namespaces/public/default/0x00000000_0x40000000/unload",
        "/admin/v2/namespaces/public/default/permissions/spiffe:@x",
        "/admin/v2/persistent/public/default/a%2Fb%3Fc%25/stats",
        "/admin/v2/persistent/public/default/a+b*c~d.e-f_g/subscription/s%2F1%3Bx/skip_all",
        "/admin/v2/persistent/public/default/gr%C3%B6%C3%9Fe-%E6%9D%B1/partitions",
        "/admin/v2/persistent/public/default/topic-partition-0/internalStats",
        "/admin/v2/persistent/public/default/50%25off/stats",
        "/admin/v2/persistent/public/default/...",
        "/admin/v2/brokers/configuration/webServiceUrl/http%3A%2F%2Fx%3A8080",
        "/admin/v2/bookies/racks-info/bookie-1:3181",
        "/admin/v3/packages/function/public/default/f/v1.0",
        "/admin/v3/functions/public/default/f/state/key",
    ]
    async with asking(world, broker) as ask:
        for path in paths:
            assert (await ask("POST", path)).status_code == 204, path
    assert [asked.url.raw_path for asked in broker.asked] == [path.encode() for path in paths]


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="/\\")))
def test_every_topic_without_such_letters_can_be_named(name: str) -> None:
    """Java's encoding works and Python's; a name that looks escaped does not, nor dots alone."""
    if name in ("", ".", "..") or "%" in name:
        return
    for encoded in (quote_plus(name, safe="*"), quote(name, safe="")):
        check_target(f"/admin/v2/persistent/public/default/{encoded}/stats".encode(), b"")


@given(st.binary(max_size=40))
def test_any_bytes_pass_or_are_refused(rest: bytes) -> None:
    """No other failure; and what passes, climbs nowhere and has no parameters."""
    with contextlib.suppress(ApiError):
        check_target(b"/admin/v2/" + rest, b"")
        assert b";" not in rest
        assert b".." not in rest.split(b"/")
