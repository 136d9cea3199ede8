"""HTTP clients of the own broker's web service, alike for all adapters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import httpx

from coordinator.ports import BrokerUnreachable
from coordinator.runtime.client_tls import machine_trust


def client_of(
    web_service_url: str,
    path: str = "",
    *,
    token: str | None,
    timeout_s: float,
    transport: httpx.AsyncBaseTransport | None,
) -> httpx.AsyncClient:
    """Return a client for one part of a broker's web service.

    Proxies from the environment are ignored: the sidecar reaches its broker directly.

    Args:
        web_service_url: such as ``http://127.0.0.1:8080``.
        path: prefix of all requests, such as ``/admin/v2``.
        token: sent as bearer token; None sends none.
        timeout_s: seconds for each step of a request.
        transport: for tests; None is the network.
    """
    return httpx.AsyncClient(
        base_url=f"{web_service_url.rstrip('/')}{path}",
        headers={} if token is None else {"Authorization": f"Bearer {token}"},
        timeout=timeout_s,
        verify=machine_trust(web_service_url),
        transport=transport,
        trust_env=False,
    )


async def asked(
    client: httpx.AsyncClient, method: str, path: str, body: Mapping[str, object] | None
) -> httpx.Response:
    """Return the answer to a request, whatever it says.

    Raises:
        BrokerUnreachable: there is none.
    """
    try:
        return await client.request(method, path, json=body)
    except httpx.HTTPError as error:
        raise BrokerUnreachable(f"{method} {path}: {type(error).__name__} {error}") from error


def said(answer: httpx.Response) -> str:
    """Return what was asked and answered, for people."""
    request = answer.request
    return f"{request.method} {request.url.path} answered {answer.status_code}: {answer.text:.200}"


class WebServiceClient:
    """An adapter over HTTP to a broker's web service; a context, at whose end its connections close.

    Args:
        web_service_url: the broker's own web service.
        path: prefix of all requests.
        token: sent as bearer token; None sends none.
        timeout_s: seconds for each step of a request.
        transport: for tests; None is the network.
    """

    def __init__(
        self,
        web_service_url: str,
        path: str,
        *,
        token: str | None,
        timeout_s: float,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self._client = client_of(
            web_service_url, path, token=token, timeout_s=timeout_s, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()
