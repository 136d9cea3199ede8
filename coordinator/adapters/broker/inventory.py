"""The tenants, namespaces and resource groups that Pulsar has, by the own broker's admin REST.

A broker's answers are parsed by their expected form; any other form raises BrokerUnreachable. Invalid
names raise ValueError before they become part of a path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from coordinator.adapters.broker.paths import namespace_path
from coordinator.adapters.broker.web_service import WebServiceClient, asked, said
from coordinator.ports import BrokerUnreachable, Refused
from coordinator.wire.documents import validate_name

_TIMEOUT_S = 5.0


class HttpInventory(WebServiceClient):
    """`coordinator.insight.model.outside.Inventory` over HTTP.

    Args:
        web_service_url: the broker's own web service.
        token: sent as bearer token, a super-user's; None sends none.
        transport: for tests; None is the network.
    """

    def __init__(
        self,
        web_service_url: str,
        *,
        token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(
            web_service_url, "/admin/v2", token=token, timeout_s=_TIMEOUT_S, transport=transport
        )

    async def tenants(self) -> Sequence[str]:
        """See `Inventory`."""
        return names_in(accepted(await self._request("GET", "/tenants")))

    async def namespaces(self, tenant: str) -> Sequence[str]:
        """See `Inventory`."""
        answer = await self._request("GET", f"/namespaces/{validate_name(tenant)}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return ()
        return names_in(accepted(answer))

    async def groups(self) -> Sequence[str]:
        """See `Inventory`."""
        return names_in(accepted(await self._request("GET", "/resourcegroups")))

    async def group_of(self, namespace: str) -> str | None:
        """See `Inventory`."""
        answer = await self._request("GET", f"{namespace_path(namespace)}/resourcegroup")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return accepted(answer).text.strip().strip('"')

    async def _request(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> httpx.Response:
        return await asked(self._client, method, path, body)


def accepted(answer: httpx.Response) -> httpx.Response:
    """Return an answer that says yes; raise Refused or BrokerUnreachable with what any other says."""
    if answer.is_success:
        return answer
    if answer.is_client_error:
        raise Refused(said(answer))
    raise BrokerUnreachable(said(answer))


def json_in(answer: httpx.Response) -> Any:
    """Return the JSON of an answer; raise BrokerUnreachable if it is none."""
    try:
        return answer.json()
    except ValueError as error:
        raise BrokerUnreachable(f"{said(answer)}: {error}") from error


def names_in(answer: httpx.Response) -> tuple[str, ...]:
    """Return the list of names in an answer; raise BrokerUnreachable if it is none."""
    body = json_in(answer)
    if not isinstance(body, list) or not all(isinstance(name, str) for name in body):
        raise BrokerUnreachable(f"{said(answer)}: no list of names")
    return tuple(body)
