"""Roll back one change: restore the state that an audit entry recorded before it.

Only if nothing has changed since: rolling back an old change past a newer one would silently undo that
too. The check and the write are one compare-and-set, so no other change can come in between.
"""

from __future__ import annotations

from dataclasses import replace

from admin_api.backend import AdminBackend
from admin_api.changes import definitions, topic_limits, trees
from admin_api.errors import GROUP_IN_USE, ApiError
from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.owners import OwnerKind, TrafficOwner
from coordinator.core.topics import TopicName
from coordinator.ports import (
    AlreadyExists,
    AuditEntry,
    GroupStore,
    InUse,
    NotFound,
    Origin,
    TopicLimit,
    TopicLimitStore,
    VersionConflict,
)


async def roll_back(backend: AdminBackend, entry_id: int, by: Origin) -> None:
    """Undo one change.

    Raises:
        ApiError: 404 no such entry, 409 something has changed since or cannot be restored, 412 the
            group that would be deleted is in use.
        StoreUnreachable: the store did not answer.
    """
    store = backend.store
    try:
        entry = await store.audit_entry(entry_id)
    except NotFound as error:
        raise ApiError(404, f"There is no audit entry {entry_id}, or none any more") from error
    by = replace(by, undoes=entry_id)
    kind, _, name = entry.subject.partition("/")
    try:
        if kind == "groups":
            if isinstance(entry.before, ResourceGroup):
                definitions.refuse_strict(backend, entry.before.overshoot_policy)
                await trees.check(backend, entry.before)
            await _restore_group(store, name, entry, by)
        elif kind == "topics":
            await _restore_topic_limit(backend.topic_limits, name, entry, by)
        else:
            if isinstance(entry.before, str):
                trees.refuse_owner(backend, entry.before)
            await _restore_attachment(store, TrafficOwner(OwnerKind(kind), name), entry, by)
    except (AlreadyExists, VersionConflict) as error:
        raise _changed_since(entry) from error
    except NotFound as error:
        raise ApiError(409, f"{entry.subject} cannot be restored: {error}") from error
    except InUse as error:
        raise ApiError(412, GROUP_IN_USE) from error


async def _restore_group(store: GroupStore, name: str, entry: AuditEntry, by: Origin) -> None:
    before, after = entry.before, entry.after
    if after is None:
        if not isinstance(before, ResourceGroup):
            raise ApiError(409, f"{entry.subject} could not be read when it was deleted")
        await store.create_group(before, by=by)
        return
    current = await definitions.find_group(store, name)
    if current is None or replace(current.group, configuration_version=0) != after:
        raise _changed_since(entry)
    if isinstance(before, ResourceGroup):
        await store.update_group(before, current.version, by=by)
    else:
        await store.delete_group(name, version=current.version, by=by)


async def _restore_attachment(
    store: GroupStore, owner: TrafficOwner, entry: AuditEntry, by: Origin
) -> None:
    before = entry.before if isinstance(entry.before, str) else None
    after = entry.after if isinstance(entry.after, str) else None
    if before is None:
        await store.detach(owner, expected=after, by=by)
    else:
        await store.attach(owner, before, expected=after, by=by)


async def _restore_topic_limit(
    store: TopicLimitStore, name: str, entry: AuditEntry, by: Origin
) -> None:
    topic = TopicName.parse(name)
    assert topic is not None, "a subject that cannot be read is no entry"
    before = entry.before if isinstance(entry.before, Rates) else None
    after = entry.after if isinstance(entry.after, Rates) else None
    current = await topic_limits.find(store, topic)
    if after != (None if current is None else current.limits):
        raise _changed_since(entry)
    if before is not None:
        version = None if current is None else current.version
        await store.write(TopicLimit(topic, before, version), by=by)
    elif current is not None:
        await store.remove(current, by=by)


def _changed_since(entry: AuditEntry) -> ApiError:
    reason = f"{entry.subject} has changed since entry {entry.id}; roll back what came later first"
    return ApiError(409, reason)
