"""BrokerAdmin: what every one promises, over memory and HTTP."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import quote

import httpx
import pytest

from coordinator.adapters.broker import readiness, web_service
from coordinator.adapters.broker.admin import HttpBrokerAdmin
from coordinator.core.topics import TopicName
from coordinator.ports import BrokerUnreachable, Refused
from deploy.local.ports import free_block
from deploy.local.state import Broker
from tests.contract.listening import DEADLINE_S
from tests.memory.surroundings import MemoryBrokerAdmin

Admin = MemoryBrokerAdmin | HttpBrokerAdmin


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a broker longer than a sidecar does, for a busy machine may take that time."""
    monkeypatch.setattr(readiness, "_TIMEOUT_S", DEADLINE_S)
    monkeypatch.setattr(web_service, "_TIMEOUT_S", DEADLINE_S)


@pytest.fixture(params=["memory", pytest.param("http", marks=pytest.mark.cluster)])
async def admin(request: pytest.FixtureRequest, patient: None) -> AsyncIterator[Admin]:
    """The admin REST of a broker that is up."""
    if request.param == "memory":
        yield MemoryBrokerAdmin()
        return
    broker: Broker = request.getfixturevalue("pulsar_broker")
    async with HttpBrokerAdmin(broker.web_url) as real:
        yield real


async def test_a_running_broker_is_answering(admin: Admin) -> None:
    """The plain good case."""
    assert await admin.is_answering()


async def test_what_was_never_created_does_not_exist(admin: Admin) -> None:
    """No is an answer, not an error."""
    assert not await admin.tenant_exists("no-such-tenant")
    assert not await admin.namespace_exists("no-such-tenant", "orders")


async def test_a_topic_that_is_not_partitioned_or_not_there_has_one_partition(admin: Admin) -> None:
    """A limit can be set before its topic exists."""
    topic = TopicName("persistent", "public", "default", f"t {uuid.uuid4().hex}?")
    assert await admin.partitions_of(topic) == 1


@pytest.mark.cluster
@pytest.mark.usefixtures("patient")
async def test_a_real_broker_tells_the_partitions_of_a_topic(pulsar_broker: Broker) -> None:
    """This holds for a name that has to be encoded, too."""
    topic = TopicName("persistent", "public", "default", f"t%{uuid.uuid4().hex}")
    path = f"/admin/v2/persistent/public/default/{quote(topic.local_name, safe='')}/partitions"
    async with httpx.AsyncClient(
        base_url=pulsar_broker.web_url, trust_env=False, timeout=DEADLINE_S
    ) as client:
        (await client.put(path, json=3)).raise_for_status()
    async with HttpBrokerAdmin(pulsar_broker.web_url) as real:
        assert await real.partitions_of(topic) == 3


async def test_the_bus_namespace_exists_once_it_was_ensured_however_often(admin: Admin) -> None:
    """Sidecars start together: all of them ensure the same namespace at the same moment."""
    tenant = f"admin-{uuid.uuid4().hex[:12]}"
    await asyncio.gather(*(admin.ensure_bus_namespace(tenant, "reports") for _ in range(3)))
    await admin.ensure_bus_namespace(tenant, "reports")
    assert await admin.tenant_exists(tenant)
    assert await admin.namespace_exists(tenant, "reports")
    assert not await admin.namespace_exists(tenant, "other")


async def test_a_silent_memory_broker_answers_no_and_says_unreachable() -> None:
    """The memory form can be made to fall silent."""
    admin = MemoryBrokerAdmin()
    admin.answering = False
    await _check_unreachable(admin)


async def test_a_broker_that_is_down_answers_no_and_says_unreachable() -> None:
    """Nothing listens on the port."""
    async with HttpBrokerAdmin(f"http://127.0.0.1:{free_block()[0]}") as admin:
        await _check_unreachable(admin)


async def _check_unreachable(admin: Admin) -> None:
    assert not await admin.is_answering()
    with pytest.raises(BrokerUnreachable):
        await admin.tenant_exists("acme")
    with pytest.raises(BrokerUnreachable):
        await admin.namespace_exists("acme", "orders")
    with pytest.raises(BrokerUnreachable):
        await admin.ensure_bus_namespace("acme", "orders")


async def test_a_broker_that_hangs_is_not_answering_after_a_while() -> None:
    """The broker accepts the connection and never says a word."""
    closing: list[asyncio.StreamWriter] = []

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        closing.append(writer)

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with HttpBrokerAdmin(f"http://127.0.0.1:{port}") as admin:
        before_s = time.monotonic()
        assert not await admin.is_answering()
        assert time.monotonic() - before_s < 60.0
    for writer in closing:
        writer.close()
        await writer.wait_closed()
    server.close()
    await server.wait_closed()


def _answering(status: int, body: str = "") -> httpx.MockTransport:
    return httpx.MockTransport(lambda _: httpx.Response(status, text=body))


@asynccontextmanager
async def _web_service(*answers: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Gives every connection these answers, and then its end; where it is, and what it heard."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            for answer in answers:
                heard.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heard


def _answer_of(status: int) -> bytes:
    return b"HTTP/1.1 %d Because\r\nLocation: /other\r\nContent-Length: 2\r\n\r\nok" % status


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("status", [302, 307, 401, 403, 404, 500, 503])
async def test_only_a_plain_ok_counts_as_answering(status: int) -> None:
    """Redirects and errors are no, and never an exception."""
    async with (
        _web_service(_answer_of(status), _answer_of(200)) as (url, _),
        HttpBrokerAdmin(url) as admin,
    ):
        assert not await admin.is_answering()
        assert await admin.is_answering()


async def test_what_is_no_http_is_no_answer() -> None:
    """Any other server at the port has not answered."""
    async with _web_service(b"\x00" * 100) as (url, _), HttpBrokerAdmin(url) as admin:
        assert not await admin.is_answering()


@pytest.mark.usefixtures("patient")
async def test_readiness_is_asked_with_the_token_on_one_connection_while_that_lasts() -> None:
    """The first question after its end is answered no; the next one opens another."""
    ok = _answer_of(200)
    async with (
        _web_service(ok, ok) as (url, heard),
        HttpBrokerAdmin(f"{url}/", token="secret") as admin,
    ):
        answers = [await admin.is_answering() for _ in range(6)]
    assert answers == [True, True, False] * 2
    assert len(heard) == 4
    assert heard[0].startswith(b"GET /admin/v2/brokers/ready HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer secret\r\n" in heard[0]


@pytest.mark.parametrize("status", [204, 307, 401, 403, 500, 503])
async def test_what_is_neither_yes_nor_no_is_unreachable(status: int) -> None:
    """Refused is not absent: only 404 means that a tenant does not exist."""
    async with HttpBrokerAdmin("http://broker", transport=_answering(status)) as admin:
        with pytest.raises(BrokerUnreachable, match=str(status)):
            await admin.tenant_exists("acme")


async def test_a_broker_that_forbids_creation_refuses() -> None:
    """Waiting would not help, so it is not called unreachable."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "PUT":
            return httpx.Response(403, text="not a superuser")
        return httpx.Response(200, json=["local"]) if "clusters" in request.url.path else _missing()

    async with HttpBrokerAdmin("http://broker", transport=httpx.MockTransport(answer)) as admin:
        with pytest.raises(Refused, match="not a superuser"):
            await admin.ensure_bus_namespace("acme", "orders")


def _missing() -> httpx.Response:
    return httpx.Response(404, json={"reason": "does not exist"})


@pytest.mark.parametrize("name", ["", "..", "a/b", "a?b", "a#b", "a\n"])
async def test_a_name_that_is_none_is_never_asked_for(admin: Admin, name: str) -> None:
    """Such a name would end up as another path of the broker's REST."""
    with pytest.raises(ValueError, match="is not a name"):
        await admin.tenant_exists(name)
    with pytest.raises(ValueError, match="is not a name"):
        await admin.namespace_exists("acme", name)


async def test_the_token_is_sent() -> None:
    """As a bearer token, with every request."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200)

    transport = httpx.MockTransport(answer)
    async with HttpBrokerAdmin("http://broker/", token="secret", transport=transport) as admin:
        assert await admin.namespace_exists("acme", "orders")
    assert str(asked[0].url) == "http://broker/admin/v2/namespaces/acme/orders"
    assert asked[0].headers["Authorization"] == "Bearer secret"


async def test_losing_the_race_to_create_a_tenant_is_success() -> None:
    """Pulsar 4.2.4 answers 500 to all but one of several creators of a tenant."""
    created: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("clusters"):
            return httpx.Response(200, json=["local", "global"])
        if request.method == "PUT":
            created.append(path)
            return httpx.Response(500, json={"reason": "BadVersionException"})
        return httpx.Response(200) if path in created else _missing()

    async with HttpBrokerAdmin("http://broker", transport=httpx.MockTransport(answer)) as admin:
        await admin.ensure_bus_namespace("acme", "orders")
    assert created == ["/admin/v2/tenants/acme", "/admin/v2/namespaces/acme/orders"]


async def test_a_tenant_that_is_not_seen_at_once_is_created_again() -> None:
    """The one that another sidecar created may be in none of the broker's caches yet."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("clusters"):
            return httpx.Response(200, json=["local"])
        if request.method == "PUT":
            asked.append(path)
            first = asked.count(path) == 1
            return httpx.Response(500, json={"reason": "BadVersion"}) if first else _conflict()
        return _missing()

    async with HttpBrokerAdmin("http://broker", transport=httpx.MockTransport(answer)) as admin:
        await admin.ensure_bus_namespace("acme", "orders")
    assert asked == ["/admin/v2/tenants/acme"] * 2 + ["/admin/v2/namespaces/acme/orders"] * 2


def _conflict() -> httpx.Response:
    return httpx.Response(409, json={"reason": "exists already"})


@pytest.mark.parametrize("text", ["<html>", "{}", "[1]", "null"])
async def test_clusters_that_are_no_list_of_names_are_no_answer(text: str) -> None:
    """No tenant is created with them; the caller asks again."""

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.method == "GET"
        return httpx.Response(200, text=text) if "clusters" in request.url.path else _missing()

    async with HttpBrokerAdmin("http://broker", transport=httpx.MockTransport(answer)) as admin:
        with pytest.raises(BrokerUnreachable, match="clusters"):
            await admin.ensure_bus_namespace("acme", "orders")
