"""Backlogs of the own broker's topics, over its admin REST.

Routine requests ask only for data that the broker has in memory; `published_ms` reads one entry, `glance`
one for each subscription, `closed_ms` the topic's metadata. Redirects are not followed: a 307 says that
another broker owns the topic now, and that broker's sidecar checks it. The exception is the quota of a
partitioned topic, which the owner of its first partition returns for all of them. Answers come
uncompressed, which costs the broker less than the loopback does.

``/ledger/{l}/entry/{e}`` answers with the whole entry, however large; the publish time is in the head, so
a large body is not read.

A check may send thousands of requests, so they go straight to httpx's transport: the additions of its
client (cookies, redirects, authentication) are a third of the cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import httpx

from coordinator.adapters.broker.answers import (
    Bounds,
    NoPublishTime,
    bounds_in,
    closings_in,
    default_bounds_in,
    glance_in,
    millis_of,
    quota_of,
    storage_in,
)
from coordinator.adapters.broker.evictions import evictions_in
from coordinator.adapters.broker.paths import topic_path
from coordinator.adapters.broker.summary import each_topic
from coordinator.adapters.broker.web_service import REDIRECTS, bearer, said, shown, whole_answer
from coordinator.backlog.rules.evictions import Counted
from coordinator.backlog.rules.model import (
    BacklogQuota,
    Glance,
    Position,
    QuotaType,
    TopicStorage,
    TopicSummary,
)
from coordinator.core.topics import TopicName
from coordinator.ports import BrokerUnreachable, NotFound, Refused, Unreadable
from coordinator.runtime.client_tls import machine_trust

_TIMEOUT: Final = {"timeout": httpx.Timeout(10.0).as_dict()}
_CONNECTIONS: Final = 8
"""Requests that may be under way at once."""

_BODY_MAX: Final = 64 * 1024
"""The most bytes of an entry that are read to keep a connection; for a larger one it is closed."""

_CHUNK: Final = 64 * 1024
_TURN: Final = 200
"""Topics that are parsed before other tasks run: about 2 ms."""

_CONFIGURATION: Final = "/brokers/configuration/runtime"
_SUCCESSES: Final = (200, 204)
_REFUSALS: Final = (400, 401, 403, 405, 409, 412, 414)
_BROKER_TIME: Final = "x-pulsar-broker-entry-metadata-timestamp"
_PUBLISH_TIME: Final = "x-pulsar-publish-time"
_GLANCE: Final = (
    "getEarliestTimeInBacklog=true&getPreciseBacklog=false&subscriptionBacklogSize=false"
    "&excludePublishers=true&excludeConsumers=true"
)

T = TypeVar("T")


class HttpBacklogSource:
    """`coordinator.ports.BacklogSource` over HTTP.

    Args:
        web_service_url: the broker's own web service, such as ``http://127.0.0.1:8080``.
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
        self._metrics_url = f"{web_service_url.rstrip('/')}/metrics/"
        self._base_url = f"{web_service_url.rstrip('/')}/admin/v2"
        self._headers = {"Accept-Encoding": "identity"} | bearer(token)
        self._transport = transport or httpx.AsyncHTTPTransport(
            verify=machine_trust(web_service_url),
            limits=httpx.Limits(max_connections=_CONNECTIONS),
            trust_env=False,
        )
        #: The broker's defaults, once they were needed since the last summaries; a restart changes them.
        self._defaults: Bounds | None = None
        self._asking_defaults = asyncio.Lock()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def cluster(self) -> str:
        """See `BacklogSource`."""
        answer = await self._ask("GET", _CONFIGURATION)
        return str(_parsed(answer, lambda body: body["clusterName"]))

    async def summaries(self) -> tuple[TopicSummary, ...]:
        """See `BacklogSource`."""
        self._defaults = None
        answer = await self._ask("GET", "/broker-stats/topics")
        found: list[TopicSummary] = []
        try:
            for topic in each_topic(answer.text):
                found.append(topic)
                if not len(found) % _TURN:
                    await asyncio.sleep(0)
        except ValueError as error:
            raise BrokerUnreachable(f"/broker-stats/topics: {error}") from error
        return tuple(found)

    async def glance(self, topic: str) -> Glance:
        """See `BacklogSource`."""
        return _parsed(await self._ask("GET", f"{topic_path(topic)}/stats?{_GLANCE}"), glance_in)

    async def storage(self, topic: str) -> TopicStorage:
        """See `BacklogSource`."""
        answer = await self._ask("GET", f"{topic_path(topic)}/internalStats")
        return _parsed(answer, storage_in)

    async def published_ms(self, topic: str, position: Position) -> int:
        """See `BacklogSource`."""
        path = f"{topic_path(topic)}/ledger/{position.ledger}/entry/{position.entry}"
        answer = await self._ask("GET", path, body_max=_BODY_MAX)
        stamp = answer.headers.get(_BROKER_TIME) or answer.headers.get(_PUBLISH_TIME)
        if stamp is None:
            raise BrokerUnreachable(f"GET {shown(path)} answered without a publish time")
        try:
            return millis_of(stamp)
        except ValueError as error:  # producers choose it
            raise Unreadable(f"GET {shown(path)}: publish time {stamp:.60}") from error

    async def closed_ms(self, topic: str) -> Mapping[int, int]:
        """See `BacklogSource`."""
        answer = await self._ask("GET", f"{topic_path(topic)}/internal-info")
        return _parsed(answer, closings_in)

    async def quota(self, topic: str) -> BacklogQuota:
        """Return the quota in force; raise as the port says.

        Of each type, size and age, that is the topic's; without one the namespace's; without that the
        broker's default. A partition has that of its topic: a broker refuses to return it for the
        partition. It refuses as well where topic policies are off, and for a name that only looks like a
        partition's.

        The broker is not asked to combine them (``applied=true``). A 4.2.4 broker then waits for its
        metadata store on the only thread of the store: a question about a namespace that it had not read
        stopped lookups and admin requests for 30 s.
        """
        name, _ = _name(topic).split_partition()
        found = await self._bounds_of_topic(name)
        if len(found) < len(QuotaType):
            namespace = f"{quote(name.tenant)}/{quote(name.namespace)}"
            answer = await self._ask("GET", f"/namespaces/{namespace}/backlogQuotaMap")
            found = _parsed(answer, bounds_in) | found
        if len(found) < len(QuotaType):
            found = await self._default_bounds() | found
        return quota_of(found)

    async def _bounds_of_topic(self, name: TopicName) -> Bounds:
        """Return the bounds that the topic itself has."""
        answer = await self._send("GET", f"{self._base_url}{topic_path(str(name))}/backlogQuotaMap")
        if answer.status_code in REDIRECTS:
            answer = await self._follow(answer)
        if answer.status_code in (*_REFUSALS, httpx.codes.NOT_FOUND):
            return {}
        return _parsed(_checked(answer), bounds_in)

    async def _default_bounds(self) -> Bounds:
        """Return those of the broker's configuration."""
        async with self._asking_defaults:
            if self._defaults is None:
                answer = await self._ask("GET", _CONFIGURATION)
                self._defaults = _parsed(answer, default_bounds_in)
            return self._defaults

    async def evictions(self) -> Counted:
        """See `BacklogSource`."""
        request = httpx.Request(
            "GET", self._metrics_url, headers=self._headers, extensions=_TIMEOUT
        )
        try:
            async with whole_answer(f"GET {self._metrics_url}"):
                answer = await self._transport.handle_async_request(request)
                answer.request = request
                async with aclosing(answer):
                    if answer.status_code not in _SUCCESSES:
                        await answer.aread()
                        _checked(answer)
                    return await evictions_in(answer.aiter_bytes(_CHUNK))
        except httpx.HTTPError as error:
            url, kind = self._metrics_url, type(error).__name__
            raise BrokerUnreachable(f"GET {url}: {kind} {error}") from error

    async def expire_to(self, topic: str, subscription: str, position: Position) -> None:
        """See `BacklogSource`."""
        body = {"ledgerId": position.ledger, "entryId": position.entry, "partitionIndex": -1}
        await self._ask("POST", f"{_subscription(topic, subscription)}/expireMessages", body=body)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, int] | None = None,
        body_max: int | None = None,
    ) -> httpx.Response:
        url = f"{self._base_url}{path}"
        return _checked(await self._send(method, url, body=body, body_max=body_max))

    async def _follow(self, answer: httpx.Response) -> httpx.Response:
        """Follow a redirect of the own broker.

        Raises:
            Refused: the other broker does not answer; the own broker may be well.
        """
        try:
            return await self._send("GET", answer.headers.get("location", ""))
        except BrokerUnreachable as error:
            raise Refused(str(error)) from error

    async def _send(
        self,
        method: str,
        url: str,
        *,
        body: Mapping[str, int] | None = None,
        body_max: int | None = None,
    ) -> httpx.Response:
        try:
            request = httpx.Request(
                method, url, headers=self._headers, json=body, extensions=_TIMEOUT
            )
            async with whole_answer(f"{method} {shown(url)}"):
                answer = await self._transport.handle_async_request(request)
                answer.request = request
                async with aclosing(answer):
                    if body_max is None or answer.status_code not in _SUCCESSES:
                        await answer.aread()
                    else:
                        await _read_up_to(answer, body_max)
        except httpx.HTTPError as error:
            text = f"{type(error).__name__} {error}"
            raise BrokerUnreachable(f"{method} {shown(url)}: {text}") from error
        except httpx.InvalidURL as error:  # clients choose names of any length
            raise Refused(f"{method} {shown(url)}: {error}") from error
        return answer


def _checked(answer: httpx.Response) -> httpx.Response:
    """Return an answer that is a success; raise as the port says."""
    if answer.status_code in _SUCCESSES:
        return answer
    if answer.status_code == httpx.codes.NOT_FOUND or answer.status_code in REDIRECTS:
        raise NotFound(said(answer))
    if answer.status_code in _REFUSALS:
        raise Refused(said(answer))
    raise BrokerUnreachable(said(answer))


async def _read_up_to(answer: httpx.Response, size_max: int) -> None:
    """Read a body to its end, so that the connection can be used again, unless it is too large."""
    size = 0
    async for piece in answer.aiter_bytes():
        size += len(piece)
        if size > size_max:
            return


def _parsed(answer: httpx.Response, read: Callable[[Any], T]) -> T:
    try:
        return read(answer.json())
    except NoPublishTime as error:
        raise Unreadable(f"{shown(answer.request.url.path)}: {error}") from error
    except (
        ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError,
    ) as error:  # fmt: skip
        raise BrokerUnreachable(
            f"{shown(answer.request.url.path)}: {type(error).__name__} {error} in {shown(answer.text)}"
        ) from error


def _name(topic: str) -> TopicName:
    name = TopicName.parse(topic)
    if name is None:
        raise ValueError(f"{topic!r} is not a topic's name")
    return name


def _subscription(topic: str, subscription: str) -> str:
    return f"{topic_path(topic)}/subscription/{quote(subscription, safe='')}"
