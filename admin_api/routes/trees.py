"""Trees of groups: what each group has of its parent's limit, lends and borrows."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from admin_api.errors import NO_SUCH_GROUP, ApiError
from admin_api.requests.names import GroupName
from admin_api.routes.common import Backend, coordinator_router
from admin_api.routes.pages import PageOfGroups
from coordinator.core.model import Dimension
from coordinator.insight.model.trees import TreeView

router = coordinator_router("/quota/v1", "quota")

Of = Annotated[Dimension, Query()]


@router.get("/trees")
async def list_trees(
    backend: Backend, page: PageOfGroups, dimension: Of = Dimension.PUBLISH_MESSAGES
) -> list[TreeView]:
    """Return every tree of groups in one dimension, by the name of its root; in pages, as the usage."""

    def tree(name: str) -> tuple[TreeView, int] | None:
        found = backend.views.tree(name, dimension)
        return None if found is None else (found, len(found.groups))

    return await page.of(backend.views.roots(), tree, dimension=dimension.value)


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
