"""The metrics of resource groups: this broker's part of each.

Metrics that Pulsar has too have two names: Pulsar's own, so that existing dashboards and alerts go on
working, and ours. Two faults of Pulsar's are mended: its quota is a counter that grows by the quota every
round (here a gauge, the rate in force), and it repeats every other broker's usage in every broker's
metrics, groups times brokers (left out: each sidecar reports its own).

Minute averages stand beside the busiest second: limits hold by the second and finer, and a minute's
average below the limit says nothing about its seconds. Only dimensions with traffic have series of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Final

from prometheus_client.core import Metric

from admin_api.metrics.families import EXPORTER, OURS, FamilyTable, Texts
from coordinator.core.demand.observing import OBSERVE
from coordinator.core.model import NANOS_PER_SECOND, Dimension, Rate
from coordinator.insight.model.explain import UnknownGroup
from coordinator.insight.model.views import BrokerUsageView, GroupView
from coordinator.insight.shell.views import SidecarViews

Values = dict[str, Rate | float | None]

_GAUGES: Final[Texts] = {
    "local_limit_{unit}_per_second": (
        "This broker's part of the limit, in force; no series = not limited."
    ),
    "cluster_limit_{unit}_per_second": (
        "The group's limit for the whole cluster; no series = not limited."
    ),
    "demand_{unit}_per_second": (
        "This broker's demand, at most; no series = throttled, so it is unknown."
    ),
    "demand_low_{unit}_per_second": (
        "This broker's demand, at least; all that is known of it while it is throttled."
    ),
    "throttled_{unit}_ratio": (
        "Part of the last round in which a client waited for tokens of {unit}, 0 to 1."
    ),
    "certificate_{unit}_per_second": (
        "The most that the local limits of all brokers can add up to now; the lowest of all sidecars' "
        "figures holds, no series = no bound is known."
    ),
    "minute_average_{unit}_per_second": (
        "{Unit} admitted in the last minute, divided by its seconds."
    ),
    "minute_peak_{unit}_per_second": "{Unit} admitted in the busiest second of the last minute.",
}
_COUNTERS: Final[Texts] = {
    "admitted_{unit}": "{Unit} admitted at this broker, by its gate or by its own limiter.",
    "throttled_{unit}_seconds": "Time in which at least one client waited for tokens of {unit}.",
    "throttled_{unit}_windows": "Seconds in which at least one client waited for tokens of {unit}.",
    "refused_{unit}": (
        "{Unit} of publishes that failed after holdMillis above the limit; none = it holds them."
    ),
    "would_hold_{unit}": (
        "{Unit} of an observed group that would have had to wait; no series = it is enforced."
    ),
    "would_hold_seconds": "Time in which anything of an observed group would have had to wait.",
}
_PULSARS_GAUGES: Final[Texts] = {
    "calculated_{unit}_quota": (
        "The local limit in force, per second. In Pulsar this is a counter that grows by "
        "the quota every round; here it is the rate itself."
    ),
}
_PULSARS_COUNTERS: Final[Texts] = {
    "{unit}_used": "{Unit} admitted; Pulsar's name for pulsar_quota_admitted.",
}
_WHOLE_GROUP: Final[Texts] = {
    "participants": "Producers and consumers of the group that are connected to this broker.",
    "topics": "Topics of the group with a producer or consumer at this broker.",
    "observed": "1 for a group whose limits are only tried out: nothing is held back.",
}


class GroupFamilies:
    """Collects samples group by group; iterating yields the families.

    Args:
        views: the views that are read.
        broker: the own broker.
    """

    def __init__(self, views: SidecarViews, broker: str) -> None:
        self._views = views
        self._broker = broker
        self._ours = FamilyTable(["group", "monitoring_class"], _GAUGES, _COUNTERS)
        self._pulsars = FamilyTable(
            ["ResourceGroup", "MonitoringClass", EXPORTER],
            _PULSARS_GAUGES,
            _PULSARS_COUNTERS,
            prefix="pulsar_resource_group_",
        )
        self._groups = FamilyTable(["group"], _WHOLE_GROUP, {})

    def add(self, group: str) -> None:
        """Read one group; a group that the core does not know has only its counts."""
        known: Mapping[Dimension, Values] = {}
        with suppress(UnknownGroup):
            view = self._views.group_view(group)
            known = self._limits(view)
            self._add_whole(view)
        for dimension in Dimension:
            values = self._counts(group, dimension) | known.get(dimension, {})
            labels = [group, dimension.monitoring_class.value]
            self._ours.add(labels, values, dimension.unit)
            pulsars = {
                "{unit}_used": values["admitted_{unit}"],
                "calculated_{unit}_quota": values.get("local_limit_{unit}_per_second"),
            }
            self._pulsars.add([*labels, OURS], pulsars, dimension.unit)

    def __iter__(self) -> Iterator[Metric]:
        """Yield each family once."""
        return chain(self._ours, self._pulsars, self._groups)

    def _add_whole(self, view: GroupView) -> None:
        """Add what a group has as a whole, or by class."""
        self._groups.add([view.group], {"observed": view.enforcement == OBSERVE})
        if (row := self._own(view)) is not None:
            whole = {"participants": row.participants, "topics": row.topics}
            self._groups.add([view.group], whole)
        for of, excess in view.would_hold.items():
            self._ours.add([view.group, of.value], {"would_hold_seconds": excess.seconds})

    def _own(self, view: GroupView) -> BrokerUsageView | None:
        return next((row for row in view.brokers if row.broker == self._broker), None)

    def _limits(self, view: GroupView) -> dict[Dimension, Values]:
        """Return what the core knows of the limits of a group."""
        row = self._own(view)
        certified = {each.dimension: each.most for each in self._views.certificates(view.group)}
        found: dict[Dimension, Values] = {}
        for dimension in Dimension:
            excess = view.would_hold.get(dimension.monitoring_class)
            values: Values = {
                "cluster_limit_{unit}_per_second": view.limits.of(dimension),
                "certificate_{unit}_per_second": certified.get(dimension),
            }
            if excess is not None:
                values["would_hold_{unit}"] = getattr(excess, dimension.unit.value)
            if row is not None:
                values["local_limit_{unit}_per_second"] = row.limits.of(dimension)
                values["throttled_{unit}_ratio"] = row.throttled_permille.get(dimension, 0) / 1000
            if view.limits.of(dimension) is not None:
                values |= self._demand(view, dimension)
            found[dimension] = values
        return found

    def _counts(self, group: str, dimension: Dimension) -> Values:
        """Return the own gate's counts, which need no decision."""
        total = self._views.totals().of(group, dimension.monitoring_class)
        unit, minute = dimension.unit.value, self._views.minute(group, dimension)
        counts = {
            "admitted_{unit}": getattr(total, unit),
            "throttled_{unit}_seconds": getattr(total, f"{unit}_held_ns") / NANOS_PER_SECOND,
            "refused_{unit}": getattr(total, f"{unit}_refused") if total.messages_refused else None,
        }
        if minute is None:
            return counts
        return counts | {
            "minute_average_{unit}_per_second": minute.average_per_second,
            "minute_peak_{unit}_per_second": minute.peak_second,
            "throttled_{unit}_windows": self._views.throttled_seconds(group, dimension),
        }

    def _demand(self, view: GroupView, dimension: Dimension) -> Values:
        try:
            wants = self._views.explain(view.group, dimension, None).wants
        except LookupError:
            return {}  # no decision on it yet
        own = next((want for want in wants if want.broker == self._broker), None)
        if own is None:
            return {}
        return {
            "demand_{unit}_per_second": own.wants,
            "demand_low_{unit}_per_second": own.wants_at_least,
        }
