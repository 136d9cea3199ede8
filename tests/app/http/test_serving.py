"""The admin API as a part of the sidecar: keys, TLS, and a relay over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from admin_api.coordinator_loop import CoordinatorLoop
from coordinator.adapters.broker.relay import HttpBrokerRelay
from coordinator.app.http import serving
from coordinator.app.http.server import ApiServer
from coordinator.cli.client import AdminClient
from coordinator.cli.failures import CommandFailed
from coordinator.cli.trust import trust
from coordinator.config import Config, ConfigError
from coordinator.core.events import MembersChanged
from coordinator.core.model import Member
from coordinator.insight.model.views import HealthView
from coordinator.ports import BrokerUnreachable, RelayedRequest
from deploy.local.ports import free_block
from tests.admin_api.keys import EC_KEY, RSA_KEY, SECRET, der, token
from tests.admin_api.world import FixedViews, World
from tests.admin_api.world import app_of as ready_app_of
from tests.config.nowhere import NOWHERE

ALIVE = Path(__file__).parents[3] / "deploy" / "docker" / "pulsar-quota-alive"
PATIENCE_S = 60.0
"""A machine may stand still for longer than the five seconds that httpx waits by itself."""


def config(**keys: object) -> Config:
    """A configuration that listens on a free port of loopback."""
    return replace(NOWHERE, **({"admin_listen": f"127.0.0.1:{free_block()[0]}"} | keys))  # type: ignore[arg-type]


def app_of(world: World, *, broker_url: str = "", **changes: Any) -> serving.Build:
    """The world's app for a thread of its own, with the test's loop as the coordinator's."""
    loop = CoordinatorLoop(asyncio.get_running_loop())

    @asynccontextmanager
    async def build() -> AsyncIterator[FastAPI]:
        async with HttpBrokerRelay(broker_url or "http://127.0.0.1:1") as relay:
            changed = {"coordinator_loop": loop, "relay": relay if broker_url else None} | changes
            yield ready_app_of(replace(world.backend, **changed))

    return build


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"admin_listen": "127.0.0.1:8087"}, "127.0.0.1:8087"),
        ({"admin_listen": "0.0.0.0:8087"}, f"{socket.getfqdn()}:8087"),
        ({"admin_listen": "[::]:8087"}, f"{socket.getfqdn()}:8087"),
        ({"admin_listen": "[::1]:8087"}, "[::1]:8087"),
        (
            {"admin_listen": "0.0.0.0:8087", "admin_advertised_address": "broker-1.example:80"},
            "broker-1.example:80",
        ),
    ],
)
async def test_others_are_told_an_address_that_they_can_reach(
    keys: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that means every interface is not told."""
    monkeypatch.setattr(serving, "_RESOLVED_WITHIN_S", PATIENCE_S)
    assert await serving.advertised_address(config(**keys)) == told


async def test_a_resolver_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The start goes on with the machine's short name."""
    answers = threading.Event()
    monkeypatch.setattr(socket, "getfqdn", answers.wait)
    try:
        address = await serving.advertised_address(config(admin_listen="0.0.0.0:8087"))
    finally:
        answers.set()

    assert address == f"{socket.gethostname()}:8087"


async def test_keys_come_from_files(tmp_path: Path) -> None:
    """A secret and two public keys at once; roles and tenants as configured."""
    for name, content in (("s", SECRET), ("r", der(RSA_KEY)), ("e", der(EC_KEY))):
        (tmp_path / name).write_bytes(content)
    access = serving.access(
        config(
            auth_secret_key_file=str(tmp_path / "s"),
            auth_public_key_files=(str(tmp_path / "r"), str(tmp_path / "e")),
            super_user_roles=("admin",),
            tenant_admins={"shop": ("alice",)},
        )
    )

    for signed in (
        token(),
        token(key=RSA_KEY, algorithm="RS256"),
        token(key=EC_KEY, algorithm="ES256"),
    ):
        assert access.role_of(f"Bearer {signed}") == "admin"
    assert access.is_super_user("admin")
    assert access.is_admin_of("alice", "shop")
    assert not access.is_admin_of("alice", "bank")


@pytest.mark.parametrize("key", ["auth_secret_key_file", "auth_public_key_files"])
@pytest.mark.parametrize(("content", "why"), [(None, "No such file"), (b"short", "key")])
def test_a_key_file_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, key: str, content: bytes | None, why: str
) -> None:
    """The message names the configuration's key, the file and the reason, and not the content."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    value = str(path) if key == "auth_secret_key_file" else (str(path),)

    with pytest.raises(ConfigError, match=why) as refusal:
        serving.access(config(**{key: value}, super_user_roles=("admin",)))

    assert str(refusal.value).startswith(f"{key}: {path}")
    assert "short" not in str(refusal.value)


def test_without_keys_there_is_no_access_control() -> None:
    """The configuration has made sure that only loopback is bound."""
    assert serving.access(config()).verifier is None


async def test_with_a_certificate_the_api_speaks_tls(
    world: World, certificate: tuple[str, str]
) -> None:
    """It speaks nothing else."""
    chain, key = certificate
    settings = config(admin_tls_certificate_file=chain, admin_tls_key_file=key)
    trusted = ssl.create_default_context(cafile=chain)
    async with (
        serving.serving(settings, app_of(world)),
        httpx.AsyncClient(verify=trusted, timeout=PATIENCE_S) as client,
    ):
        answer = await client.get(f"https://{settings.admin_listen}/quota/v1/ready")
        assert answer.status_code == 200
        with pytest.raises(httpx.HTTPError):
            await client.get(f"http://{settings.admin_listen}/quota/v1/ready")


async def test_an_image_is_healthy_with_and_without_tls(
    world: World, certificate: tuple[str, str]
) -> None:
    """The probe needs no certificate: an API that hangs up is healthy."""
    chain, key = certificate
    for keys in ({}, {"admin_tls_certificate_file": chain, "admin_tls_key_file": key}):
        settings = config(**keys)
        async with serving.serving(settings, app_of(world)) as api:
            await asyncio.wait_for(api.loaded.wait(), PATIENCE_S)  # the probe waits 4 s
            asked = await asyncio.create_subprocess_exec(
                ALIVE, settings.admin_listen.rpartition(":")[2]
            )
            assert await asyncio.wait_for(asked.wait(), PATIENCE_S) == 0


async def test_an_api_that_hangs_up_in_the_middle_of_the_question_is_healthy() -> None:
    """The probe survives the broken pipe and takes it for an answer."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        writer.transport.abort()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = str(server.sockets[0].getsockname()[1])
        for _ in range(20):
            asked = await asyncio.create_subprocess_exec(ALIVE, port)
            assert await asyncio.wait_for(asked.wait(), PATIENCE_S) == 0


async def test_callers_need_a_certificate_where_authorities_are_named(
    world: World, certificate: tuple[str, str]
) -> None:
    """One that these signed, besides what a token must say."""
    chain, key = certificate
    settings = config(
        admin_tls_certificate_file=chain, admin_tls_key_file=key, admin_tls_client_ca_file=chain
    )

    def ask(own: str | None) -> HealthView:
        shown = trust(ca=chain, certificate=own, key=own and key)
        with AdminClient(f"https://{settings.admin_listen}", trust=shown) as client:
            return client.health()

    async with serving.serving(settings, app_of(world)):
        assert (await asyncio.to_thread(ask, chain)).broker
        with pytest.raises(CommandFailed, match="Cannot reach https"):
            await asyncio.to_thread(ask, None)


def test_authorities_that_cannot_be_used_are_refused(
    certificate: tuple[str, str], tmp_path: Path
) -> None:
    """With the key's name among those that belong together."""
    chain, key = certificate
    settings = config(
        admin_tls_certificate_file=chain,
        admin_tls_key_file=key,
        admin_tls_client_ca_file=str(tmp_path / "nowhere.pem"),
    )

    with pytest.raises(ConfigError, match="admin_tls_client_ca_file: cannot be used"):
        serving.tls(settings)


@pytest.mark.parametrize("content", [None, "rubbish"])
def test_a_certificate_that_cannot_be_used_is_refused(
    certificate: tuple[str, str], content: str | None
) -> None:
    """Before anything listens."""
    chain, key = certificate
    if content is None:
        Path(key).unlink()
    else:
        Path(chain).write_text(content)
    settings = config(admin_tls_certificate_file=chain, admin_tls_key_file=key)

    with pytest.raises(ConfigError, match="admin_tls_certificate_file, admin_tls_key_file"):
        serving.tls(settings)


@asynccontextmanager
async def broker(answer: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that reads a request's body of 300,000 bytes, answers with these bytes and hangs up."""
    heard: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        if b"content-length" in heard[0].lower():
            heard.append(await reader.readexactly(300_000))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}", heard


async def test_a_large_body_passes_through_both_servers(world: World) -> None:
    """Up and down, over real sockets, to the last byte."""
    body = bytes(range(250)) * 1_200
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\nX-Mine: 1\r\n\r\n"
    async with broker(head + body) as (url, heard):
        settings, app = config(), app_of(world, broker_url=url)
        async with serving.serving(settings, app), httpx.AsyncClient(timeout=PATIENCE_S) as client:
            answer = await client.post(
                f"http://{settings.admin_listen}/admin/v2/namespaces/a/b/properties?x=1",
                content=body,
            )

    assert (answer.status_code, answer.content, answer.headers["x-mine"]) == (200, body, "1")
    assert heard[0].startswith(b"POST /admin/v2/namespaces/a/b/properties?x=1 HTTP/1.1\r\n")
    assert heard[1] == body


async def test_an_answer_that_breaks_off_is_not_taken_for_whole(world: World) -> None:
    """The connection ends as the broker's did."""
    half = b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\nhalf"
    async with broker(half) as (url, _):
        settings, app = config(), app_of(world, broker_url=url)
        async with serving.serving(settings, app), httpx.AsyncClient(timeout=PATIENCE_S) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get(f"http://{settings.admin_listen}/admin/v2/clusters")


@pytest.mark.parametrize(
    ("listens", "callers"), [("[::1]", ["[::1]"]), ("[::]", ["[::1]", "127.0.0.1"])]
)
async def test_the_api_answers_at_addresses_of_both_families(
    world: World, listens: str, callers: list[str]
) -> None:
    """All addresses are those of both; one address is itself."""
    port = free_block()[0]
    settings = config(admin_listen=f"{listens}:{port}")
    async with (
        serving.serving(settings, app_of(world)),
        httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as client,
    ):
        for host in callers:
            answer = await client.get(f"http://{host}:{port}/quota/v1/groups")
            assert answer.status_code == 200, host


async def test_long_requests_may_follow_each_other_without_end(world: World) -> None:
    """The bound is on what is begun and not ended, not on what a connection carries."""
    settings = config()
    async with (
        serving.serving(settings, app_of(world)),
        httpx.AsyncClient(timeout=PATIENCE_S) as client,
    ):
        for _ in range(3):
            answer = await client.get(
                f"http://{settings.admin_listen}/quota/v1/ready", headers={"X-Long": "x" * 40_000}
            )
            assert answer.status_code == 200


async def test_a_broker_that_is_not_there_is_unreachable() -> None:
    """Nothing listens on the port."""
    async with HttpBrokerRelay(f"http://127.0.0.1:{free_block()[0]}") as relay:
        with pytest.raises(BrokerUnreachable, match="ConnectError"):
            await relay.relay(RelayedRequest("GET", b"/admin/v2/clusters", ()))


async def test_the_state_is_asked_at_home_and_http_is_not_read_there(world: World) -> None:
    """One thread for the state, another one for what requests cost."""
    settings, threads = config(), set()

    class Asked(FixedViews):
        def health(self) -> HealthView:
            threads.add(threading.current_thread())
            return super().health()

    app = app_of(world, views=Asked())
    async with serving.serving(settings, app), httpx.AsyncClient(timeout=PATIENCE_S) as client:
        await client.get(f"http://{settings.admin_listen}/quota/v1/health")

        assert threads == {threading.current_thread()}
        assert "admin-api_0" in {thread.name for thread in threading.enumerate()}


async def test_readers_of_events_hear_what_happens_at_home_until_the_end(world: World) -> None:
    """The end does not wait for them to go, and nothing of theirs is left."""
    settings = config()
    world.handle(MembersChanged(()))
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        async with serving.serving(settings, app_of(world)):
            request = client.build_request("GET", f"http://{settings.admin_listen}/quota/v1/events")
            stream = await client.send(request, stream=True)
            lines = stream.aiter_lines()
            assert (await anext(lines)).startswith("retry: ")
            world.handle(MembersChanged((Member("b1", 1),)))
            while await anext(lines) != "event: joined":
                pass
        with contextlib.suppress(httpx.RemoteProtocolError):
            async for _ in lines:
                pass
        await stream.aclose()
    async with asyncio.timeout(PATIENCE_S):
        while asyncio.all_tasks() != {asyncio.current_task()}:
            await asyncio.sleep(0.01)


async def test_an_address_in_use_is_told_before_anything_is_connected(world: World) -> None:
    """A second sidecar of one broker would push the first out; what is free is left free."""
    settings = config()
    serving.try_address(settings)
    async with serving.serving(settings, app_of(world)):
        with pytest.raises(ConfigError, match=r"admin_listen .* address already in use"):
            serving.try_address(settings)


async def test_an_api_that_cannot_be_built_is_heard_of() -> None:
    """With the very failure; the sidecar ends by it."""

    def build() -> AbstractAsyncContextManager[FastAPI]:
        raise LookupError("no such page")

    async with serving.serving(config(), build) as api:
        with pytest.raises(LookupError, match="no such page"):
            await api.ends()


async def test_an_api_that_is_stopped_while_it_is_loaded_is_not_served(world: World) -> None:
    """No caller waits for it in vain."""
    loading, built = threading.Event(), app_of(world)

    @asynccontextmanager
    async def build() -> AsyncIterator[FastAPI]:
        await asyncio.to_thread(loading.wait)
        async with built() as app:
            yield app

    async with serving.serving(config(), build) as api:
        stopping = asyncio.create_task(api.stop())
        await asyncio.sleep(0)
        loading.set()
        await stopping
        await api.ends()


async def test_the_api_is_told_to_stop_and_does_not_look_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten looks a second are a tenth of what an idle sidecar computes; one a second sets the date."""
    looks: list[int] = []
    on_tick = ApiServer.on_tick

    async def noting(self: ApiServer, counter: int) -> bool:
        looks.append(counter)
        return await on_tick(self, counter)

    monkeypatch.setattr(ApiServer, "on_tick", noting)
    monkeypatch.setattr("coordinator.app.http.server._TICK_S", 3600.0)
    async with serving.serving(config(), app_of(world)) as api:
        async with asyncio.timeout(PATIENCE_S):
            while not looks:
                await asyncio.sleep(0.01)
            await api.stop()
            await api.ends()
    assert len(looks) <= 2
