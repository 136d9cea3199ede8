"""The groups that a namespace counts against, and one native group for each such set.

Pulsar gives a namespace one resource group; here it may count against its own, its tenant's and the
cluster's. Namespaces that count against the same groups share a native group. A set of one has that
group's own name, so that Pulsar's tools show the usual name; a larger one is named after all of
them, or, where that is too long or could be read in two ways, by a digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from coordinator.core.model import Attachments
from coordinator.core.topics import TopicName
from coordinator.native.engine.owners import base_of, remote_home, topic_of

ALL_OF: Final = "all-of="
"""The prefix of native groups that stand for several groups."""

_NAME_MAX: Final = 200

GroupSet = tuple[str, ...]
"""The groups that a namespace counts against, narrowest first; each once."""


def name_of(groups: GroupSet) -> str:
    """Return the native group that stands for a set, and for no other one.

    A name of a group may have the sign in it that joins names, and so may look like that of a set.
    """
    if len(groups) == 1 and not groups[0].startswith(ALL_OF):
        return groups[0]
    name = ALL_OF + "=".join(groups)
    if len(name) <= _NAME_MAX and not any("=" in group for group in groups):
        return name
    return ALL_OF + sha256("/".join(groups).encode()).hexdigest()


def sets_of_subscriptions(attachments: Attachments, cluster_group: str) -> Mapping[str, GroupSet]:
    """Return the set of each attached subscription.

    One that is attached to a group which its namespace counts against, too, counts once: it is left out,
    and so is one whose topic can have no rates.
    """
    found: dict[str, GroupSet] = {}
    for owner, group in sorted(attachments.subscriptions.items()):
        name = TopicName.parse(topic_of(owner))
        if name is None or not base_of(str(name)):
            continue
        of_namespace = attachments.groups_of(name.tenant, name.namespace)
        if group != cluster_group and group not in of_namespace:
            found[owner] = (group,)
    return found


def sets_of_remotes(attachments: Attachments) -> Mapping[str, GroupSet]:
    """Return the set of each attached remote cluster, by its home.

    What is replicated counts against no other group, as no namespace counts it.
    """
    return {
        remote_home(cluster): (group,) for cluster, group in sorted(attachments.clusters.items())
    }


def sets_of(
    attachments: Attachments, namespaces: Iterable[str], cluster_group: str
) -> Mapping[str, GroupSet]:
    """Return the set of each namespace; those that count against no group are left out.

    Args:
        attachments: attachments of tenants and namespaces.
        namespaces: existing ones, as ``tenant/namespace``; those attached by name count in any case.
        cluster_group: the group that all traffic counts against; empty is none.
    """
    found: dict[str, GroupSet] = {}
    for namespace in sorted({*namespaces, *attachments.namespaces}):
        if not is_settable(namespace):
            continue
        tenant, _, local = namespace.partition("/")
        groups = attachments.groups_of(tenant, local)
        if cluster_group and cluster_group not in groups:
            groups = (*groups, cluster_group)
        if groups:
            found[namespace] = groups
    return found


def is_settable(namespace: str) -> bool:
    """Return whether rates can be set for a namespace."""
    if namespace == "pulsar/system":
        return False  # it carries the entries themselves
    return namespace.count("/") == 1  # old releases had a cluster in the name


class Homes:
    """All that is attached to groups (owners.py), with the groups that each counts against.

    Args:
        cluster_group: the group that everything counts against; empty is none.

    Attributes:
        namespaces: the set of each namespace.
        subscriptions: the set of each attached subscription.
        remotes: the remote clusters that are attached.
        all: the sets of all homes.
    """

    def __init__(self, cluster_group: str) -> None:
        self._cluster_group = cluster_group
        self._attachments = Attachments()
        self._is_known = False
        self._existing: frozenset[str] = frozenset()
        self.namespaces: Mapping[str, GroupSet] = {}
        self.subscriptions: Mapping[str, GroupSet] = {}
        self.remotes: frozenset[str] = frozenset()
        self.all: Mapping[str, GroupSet] = {}

    @property
    def tenants(self) -> frozenset[str]:
        """The attached tenants."""
        return frozenset(self._attachments.tenants)

    @property
    def attached(self) -> frozenset[str]:
        """The groups that tenants, namespaces or everything are attached to."""
        attached = self._attachments
        return frozenset(
            {*attached.tenants.values(), *attached.namespaces.values(), self._cluster_group}
        )

    def set_attachments(self, attachments: Attachments) -> None:
        """Take the attachments."""
        self._attachments, self._is_known = attachments, True
        self._resolve()

    def set_existing(self, namespaces: Iterable[str]) -> None:
        """Take the namespaces that there are: of attached tenants, or all if all traffic counts."""
        self._existing = frozenset(namespaces)
        self._resolve()

    def detached(self, existing: Iterable[str]) -> frozenset[str] | None:
        """Return which of all namespaces count against no group; None before the attachments are known.

        Those for which nothing can be set are left out, as in `sets_of`.
        """
        if not self._is_known:
            return None
        settable = frozenset(filter(is_settable, existing))
        return settable - sets_of(self._attachments, settable, self._cluster_group).keys()

    def _resolve(self) -> None:
        self.namespaces = sets_of(self._attachments, self._existing, self._cluster_group)
        self.subscriptions = sets_of_subscriptions(self._attachments, self._cluster_group)
        remotes = sets_of_remotes(self._attachments)
        self.remotes = frozenset(self._attachments.clusters)
        self.all = {**self.namespaces, **self.subscriptions, **remotes}
