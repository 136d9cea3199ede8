"""Change the limits of a topic, while others change them too; guarantees are those of `definitions`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from admin_api.backend import AdminBackend
from admin_api.changes.definitions import MAX_ATTEMPTS
from admin_api.errors import ApiError
from coordinator.core.model import Dimension, Rates
from coordinator.core.topics import TopicName
from coordinator.ports import (
    TOPIC_LIMITS_MAX,
    AlreadyExists,
    NotFound,
    Origin,
    Protected,
    TopicLimit,
    TopicLimits,
    TopicLimitStore,
    VersionConflict,
    share_of,
)


async def change(
    backend: AdminBackend,
    topic: TopicName,
    changed: Callable[[Rates], Rates],
    dimensions: Collection[Dimension],
    by: Origin,
) -> None:
    """Replace a topic's limits by a function of the present ones; all unlimited removes them.

    Args:
        backend: the ports of the sidecar.
        topic: the topic.
        changed: returns the limits after the change, given those before it.
        dimensions: the dimensions of the change; a super-user makes these his own, changed or not.
        by: the author of the change.

    Raises:
        ApiError: 400 when that topic can have none, 409 when others kept changing them, or as many topics
            have limits as may.
        Protected: a super-user set limits that this caller would change, and he is no super-user.
        StoreUnreachable: the store did not answer.
    """
    store = backend.topic_limits
    for _ in range(MAX_ATTEMPTS):
        current = await find(store, topic)
        wanted = _wanted(topic, current, changed, dimensions, by)
        try:
            await _write(store, current, wanted, by)
        except (AlreadyExists, NotFound, VersionConflict):
            continue
        await limits_seen(backend, topic, wanted.limits)
        return
    raise ApiError(409, f"The limits of {topic} are being changed by others; try again")


async def find(store: TopicLimitStore, topic: TopicName) -> TopicLimit | None:
    """Read a topic's limits from the store itself, None when there are none.

    Raises:
        ApiError: 400 when that topic can have none.
        StoreUnreachable: the store did not answer.
    """
    try:
        return await store.read(topic)
    except NotFound:
        return None
    except ValueError as error:
        raise ApiError(400, str(error)) from error


def _wanted(
    topic: TopicName,
    current: TopicLimit | None,
    changed: Callable[[Rates], Rates],
    dimensions: Collection[Dimension],
    by: Origin,
) -> TopicLimit:
    """Return the new limits, and the owner of each; the version is that of the present ones."""
    before = TopicLimit(topic, Rates()) if current is None else current
    limits, own = changed(before.limits), before.tenants_own
    touched = frozenset(each for each in Dimension if limits.of(each) != before.limits.of(each))
    if by.is_super_user:
        own -= {*touched, *dimensions}
    else:
        theirs = [
            d.value for d in Dimension if d in touched - own and before.limits.of(d) is not None
        ]
        if theirs:
            raise Protected(f"set {', '.join(theirs)} of {topic}", by.actor)
        own |= touched
    limited = {each for each in own if limits.of(each) is not None}
    return replace(before, limits=limits, tenants_own=frozenset(limited))


async def _write(
    store: TopicLimitStore, current: TopicLimit | None, wanted: TopicLimit, by: Origin
) -> None:
    if wanted == current or (current is None and wanted.limits == Rates()):
        return
    if wanted.limits == Rates() and current is not None:
        await store.remove(current, by=by)
        return
    if current is None:
        _refuse_one_more(store.known(), by)
    await store.write(wanted, by=by)


def _refuse_one_more(known: TopicLimits, by: Origin) -> None:
    if len(known) >= TOPIC_LIMITS_MAX:
        raise ApiError(
            409, f"{TOPIC_LIMITS_MAX} topics have limits already; remove one, or use a group"
        )
    share = share_of(TOPIC_LIMITS_MAX)
    own = (each for each in known.values() if each.tenants_own and each.topic.tenant == by.tenant)
    if by.tenant and sum(1 for _ in own) >= share:
        raise ApiError(
            409,
            f"{share} topics of tenant {by.tenant} have limits that its admins set, the most that they "
            "may; remove one, use a group, or ask a super-user",
        )


async def limits_seen(backend: AdminBackend, topic: TopicName, limits: Rates) -> None:
    """Wait until this sidecar has seen a topic with these limits."""

    def shows(seen: TopicLimits) -> bool:
        found = seen.get(str(topic))
        return (Rates() if found is None else found.limits) == limits

    await backend.topics_seen.heard(shows, f"limits of {topic}")
