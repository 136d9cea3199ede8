"""Changing what the store holds, while others change it too.

Two promises. *No update is lost*: a PUT names the version that it read, and starts over when somebody
else was faster, so of two admins who change different fields at the same moment both get their way
(with Pulsar, the last writer wins). *You read what you wrote*: an answer waits until the change has
come back to this sidecar through its watch, because lists and attachments are read from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from admin_api.backend import AdminBackend, Views
from admin_api.errors import ApiError
from admin_api.schemas import GroupPatch
from coordinator.core.lifecycle import Lifecycle, Trouble
from coordinator.core.model import Rates, ResourceGroup
from coordinator.ports import (
    AlreadyExists,
    Catalogue,
    GroupStore,
    NotFound,
    VersionConflict,
    Versioned,
)

MAX_ATTEMPTS = 64
"""Every lost attempt is another admin's success, so this is how many admins may write at once."""

_POLLS = 200
_POLL_S = 0.005  # After one second the answer goes out anyway: only the echo of the change is late.
_STORE_TROUBLES = frozenset({Trouble.ZOOKEEPER_SUSPENDED, Trouble.ZOOKEEPER_LOST})


async def put_group(backend: AdminBackend, name: str, patch: GroupPatch) -> None:
    """Create a group, or change the fields that the patch names.

    Raises:
        ApiError: 409 when others kept changing the group.
        StoreUnreachable: the store did not answer.
    """
    written = await _write(backend.store, name, patch)
    await _echo(backend.views, lambda seen: _has(seen, name, written.version))


async def _write(store: GroupStore, name: str, patch: GroupPatch) -> Versioned:
    for _ in range(MAX_ATTEMPTS):
        try:
            return await _attempt(store, name, patch)
        except (AlreadyExists, NotFound, VersionConflict):
            continue
    raise ApiError(409, "ResourceGroup is being changed by others at the same time; try again")


async def _attempt(store: GroupStore, name: str, patch: GroupPatch) -> Versioned:
    try:
        current = await store.read_group(name)
    except NotFound:
        return await store.create_group(patch.applied_to(ResourceGroup(name, Rates())))
    changed = patch.applied_to(current.group)
    if changed == current.group:
        return current
    return await store.update_group(changed, current.version)


def _has(seen: Catalogue, name: str, version: int) -> bool:
    found = seen.groups.get(name)
    return found is not None and found.version >= version


async def delete_group(backend: AdminBackend, name: str) -> None:
    """Delete a group that nothing is attached to; raises as `GroupStore.delete_group`."""
    await backend.store.delete_group(name)
    await _echo(backend.views, lambda seen: name not in seen.groups)


async def attach_tenant(backend: AdminBackend, tenant: str, group: str) -> None:
    """Attach a tenant; raises as `GroupStore.attach_tenant`."""
    await backend.store.attach_tenant(tenant, group)
    await _echo(backend.views, lambda seen: seen.attachments.tenants.get(tenant) == group)


async def attach_namespace(backend: AdminBackend, tenant: str, namespace: str, group: str) -> None:
    """Attach a namespace; raises as `GroupStore.attach_namespace`."""
    await backend.store.attach_namespace(tenant, namespace, group)
    key = f"{tenant}/{namespace}"
    await _echo(backend.views, lambda seen: seen.attachments.namespaces.get(key) == group)


async def detach_tenant(backend: AdminBackend, tenant: str) -> None:
    """Detach a tenant; raises StoreUnreachable."""
    await backend.store.detach_tenant(tenant)
    await _echo(backend.views, lambda seen: tenant not in seen.attachments.tenants)


async def detach_namespace(backend: AdminBackend, tenant: str, namespace: str) -> None:
    """Detach a namespace; raises StoreUnreachable."""
    await backend.store.detach_namespace(tenant, namespace)
    key = f"{tenant}/{namespace}"
    await _echo(backend.views, lambda seen: key not in seen.attachments.namespaces)


async def _echo(views: Views, is_visible: Callable[[Catalogue], bool]) -> None:
    for _ in range(_POLLS):
        if is_visible(views.catalogue()):
            return
        await asyncio.sleep(_POLL_S)


def current_catalogue(views: Views) -> Catalogue:
    """The copy of the store, if it can be taken for the store.

    Raises:
        ApiError: 503 when it may be out of date or has not arrived yet. A tool that is told of no
            groups would set about creating them all.
    """
    health = views.health()
    for trouble in health.troubles:
        if trouble in _STORE_TROUBLES:
            raise ApiError(503, f"The groups cannot be read: {trouble.value}")
    catalogue = views.catalogue()
    if health.state is Lifecycle.STARTING and catalogue == Catalogue():
        raise ApiError(503, "The sidecar is starting and has not read the groups yet; try again")
    return catalogue
