"""The metrics of resource groups: this broker's part of each.

Metrics that Pulsar has too have two names: Pulsar's own, so that existing dashboards and alerts go on
working, and ours. Two faults of Pulsar's are mended: its quota is a counter that grows by the quota every
round (here a gauge, the rate in force), and it repeats every other broker's usage in every broker's
metrics, groups times brokers (left out: each sidecar reports its own).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from admin_api.backend import Views
from admin_api.metrics.families import EXPORTER, OURS
from coordinator.core.certificate.statement import Certificate
from coordinator.core.demand.observing import OBSERVE
from coordinator.core.model import DIMENSIONS_OF, NANOS_PER_SECOND, Dimension, Unit
from coordinator.insight.model.explain import UnknownGroup
from coordinator.insight.model.views import BrokerUsageView, GroupView

_Family = TypeVar("_Family", CounterMetricFamily, GaugeMetricFamily)

_OURS = ["group", "monitoring_class"]
_PULSARS = ["ResourceGroup", "MonitoringClass", EXPORTER]


class GroupFamilies:
    """Collects samples group by group; iterating yields the families.

    Args:
        views: the views that are read.
        broker: the own broker.
    """

    def __init__(self, views: Views, broker: str) -> None:
        self._views = views
        self._broker = broker
        self._admitted = _per_unit(
            CounterMetricFamily,
            "admitted_{unit}",
            "{Unit} that this broker's gate admitted.",
            _OURS,
        )
        self._used = {
            unit: CounterMetricFamily(
                f"pulsar_resource_group_{unit.value}_used",
                f"{unit.value.capitalize()} admitted; Pulsar's name for pulsar_quota_admitted.",
                labels=_PULSARS,
            )
            for unit in Unit
        }
        self._held = _per_unit(
            CounterMetricFamily,
            "throttled_{unit}_seconds",
            "Time in which at least one client waited for tokens of {unit}.",
            _OURS,
        )
        self._refused = _per_unit(
            CounterMetricFamily,
            "refused_{unit}",
            "{Unit} of publishes that failed after holdMillis above the limit; none = it holds them.",
            _OURS,
        )
        self._local = _per_unit(
            GaugeMetricFamily,
            "local_limit_{unit}_per_second",
            "This broker's part of the limit, in force; no series = not limited.",
            _OURS,
        )
        self._quota = {
            unit: GaugeMetricFamily(
                f"pulsar_resource_group_calculated_{unit.value}_quota",
                "The local limit in force, per second. In Pulsar this is a counter that grows by "
                "the quota every round; here it is the rate itself.",
                labels=_PULSARS,
            )
            for unit in Unit
        }
        self._cluster = _per_unit(
            GaugeMetricFamily,
            "cluster_limit_{unit}_per_second",
            "The group's limit for the whole cluster; no series = not limited.",
            _OURS,
        )
        self._demand = _per_unit(
            GaugeMetricFamily,
            "demand_{unit}_per_second",
            "This broker's demand, at most; no series = throttled, so it is unknown.",
            _OURS,
        )
        self._demand_low = _per_unit(
            GaugeMetricFamily,
            "demand_low_{unit}_per_second",
            "This broker's demand, at least; all that is known of it while it is throttled.",
            _OURS,
        )
        self._throttled = _per_unit(
            GaugeMetricFamily,
            "throttled_{unit}_ratio",
            "Part of the last round in which a client waited for tokens of {unit}, 0 to 1.",
            _OURS,
        )
        self._participants = GaugeMetricFamily(
            "pulsar_quota_participants", "Producers and consumers connected.", labels=["group"]
        )
        self._topics = GaugeMetricFamily(
            "pulsar_quota_topics", "Topics with a participant.", labels=["group"]
        )

        self._certified = _per_unit(
            GaugeMetricFamily,
            "certificate_{unit}_per_second",
            "The most that all local limits together can be now; the lowest of all sidecars' counts, "
            "no series = nothing can be said.",
            _OURS,
        )

        self._observed = GaugeMetricFamily(
            "pulsar_quota_observed",
            "1 for a group whose limits are only tried out: nothing is held back.",
            labels=["group"],
        )
        self._would_hold = _per_unit(
            CounterMetricFamily,
            "would_hold_{unit}",
            "{Unit} of an observed group that would have had to wait; no series = it is enforced.",
            _OURS,
        )
        self._would_hold_time = CounterMetricFamily(
            "pulsar_quota_would_hold_seconds",
            "Time in which anything of an observed group would have had to wait.",
            labels=_OURS,
        )

    def add(self, group: str) -> None:
        """Read one group; a group that the core does not know has only its counts."""
        self._add_counts(group)
        try:
            view = self._views.group_view(group)
        except UnknownGroup:
            return
        for row in view.brokers:
            if row.broker == self._broker:
                self._add_row(group, row)
        self._add_observed(view)
        for certificate in self._views.certificates(group):
            self._add_certificate(certificate)
        for dimension in Dimension:
            limit = view.limits.of(dimension)
            if limit is not None:
                labels = [group, dimension.monitoring_class.value]
                self._cluster[dimension.unit].add_metric(labels, float(limit))
                self._add_demand(view, dimension)

    def __iter__(self) -> Iterator[Metric]:
        """Yield each family once."""
        by_unit: tuple[Mapping[Unit, Metric], ...] = (
            self._admitted, self._used, self._held, self._refused, self._local, self._quota,
            self._cluster, self._demand, self._demand_low, self._throttled, self._certified,
            self._would_hold,
        )  # fmt: skip
        for families in by_unit:
            yield from families.values()
        yield self._participants
        yield self._topics
        yield self._observed
        yield self._would_hold_time

    def _add_counts(self, group: str) -> None:
        totals = self._views.totals()
        for monitoring_class in DIMENSIONS_OF:
            labels = [group, monitoring_class.value]
            total = totals.of(group, monitoring_class)
            for families, names in ((self._admitted, labels), (self._used, [*labels, OURS])):
                families[Unit.MESSAGES].add_metric(names, total.messages)
                families[Unit.BYTES].add_metric(names, total.bytes)
            self._held[Unit.MESSAGES].add_metric(labels, total.messages_held_ns / NANOS_PER_SECOND)
            self._held[Unit.BYTES].add_metric(labels, total.bytes_held_ns / NANOS_PER_SECOND)
            if total.messages_refused:
                self._refused[Unit.MESSAGES].add_metric(labels, total.messages_refused)
                self._refused[Unit.BYTES].add_metric(labels, total.bytes_refused)

    def _add_row(self, group: str, row: BrokerUsageView) -> None:
        for dimension in Dimension:
            labels = [group, dimension.monitoring_class.value]
            limit = row.limits.of(dimension)
            if limit is not None:
                self._local[dimension.unit].add_metric(labels, float(limit))
                self._quota[dimension.unit].add_metric([*labels, OURS], float(limit))
            share = row.throttled_permille.get(dimension, 0) / 1000
            self._throttled[dimension.unit].add_metric(labels, share)
        self._participants.add_metric([group], row.participants)
        self._topics.add_metric([group], row.topics)

    def _add_observed(self, view: GroupView) -> None:
        self._observed.add_metric([view.group], view.enforcement == OBSERVE)
        for monitoring_class, found in view.would_hold.items():
            labels = [view.group, monitoring_class.value]
            self._would_hold[Unit.MESSAGES].add_metric(labels, found.messages)
            self._would_hold[Unit.BYTES].add_metric(labels, found.bytes)
            self._would_hold_time.add_metric(labels, found.seconds)

    def _add_certificate(self, certificate: Certificate) -> None:
        dimension = certificate.dimension
        if certificate.most is not None:
            labels = [certificate.group, dimension.monitoring_class.value]
            self._certified[dimension.unit].add_metric(labels, certificate.most)

    def _add_demand(self, view: GroupView, dimension: Dimension) -> None:
        try:
            wants = self._views.explain(view.group, dimension, None).wants
        except LookupError:
            return  # no decision on it yet
        for want in wants:
            if want.broker == self._broker:
                labels = [view.group, dimension.monitoring_class.value]
                if want.wants is not None:
                    self._demand[dimension.unit].add_metric(labels, want.wants)
                self._demand_low[dimension.unit].add_metric(labels, want.wants_at_least)


def _per_unit(kind: type[_Family], name: str, text: str, labels: list[str]) -> dict[Unit, _Family]:
    return {
        unit: kind(
            "pulsar_quota_" + name.format(unit=unit.value),
            text.format(unit=unit.value, Unit=unit.value.capitalize()),
            labels=labels,
        )
        for unit in Unit
    }
