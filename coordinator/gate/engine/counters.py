"""Counters of events on all connections of a gate since its start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.gate.protocol.refusals import RefusalReason


@dataclass(slots=True)
class GateCounters:
    """Counts that only grow; every connection adds to the same one.

    Args:
        throttles: how often each reason began to hold something back.
        refused_publishes: SENDs answered with an error because a backlog quota is exceeded.
        refused_subscribes: SUBSCRIBEs refused because their consumer came too often.
        refusals: refusals on connections that went on, by reason.
        unknown_commands: commands of a later Pulsar that passed, by the number of their type.
        pauses: how often a connection was not read because it could hold no more.
        keep_alive_replies: PONGs that the gate sent on behalf of a paused peer.
        dropped_frames: held frames that were dropped because their producer was closed or has begun anew.
        replicated_messages: messages of geo-replication, which is exempt.
        replicated_bytes: bytes of geo-replication.
    """

    throttles: Counter[ThrottleReason] = field(default_factory=Counter)
    refused_publishes: int = 0
    refused_subscribes: int = 0
    refusals: Counter[RefusalReason] = field(default_factory=Counter)
    unknown_commands: Counter[int] = field(default_factory=Counter)
    pauses: int = 0
    keep_alive_replies: int = 0
    dropped_frames: int = 0
    replicated_messages: int = 0
    replicated_bytes: int = 0
