"""The publishers of the own broker's topics, over its admin REST."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

import httpx

from coordinator.adapters.broker.web_service import WebServiceClient
from coordinator.core.topics import DOMAINS, TopicName
from coordinator.ports import BrokerUnreachable, NotFound, Refused
from coordinator.reconciliation.engine.ways import ListedPublisher

PUBLISHERS_MAX: Final = 1_000
"""The most publishers of a topic that are looked at."""

TOPICS_MAX: Final = 100
"""The most topics of a namespace that are returned, of each domain."""

_TIMEOUT_S: Final = 5.0
_QUERY: Final = "getPreciseBacklog=false&subscriptionBacklogSize=false&excludeConsumers=true"
_REFUSALS: Final = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)


class HttpPublisherLists(WebServiceClient):
    """`coordinator.reconciliation.engine.outside.PublisherLists` over HTTP.

    Args:
        web_service_url: the broker's own web service.
        token: sent as bearer token; None sends none.
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

    async def publishers(self, topic: str) -> Sequence[ListedPublisher]:
        """Return the publishers of a topic; raise as the port says."""
        name = TopicName.parse(topic)
        if name is None:
            raise NotFound(f"{topic!r} is not a topic's name")
        namespace = quote(f"{name.tenant}/{name.namespace}")
        path = f"/{name.domain}/{namespace}/{quote(name.local_name, safe='')}/stats?{_QUERY}"
        body = await self._get(path)
        try:
            return [
                publisher_in(topic, item) for item in islice(body["publishers"], PUBLISHERS_MAX)
            ]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BrokerUnreachable(f"{path}: {type(error).__name__} {error}") from error

    async def topics(self, namespace: str) -> Sequence[str]:
        """Return some topics of a namespace; raise as the port says."""
        found: list[str] = []
        for domain in DOMAINS:
            body = await self._get(f"/{domain}/{quote(namespace)}")
            if not isinstance(body, list):
                raise BrokerUnreachable(f"/{domain}/{namespace}: not a list")
            found += map(str, body[:TOPICS_MAX])
        return found

    async def _get(self, path: str) -> Any:
        try:
            answer = await self._client.get(path)
            if answer.status_code in _REFUSALS:
                raise Refused(f"GET {path.partition('?')[0]} answered {answer.status_code}")
            # A redirect: another broker has the topic now.
            if answer.status_code == httpx.codes.NOT_FOUND or answer.is_redirect:
                raise NotFound(f"GET {path.partition('?')[0]} answered {answer.status_code}")
            if answer.status_code != httpx.codes.OK:
                raise BrokerUnreachable(
                    f"GET {path.partition('?')[0]} answered {answer.status_code}"
                )
            return answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise BrokerUnreachable(f"GET {path}: {type(error).__name__} {error}") from error


def publisher_in(topic: str, item: Any) -> ListedPublisher:
    """Read one publisher of a topic's statistics; raise ValueError and the like for another form."""
    host, port = address_in(item.get("address") or "")
    return ListedPublisher(
        topic,
        name=str(item.get("producerName") or ""),
        host=host,
        port=port,
        client=str(item.get("clientVersion") or ""),
        messages=float(item.get("msgRateIn") or 0),
        properties={str(key): str(value) for key, value in (item.get("metadata") or {}).items()},
    )


def address_in(text: str) -> tuple[str, int]:
    """Read Java's form of an address: ``/10.1.2.3:4444``, ``name/10.1.2.3:4444``, ``/[0:0:1]:4444``."""
    host, _, port = text.rpartition("/")[2].rpartition(":")
    host = host.strip("[]").partition("%")[0]
    try:
        return str(ip_address(host)), int(port)
    except ValueError:
        return "", 0
