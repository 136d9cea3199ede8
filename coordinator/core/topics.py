"""Topic names: the tenant and the namespace of a topic.

Follows Pulsar's TopicName, as two decoders must not disagree:
``persistent://tenant/namespace/topic`` and its non-persistent sibling, the domain in letters of either
case; the short forms ``topic`` (of public/default, which 4.0 reads from ``/topic/``, too) and
``tenant/namespace/topic``; the form of releases up to 4.0 with a cluster,
``persistent://tenant/cluster/namespace/topic``, whose namespace is ``cluster/namespace``; and Pulsar 5's
``topic://tenant/namespace/topic`` with its segments, ``segment://tenant/namespace/topic/descriptor``.
All spellings of a name give the same `TopicName`.

Brokers accept no name of any other form. System topics (``__change_events``, all of pulsar/system) are
limited like others: brokers write them over their internal listener, so a connection through the gate
with such a name comes from a client.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

NON_PERSISTENT: Final = "non-persistent"
SEGMENT: Final = "segment"

DOMAINS: Final = ("persistent", NON_PERSISTENT)
"""The domains of topics that clients publish to and consume."""

_DOMAINS_OF_PULSAR_5: Final = ("topic", SEGMENT)

_NAMED_ENTITY: Final = re.compile(r"[-=:.\w]+", re.ASCII)
"""The letters of tenants, clusters and namespaces: NamedEntity of pulsar-common."""

_PARTITION_MAX: Final = 0x7FFFFFFF

RESOURCE_USAGE_TOPIC: Final = "non-persistent://pulsar/system/resource-usage"
"""The topic where Pulsar's own resource groups exchange their usage."""


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic's name, parsed.

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
        """Parse a name; return None if Pulsar does not accept its form."""
        domain, separator, path = name.partition("://")
        if not separator:
            domain, path = DOMAINS[0], _expand(name)
        domain = domain.lower()
        if domain in DOMAINS:
            parts = path.split("/", 3)
        elif domain in _DOMAINS_OF_PULSAR_5:
            parts = path.split("/", 2)
        else:
            return None
        if len(parts) < 3 or not parts[-1].strip() or parts[-1].endswith("/"):
            return None
        if not all(map(_NAMED_ENTITY.fullmatch, parts[:-1])):
            return None
        if domain in _DOMAINS_OF_PULSAR_5 and parts[-1].count("/") != (domain == SEGMENT):
            return None
        return cls(domain, parts[0], "/".join(parts[1:-1]), parts[-1])

    def __str__(self) -> str:
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local_name}"

    def split_partition(self) -> tuple[TopicName, int]:
        """Return the partitioned topic and the index of this partition; itself and 0 if it is none."""
        base, separator, index = self.local_name.rpartition("-partition-")
        if not separator or not base or not index.isdecimal():
            return self, 0
        has_leading_zero = len(index) > 1 and int(index[0]) == 0
        is_no_java_digit = max(index) > "\uffff"
        if has_leading_zero or is_no_java_digit or len(index) > 10 or int(index) > _PARTITION_MAX:
            return self, 0
        return replace(self, local_name=base), int(index)


def _expand(name: str) -> str:
    """Return the path of a short name; empty if it has no short form."""
    if name.count("/") == 2 and not name.startswith("/") and not name.endswith("/"):
        return name
    local_name = name.strip("/")
    return "" if "/" in local_name else f"public/default/{local_name}"
