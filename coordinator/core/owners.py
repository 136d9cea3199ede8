"""Owners of traffic, as attachments know them.

A *subscription* is that of one topic with all its partitions, and a *cluster* is a remote one, with what
it replicates into this one and is sent from here. A *role* is the identity that a client has proved: the
same topic has many. An attachment names a role, a pattern of roles, or the *default*:

* ``alice`` is the role alice alone;
* ``team-*`` is every role whose name begins with ``team-``; of several patterns the longest counts;
* the default, written as the empty name, is every role that no other attachment names.

A pattern that would match everything is refused: that is the default's part. Names are printable, so
that a log, a page and a metric show them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from coordinator.core.model import Attachments
from coordinator.core.topics import NODE_NAME, TopicName

ANONYMOUS: Final = "anonymous"
"""The role of a client that has proved none."""

DEFAULT_ROLE: Final = ""
"""Stands for every role that no attachment names."""

ANY_END: Final = "*"
"""At the end of a pattern: any further letters, or none."""

NAME_SIZE_MAX: Final = 255
"""The most bytes (UTF-8) of an owner's name; each other than A-Z a-z 0-9 _ . : - counts three times."""

ALLOWED_TENANTS_MAX: Final = 1_000
"""The most tenants whose admins may attach to one group."""

_ONCE: Final = re.compile(rb"[A-Za-z0-9_.:-]")


def validate_tenants(names: object) -> tuple[str, ...]:
    """Return a list of different tenants, sorted.

    Raises:
        ValueError: it is none, and the text says why.
    """
    if not isinstance(names, list | tuple):
        raise ValueError(f"must be a list of tenants' names, but is {names!r:.40}")  # noqa: TRY004
    if len(names) > ALLOWED_TENANTS_MAX:
        raise ValueError(f"names {len(names):,} tenants; at most {ALLOWED_TENANTS_MAX:,} may stand")
    known: set[str] = set()
    for name in names:
        if not isinstance(name, str) or not NODE_NAME.fullmatch(name) or not name.strip("."):
            raise ValueError(f"{name!r:.40} names no tenant: use letters, digits and -=:._")
        if name in known:
            raise ValueError(f"{name} stands twice; name it once")
        known.add(name)
    return tuple(sorted(known))


class OwnerKind(Enum):
    """A kind of owners, by its name in subjects of the audit trail."""

    TENANT = "tenants"
    NAMESPACE = "namespaces"
    ROLE = "roles"
    SUBSCRIPTION = "subscriptions"
    CLUSTER = "clusters"


def in_words(kind: OwnerKind, name: str) -> str:
    """Return an owner in words."""
    match kind:
        case OwnerKind.TENANT | OwnerKind.NAMESPACE:
            return name
        case OwnerKind.SUBSCRIPTION:
            return f"subscription {name}"
        case OwnerKind.CLUSTER:
            return f"replication with {name}"
    return f"role {name}" if name else "roles without an attachment"


def attached(attachments: Attachments, kind: OwnerKind) -> Mapping[str, str]:
    """Return the group of each attached owner of a kind."""
    match kind:
        case OwnerKind.TENANT:
            return attachments.tenants
        case OwnerKind.NAMESPACE:
            return attachments.namespaces
        case OwnerKind.SUBSCRIPTION:
            return attachments.subscriptions
        case OwnerKind.CLUSTER:
            return attachments.clusters
    return attachments.roles


def attachments_of(owners: Mapping[OwnerKind, Mapping[str, str]]) -> Attachments:
    """Return copies of the groups of all owners, by kind and name, as one value."""
    return Attachments(
        dict(owners[OwnerKind.TENANT]),
        dict(owners[OwnerKind.NAMESPACE]),
        roles=dict(owners[OwnerKind.ROLE]),
        subscriptions=dict(owners[OwnerKind.SUBSCRIPTION]),
        clusters=dict(owners[OwnerKind.CLUSTER]),
    )


def uses_of(attachments: Attachments, group: str) -> tuple[str, ...]:
    """Return what is attached to a group, in words, sorted; it prevents the group's deletion."""
    return tuple(
        sorted(
            in_words(kind, name)
            for kind in OwnerKind
            for name, its in attached(attachments, kind).items()
            if its == group
        )
    )


def number_attached(attachments: Attachments, tenant: str = "") -> int:
    """Count the attached owners: a tenant, its namespaces and subscriptions; without a tenant, all."""
    if not tenant:
        return sum(len(attached(attachments, kind)) for kind in OwnerKind)
    namespaces = sum(name.startswith(f"{tenant}/") for name in attachments.namespaces)
    subscriptions = sum(name.split("/", 2)[1] == tenant for name in attachments.subscriptions)
    return (tenant in attachments.tenants) + namespaces + subscriptions


class TrafficOwner(NamedTuple):
    """An owner of traffic that a group can be attached to.

    Args:
        kind: its kind.
        name: its name; of namespaces ``tenant/namespace``; of roles also a pattern, or
            `DEFAULT_ROLE`; of subscriptions ``persistent/tenant/namespace/topic/name``.
    """

    kind: OwnerKind
    name: str

    def __str__(self) -> str:
        return in_words(self.kind, self.name)

    @property
    def subject(self) -> str:
        """The audit trail's name of it."""
        return f"{self.kind.value}/{self.name}"


def tenant_owner(tenant: str) -> TrafficOwner:
    """Return a tenant; the store refuses a name that is none."""
    return TrafficOwner(OwnerKind.TENANT, tenant)


def namespace_owner(tenant: str, namespace: str) -> TrafficOwner:
    """Return a namespace; the store refuses names that are none."""
    return TrafficOwner(OwnerKind.NAMESPACE, f"{tenant}/{namespace}")


def role_owner(name: str) -> TrafficOwner:
    """Return a role, a pattern of roles, or the default for the empty name.

    Raises:
        ValueError: no role can have this name, or the pattern is none; the text gives the fix.
    """
    if name != DEFAULT_ROLE:
        _check_role(name)
    return TrafficOwner(OwnerKind.ROLE, name)


def _check_role(name: str) -> None:
    begins, star, rest = name.partition(ANY_END)
    if star and not begins and not rest.strip(ANY_END):
        raise ValueError(
            f"role {name[:80]!r}: matches every role; attach the default for roles without an attachment"
        )
    if rest or (star and not begins):
        raise ValueError(
            f"role {name[:80]!r}: a pattern has one {ANY_END}, at its end, as in team-{ANY_END}"
        )
    _check_shown("role", name)


def _check_shown(what: str, name: str) -> None:
    """Refuse a name that no page could show, or that is too long for an attachment."""
    if not name.isprintable():
        raise ValueError(f"{what} {name[:80]!r}: use printable letters")
    if not fits(name):
        raise ValueError(
            f"{what} {name[:80]!r}...: use at most {NAME_SIZE_MAX} bytes; each other than A-Z a-z 0-9 "
            "_ . : - counts three times"
        )


def subscription_owner(name: str) -> TrafficOwner:
    """Return a subscription, given as ``persistent/tenant/namespace/topic/name`` or with ``://``.

    Raises:
        ValueError: no subscription can have this name; the text gives the fix.
    """
    domain, _, rest = name.replace("://", "/", 1).partition("/")
    *place, subscription = rest.split("/", 3) if rest.count("/") >= 3 else ["", ""]
    topic = TopicName.parse(f"{domain}://{'/'.join(place)}") if len(place) == 3 else None
    if topic is None or not subscription:
        raise ValueError(
            f"subscription {name[:80]!r}: write persistent/tenant/namespace/topic/subscription"
        )
    if topic.whole != topic:
        raise ValueError(
            f"subscription {name[:80]!r}: name the topic {topic.whole}, whose partitions count together"
        )
    owner = TrafficOwner(OwnerKind.SUBSCRIPTION, subscription_key(topic, subscription))
    _check_shown("subscription", owner.name)
    return owner


def subscription_key(topic: TopicName, subscription: str) -> str:
    """Return the name under which a subscription of a topic is attached, with all partitions."""
    whole = topic.whole
    return "/".join((whole.domain, whole.tenant, whole.namespace, whole.local_name, subscription))


def cluster_owner(name: str) -> TrafficOwner:
    """Return a remote cluster, whose replication a group can limit.

    Raises:
        ValueError: no cluster can have this name.
    """
    if NODE_NAME.fullmatch(name) is None:
        raise ValueError(f"cluster {name[:80]!r}: use 1 to 255 of A-Z a-z 0-9 _ . : = -")
    _check_shown("cluster", name)
    return TrafficOwner(OwnerKind.CLUSTER, name)


OWNER_MAKERS: Final[Mapping[OwnerKind, Callable[[str], TrafficOwner]]] = {
    OwnerKind.ROLE: role_owner,
    OwnerKind.SUBSCRIPTION: subscription_owner,
    OwnerKind.CLUSTER: cluster_owner,
}
"""Of each kind that Pulsar does not know, what makes an owner of a name, or raises ValueError."""


def fits(name: str) -> bool:
    """Return whether the name of an owner is short enough for an attachment."""
    if len(name) > NAME_SIZE_MAX:
        return False
    size = len(name.encode())
    return size + 2 * (size - len(_ONCE.findall(name.encode()))) <= NAME_SIZE_MAX


def can_be_attached(role: str) -> bool:
    """Return whether an attachment can name this very role; the names of others are shown nowhere."""
    return bool(role) and ANY_END not in role and role.isprintable() and fits(role)


def group_of_role(roles: Mapping[str, str], role: str) -> str | None:
    """Return the group of a role: by its name, by the longest pattern, or the default's.

    Args:
        roles: the group of each role, pattern and default that is attached.
        role: a role as a client has proved it; its letters may be any.
    """
    if not roles:
        return None
    if ANY_END not in role and (found := roles.get(role)):
        return found
    for length in range(min(len(role), NAME_SIZE_MAX), 0, -1):
        if found := roles.get(role[:length] + ANY_END):
            return found
    return roles.get(DEFAULT_ROLE)
