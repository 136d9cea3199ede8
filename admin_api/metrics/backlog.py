"""The metrics of PIP-323, by its names, labels and units, and further ones.

A broker of a release with PIP-323 has the same series; ours have one label more (`families.EXPORTER`).

As in Pulsar, a metric by topic has no namespace level beside it: with ``backlog_topic_metrics`` there are
series per topic; without it evictions are counted by namespace, and ages, which cannot be added up, are
left out. A topic without a backlog, or of unknown age, has the age -1. The first `MAX_TOPICS` topics by
name have series; the number of the other topics is a metric itself.

Evictions are those of this sidecar and those of the broker's own check, which are read with the checks
here. Their counts never fall: a topic that was evicted from has its series however many topics there are,
and when it is unloaded, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from admin_api.backend import Backlogs
from admin_api.metrics.families import EXPORTER, OURS, FamilyTable, Texts, counter, figures, gauge
from coordinator.backlog.rules.model import NO_QUOTA, QuotaType
from coordinator.backlog.rules.views import BacklogView
from coordinator.backlog.shell.checker import CHECK_BUCKETS_S, Checks
from coordinator.core.topics import TopicName

MAX_TOPICS = 10_000
"""Topics with series of their own, about 7 each."""

_TURN = 500
_UNKNOWN = -1
_BOUNDS = (*(f"{bound:.1f}" for bound in CHECK_BUCKETS_S), "+Inf")

_PULSARS: Final[Texts] = {
    "backlog_age_seconds": (
        "The age of the oldest unacknowledged message (backlog); -1 is none, or not known."
    ),
    "backlog_size": "The backlog in bytes, as the broker estimates it.",
    "backlog_quota_limit": "The quota of the backlog's size, in bytes; -1 is none, or not known.",
    "backlog_quota_limit_time": (
        "The quota of the backlog's age, in seconds; -1 is none, or not known."
    ),
}
_GAUGES: Final[Texts] = {"topics": "Persistent topics that the broker has loaded."}
_COUNTERS: Final[Texts] = {
    "questions": "Questions to the broker about single topics, quotas and oldest messages."
}


async def backlog_families(backlogs: Backlogs) -> list[Metric]:
    """Return all families about backlogs; other tasks run in between."""
    watch, evictions = backlogs.watch, backlogs.enforcement.guard.evictions
    cluster, topics = watch.cluster, watch.monitor.topics
    pulsars = FamilyTable(
        ["cluster", "namespace", "topic", EXPORTER], _PULSARS, {}, prefix="pulsar_storage_"
    )
    used = GaugeMetricFamily(
        "pulsar_quota_backlog_used_ratio",
        "The backlog as a part of its quota; above 1 it is exceeded. No series without a quota.",
        labels=["cluster", "namespace", "topic", "quota_type"],
        unit="ratio",
    )
    if backlogs.by_topic:
        for number, topic in enumerate(topics[:MAX_TOPICS], 1):
            view, labels = watch.view(topic), [cluster, _namespace(topic), topic]
            pulsars.add([*labels, OURS], _of_topic(view))
            for kind, ratio in _used(view):
                used.add_metric([*labels, kind.value], ratio)
            if not number % _TURN:
                await asyncio.sleep(0)
    return [
        *pulsars,
        used,
        _evictions(backlogs, cluster, topics),
        _broker_evictions(backlogs, cluster),
        _exceedances(backlogs),
        _durations(watch.checks, cluster),
        *_own(watch.checks, watch.checked, len(topics[MAX_TOPICS:])),
        gauge("backlog_blocked_topics", "Topics whose backlog has publishes held or refused.",
              sum(not action.dry_run for action in backlogs.enforcement.guard.blocked.values())),
        counter(
            "backlog_evicted_topics",
            "Times that a backlog was evicted for a quota of its size or its age.",
            sum(evictions.broker.values()),
        ),
    ]  # fmt: skip


def _of_topic(view: BacklogView | None) -> dict[str, float]:
    """Return the values of a topic under Pulsar's names; one that was not checked has no backlog."""
    quota, age_s = NO_QUOTA, None
    if view is not None:
        quota, age_s = view.quota or NO_QUOTA, view.age_s
    return {
        "backlog_age_seconds": _UNKNOWN if age_s is None else int(age_s),
        "backlog_size": 0 if view is None else view.size_bytes,
        "backlog_quota_limit": _UNKNOWN if quota.size_bytes is None else quota.size_bytes,
        "backlog_quota_limit_time": _UNKNOWN if quota.age_s is None else quota.age_s,
    }


def _used(view: BacklogView | None) -> Iterator[tuple[QuotaType, float]]:
    if view is None:
        return
    for kind in QuotaType:
        if view.limit_of(kind):
            yield kind, view.used(kind)


def _evictions(backlogs: Backlogs, cluster: str, topics: Sequence[str]) -> Metric:
    evictions = backlogs.enforcement.guard.evictions
    labels = ["cluster", "namespace", "topic", "quota_type", EXPORTER]
    if not backlogs.by_topic:
        labels.remove("topic")
    family = CounterMetricFamily(
        "pulsar_storage_backlog_quota_exceeded_evictions",
        "The number of times a backlog was evicted since it has exceeded its quota.",
        labels=labels,
    )
    if backlogs.by_topic:
        evicted = (topic for topic, _ in evictions.topics)
        for topic in dict.fromkeys((*topics[:MAX_TOPICS], *evicted)):
            for kind in QuotaType:
                name = [cluster, _namespace(topic), topic, kind.value, OURS]
                family.add_metric(name, evictions.topics.get((topic, kind), 0))
        return family
    evicted = (namespace for namespace, _ in evictions.namespaces)
    for namespace in sorted({*map(_namespace, topics), *evicted}):
        for kind in QuotaType:
            count = evictions.namespaces[namespace, kind]
            family.add_metric([cluster, namespace, kind.value, OURS], count)
    return family


def _exceedances(backlogs: Backlogs) -> Metric:
    family = CounterMetricFamily(
        "pulsar_quota_backlog_exceedances",
        "Times that a backlog began to exceed its quota.",
        labels=["namespace", "quota_type"],
    )
    for (namespace, kind), count in sorted(
        backlogs.watch.monitor.exceedances.items(), key=lambda item: (item[0][0], item[0][1].value)
    ):
        family.add_metric([namespace, kind.value], count)
    return family


def _broker_evictions(backlogs: Backlogs, cluster: str) -> Metric:
    family = CounterMetricFamily(
        "pulsar_broker_storage_backlog_quota_exceeded_evictions",
        "The number of times a backlog was evicted since it has exceeded its quota, in broker level.",
        labels=["cluster", "quota_type", EXPORTER],
    )
    for kind in QuotaType:
        count = backlogs.enforcement.guard.evictions.broker[kind]
        family.add_metric([cluster, kind.value, OURS], count)
    return family


def _durations(checks: Checks, cluster: str) -> Metric:
    family = HistogramMetricFamily(
        "pulsar_storage_backlog_quota_check_duration_seconds",
        "The duration of the backlog quota check process.",
        labels=["cluster", EXPORTER],
    )
    buckets = list(zip(_BOUNDS, accumulate(checks.counts), strict=True))
    family.add_metric([cluster, OURS], buckets=buckets, sum_value=checks.total_s)
    return family


def _own(checks: Checks, views: Sequence[BacklogView], left_out: int) -> Iterator[Metric]:
    yield from figures("backlog_", checks, _GAUGES, _COUNTERS)
    yield gauge(
        "backlog_topics_left_out",
        f"Topics without series: those after the first {MAX_TOPICS} by name.",
        left_out,
    )
    yield gauge(
        "backlog_check_failed", "1 when the last check of backlogs failed.", bool(checks.problem)
    )
    yield gauge(
        "backlog_exceeded_topics",
        "Topics whose backlog exceeds its quota.",
        sum(view.exceeded is not None for view in views),
    )
    yield gauge(
        "backlog_skewed_topics",
        "Topics whose oldest message was stamped by a clock that is wrong.",
        sum(view.skewed or view.implausible for view in views),
    )


def _namespace(topic: str) -> str:
    name = TopicName.parse(topic)
    return "" if name is None else f"{name.tenant}/{name.namespace}"
