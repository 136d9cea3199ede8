"""The own broker's admin REST, with short deadlines.

A sidecar leaves membership when its broker stops answering, so `is_answering` decides much and must
itself be cheap, quick and unable to fail: any answer but a plain 200 in time is "no".

The other calls answer or raise. An invalid name raises ValueError before it becomes part of a path.
Redirects are not followed: every broker answers these requests itself, and following one would send the
token to wherever the answer points.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import httpx

from coordinator.adapters.broker.inventory import names_in
from coordinator.adapters.broker.readiness import BrokerReadiness
from coordinator.adapters.broker.web_service import WebServiceClient, bearer, said
from coordinator.core.topics import TopicName
from coordinator.ports import BrokerUnreachable, Refused
from coordinator.wire.documents import validate_name

_CREATE_ATTEMPTS = 10
_CREATE_PAUSE_S = 0.1

#: Pulsar lists this pseudo cluster among the others in old releases; no tenant can be allowed on it.
_GLOBAL_CLUSTER = "global"


class HttpBrokerAdmin(WebServiceClient):
    """`coordinator.ports.BrokerAdmin` over HTTP.

    Args:
        web_service_url: the broker's own web service, such as ``http://127.0.0.1:8080``.
        token: sent as bearer token; None sends none.
        transport: for tests, of all questions but `is_answering`; None is the network.
    """

    def __init__(
        self,
        web_service_url: str,
        *,
        token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(web_service_url, token=token, transport=transport)
        self._readiness = BrokerReadiness(web_service_url, bearer(token))

    async def aclose(self) -> None:
        """Close the connections."""
        self._readiness.close()
        await super().aclose()

    async def is_answering(self) -> bool:
        """Return whether the broker answers that it is ready, within 1.5 s; never raises."""
        return await self._readiness.ask()

    async def tenant_exists(self, tenant: str) -> bool:
        """Return whether the tenant exists.

        Raises:
            BrokerUnreachable: the broker did not answer, or answered neither yes nor no.
        """
        return await self._exists(f"/tenants/{validate_name(tenant)}")

    async def namespace_exists(self, tenant: str, namespace: str) -> bool:
        """Return whether the namespace exists; raises as `tenant_exists`."""
        return await self._exists(f"/namespaces/{validate_name(tenant)}/{validate_name(namespace)}")

    async def partitions_of(self, topic: TopicName) -> int:
        """Return the number of a topic's partitions, at least 1; raise as `tenant_exists`."""
        path = f"{validate_name(topic.tenant)}/{validate_name(topic.namespace)}"
        path = f"/{topic.domain}/{path}/{quote(topic.local_name, safe='')}/partitions"
        answer = await self._ask("GET", path)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return 1
        partitions = _partitions_in(answer)
        if partitions is None:
            raise BrokerUnreachable(said(answer))
        return max(1, partitions)

    async def ensure_bus_namespace(self, tenant: str, namespace: str) -> None:
        """Create the tenant and the namespace of the bus topics where they are missing.

        Several sidecars may do so at once: an existing one is success.

        Raises:
            BrokerUnreachable: the broker did not answer.
            Refused: the broker does not allow it.
        """
        if not await self.tenant_exists(tenant):
            clusters = await self._clusters()
            settings = {"adminRoles": [], "allowedClusters": clusters}
            await self._create(f"/tenants/{validate_name(tenant)}", settings)
        if not await self.namespace_exists(tenant, namespace):
            await self._create(
                f"/namespaces/{validate_name(tenant)}/{validate_name(namespace)}", None
            )

    async def _clusters(self) -> list[str]:
        answer = await self._ask("GET", "/clusters")
        if answer.status_code != httpx.codes.OK:
            raise BrokerUnreachable(said(answer))
        return [name for name in names_in(answer) if name != _GLOBAL_CLUSTER]

    async def _exists(self, path: str) -> bool:
        answer = await self._ask("GET", path)
        if answer.status_code == httpx.codes.OK:
            return True
        if answer.status_code == httpx.codes.NOT_FOUND:
            return False
        raise BrokerUnreachable(said(answer))

    async def _create(self, path: str, body: dict[str, Any] | None) -> None:
        # Pulsar 4.2 answers 500 (BadVersionException) to all but one of several that create the
        # same tenant at the same moment, as sidecars that start together do, and what the one
        # created is not always seen at once: look, and ask again.
        for attempt in range(1, _CREATE_ATTEMPTS + 1):
            answer = await self._ask("PUT", path, body)
            if answer.is_success or answer.status_code == httpx.codes.CONFLICT:
                return
            if answer.is_client_error:
                raise Refused(said(answer))
            if answer.is_server_error and await self._exists(path):
                return
            if attempt == _CREATE_ATTEMPTS:
                raise BrokerUnreachable(said(answer))
            await asyncio.sleep(_CREATE_PAUSE_S)


def _partitions_in(answer: httpx.Response) -> int | None:
    try:
        partitions = answer.json()["partitions"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return partitions if answer.is_success and type(partitions) is int else None
