"""HTTP clients of the own broker's web service, alike for all adapters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import httpx

from coordinator.ports import BrokerUnreachable, NotFound, Refused
from coordinator.runtime.client_tls import machine_trust

_TIMEOUT_S = 5.0
_SHOWN: Final = 200
_WHOLE_WITHIN_S: Final = 60.0
"""For a whole answer: httpx bounds the time of each of its pieces alone."""

_LATER: Final = (408, 429)
"""The statuses that concern the moment, not the one thing that was asked for."""

REDIRECTS: Final = (301, 302, 307, 308)
"""The statuses by which a broker names the one that is responsible."""


@asynccontextmanager
async def whole_answer(asked_for: str) -> AsyncIterator[None]:
    """Bound the time in which an answer is read in this block.

    Args:
        asked_for: the request, for the error.

    Raises:
        BrokerUnreachable: a minute was not enough.
    """
    try:
        async with asyncio.timeout(_WHOLE_WITHIN_S):
            yield
    except TimeoutError as error:
        text = f"{asked_for}: no whole answer in {_WHOLE_WITHIN_S:g} s"
        raise BrokerUnreachable(text) from error


async def asked(
    client: httpx.AsyncClient, method: str, path: str, body: Mapping[str, object] | None
) -> httpx.Response:
    """Return the answer to a request, whatever it says.

    Raises:
        BrokerUnreachable: there is none.
        NotFound: no request can have this path, as it is too long, so none can ask for what has it.
    """
    try:
        async with whole_answer(f"{method} {shown(path)}"):
            return await client.request(method, path, json=body)
    except httpx.HTTPError as error:
        text = f"{type(error).__name__} {error}"
        raise BrokerUnreachable(f"{method} {shown(path)}: {text}") from error
    except httpx.InvalidURL as error:
        raise NotFound(f"{method} {shown(path)}: {error}") from error


def shown(text: str) -> str:
    """Return the start of a path, or of an answer, for an error: clients choose names of any length."""
    return text[:_SHOWN]


def said(answer: httpx.Response) -> str:
    """Return what was asked and answered, for people."""
    path, status = shown(answer.request.url.path), answer.status_code
    return f"{answer.request.method} {path} answered {status}: {shown(answer.text)}"


def accepted(answer: httpx.Response) -> httpx.Response:
    """Return an answer that says yes; raise Refused or BrokerUnreachable with what any other says."""
    if answer.is_success:
        return answer
    if answer.is_client_error and answer.status_code not in _LATER:
        raise Refused(said(answer))
    raise BrokerUnreachable(said(answer))


def json_in(answer: httpx.Response) -> Any:
    """Return the JSON of an answer; raise BrokerUnreachable if it is none."""
    try:
        return answer.json()
    except (ValueError, RecursionError) as error:
        raise BrokerUnreachable(f"{said(answer)}: {error}") from error


def bearer(token: str | None) -> dict[str, str]:
    """Return the headers that carry a token; None carries none."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}


class WebServiceClient:
    """An adapter over HTTP to a broker's web service; a context, at whose end its connections close.

    Proxies from the environment are ignored: the sidecar reaches its broker directly.

    Args:
        web_service_url: the broker's own web service, such as ``http://127.0.0.1:8080``.
        path: prefix of all requests.
        token: sent as bearer token; None sends none.
        timeout_s: seconds for each step of a request; None is five.
        transport: for tests; None is the network.
    """

    def __init__(
        self,
        web_service_url: str,
        path: str = "/admin/v2",
        *,
        token: str | None = None,
        timeout_s: float | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._client = httpx.AsyncClient(
            base_url=f"{web_service_url.rstrip('/')}{path}",
            headers=bearer(token),
            timeout=_TIMEOUT_S if timeout_s is None else timeout_s,
            verify=machine_trust(web_service_url),
            transport=transport,
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> httpx.Response:
        """Return the answer to a request, whatever it says; raise BrokerUnreachable without one."""
        return await asked(self._client, method, path, body)
