"""Changing the limits of a topic, while others change them too; promises are those of `definitions`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from admin_api.backend import AdminBackend
from admin_api.errors import ApiError
from coordinator.core.model import Rates
from coordinator.core.topics import TopicName
from coordinator.ports import (
    TOPIC_LIMITS_MAX,
    AlreadyExists,
    NotFound,
    Origin,
    TopicLimit,
    TopicLimitStore,
    VersionConflict,
)

MAX_ATTEMPTS = 64
"""Every lost attempt is another admin's success, so this is how many admins may write at once."""

_POLLS = 200
_POLL_S = 0.005


async def change(
    backend: AdminBackend, topic: TopicName, changed: Callable[[Rates], Rates], by: Origin
) -> None:
    """Replace a topic's limits by what becomes of the present ones; all unlimited removes them.

    Raises:
        ApiError: 400 that topic can have none, 409 others kept changing them, or there are too many
            topics with limits.
        StoreUnreachable: the store did not answer.
    """
    store = backend.topic_limits
    for _ in range(MAX_ATTEMPTS):
        current = await find(store, topic)
        limits = changed(Rates() if current is None else current.limits)
        try:
            await _write(store, topic, current, limits, by)
        except (AlreadyExists, NotFound, VersionConflict):
            continue
        await _echo(store, topic, limits)
        return
    raise ApiError(409, f"The limits of {topic} are being changed by others; try again")


async def find(store: TopicLimitStore, topic: TopicName) -> TopicLimit | None:
    """A topic's limits from the store itself, None when there are none.

    Raises:
        ApiError: 400 that topic can have none.
        StoreUnreachable: the store did not answer.
    """
    try:
        return await store.read(topic)
    except NotFound:
        return None
    except ValueError as error:
        raise ApiError(400, str(error)) from error


async def _write(
    store: TopicLimitStore,
    topic: TopicName,
    current: TopicLimit | None,
    limits: Rates,
    by: Origin,
) -> None:
    if limits == (Rates() if current is None else current.limits):
        return
    if current is None:
        if len(store.known()) >= TOPIC_LIMITS_MAX:
            raise ApiError(
                409, f"{TOPIC_LIMITS_MAX} topics have limits already; remove one, or use a group"
            )
        await store.write(TopicLimit(topic, limits), by=by)
    elif limits == Rates():
        await store.remove(current, by=by)
    else:
        await store.write(replace(current, limits=limits), by=by)


async def _echo(store: TopicLimitStore, topic: TopicName, limits: Rates) -> None:
    """Until this sidecar has heard of it, and its gate with it; a second at most."""
    for _ in range(_POLLS):
        seen = store.known().get(str(topic))
        if (Rates() if seen is None else seen.limits) == limits:
            return
        await asyncio.sleep(_POLL_S)
