"""The coordinator's needs of the world, as protocols; adapters implement them.

One module a port; all are imported from here. The needs of a single room are protocols there:
``outside.py`` in backlog, insight and native. Three rules hold for every port. A port
*answers or raises*: "refused" and "unreachable" are never one value (coordinator.ports.errors). Listeners
are called on the event loop's thread, in the order in which things happened, and must not block. Nothing
of a library (no kazoo or pulsar type) passes through a port.
"""

from __future__ import annotations

from coordinator.ports.audit import ANONYMOUS, AUDIT_LENGTH, AuditEntry, Origin
from coordinator.ports.broker import BrokerAdmin, BrokerRelay, RelayedAnswer, RelayedRequest
from coordinator.ports.bus import BusHealth, ReportBus
from coordinator.ports.clock import Clock
from coordinator.ports.errors import (
    AlreadyExists,
    BrokerUnreachable,
    GateGone,
    InUse,
    NotAllowed,
    NotFound,
    PortError,
    Protected,
    Refused,
    StoreUnreachable,
    Unreachable,
    Unreadable,
    VersionConflict,
)
from coordinator.ports.escrow import EscrowStore
from coordinator.ports.gate import (
    COLLECTED_EVERY_S,
    COLLECTED_QUIETLY_EVERY_S,
    COLLECTED_QUIETLY_OF_SESSION,
    TrafficGate,
)
from coordinator.ports.membership import Confirmation, Membership
from coordinator.ports.recorder import Recorder, RecorderHealth, RecordingView
from coordinator.ports.shares import share_of, surplus
from coordinator.ports.store import (
    ANYTHING,
    ATTACHMENTS_MAX,
    Anything,
    Catalogue,
    GroupStore,
    Versioned,
    check_allowed,
)
from coordinator.ports.tokens import TokenRefused, Verifier
from coordinator.ports.topics import TOPIC_LIMITS_MAX, TopicLimit, TopicLimits, TopicLimitStore

__all__ = [
    "ANONYMOUS",
    "ANYTHING",
    "ATTACHMENTS_MAX",
    "AUDIT_LENGTH",
    "COLLECTED_EVERY_S",
    "COLLECTED_QUIETLY_EVERY_S",
    "COLLECTED_QUIETLY_OF_SESSION",
    "TOPIC_LIMITS_MAX",
    "AlreadyExists",
    "Anything",
    "AuditEntry",
    "BrokerAdmin",
    "BrokerRelay",
    "BrokerUnreachable",
    "BusHealth",
    "Catalogue",
    "Clock",
    "Confirmation",
    "EscrowStore",
    "GateGone",
    "GroupStore",
    "InUse",
    "Membership",
    "NotAllowed",
    "NotFound",
    "Origin",
    "PortError",
    "Protected",
    "Recorder",
    "RecorderHealth",
    "RecordingView",
    "Refused",
    "RelayedAnswer",
    "RelayedRequest",
    "ReportBus",
    "StoreUnreachable",
    "TokenRefused",
    "TopicLimit",
    "TopicLimitStore",
    "TopicLimits",
    "TrafficGate",
    "Unreachable",
    "Unreadable",
    "Verifier",
    "VersionConflict",
    "Versioned",
    "check_allowed",
    "share_of",
    "surplus",
]
