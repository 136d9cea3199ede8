"""The own broker's web service, request by request, unchanged both ways.

An answer is streamed, since a namespace's list of topics may be long and its reader slow. Redirects are
not followed: a broker answers 307 with the address of the owner of a topic or bundle, and Pulsar's tools
go there themselves. Only headers of a single connection (RFC 9110, 7.6.1) are left out; credentials,
content codings and all others pass unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Self

import httpx

from coordinator.ports import BrokerUnreachable, RelayedAnswer, RelayedRequest
from coordinator.runtime.client_tls import machine_trust

_CONNECT_TIMEOUT_S = 5.0
_ANSWER_TIMEOUT_S = 300.0
"""Longer than Pulsar's tools wait by default (60 s): the caller decides when it took too long."""

_CONNECTIONS = 64
"""Most requests under way at once; one more waits for its turn."""

_HOP_BY_HOP = frozenset(
    {b"connection", b"expect", b"keep-alive", b"proxy-connection", b"te", b"trailer",
     b"transfer-encoding", b"upgrade"}
)  # fmt: skip

Headers = Iterable[tuple[bytes, bytes]]


class HttpBrokerRelay:
    """`coordinator.ports.BrokerRelay` over HTTP.

    Args:
        web_service_url: the broker's own web service, such as ``http://127.0.0.1:8080``.
        transport: for tests; None is the network.
    """

    def __init__(
        self,
        web_service_url: str,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.address = web_service_url
        self._url = httpx.URL(web_service_url)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(
                _ANSWER_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S, pool=_CONNECT_TIMEOUT_S
            ),
            limits=httpx.Limits(max_connections=_CONNECTIONS),
            verify=machine_trust(web_service_url),
            transport=transport,
            trust_env=False,
            follow_redirects=False,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def relay(self, request: RelayedRequest) -> RelayedAnswer:
        """Send a request and return as soon as the head of the answer has arrived.

        Raises:
            BrokerUnreachable: the broker cannot be reached, or did not answer.
        """
        # Built by hand: the client would add headers of its own to the caller's.
        outgoing = httpx.Request(
            request.method,
            self._url.copy_with(raw_path=request.target),
            headers=_end_to_end(request.headers, but=frozenset({b"host", b"content-length"})),
            content=request.body,
        )
        try:
            answer = await self._client.send(outgoing, stream=True)
        except httpx.HTTPError as error:
            raise BrokerUnreachable(f"{type(error).__name__} {error}".rstrip()) from error
        headers = _end_to_end(answer.headers.raw)
        return RelayedAnswer(answer.status_code, headers, _pieces(answer), answer.aclose)


def _end_to_end(headers: Headers, but: frozenset[bytes] = frozenset()) -> list[tuple[bytes, bytes]]:
    pairs = [(name.lower(), value) for name, value in headers]
    named = {
        part.strip().lower()
        for name, value in pairs
        if name == b"connection"
        for part in value.split(b",")
    }
    left_out = _HOP_BY_HOP | named | but
    return [(name, value) for name, value in pairs if name not in left_out]


async def _pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.aiter_raw():
            yield piece
    except httpx.HTTPError as error:
        raise BrokerUnreachable(f"the answer broke off: {type(error).__name__} {error}") from error
