"""Rates of topics and namespaces, by the own broker's admin REST.

A broker answers for the topics that it serves, and names the one to ask for all others; that one is asked
with the same token. A rate that is replaced is kept as a *property* of the topic or the namespace: Pulsar
stores properties durably, shows them with its own tools, and deletes them with their owner.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

import httpx

from coordinator.adapters.broker.inventory import HttpInventory, names_in
from coordinator.adapters.broker.paths import namespace_path, topic_path
from coordinator.adapters.broker.web_service import REDIRECTS, accepted, json_in, said
from coordinator.native.engine.owners import base_of, is_topic, owner_of, subscription_in, topic_of
from coordinator.native.engine.rate_policy import RatePolicy
from coordinator.ports import BrokerUnreachable, NotFound

_REDIRECTS_MAX: Final = 3
"""To the owner, by way of a broker that is asked who that is."""

_NO_PATHS: Final = (400, 414)
"""The statuses by which a web server refuses a path that is ambiguous or too long. Clients may choose
such names; no sidecar has set a rate of what has one."""


class HttpRatePolicies(HttpInventory):
    """`coordinator.native.engine.outside.RatePolicies` over HTTP.

    Args:
        web_service_url: the broker's own web service.
        policy: which of the policies.
        token: sent as bearer token, a super-user's; None sends none.
        transport: for tests; None is the network.
    """

    def __init__(
        self,
        web_service_url: str,
        policy: RatePolicy,
        *,
        token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(web_service_url, token=token, transport=transport)
        self.policy = policy

    async def rate(self, owner: str) -> str:
        """See `RatePolicies`."""
        return (await self._answer("GET", f"{_path(owner)}/{self.policy.path}")).text.strip()

    async def set_rate(self, owner: str, body: str) -> None:
        """See `RatePolicies`."""
        path = f"{_path(owner)}/{self.policy.path}"
        if body:
            await self._answer("POST", path, json.loads(body))
        else:
            await self._answer("DELETE", path)

    async def kept(self, owner: str) -> str | None:
        """See `RatePolicies`."""
        return (await self._properties(owner)).get(self._kept_as(owner))

    async def keep(self, owner: str, text: str | None) -> None:
        """See `RatePolicies`."""
        path, kept_as = _path(_place(owner)), self._kept_as(owner)
        if text is not None:
            await self._answer("PUT", f"{path}/properties", {kept_as: text})
        elif _is_namespace(owner):
            await self._answer("DELETE", f"{path}/property/{kept_as}")
        else:
            await self._answer("DELETE", f"{path}/properties?key={quote(kept_as, safe='')}")

    async def default(self, owner: str) -> str:
        """See `RatePolicies`."""
        if _is_namespace(owner) or is_topic(owner):
            return ""
        path = f"{_path(topic_of(owner))}/subscriptionDispatchRate?applied=true"
        return (await self._answer("GET", path)).text.strip()

    async def subscriptions(self, topic: str) -> Sequence[str]:
        """See `RatePolicies`."""
        kept = f"{self.policy.kept_as}/"
        found = await self._properties(topic)
        return tuple(
            owner_of(topic, name.removeprefix(kept)) for name in found if name.startswith(kept)
        )

    async def partitions(self, owner: str) -> int:
        """See `RatePolicies`."""
        answer = await self._answer("GET", f"{_path(topic_of(owner))}/partitions")
        found = json_in(answer)
        number = found.get("partitions") if isinstance(found, dict) else None
        if not isinstance(number, int):
            raise BrokerUnreachable(f"{said(answer)}: no number of partitions")
        return number

    async def topics(self, namespace: str) -> Sequence[str]:
        """See `RatePolicies`."""
        path = namespace_path(namespace).replace("/namespaces", "/persistent", 1)
        single = names_in(await self._answer("GET", path))
        partitioned = names_in(await self._answer("GET", f"{path}/partitioned"))
        return tuple(dict.fromkeys(filter(None, map(base_of, (*single, *partitioned)))))

    async def _properties(self, owner: str) -> Mapping[str, str]:
        """Return the properties of a namespace, or of an owner's topic."""
        answer = await self._answer("GET", f"{_path(_place(owner))}/properties")
        found = json_in(answer) if answer.text.strip() else {}
        pairs = found.items() if isinstance(found, dict) else ()
        return {name: value for name, value in pairs if isinstance(value, str)}

    def _kept_as(self, owner: str) -> str:
        """Return the name of the property that keeps what operators have set for an owner."""
        if _is_namespace(owner) or is_topic(owner):
            return self.policy.kept_as
        return f"{self.policy.kept_as}/{subscription_in(owner)}"

    async def _answer(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> httpx.Response:
        """Return the answer of the broker that is responsible."""
        answer = await self._ask(method, path, body)
        for _ in range(_REDIRECTS_MAX):
            if not answer.has_redirect_location:
                break
            answer = await self._ask(method, answer.headers["location"], body)
        if answer.status_code == httpx.codes.NOT_FOUND or (
            method == "GET" and answer.status_code in _NO_PATHS
        ):
            raise NotFound(said(answer))
        if answer.status_code in REDIRECTS:
            raise BrokerUnreachable(f"{said(answer)}: sent on nowhere, or too often")
        return accepted(answer)


def _path(owner: str) -> str:
    if _is_namespace(owner):
        return namespace_path(owner)
    subscription = subscription_in(owner)
    place = topic_path(topic_of(owner))
    return f"{place}/{quote(subscription, safe='')}" if subscription else place


def _place(owner: str) -> str:
    """Return what the properties of an owner are beside: itself, or the topic of a subscription."""
    return owner if _is_namespace(owner) else topic_of(owner)


def _is_namespace(owner: str) -> bool:
    return owner.count("/") == 1
