"""Change the store, while others change it too.

Two guarantees. *No update is lost*: a PUT names the version that it read, and starts over when another
writer came first, so the changes of two admins to different fields at the same moment both take effect
(with Pulsar, the last writer wins). *A writer reads its own change*: see `echo`.
"""

from __future__ import annotations

from admin_api.backend import AdminBackend
from admin_api.changes import trees
from admin_api.errors import GROUP_IN_USE, NO_SUCH_GROUP, ApiError
from admin_api.requests.conditions import Precondition
from admin_api.schemas.definitions import GroupPatch, check_definition
from coordinator.core.lifecycle import Degradation, Lifecycle
from coordinator.core.model import Attachments, Rates, ResourceGroup
from coordinator.core.owners import TrafficOwner, attached, number_attached, uses_of
from coordinator.core.transfer.policies import STRICT
from coordinator.insight.model.definition_changes import difference
from coordinator.insight.model.operations import Holdings, Operation
from coordinator.insight.model.trees import names_of
from coordinator.insight.shell.views import SidecarViews
from coordinator.ports import (
    ATTACHMENTS_MAX,
    AlreadyExists,
    Catalogue,
    GroupStore,
    NotFound,
    Origin,
    VersionConflict,
    Versioned,
    check_allowed,
    share_of,
)

MAX_ATTEMPTS = 64
"""Each failed attempt is another admin's success, so this is how many admins may write at once."""

NO_STRICT = (
    "overshootPolicy: strict cannot be promised by brokers' own limiters, which take limits up once an "
    "interval; use balanced, or a gate (enforcement_path)"
)

TOO_MANY_WRITERS = "ResourceGroup is being changed by others at the same time; try again"

_STORE_DEGRADATIONS = frozenset({Degradation.ZOOKEEPER_SUSPENDED, Degradation.ZOOKEEPER_LOST})


def group_of(owner: TrafficOwner, attachments: Attachments) -> str | None:
    """Return the group that an owner is attached to."""
    return attached(attachments, owner.kind).get(owner.name)


def in_use(backend: AdminBackend, group: str) -> ApiError:
    """Return the error that refuses to delete a group, naming what is attached to it."""
    uses = uses_of(backend.views.catalogue().attachments, group)
    told = f" by {names_of(uses)}; detach first" if uses else ""
    return ApiError(412, f"{GROUP_IN_USE}{told}")


async def put_group(
    backend: AdminBackend, name: str, patch: GroupPatch, condition: Precondition, by: Origin
) -> tuple[Versioned, Operation | None]:
    """Create a group, or change the fields that the patch names.

    Returns:
        The group, and the operation that follows the change; None when nothing changed, or when
        the change could not be followed.

    Raises:
        ApiError: 400 when brokers cannot keep the policy or the group's place makes no tree, 412 when
            the condition is not met, 409 when others kept changing the group.
        StoreUnreachable: the store did not answer.
    """
    refuse_strict(backend, patch.overshoot_policy)
    held = backend.operation_log.holdings(name)
    before, written = await _write(backend, name, patch, condition, by)
    operation = None
    if written != before:
        text = difference(None if before is None else before.group, written.group)
        accepted = operation_of(name, written.version, f"groups/{name}", text, by, held)
        operation = await backend.operation_log.accept(accepted)
    await group_seen(backend, name, written.version)
    return written, operation


def refuse_strict(backend: AdminBackend, policy: str | None) -> None:
    """Refuse a policy that the own broker's limiter cannot keep; raises ApiError 400."""
    if backend.enforcement_path == "native" and policy == STRICT:
        raise ApiError(400, NO_STRICT)


async def _write(
    backend: AdminBackend, name: str, patch: GroupPatch, condition: Precondition, by: Origin
) -> tuple[Versioned | None, Versioned]:
    """Return the group before and after; both are the same when nothing changed."""
    store = backend.store
    for _ in range(MAX_ATTEMPTS):
        current = await find_group(store, name)
        condition.check(current)
        try:
            changed = await definition_after(backend, name, patch, current)
            if current is None:
                return None, await store.create_group(changed, by=by)
            if changed == current.group:
                return current, current
            return current, await store.update_group(changed, current.version, by=by)
        except (AlreadyExists, NotFound, VersionConflict):
            continue
    raise ApiError(409, TOO_MANY_WRITERS)


async def definition_after(
    backend: AdminBackend, name: str, patch: GroupPatch, current: Versioned | None
) -> ResourceGroup:
    """Return the definition after a change; the same as the present one when nothing changes.

    Raises:
        ApiError: 400 when its settings do not go together, or its place makes no tree.
        StoreUnreachable: the store did not answer.
    """
    before = ResourceGroup(name, Rates()) if current is None else current.group
    changed = patch.applied_to(before)
    check_definition(changed)
    if current is None or changed != before:
        await trees.check(backend, changed)
    return changed


async def read_group(backend: AdminBackend, name: str, missing: int = 404) -> Versioned:
    """Read a group from the store itself; raise ApiError with this status when there is none."""
    found = await find_group(backend.store, name)
    if found is None:
        raise ApiError(missing, NO_SUCH_GROUP)
    return found


async def find_group(store: GroupStore, name: str) -> Versioned | None:
    """Read a group from the store itself, None when there is none; raise StoreUnreachable."""
    try:
        return await store.read_group(name)
    except NotFound:
        return None


async def group_seen(backend: AdminBackend, name: str, version: int | None) -> None:
    """Wait until this sidecar has seen a group at this version or a later one; None is its deletion."""

    def shows(seen: Catalogue) -> bool:
        found = seen.groups.get(name)
        if found is None or version is None:
            return found is None and version is None
        return found.version >= version

    await backend.groups_seen.heard(shows, f"groups/{name}")


async def delete_group(
    backend: AdminBackend, name: str, condition: Precondition, by: Origin
) -> None:
    """Delete a group that has neither attachments nor children.

    Raises:
        ApiError: 412 when the condition is not met or it has children, 409 when others kept changing
            the group.
        NotFound, InUse, StoreUnreachable: as `GroupStore.delete_group`.
    """
    trees.refuse_deletion(backend, name)
    await _delete(backend.store, name, condition, by)
    await group_seen(backend, name, None)


async def _delete(store: GroupStore, name: str, condition: Precondition, by: Origin) -> None:
    version = None
    for _ in range(MAX_ATTEMPTS):
        if condition != Precondition():
            current = await find_group(store, name)
            condition.check(current)
            version = None if current is None else current.version
        try:
            await store.delete_group(name, version=version, by=by)
        except VersionConflict:
            continue
        return
    raise ApiError(409, TOO_MANY_WRITERS)


async def require_group(backend: AdminBackend, name: str, by: Origin) -> None:
    """Refuse to attach to a group before anything else is looked at, as Pulsar does.

    Raises:
        ApiError: 412 when there is no such group.
        NotAllowed: it does not allow the author's tenant.
        StoreUnreachable: the store did not answer.
    """
    check_allowed((await read_group(backend, name, missing=412)).group, by)


async def require_attachable(
    backend: AdminBackend, owner: TrafficOwner, group: str, by: Origin
) -> None:
    """Refuse an attachment before anything is changed for it; raises as `require_group` and `attach`."""
    await require_group(backend, group, by)
    refuse_attaching(backend, owner, group, by)


async def attach(
    backend: AdminBackend, owner: TrafficOwner, group: str, by: Origin
) -> Operation | None:
    """Attach an owner; raises as `GroupStore.attach`.

    Returns:
        The operation that follows the change, as `put_group` does.

    Raises:
        ApiError: 409 when the group has children, or as many owners are attached as may be.
    """
    refuse_attaching(backend, owner, group, by)
    held = backend.operation_log.holdings(group)
    before = group_of(owner, backend.views.catalogue().attachments)
    await backend.store.attach(owner, group, by=by)
    operation = None
    if before != group:
        accepted = operation_of(group, 0, owner.subject, f"{owner} attached", by, held)
        operation = await backend.operation_log.accept(accepted)
    await owner_seen(backend, owner, group)
    return operation


def refuse_attaching(backend: AdminBackend, owner: TrafficOwner, group: str, by: Origin) -> None:
    """Refuse an attachment that would break a tree or a bound; raises as `attach`."""
    trees.refuse_owner(backend, group)
    attachments = backend.views.catalogue().attachments
    if group_of(owner, attachments) is None:
        _refuse_one_more(attachments, by)


def _refuse_one_more(attachments: Attachments, by: Origin) -> None:
    number, share = number_attached(attachments), share_of(ATTACHMENTS_MAX)
    if number >= ATTACHMENTS_MAX:
        raise ApiError(409, f"{ATTACHMENTS_MAX:,} owners are attached to groups; detach one first")
    # Counting one tenant's takes some milliseconds where there are many.
    if by.tenant and number >= share and number_attached(attachments, by.tenant) >= share:
        raise ApiError(
            409,
            f"{share:,} owners of tenant {by.tenant} are attached, the most that its admins may attach; "
            "detach one first, or ask a super-user",
        )


def operation_of(
    group: str, version: int, subject: str, text: str, by: Origin, held: Holdings
) -> Operation:
    """Return the operation of a change that was made, to be accepted; arguments as in `Operation`."""
    return Operation(-1, group, version, subject, text, by.actor, "", held, tenant=by.tenant)


async def detach(backend: AdminBackend, owner: TrafficOwner, by: Origin) -> Operation | None:
    """Detach an owner; returns as `attach`, raises StoreUnreachable."""
    group = group_of(owner, backend.views.catalogue().attachments)
    held = {} if group is None else backend.operation_log.holdings(group)
    await backend.store.detach(owner, by=by)
    operation = None
    if group is not None:
        accepted = operation_of(group, 0, owner.subject, f"{owner} detached", by, held)
        operation = await backend.operation_log.accept(accepted)
    await owner_seen(backend, owner, None)
    return operation


async def owner_seen(backend: AdminBackend, owner: TrafficOwner, group: str | None) -> None:
    """Wait until this sidecar has seen an owner attached to a group; None is attached to none."""
    await backend.groups_seen.heard(
        lambda seen: group_of(owner, seen.attachments) == group, owner.subject
    )


def current_catalogue(views: SidecarViews) -> Catalogue:
    """Return the copy of the store, if it is up to date.

    Raises:
        ApiError: 503 when it may be out of date or has not arrived yet. A tool that gets an empty list of
            groups would create them all.
    """
    health = views.health()
    for degradation in health.degradations:
        if degradation in _STORE_DEGRADATIONS:
            raise ApiError(503, f"The groups cannot be read: {degradation.value}")
    catalogue = views.catalogue()
    if health.state is Lifecycle.STARTING and catalogue == Catalogue():
        raise ApiError(503, "The sidecar is starting and has not read the groups yet; try again")
    return catalogue
