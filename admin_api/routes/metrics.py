"""``/metrics`` for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from admin_api.metrics import scrape
from admin_api.routes.common import backend_of

router = APIRouter(tags=["sidecar"])


@router.get("/metrics", response_class=Response)
async def get_metrics(request: Request) -> Response:
    """Return this sidecar's metrics and its broker's part of every group, as OpenMetrics or text."""
    body, media_type = await scrape.expose(backend_of(request), request.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": media_type})
