"""What happened on all connections of a gate since its start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counts that only grow; every connection adds to the same one.

    Args:
        pauses: how often a connection was not read because it could hold no more.
        keep_alive_replies: PONGs that the gate sent on behalf of a paused peer.
        dropped_frames: held frames dropped because their producer was closed; clients resend them.
        replicated_messages: messages of geo-replication, which is exempt.
        replicated_bytes: bytes of geo-replication.
    """

    pauses: int = 0
    keep_alive_replies: int = 0
    dropped_frames: int = 0
    replicated_messages: int = 0
    replicated_bytes: int = 0
