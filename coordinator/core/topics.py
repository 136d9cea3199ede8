"""Topic names: which tenant and namespace a topic belongs to.

Follows Pulsar's TopicName: ``persistent://tenant/namespace/topic`` and its non-persistent sibling,
the short forms ``topic`` (of public/default) and ``tenant/namespace/topic``, and the old form with a
cluster, ``persistent://tenant/cluster/namespace/topic``, whose namespace is ``cluster/namespace``.

A name of any other form is no error of the gate's: it counts against no group and is passed on, and
the broker says what it thinks of it. The same holds for Pulsar's own namespace, pulsar/system: it
carries the usage reports, and a quota must not be able to silence the coordinator that enforces it.
System topics inside a tenant's namespace (``__change_events``) do count: brokers write them over their
internal listener, so whoever comes through the gate with such a name is a client like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

DOMAINS: Final = ("persistent", "non-persistent")

_INDEX_DIGITS: Final = 9
"""More than any topic has partitions; a longer number is cut."""

_SYSTEM_NAMESPACE = ("pulsar", "system")


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic's name, taken apart.

    Args:
        domain: persistent or non-persistent.
        tenant: first part.
        namespace: without its tenant.
        local_name: last part, with the partition's suffix.
    """

    domain: str
    tenant: str
    namespace: str
    local_name: str

    @classmethod
    def parse(cls, name: str) -> TopicName | None:
        """Take a name apart; None when it has no form that Pulsar knows."""
        domain, separator, path = name.partition("://")
        if not separator:
            domain, path = DOMAINS[0], name
            if "/" not in path:
                path = f"public/default/{path}"
            elif path.count("/") != 2:
                return None
        parts = path.split("/", 3)
        if domain not in DOMAINS or len(parts) < 3 or not all(parts):
            return None
        return cls(domain, parts[0], "/".join(parts[1:-1]), parts[-1])

    def __str__(self) -> str:
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local_name}"

    def split_partition(self) -> tuple[TopicName, int]:
        """The partitioned topic that this one is a part of, and its index; itself and 0 if it is none."""
        base, separator, index = self.local_name.rpartition("-partition-")
        if not separator or not base or not index.isdecimal():
            return self, 0
        return replace(self, local_name=base), int(index[:_INDEX_DIGITS])

    @property
    def is_system(self) -> bool:
        """Whether the topic belongs to Pulsar's own namespace."""
        return (self.tenant, self.namespace) == _SYSTEM_NAMESPACE
