"""The tenants, namespaces and resource groups that Pulsar has, by the own broker's admin REST.

A broker's answers are parsed by their expected form; any other form raises BrokerUnreachable. Invalid
names raise ValueError before they become part of a path.
"""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from coordinator.adapters.broker.paths import namespace_path, part_of_path
from coordinator.adapters.broker.web_service import WebServiceClient, accepted, json_in, said
from coordinator.ports import BrokerUnreachable


class HttpInventory(WebServiceClient):
    """`coordinator.insight.model.outside.Inventory` over HTTP.

    Args:
        web_service_url: the broker's own web service.
        token: sent as bearer token, a super-user's; None sends none.
        transport: for tests; None is the network.
    """

    async def tenants(self) -> Sequence[str]:
        """See `Inventory`."""
        return names_in(accepted(await self._ask("GET", "/tenants")))

    async def namespaces(self, tenant: str) -> Sequence[str]:
        """See `Inventory`."""
        answer = await self._ask("GET", f"/namespaces/{part_of_path(tenant)}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return ()
        return names_in(accepted(answer))

    async def groups(self) -> Sequence[str]:
        """See `Inventory`."""
        return names_in(accepted(await self._ask("GET", "/resourcegroups")))

    async def group_of(self, namespace: str) -> str | None:
        """See `Inventory`."""
        answer = await self._ask("GET", f"{namespace_path(namespace)}/resourcegroup")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return accepted(answer).text.strip().strip('"')


def names_in(answer: httpx.Response) -> tuple[str, ...]:
    """Return the list of names in an answer; raise BrokerUnreachable if it is none."""
    body = json_in(answer)
    if not isinstance(body, list) or not all(isinstance(name, str) for name in body):
        raise BrokerUnreachable(f"{said(answer)}: no list of names")
    return tuple(body)
