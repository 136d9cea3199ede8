"""Paths of topics and namespaces in a broker's admin REST."""

from __future__ import annotations

from urllib.parse import quote

from coordinator.core.topics import NAMED_ENTITY, TopicName


def part_of_path(name: str) -> str:
    """Return the name of a tenant or namespace that a broker has, as a part of a path.

    It may be longer than that of one that can be attached.

    Raises:
        ValueError: no tenant or namespace has this name.
    """
    if NAMED_ENTITY.fullmatch(name) is None or name in {".", ".."}:
        raise ValueError(f"{name!r:.80} is not a name of a tenant or namespace")
    return name


def namespace_path(namespace: str) -> str:
    """Return the path of a namespace's settings.

    Raises:
        ValueError: it is no ``tenant/namespace``.
    """
    tenant, _, local = namespace.partition("/")
    return f"/namespaces/{part_of_path(tenant)}/{part_of_path(local)}"


def topic_path(topic: str) -> str:
    """Return the path of a topic, by its full name or a short form of it.

    Raises:
        ValueError: it is no topic's name.
    """
    name = TopicName.parse(topic)
    if name is None:
        raise ValueError(f"{topic!r:.200} is not a topic's name")
    namespace = quote(f"{name.tenant}/{name.namespace}")
    return f"/{name.domain}/{namespace}/{quote(name.local_name, safe='')}"
