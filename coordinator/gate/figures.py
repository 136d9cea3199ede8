"""What a gate says of itself: one value for the whole, and one per connection for whoever asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GateFigures:
    """The gate at one moment, and what happened since its start.

    Args:
        connections: clients connected now.
        producers: producers connected now.
        consumers: consumers connected now.
        waiting_producers: producers that wait for tokens now.
        waiting_consumers: consumers whose permits wait for tokens now.
        withheld_permits: permits of consumers that the broker does not have yet.
        held_frames: frames held now.
        held_bytes: bytes held now.
        throttles: how often each reason began to hold something back, by its name.
        refused_subscribes: SUBSCRIBEs refused because their consumer came too often.
        pauses: how often a connection was not read, whatever the reason.
        keep_alive_replies: PONGs that the gate sent on behalf of a paused peer.
        dropped_frames: held frames dropped because their producer was closed; clients resend them.
        replicated_messages: messages of geo-replication, which is exempt.
        replicated_bytes: bytes of geo-replication.
        upstream_failures: how often the broker could not be reached.
        malformed_closes: connections closed for a malformed frame, by reason.
    """

    connections: int
    producers: int
    consumers: int
    waiting_producers: int
    waiting_consumers: int
    withheld_permits: int
    held_frames: int
    held_bytes: int
    throttles: Mapping[str, int]
    refused_subscribes: int
    pauses: int
    keep_alive_replies: int
    dropped_frames: int
    replicated_messages: int
    replicated_bytes: int
    upstream_failures: int
    malformed_closes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ConnectionFigures:
    """One connection at one moment.

    Args:
        peer: the client's host:port.
        producers: producers connected now.
        consumers: consumers connected now.
        held_bytes: bytes held now.
        withheld_permits: permits of its consumers that the broker does not have yet.
        throttles: how often each reason began to hold something back, by its name.
        paused_for: the reasons for which it is not read now.
    """

    peer: str
    producers: int
    consumers: int
    held_bytes: int
    withheld_permits: int
    throttles: Mapping[str, int]
    paused_for: tuple[str, ...]
