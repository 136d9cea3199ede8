"""The owners that belong to groups, as the command names them.

They are ``tenants/T``, ``namespaces/T/N``, ``roles/R``, ``default-role`` for the roles without an
attachment, ``subscriptions/persistent/T/N/TOPIC/S`` and ``clusters/C``.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.cli.failures import WrongUse
from coordinator.core.owners import (
    TrafficOwner,
    cluster_owner,
    role_owner,
    subscription_owner,
)
from coordinator.insight.model.definitions import AttachmentsView, Definition
from coordinator.wire.documents import validate_name

DEFAULT_ROLE = "default-role"

_HOW_TO_NAME = (
    "Give one of --tenant T, --namespace T/N, --role R, --default-role, --subscription "
    "persistent/T/N/TOPIC/S and --remote-cluster C."
)


def owner_named(
    tenant: str | None = None,
    namespace: str | None = None,
    *,
    role: str | None = None,
    default_role: bool = False,
    subscription: str | None = None,
    remote_cluster: str | None = None,
) -> str:
    """Return the owner that the options of a command name.

    Raises:
        WrongUse: they name none or several, or one that cannot be; the message names the option.
    """
    given = [
        each for each in (tenant, namespace, role, subscription, remote_cluster) if each is not None
    ]
    if len(given) + default_role != 1:
        raise WrongUse(_HOW_TO_NAME)
    if tenant is not None:
        if not tenant or "/" in tenant:
            raise WrongUse(f"--tenant {tenant}: write the name of a tenant, such as public.")
        return f"tenants/{name_at('--tenant', tenant)}"
    if namespace is not None:
        if len(parts := namespace.split("/")) != 2 or not all(parts):
            raise WrongUse(
                f"--namespace {namespace}: write tenant/namespace, such as public/default."
            )
        return f"namespaces/{'/'.join(name_at('--namespace', part) for part in parts)}"
    if subscription is not None:
        return subscription_named("--subscription", subscription)
    if remote_cluster is not None:
        return cluster_named("--remote-cluster", remote_cluster)
    return DEFAULT_ROLE if role is None else role_named("--role", role)


def name_at(place: str, name: object) -> str:
    """Return the name of a group, tenant or namespace.

    Raises:
        WrongUse: it cannot be one; the message begins with the place.
    """
    try:
        return validate_name(name if isinstance(name, str) else "")
    except ValueError as error:
        raise WrongUse(f"{place}: {error}") from error


def role_named(place: str, role: str) -> str:
    """Return a role as an owner.

    Raises:
        WrongUse: it cannot be attached; the message names the place and the fix.
    """
    if not role:
        raise WrongUse(
            f"{place}: a role must not be empty; roles without an attachment are the default."
        )
    return _subject(place, role_owner, role)


def subscription_named(place: str, subscription: str) -> str:
    """Return a subscription as an owner; raises as `role_named`."""
    return _subject(place, subscription_owner, subscription)


def cluster_named(place: str, cluster: str) -> str:
    """Return a remote cluster as an owner; raises as `role_named`."""
    return _subject(place, cluster_owner, cluster)


def _subject(place: str, make: Callable[[str], TrafficOwner], name: str) -> str:
    try:
        return make(name).subject
    except ValueError as error:
        raise WrongUse(f"{place}: {error}") from error


def attached(attachments: AttachmentsView) -> list[str]:
    """Return all owners of a group."""
    return [
        *(f"tenants/{tenant}" for tenant in attachments.tenants),
        *(f"namespaces/{namespace}" for namespace in attachments.namespaces),
        *(f"roles/{role}" for role in attachments.roles),
        *([DEFAULT_ROLE] if attachments.default_role else []),
        *(f"subscriptions/{name}" for name in attachments.subscriptions),
        *(f"clusters/{name}" for name in attachments.remote_clusters),
    ]


def has_roles(definition: Definition) -> bool:
    """Return whether roles are attached to a group."""
    found = definition.attachments
    return bool(found.roles or found.default_role)


def shown(attachments: AttachmentsView) -> list[str]:
    """Return all owners of a group for people."""
    return [
        *attachments.tenants,
        *attachments.namespaces,
        *(f"role {role}" for role in attachments.roles),
        *(["roles without an attachment"] if attachments.default_role else []),
        *(f"subscription {name}" for name in attachments.subscriptions),
        *(f"replication with {name}" for name in attachments.remote_clusters),
    ]


def path_of(owner: str) -> tuple[str, ...]:
    """Return the names in the path of an owner's group in the API, the first of them as it stands."""
    kind, _, name = owner.partition("/")
    match kind:
        case "roles":
            return ("/quota/v1/roles", name)
        case "default-role":
            return (f"/quota/v1/{DEFAULT_ROLE}",)
        case "subscriptions":
            return ("/quota/v1/subscriptions", *name.split("/", 4))
        case "clusters":
            return ("/quota/v1/clusters", name, "replication")
    return (f"/admin/v2/{kind}", *name.split("/"))
