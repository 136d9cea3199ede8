"""The metrics of the gate: its traffic, its held messages and hold times, and its own limits.

Hold times have a histogram per group or topic and class, but only once something was held; the first
`MAX_SCOPES` groups and topics have one, about 20 series each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric

from admin_api.metrics.families import FamilyTable, Texts, counter, figures, gauge, labelled_counter
from coordinator.core.model import NANOS_PER_SECOND, Dimension
from coordinator.insight.model.delayed import DelayedView
from coordinator.insight.model.gate_views import (
    HOLD_BUCKETS_NS,
    SLOW_AFTER_S,
    GateFigures,
    GateLimits,
    GateSlowness,
    HoldView,
    UnknownTopicsView,
)

MAX_SCOPES = 1_000
"""Groups and topics with series of their own."""

_BOUNDS = (*(str(bound / NANOS_PER_SECOND) for bound in HOLD_BUCKETS_NS), "+Inf")
_SCOPE = ["scope", "name", "monitoring_class"]

_GAUGES: Final[Texts] = {
    "connections": "Clients connected.",
    "producers": "Producers connected.",
    "consumers": "Consumers connected.",
    "waiting_producers": "Producers that wait for tokens.",
    "waiting_consumers": "Consumers that wait for tokens.",
    "withheld_permits": "Permits of consumers held back.",
    "held_frames": "Frames held until tokens are there.",
    "held_bytes": "Bytes held until tokens are there.",
}
_COUNTERS: Final[Texts] = {
    "pauses": "Times that a connection was not read because it could hold no more.",
    "keep_alive_replies": "PONGs sent on behalf of a paused peer.",
    "dropped_frames": (
        "Held frames dropped because their producer or consumer was closed or has begun anew."
    ),
    "replicated_messages": (
        "Messages of geo-replication from the peers that the configuration names, which are exempt."
    ),
    "replicated_bytes": "Bytes of geo-replication.",
    "upstream_failures": "Failed attempts to reach the broker.",
    "refused_publishes": "Publishes answered with an error because a backlog quota is exceeded.",
    "refused_subscribes": "SUBSCRIBEs refused because their consumer came too often.",
}
_BY_REASON: Final[Texts] = {
    "malformed_closes": "Connections closed for a frame that is malformed or may not come.",
    "refusals": (
        "Requests, publishes and addresses in a broker's answers refused on connections that went on."
    ),
    "closes": "Connections that the gate closed or refused.",
    "throttles": "Times that each reason began to hold something back.",
}
_THROTTLES: Final[Texts] = {
    "throttled_{unit}_times": "Times that a limit began to hold for want of tokens of {unit}.",
}
_DEBTS: Final[Texts] = {
    "debt_seconds": "Time of a limit that is taken in advance; explain and the log say by whom.",
}
_LIMITS: Final[Texts] = {
    "gate_limit_{unit}_per_second": (
        "A limit of this broker, or of a topic's partitions together, beside the limits of groups; "
        "no series = not limited."
    ),
}


def slowness_families(slowness: GateSlowness) -> Iterator[Metric]:
    """Yield how often and for how long the gate's answers were late; the others are left out then."""
    yield counter(
        "gate_slow_spells",
        f"Times that the gate began to owe the coordinator an answer for more than {SLOW_AFTER_S:g} s.",
        slowness.spells,
    )
    yield gauge(
        "gate_slow",
        "Time for which the gate has owed the coordinator an answer, while other metrics of the gate "
        "have no series; 0 = it answers in time.",
        slowness.lasts_ns / NANOS_PER_SECOND,
        "seconds",
    )


def gate_families(
    of: GateFigures,
    holds: Iterable[HoldView],
    limits: GateLimits,
    delayed: DelayedView | None,
    unknown: UnknownTopicsView,
) -> Iterator[Metric]:
    """Yield all families of the gate; those of delayed messages only if these are counted apart."""
    yield from _figures(of)
    yield gauge(
        "gate_unknown_topics_participants",
        "Producers and consumers connected to topics whose names the gate does not know.",
        unknown.participants,
    )
    yield counter(
        "gate_unknown_topics_messages",
        "Messages of topics whose names the gate does not know.",
        unknown.messages,
    )
    if delayed is not None:
        yield from _delayed(delayed)
    yield from _holds(holds)
    yield from _limits(limits)


def _figures(of: GateFigures) -> Iterator[Metric]:
    yield from figures("gate_", of, _GAUGES, _COUNTERS)
    yield gauge(
        "gate_longest_hold",
        "Time for which the oldest publish has been held; clients give up after their send timeout.",
        of.longest_hold_ns / NANOS_PER_SECOND,
        "seconds",
    )
    for name, text in _BY_REASON.items():
        yield labelled_counter(f"gate_{name}", text, "reason", getattr(of, name))
    yield labelled_counter(
        "gate_unknown_commands",
        "Commands of a later Pulsar that passed, by the number of their type; 0 is all further types.",
        "type",
        {str(kind): count for kind, count in of.unknown_commands.items()},
    )


def _delayed(delayed: DelayedView) -> Iterator[Metric]:
    yield counter(
        "gate_delayed_messages",
        "Messages with deliver_at_time set to any value, admitted or held.",
        delayed.messages,
    )
    yield labelled_counter(
        "gate_delayed_without_effect",
        "Messages with deliver_at_time set to no effect.",
        "reason",
        {"due": delayed.due, "topic not persistent": delayed.not_persistent},
    )
    yield gauge(
        "gate_delayed_hasty_subscriptions",
        "Exclusive and Failover subscriptions of topics with delayed messages, which do not wait.",
        sum(len(topic.hasty_subscriptions) for topic in delayed.topics),
    )


def _holds(holds: Iterable[HoldView]) -> Iterator[Metric]:
    times = HistogramMetricFamily(
        "pulsar_quota_hold_seconds",
        "Time for which a limit held publishes, or permits of consumers; no series before the first.",
        labels=_SCOPE,
        unit="seconds",
    )
    others = FamilyTable(_SCOPE, _DEBTS, _THROTTLES, with_units=_DEBTS)
    for held in islice(holds, 2 * MAX_SCOPES):  # two classes
        labels = [held.scope, held.name, held.monitoring_class.value]
        buckets = list(zip(_BOUNDS, accumulate(held.counts), strict=True))
        times.add_metric(labels, buckets=buckets, sum_value=held.held_ns / NANOS_PER_SECOND)
        others.add(labels, {"debt_seconds": held.owed_ns / NANOS_PER_SECOND})
        for unit, count in held.throttles.items():
            others.add(labels, {"throttled_{unit}_times": count}, unit)
    yield times
    yield from others


def _limits(limits: GateLimits) -> Iterator[Metric]:
    families = FamilyTable(_SCOPE, _LIMITS, {})
    topics = sorted(limits.topics, key=lambda view: view.topic)
    scopes = [("broker limit", "broker", limits.broker)]
    scopes += [("topic limit", view.topic, view.rates) for view in topics[:MAX_SCOPES]]
    for scope, name, rates in scopes:
        for dimension in Dimension:
            values = {"gate_limit_{unit}_per_second": rates.of(dimension)}
            labels = [scope, name, dimension.monitoring_class.value]
            families.add(labels, values, dimension.unit)
    yield from families
    yield gauge(
        "gate_topic_limits_left_out",
        f"Topics with limits and without series: those after the first {MAX_SCOPES} by name.",
        len(topics[MAX_SCOPES:]),
    )
