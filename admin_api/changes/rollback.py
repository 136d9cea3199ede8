"""Roll back one change: restore the state that an audit entry recorded before it.

Only if nothing has changed since: rolling back an old change past a newer one would silently undo that
too. The check and the write are one compare-and-set, so no other change can come in between.
"""

from __future__ import annotations

from dataclasses import replace

from admin_api.backend import AdminBackend
from admin_api.changes import definitions, topic_limits, trees
from admin_api.errors import ApiError
from coordinator.core.model import Rates, ResourceGroup
from coordinator.core.owners import OwnerKind, TrafficOwner
from coordinator.core.topics import TopicName
from coordinator.insight.model.definition_changes import difference
from coordinator.insight.model.operations import Operation
from coordinator.ports import (
    AlreadyExists,
    AuditEntry,
    InUse,
    NotFound,
    Origin,
    TopicLimit,
    VersionConflict,
    Versioned,
)


async def roll_back(backend: AdminBackend, entry_id: int, by: Origin) -> Operation | None:
    """Undo one change.

    Returns:
        The operation that follows it, as `definitions.put_group` and `definitions.attach` do.

    Raises:
        ApiError: 400 the definition before it makes no tree now, 404 no such entry, 409 something has
            changed since or cannot be restored, 412 the group that would be deleted is in use.
        StoreUnreachable: the store did not answer.
    """
    try:
        entry = await backend.store.audit_entry(entry_id)
    except NotFound as error:
        raise ApiError(404, f"There is no audit entry {entry_id}, or none any more") from error
    by = replace(by, undoes=entry_id)
    kind, _, name = entry.subject.partition("/")
    try:
        if kind == "groups":
            return await _restore_group(backend, name, entry, by)
        if kind == "topics":
            await _restore_topic_limit(backend, name, entry, by)
            return None
        return await _restore_attachment(backend, TrafficOwner(OwnerKind(kind), name), entry, by)
    except (AlreadyExists, VersionConflict) as error:
        raise _changed_since(entry) from error
    except NotFound as error:
        raise ApiError(409, f"{entry.subject} cannot be restored: {error}") from error
    except InUse as error:
        raise definitions.in_use(backend, name) from error


async def _restore_group(
    backend: AdminBackend, name: str, entry: AuditEntry, by: Origin
) -> Operation | None:
    before, after = entry.before, entry.after
    if not isinstance(before, ResourceGroup):
        await _remove_group(backend, name, entry, by)
        return None
    definitions.refuse_strict(backend, before.overshoot_policy)
    await trees.check(backend, before)
    held = backend.operation_log.holdings(name)
    if isinstance(after, ResourceGroup):
        current = await _as_left(backend, name, entry)
        written = await backend.store.update_group(before, current.version, by=by)
        text = difference(after, before)
    else:
        written = await backend.store.create_group(before, by=by)
        text = difference(None, before)
    restored = definitions.operation_of(name, written.version, entry.subject, text, by, held)
    operation = await backend.operation_log.accept(restored)
    await definitions.group_seen(backend, name, written.version)
    return operation


async def _remove_group(backend: AdminBackend, name: str, entry: AuditEntry, by: Origin) -> None:
    if entry.after is None:
        raise ApiError(409, f"{entry.subject} could not be read when it was deleted")
    current = await _as_left(backend, name, entry)
    await backend.store.delete_group(name, version=current.version, by=by)
    await definitions.group_seen(backend, name, None)


async def _as_left(backend: AdminBackend, name: str, entry: AuditEntry) -> Versioned:
    """Return a group that is as a change has left it; raises ApiError 409 for any other."""
    current = await definitions.find_group(backend.store, name)
    if current is None or replace(current.group, configuration_version=0) != entry.after:
        raise _changed_since(entry)
    return current


async def _restore_attachment(
    backend: AdminBackend, owner: TrafficOwner, entry: AuditEntry, by: Origin
) -> Operation | None:
    before = entry.before if isinstance(entry.before, str) else None
    after = entry.after if isinstance(entry.after, str) else None
    if before is None:
        group, change = after or "", "detached"
        held = backend.operation_log.holdings(group)
        await backend.store.detach(owner, expected=after, by=by)
    else:
        group, change = before, "attached"
        definitions.refuse_attaching(backend, owner, group, by)
        held = backend.operation_log.holdings(group)
        await backend.store.attach(owner, group, expected=after, by=by)
    text = f"{owner} {change}"
    restored = definitions.operation_of(group, 0, entry.subject, text, by, held)
    operation = await backend.operation_log.accept(restored)
    await definitions.owner_seen(backend, owner, before)
    return operation


async def _restore_topic_limit(
    backend: AdminBackend, name: str, entry: AuditEntry, by: Origin
) -> None:
    topic, store = TopicName.parse(name), backend.topic_limits
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
    await topic_limits.limits_seen(backend, topic, before or Rates())


def _changed_since(entry: AuditEntry) -> ApiError:
    reason = f"{entry.subject} has changed since entry {entry.id}; roll back what came later first"
    return ApiError(409, reason)
