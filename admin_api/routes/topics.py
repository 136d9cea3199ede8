"""Limits of single topics: ``/quota/v1/{domain}/{tenant}/{namespace}/{topic}/publishRate``.

Paths, bodies and rights are those of Pulsar's topic policies, below another prefix.
Unlike Pulsar's, a limit is for all partitions of a topic together, dispatch is limited for all its
subscriptions together, and non-persistent topics can be limited, too, and scalable ones (domain
``topic``), all their segments together. Pulsar's own policies go on working in the broker; the strictest
limit acts.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import Depends, Query, Request, Response

from admin_api.backend import AdminBackend
from admin_api.changes import topic_limits
from admin_api.requests.body import JsonObject
from admin_api.requests.names import NamespaceName, TenantName, decoded
from admin_api.routes.callers import TenantAdmin
from admin_api.routes.common import Backend, coordinator_router
from admin_api.routes.pages import Page
from admin_api.schemas.topics import DispatchRate, PublishRate, TopicRate
from coordinator.core.model import Rates
from coordinator.core.topics import TopicName
from coordinator.insight.model.gate_views import TopicRatesView

router = coordinator_router("/quota/v1", "topics")

MAX_PAGE = 1_000
"""Topics in one answer."""


async def _topic_name(
    domain: Literal["persistent", "non-persistent", "topic"],
    tenant: TenantName,
    namespace: NamespaceName,
    topic: str,
) -> TopicName:
    return TopicName(domain, tenant, namespace, decoded(topic))


Topic = Annotated[TopicName, Depends(_topic_name)]


@router.get("/topics")
async def list_topics(
    request: Request,
    response: Response,
    backend: Backend,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="topics in the answer")] = MAX_PAGE,
    after: Annotated[str, Query(description="only topics whose name comes after this one")] = "",
) -> list[TopicRatesView]:
    """Return every topic with limits of its own; in pages by name, see the Link header."""
    known = backend.topic_limits.known()
    return await Page(request, response, limit, after).of(
        known, lambda name: (TopicRatesView.limits(known[name].limits, topic=name), 1)
    )


def _add_routes(path: str, rate: type[TopicRate]) -> None:
    """Add GET, POST and DELETE of one pair of rates."""
    path = "/{domain}/{tenant}/{namespace}/{topic}" + path

    async def read(topic: Topic, backend: Backend) -> Response:
        """Return these limits of a topic; 204 when there are none."""
        return await _read(backend, topic, rate)

    async def write(
        topic: Topic, backend: Backend, caller: TenantAdmin, content: JsonObject
    ) -> None:
        """Set these limits of a topic, for all its partitions together; -1 is not limited."""
        wanted = rate.parse(content)
        await topic_limits.change(
            backend, topic, wanted.applied_to, tuple(rate.rates.values()), caller
        )

    async def remove(topic: Topic, backend: Backend, caller: TenantAdmin) -> None:
        """Remove these limits of a topic."""
        await topic_limits.change(
            backend, topic, rate().applied_to, tuple(rate.rates.values()), caller
        )

    silent = partial(router.api_route, path, status_code=204, response_class=Response)
    router.get(path, responses={200: {"model": rate}, 204: {}})(read)
    silent(methods=["POST"], openapi_extra=rate.described())(write)
    silent(methods=["DELETE"])(remove)


async def _read(backend: AdminBackend, topic: TopicName, rate: type[TopicRate]) -> Response:
    found = await topic_limits.find(backend.topic_limits, topic)
    body = rate.of(Rates() if found is None else found.limits)
    if body.is_unlimited:
        return Response(status_code=204)
    return Response(body.model_dump_json(by_alias=True), media_type="application/json")


_add_routes("/publishRate", PublishRate)
_add_routes("/dispatchRate", DispatchRate)
