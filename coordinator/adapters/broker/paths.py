"""Paths of topics and namespaces in a broker's admin REST."""

from __future__ import annotations

from urllib.parse import quote

from coordinator.core.topics import TopicName
from coordinator.wire.documents import validate_name


def namespace_path(namespace: str) -> str:
    """Return the path of a namespace's settings.

    Raises:
        ValueError: it is no ``tenant/namespace``.
    """
    tenant, _, local = namespace.partition("/")
    return f"/namespaces/{validate_name(tenant)}/{validate_name(local)}"


def topic_path(topic: str) -> str:
    """Return the path of a topic, by its full name or a short form of it.

    Raises:
        ValueError: it is no topic's name.
    """
    name = TopicName.parse(topic)
    if name is None:
        raise ValueError(f"{topic!r} is not a topic's name")
    namespace = quote(f"{name.tenant}/{name.namespace}")
    return f"/{name.domain}/{namespace}/{quote(name.local_name, safe='')}"
