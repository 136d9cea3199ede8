"""Rates of topics and namespaces, by the own broker's admin REST.

A broker answers for the topics that it serves, and names the one to ask for all others; that one is asked
with the same token. A rate that is replaced is kept as a *property* of the topic or the namespace: Pulsar
stores properties durably, shows them with its own tools, and deletes them with their owner.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import httpx

from coordinator.adapters.broker.inventory import HttpInventory, accepted, json_in, names_in
from coordinator.adapters.broker.paths import namespace_path, topic_path
from coordinator.adapters.broker.web_service import asked, said
from coordinator.core.topics import TopicName
from coordinator.native.engine.rate_policy import RatePolicy
from coordinator.ports import BrokerUnreachable, NotFound

_REDIRECTS: Final = (301, 302, 307, 308)
_REDIRECTS_MAX: Final = 3
"""To the owner, by way of a broker that is asked who that is."""


class HttpRatePolicies(HttpInventory):
    """`coordinator.native.engine.outside.RatePolicies` over HTTP.

    Args:
        web_service_url: the broker's own web service.
        policy: which of the policies.
        token: sent as bearer token, a super-user's; None sends none.
    """

    def __init__(
        self, web_service_url: str, policy: RatePolicy, *, token: str | None = None
    ) -> None:
        super().__init__(web_service_url, token=token)
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
        answer = await self._answer("GET", f"{_path(owner)}/properties")
        found = json_in(answer) if answer.text.strip() else {}
        value = found.get(self.policy.kept_as) if isinstance(found, dict) else None
        return value if isinstance(value, str) else None

    async def keep(self, owner: str, text: str | None) -> None:
        """See `RatePolicies`."""
        path = f"{_path(owner)}/properties"
        if text is not None:
            await self._answer("PUT", path, {self.policy.kept_as: text})
        elif "://" in owner:
            await self._answer("DELETE", f"{path}?key={self.policy.kept_as}")
        else:
            await self._answer("DELETE", f"{_path(owner)}/property/{self.policy.kept_as}")

    async def partitions(self, topic: str) -> int:
        """See `RatePolicies`."""
        answer = await self._answer("GET", f"{_path(topic)}/partitions")
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
        parsed = (TopicName.parse(name) for name in (*single, *partitioned))
        return tuple(dict.fromkeys(str(name.whole) for name in parsed if name is not None))

    async def _answer(
        self, method: str, path: str, body: Mapping[str, object] | None = None
    ) -> httpx.Response:
        """Return the answer of the broker that is responsible."""
        answer = await self._request(method, path, body)
        for _ in range(_REDIRECTS_MAX):
            if answer.status_code not in _REDIRECTS:
                break
            answer = await asked(self._client, method, answer.headers.get("location", ""), body)
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise NotFound(said(answer))
        if answer.status_code in _REDIRECTS:
            raise BrokerUnreachable(f"{said(answer)}: sent on too often")
        return accepted(answer)


def _path(owner: str) -> str:
    return topic_path(owner) if "://" in owner else namespace_path(owner)
