"""The figures of a gate and of its connections, summed up at the moment of a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from coordinator.core.owners import can_be_attached
from coordinator.core.topics import TopicName
from coordinator.gate.engine.close_reason import CloseReason
from coordinator.gate.engine.counters import GateCounters
from coordinator.gate.engine.session import Session
from coordinator.gate.limits.admission import AdmissionQueue
from coordinator.gate.limits.counters import OTHERS
from coordinator.gate.limits.delayed import DelayedMessages
from coordinator.gate.limits.groups import GroupTable
from coordinator.gate.limits.throttle import ThrottleReason
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.model.gate_views import ConnectionFigures, GateFigures, GateLimits


def gate_figures(
    sessions: Sequence[Session],
    queue: AdmissionQueue,
    counters: GateCounters,
    *,
    malformed_closes: Mapping[str, int],
    closes: Mapping[CloseReason, int],
    upstream_failures: int,
    now_ns: int,
) -> GateFigures:
    """Sum up a gate: what its sessions hold at this moment, and what was counted since the start."""
    waiting_consumers = sum(session.waiting_consumers for session in sessions)
    held_since_ns = [s.held_since_ns for s in sessions if s.held_since_ns is not None]
    return GateFigures(
        connections=len(sessions),
        producers=sum(session.producers for session in sessions),
        consumers=sum(session.consumers for session in sessions),
        waiting_producers=queue.waiting - waiting_consumers,
        waiting_consumers=waiting_consumers,
        withheld_permits=sum(session.withheld_permits for session in sessions),
        held_frames=sum(session.held_frames for session in sessions),
        held_bytes=sum(session.held_bytes for session in sessions),
        longest_hold_ns=now_ns - min(held_since_ns, default=now_ns),
        throttles=_by_name(counters.throttles),
        refused_publishes=counters.refused_publishes,
        refused_subscribes=counters.refused_subscribes,
        pauses=counters.pauses,
        keep_alive_replies=counters.keep_alive_replies,
        dropped_frames=counters.dropped_frames,
        replicated_messages=counters.replicated_messages,
        replicated_bytes=counters.replicated_bytes,
        upstream_failures=upstream_failures,
        malformed_closes=dict(malformed_closes),
        refusals={reason.value: count for reason, count in counters.refusals.items()},
        unknown_commands=dict(counters.unknown_commands),
        closes={reason.value: count for reason, count in closes.items()},
    )


def connection_figures(peers: Iterable[tuple[str, Session]]) -> tuple[ConnectionFigures, ...]:
    """Return the figures of connections, each given as client and session; most held bytes first."""
    found = [
        ConnectionFigures(
            peer=peer,
            role=session.role if can_be_attached(session.role) else OTHERS,
            producers=session.producers,
            consumers=session.consumers,
            held_bytes=session.held_bytes,
            withheld_permits=session.withheld_permits,
            held_frames=session.held_frames,
            unanswered=session.unanswered,
            throttles=_by_name(session.throttle.counts),
            paused_for=tuple(reason.value for reason in session.throttle.pausing),
        )
        for peer, session in peers
    ]
    return tuple(sorted(found, key=lambda figures: -figures.held_bytes))


def delayed_view(
    counted: DelayedMessages | None, sessions: Iterable[Session]
) -> DelayedView | None:
    """Return the counts of delayed messages since the start; None while they are not counted."""
    return None if counted is None else counted.view(_hasty_subscriptions(sessions))


def _hasty_subscriptions(sessions: Iterable[Session]) -> Mapping[str, set[str]]:
    """Return the subscriptions of each topic that get delayed messages at once."""
    hasty: dict[str, set[str]] = {}
    for session in sessions:
        for topic, subscription in session.hasty_subscriptions:
            hasty.setdefault(topic, set()).add(subscription)
    return hasty


def gate_limits(groups: GroupTable) -> GateLimits:
    """Return the limits of a gate beside those of groups."""
    return GateLimits(
        broker=groups.scopes.broker,
        subscribe_rate_per_consumer=groups.subscribe_rate.rate,
        subscribe_rate_period_s=groups.subscribe_rate.period_s,
        topics=groups.scopes.topics,
    )


def published_topics(sessions: Iterable[Session]) -> frozenset[str]:
    """Return the full names of the topics that producers of these sessions are connected to."""
    parsed = (TopicName.parse(topic) for session in sessions for topic in session.published_topics)
    return frozenset(str(name) for name in parsed if name is not None)


def _by_name(counts: Mapping[ThrottleReason, int]) -> dict[str, int]:
    return {reason.value: count for reason, count in counts.items()}
