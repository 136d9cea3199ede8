"""Topic statistics as the broker has them, with PIP-323's four fields where its release lacks them.

``stats`` and ``partitioned-stats`` go to the broker like every other path. A release that knows the
fields answers for itself, and its answer passes as it is: one question must have one answer. An older
release's answer gets the fields added. Of one topic they are those of the last check; of a
partitioned topic, whose partitions have owners all over the cluster, they follow from a second question
to the broker, which asks all of them (``getEarliestTimeInBacklog``: one entry read for each subscription
that is behind). The broker is asked on the API's own loop, as `relay` does; the results of checks are
on the coordinator's.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from admin_api.backend import AdminBackend
from admin_api.requests.names import NamespaceName, TenantName, decoded
from admin_api.routes.backlog import backlogs_of
from admin_api.routes.common import backend_of
from admin_api.routes.relay import Relayed, outgoing_of, send
from admin_api.schemas.backlog import BacklogStats
from coordinator.backlog.rules.model import BacklogQuota
from coordinator.core.topics import TopicName
from coordinator.ports import PortError, RelayedAnswer, RelayedRequest

router = APIRouter(include_in_schema=False)

FILLED_MAX: Final = 1024 * 1024
"""A larger answer, of a topic with thousands of clients, passes as it is: reading it takes long."""

_OK: Final = 200
_KNOWS: Final = b'"oldestBacklogMessageAgeSeconds"'
_PATH: Final = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
_EARLIEST: Final = (
    b"?perPartition=true&getPreciseBacklog=false&subscriptionBacklogSize=false"
    b"&getEarliestTimeInBacklog=true"
)


@router.get(_PATH + "/stats")
async def get_stats(
    request: Request, tenant: TenantName, namespace: NamespaceName, topic: str
) -> Response:
    """Return a topic's statistics."""
    backend = backend_of(request)
    answer, body = await _asked(backend, outgoing_of(request))
    if body is None:
        return Relayed(answer)
    name = str(TopicName("persistent", tenant, namespace, decoded(topic)))
    return _filled(answer, body, await backend.coordinator_loop.run(_known(backend, name)))


@router.get(_PATH + "/partitioned-stats")
async def get_partitioned_stats(
    request: Request, tenant: TenantName, namespace: NamespaceName, topic: str
) -> Response:
    """Return a partitioned topic's statistics."""
    backend = backend_of(request)
    outgoing = outgoing_of(request)
    answer, body = await _asked(backend, outgoing)
    if body is None:
        return Relayed(answer)
    path, _, _ = outgoing.target.partition(b"?")
    second = replace(outgoing, target=path + _EARLIEST)
    earliest_answer, earliest = await _asked(backend, second)
    if earliest is None:
        await earliest_answer.close()
        return _filled(answer, body, BacklogStats())
    name = str(TopicName("persistent", tenant, namespace, decoded(topic)))
    stats = await backend.coordinator_loop.run(_derived(backend, name, earliest))
    return _filled(answer, body, stats)


async def _asked(
    backend: AdminBackend, outgoing: RelayedRequest
) -> tuple[RelayedAnswer, bytes | None]:
    """Return the broker's answer, and its body if it lacks the fields."""
    plain = [(name, value) for name, value in outgoing.headers if name != b"accept-encoding"]
    answer = await send(replace(outgoing, headers=plain), backend)
    if answer.status != _OK:
        return answer, None
    body, rest = await _read(answer)
    if rest is not None:
        return replace(answer, body=_again(body, rest)), None
    if _KNOWS in body or not body.startswith(b"{"):
        return replace(answer, body=_again(body, None)), None
    return answer, body


async def _read(answer: RelayedAnswer) -> tuple[bytes, AsyncIterator[bytes] | None]:
    """Return the whole body, or its beginning and the rest of it when it is too large."""
    body = bytearray()
    async for piece in answer.body:
        body += piece
        if len(body) > FILLED_MAX:
            return bytes(body), answer.body
    return bytes(body), None


async def _again(body: bytes, rest: AsyncIterator[bytes] | None) -> AsyncIterator[bytes]:
    yield body
    if rest is not None:
        async for piece in rest:
            yield piece


def _filled(answer: RelayedAnswer, body: bytes, stats: BacklogStats) -> Response:
    document = json.loads(body)
    document |= stats.model_dump(by_alias=True, exclude_none=True)
    response = Response(json.dumps(document), answer.status)
    kept = [pair for pair in answer.headers if pair[0] != b"content-length"]
    response.raw_headers = [*kept, (b"content-length", str(len(response.body)).encode())]
    return response


async def _known(backend: AdminBackend, topic: str) -> BacklogStats:
    """Return the fields of a topic, from its last check."""
    return BacklogStats.of_view(backlogs_of(backend).watch.view(topic))


async def _derived(backend: AdminBackend, topic: str, body: bytes) -> BacklogStats:
    """Return a partitioned topic's fields, from the subscriptions of its partitions."""
    watch = backlogs_of(backend).watch
    try:
        quota = await watch.quota(topic)
    except PortError:
        quota = BacklogQuota()
    stats = BacklogStats.of_view(None, quota)
    oldest = min(_earliest(json.loads(body)), default=None)
    if oldest is None:
        return stats
    published_ms, subscription = oldest
    return stats.model_copy(
        update={
            "oldest_backlog_message_age_seconds": max(0, watch.now_ms() - published_ms) // 1000,
            "oldest_backlog_message_subscription_name": subscription,
        }
    )


def _earliest(document: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield the publish time of each subscription's oldest unacknowledged message, per partition."""
    for partition in document.get("partitions", {}).values():
        for name, subscription in partition.get("subscriptions", {}).items():
            published_ms = int(subscription.get("earliestMsgPublishTimeInBacklog", 0))
            if published_ms > 0 and subscription.get("isDurable", True):
                yield published_ms, name
