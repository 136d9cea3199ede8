"""Topic names: the tenant and the namespace of a topic.

Follows Pulsar's TopicName, as two decoders must not disagree:
``persistent://tenant/namespace/topic`` and its non-persistent sibling, the domain in letters of either
case; the short forms ``topic`` (of public/default, which 4.0 reads from ``/topic/``, too) and
``tenant/namespace/topic``; the form of releases up to 4.0 with a cluster,
``persistent://tenant/cluster/namespace/topic``, whose namespace is ``cluster/namespace``; and Pulsar 5's
``topic://tenant/namespace/topic`` with its segments, ``segment://tenant/namespace/topic/descriptor``.
All spellings of a name give the same `TopicName`.

The descriptor of a segment is ``first-last-id``: the first and the last hash of its keys, in hexadecimal,
and its number within the topic. Brokers accept other spellings of the three numbers and write them anew
(``0-7fff-00`` is ``0000-7fff-0``), and so does this module. A name with a sign or with letters of other
scripts in a hash is none: no client writes it.

Brokers accept no name of any other form. System topics (``__change_events``, all of pulsar/system) are
limited like others: brokers write them over their internal listener, so a connection through the gate
with such a name comes from a client.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

NON_PERSISTENT: Final = "non-persistent"
SCALABLE: Final = "topic"
SEGMENT: Final = "segment"

RESOURCE_USAGE_TOPIC: Final = "non-persistent://pulsar/system/resource-usage"
"""Pulsar's own, on which brokers tell each other what their resource groups use."""

DOMAINS: Final = ("persistent", NON_PERSISTENT)
"""The domains of topics that clients of all releases publish to and consume."""

_DOMAINS_OF_PULSAR_5: Final = (SCALABLE, SEGMENT)

_DESCRIPTOR: Final = re.compile(r"([0-9a-fA-F]{1,8})-([0-9a-fA-F]{1,8})-(\d{1,19})")

_HASHES: Final = 1 << 16
"""The hashes of keys that the active segments of a topic share among them."""

_SEGMENT_ID_MAX: Final = (1 << 63) - 1

NAME_LETTER: Final = r"[-=:.\w]"
"""A letter of a tenant, cluster or namespace, as a pattern of ASCII: NamedEntity of pulsar-common."""

NAMED_ENTITY: Final = re.compile(rf"{NAME_LETTER}+", re.ASCII)
"""The name of a tenant, cluster or namespace."""

NODE_NAME: Final = re.compile(rf"{NAME_LETTER}{{1,255}}", re.ASCII)
"""The name of a group, or of what can be attached to one: the store has a node for each."""

_PARTITION_MAX: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic's name, parsed.

    Args:
        domain: persistent or non-persistent.
        tenant: first part.
        namespace: without its tenant.
        local_name: last part, with the partition's suffix or the segment's descriptor.
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
        if not all(map(NAMED_ENTITY.fullmatch, parts[:-1])):
            return None
        if domain in _DOMAINS_OF_PULSAR_5 and parts[-1].count("/") != (domain == SEGMENT):
            return None
        local_name = _canonical_segment(parts[-1]) if domain == SEGMENT else parts[-1]
        return cls(domain, parts[0], "/".join(parts[1:-1]), local_name) if local_name else None

    def __str__(self) -> str:
        return f"{self.domain}://{self.tenant}/{self.namespace}/{self.local_name}"

    @property
    def whole(self) -> TopicName:
        """Return the topic of which this is a partition or a segment; itself if it is neither."""
        if self.domain == SEGMENT:
            return replace(self, domain=SCALABLE, local_name=self.local_name.partition("/")[0])
        return self.split_partition()[0]

    def split_partition(self) -> tuple[TopicName, int]:
        """Return the partitioned topic and the index of this partition; itself and 0 if it is none.

        Neither a scalable topic nor a segment is a partition, whatever its name ends in.
        """
        if self.domain in _DOMAINS_OF_PULSAR_5:
            return self, 0
        base, separator, index = self.local_name.rpartition("-partition-")
        if not separator or not base or not index.isdecimal():
            return self, 0
        has_leading_zero = len(index) > 1 and int(index[0]) == 0
        is_no_java_digit = max(index) > "\uffff"
        if has_leading_zero or is_no_java_digit or len(index) > 10 or int(index) > _PARTITION_MAX:
            return self, 0
        return replace(self, local_name=base), int(index)


def namespace_in(topic: str) -> str:
    """Return the namespace in a topic's full name, as brokers write it: ``tenant/namespace``."""
    return topic.partition("://")[2].rpartition("/")[0]


def tenant_of(topic: str) -> str:
    """Return the tenant of a topic's full name."""
    return topic.partition("://")[2].partition("/")[0]


def names_scalable(name: str) -> bool:
    """Return whether this is the full name of a scalable topic; no group's name has a slash."""
    return name.startswith(f"{SCALABLE}://")


def _expand(name: str) -> str:
    """Return the path of a short name; empty if it has no short form."""
    if name.count("/") == 2 and not name.startswith("/") and not name.endswith("/"):
        return name
    local_name = name.strip("/")
    return "" if "/" in local_name else f"public/default/{local_name}"


def _canonical_segment(local_name: str) -> str:
    """Return a segment's local name as brokers write it; empty if they accept none such."""
    topic, _, descriptor = local_name.partition("/")
    found = _DESCRIPTOR.fullmatch(descriptor)
    if not topic or found is None or max(descriptor) > "\uffff":
        return ""
    first, last, segment_id = int(found[1], 16), int(found[2], 16), int(found[3])
    if not first <= last < _HASHES or segment_id > _SEGMENT_ID_MAX:
        return ""
    return f"{topic}/{first:04x}-{last:04x}-{segment_id}"
