"""AlarmReceiver: what every receiver promises, over memory and a web server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from coordinator.adapters.memory.surroundings import MemoryReceiver
from coordinator.adapters.webhook import WebhookReceiver
from coordinator.insight.model.alarms import AlarmCondition, AlarmKind
from coordinator.insight.model.outside import AlarmReceiver, Notice
from coordinator.ports import ReceiverUnreachable

LOST = AlarmCondition(AlarmKind.PEER_LOST, "b9", "b9 is gone")
BEGUN = Notice(LOST, began_ms=1_700_000_000_000)
OVER = Notice(LOST, began_ms=1_700_000_000_000, ended_ms=1_700_000_061_500)


@dataclass
class Server:
    """The server behind a webhook."""

    status: int = 200
    requests: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer as told."""
        self.requests.append(request)
        return httpx.Response(self.status)

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages that it received."""
        return [json.loads(request.content) for request in self.requests]


@dataclass
class Case:
    """A receiver, and how to see and trouble it."""

    receiver: AlarmReceiver
    taken: Callable[[], int]
    break_it: Callable[[], None]


@pytest.fixture(params=["memory", "webhook"])
async def case(request: pytest.FixtureRequest) -> AsyncIterator[Case]:
    """A receiver that takes everything."""
    if request.param == "memory":
        memory = MemoryReceiver()
        yield Case(memory, lambda: len(memory.taken), lambda: setattr(memory, "away", True))
        return
    server = Server()
    transport = httpx.MockTransport(server)
    async with WebhookReceiver("http://pager/hook", cluster="c", transport=transport) as webhook:
        yield Case(
            webhook,
            lambda: sum(len(message["alerts"]) for message in server.messages()),
            lambda: setattr(server, "status", 500),
        )


async def test_what_is_told_is_taken(case: Case) -> None:
    """All of it."""
    await case.receiver.tell([BEGUN, OVER])
    await case.receiver.tell([BEGUN])

    assert case.taken() == 3


async def test_what_is_not_taken_is_said_so(case: Case) -> None:
    """The sender must know whether to try again."""
    case.break_it()

    with pytest.raises(ReceiverUnreachable):
        await case.receiver.tell([BEGUN])


async def test_a_webhook_is_called_as_alertmanager_would() -> None:
    """Version 4 of its message: labels, annotations, times, and the same fingerprint at the end."""
    server = Server()
    async with WebhookReceiver(
        "http://pager/hook", cluster="eu", token="secret", transport=httpx.MockTransport(server)
    ) as webhook:
        await webhook.tell([BEGUN])
        await webhook.tell([OVER])

    first, last = server.messages()
    assert server.requests[0].headers["authorization"] == "Bearer secret"
    assert (first["version"], first["status"], last["status"]) == ("4", "firing", "resolved")
    (begun,), (over,) = first["alerts"], last["alerts"]
    assert begun["labels"] == {
        "alertname": "PulsarQuotaPeerLost",
        "cluster": "eu",
        "severity": "warning",
        "subject": "b9",
    }
    assert begun["annotations"]["summary"] == "b9 is gone"
    assert begun["startsAt"] == over["startsAt"] == "2023-11-14T22:13:20.000+00:00"
    assert begun["endsAt"] == "0001-01-01T00:00:00Z"
    assert over["endsAt"] == "2023-11-14T22:14:21.500+00:00"
    assert begun["fingerprint"] == over["fingerprint"]


@pytest.mark.parametrize("status", [301, 404, 429, 503])
async def test_a_webhook_that_does_not_say_yes_has_not_taken_it(status: int) -> None:
    """A redirect might lead a token to a stranger."""
    transport = httpx.MockTransport(Server(status))
    async with WebhookReceiver("http://pager/hook", cluster="c", transport=transport) as webhook:
        with pytest.raises(ReceiverUnreachable, match=str(status)):
            await webhook.tell([BEGUN])


async def test_a_webhook_that_nobody_serves_is_unreachable() -> None:
    """Over a real socket."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    async with WebhookReceiver(f"http://127.0.0.1:{port}/hook", cluster="c") as webhook:
        with pytest.raises(ReceiverUnreachable, match="ConnectError"):
            await webhook.tell([BEGUN])
