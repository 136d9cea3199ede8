"""Trees of groups: what each group has of its parent's limit, lends and borrows."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Query, Request, Response

from admin_api.errors import NO_SUCH_GROUP, ApiError
from admin_api.requests.names import GroupName
from admin_api.routes.common import Backend, coordinator_router, link_next
from admin_api.routes.quota import MAX_PAGE, MAX_ROWS, After, Limit
from coordinator.core.model import Dimension
from coordinator.insight.model.trees import TreeView

router = coordinator_router("/quota/v1", "quota")

Of = Annotated[Dimension, Query()]


@router.get("/trees")
async def list_trees(
    request: Request,
    response: Response,
    backend: Backend,
    dimension: Of = Dimension.PUBLISH_MESSAGES,
    limit: Limit = MAX_PAGE,
    after: After = "",
) -> list[TreeView]:
    """Return every tree of groups in one dimension, by the name of its root; in pages, as the usage."""
    names = [name for name in backend.views.roots() if name > after]
    page: list[TreeView] = []
    rows = 0
    for name in names[:limit]:
        if rows >= MAX_ROWS:
            break
        if (found := backend.views.tree(name, dimension)) is not None:
            page.append(found)
            rows += len(found.groups)
        after = name
        await asyncio.sleep(0)  # rounds are closed on this loop, too
    link_next(request, response, names, limit, after, dimension=dimension.value)
    return page


@router.get("/trees/{name:path}")
async def get_tree(
    name: GroupName, backend: Backend, dimension: Of = Dimension.PUBLISH_MESSAGES
) -> TreeView:
    """Return the tree that a group belongs to, in one dimension."""
    if name not in backend.views.defined():
        raise ApiError(404, NO_SUCH_GROUP)
    found = backend.views.tree(name, dimension)
    if found is None:
        raise ApiError(404, f"{name} is in no tree: it has neither a parent nor children")
    return found
