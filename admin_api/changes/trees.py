"""Check changes against the tree of groups that they make, before anything is written.

The groups above are read from the store itself, since this sidecar's copy may be a moment old; siblings
and children are taken from the copy. Two admins who change siblings at the same moment can so promise too
much together: then the law cuts the guarantees to what can be kept, and the next change is told the sum.
"""

from __future__ import annotations

from admin_api.backend import AdminBackend
from admin_api.errors import GROUP_IN_USE, ApiError
from coordinator.core.allocation.tree import MAX_DEPTH
from coordinator.core.model import ResourceGroup
from coordinator.core.transfer.tree_rules import TreeFault, check_tree, children_of
from coordinator.insight.model.trees import names_of
from coordinator.ports import NotFound


async def check(backend: AdminBackend, changed: ResourceGroup) -> None:
    """Refuse a definition that makes no tree.

    Raises:
        ApiError: 400, naming the field and the fix.
        StoreUnreachable: the store did not answer.
    """
    for key in ("cluster_group", "delayed_group"):
        if changed.parent and changed.parent == getattr(backend, key):
            raise ApiError(
                400,
                f"parent: {changed.parent} has traffic of its own, as {key} in the sidecars' "
                "configuration names it; name another group",
            )
    catalogue = backend.views.catalogue()
    groups = {name: found.group for name, found in catalogue.groups.items()}
    above = changed.parent
    for _ in range(MAX_DEPTH):
        if not above or above == changed.name:
            break
        try:
            groups[above] = (await backend.store.read_group(above)).group
        except NotFound:
            groups.pop(above, None)
            break
        above = groups[above].parent
    try:
        check_tree(changed, groups, catalogue.attachments)
    except TreeFault as error:
        raise ApiError(400, str(error)) from error


def refuse_owner(backend: AdminBackend, group: str) -> None:
    """Refuse to attach an owner to a group that shares its limit among children.

    Raises:
        ApiError: 409, naming the children.
    """
    if children := _children(backend, group):
        raise ApiError(
            409,
            f"{group} shares its limit among {children} and has no traffic of its own; attach to one of "
            "these",
        )


def refuse_deletion(backend: AdminBackend, group: str) -> None:
    """Refuse to delete a group that has children.

    Raises:
        ApiError: 412, naming them.
    """
    if children := _children(backend, group):
        raise ApiError(
            412, f"{GROUP_IN_USE}: it is the parent of {children}; give these another parent first"
        )


def _children(backend: AdminBackend, group: str) -> str:
    groups = backend.views.catalogue().groups.values()
    return names_of(children_of(group, (each.group for each in groups)))
