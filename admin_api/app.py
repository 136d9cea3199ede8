"""The admin API as an ASGI application, on a loop of its own beside the coordinator's.

Handlers are coroutines that wait only for the store, the broker and the gate: most run on the
coordinator's loop, so a handler that blocks would stop rounds, and after a second the gate as well.
"""

from __future__ import annotations

from collections import Counter

from fastapi import Depends, FastAPI

from admin_api import errors, openapi
from admin_api.backend import AdminBackend
from admin_api.requests.body import refuse_large_body
from admin_api.requests.hosts import Hosts, OwnHosts
from admin_api.requests.names import KeepEncodedSeparators
from admin_api.requests.request_ids import RequestIds
from admin_api.requests.request_rate import RequestRate
from admin_api.routes import (
    attachments,
    audit,
    backlog,
    board,
    cluster,
    conditions,
    dashboard,
    events,
    gate,
    groups,
    metrics,
    operations,
    quota,
    relay,
    sidecar,
    topics,
)
from admin_api.routes.callers import identified

_DESCRIPTION = """\
Pulsar's resource-group REST under /admin/v2, and what Pulsar lacks under /quota/v1.
Rates are per second; -1 means not limited. Every error is `{"reason": "..."}`."""


def create_app(backend: AdminBackend) -> FastAPI:
    """Build the admin API of one sidecar."""
    app = FastAPI(
        title="pulsar-quota",
        description=_DESCRIPTION,
        # The ready-made pages load their scripts from the internet, which a broker's host need not
        # reach: /docs is among the dashboard's files.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.backend = backend
    app.state.event_readers = Counter()
    # Frequent requests come first: a path is compared with all routes before its own, twice.
    guarded = (
        quota.router, board.router, groups.router, sidecar.router, operations.router,
        events.router, metrics.router, attachments.router, topics.router, gate.router,
        audit.router, backlog.router, cluster.router, conditions.router, attachments.roles_router,
        attachments.further_router,
    )  # fmt: skip
    for router in guarded:
        app.include_router(router, dependencies=[Depends(identified), Depends(refuse_large_body)])
    unguarded = (sidecar.open_router, dashboard.router)
    for router in unguarded:
        app.include_router(router, dependencies=[Depends(refuse_large_body)])
    # Last, so that every path of ours comes first.
    app.include_router(relay.router, dependencies=[Depends(identified)])
    app.add_middleware(KeepEncodedSeparators, refusals=backend.refusals)
    ours = (*guarded, *unguarded)
    errors.install(app, [route for router in ours for route in router.routes])
    hosts = Hosts(backend.hosts, everywhere=backend.access.verifier is not None)
    app.add_middleware(OwnHosts, hosts=hosts, refusals=backend.refusals)
    if backend.requests_per_second is not None:
        app.add_middleware(
            RequestRate,
            requests_per_second=backend.requests_per_second,
            refusals=backend.refusals,
        )
    app.add_middleware(RequestIds)
    openapi.install(app)
    return app
