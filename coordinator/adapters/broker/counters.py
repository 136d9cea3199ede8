"""The counters of all topics on a broker, from its metrics.

``/metrics`` is the one answer that has the live counters of every topic at once: ``/broker-stats/topics``
is as old as ``statsUpdateFrequencyInSecs``, and ``.../stats`` is one request per topic, which only topics
need that are replicated to a cluster with a limit (replicators.py). It is parsed as
it arrives and never held as a whole: with 10,000 topics it is some 90 MB. Without
``exposeTopicLevelMetricsInPrometheus`` it lists namespaces only, which is enough; but throttled
publishing is unknown then.

A broker on this host is asked not to compress it: for 10,000 topics that takes 0.37 s of a processor of
4.2.4, and 0.60 s with compression, which makes 2.4 MB of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

import httpx

from coordinator.adapters.broker.metrics_text import (
    Lines,
    label_pattern,
    labels_of,
    topic_in,
    whole_lines,
)
from coordinator.adapters.broker.replicators import Replicators
from coordinator.adapters.broker.web_service import WebServiceClient, whole_answer
from coordinator.native.engine.counting import CounterReading, TopicCount
from coordinator.native.engine.owners import base_of, owner_of
from coordinator.ports import BrokerUnreachable, Refused
from coordinator.reconciliation.engine.counting import ENDED

_TIMEOUT_S: Final = 10.0
_PASSED_TIMEOUT_S: Final = 30.0
"""A busy broker begins to answer only when it has written 45 MB, for 10,000 topics."""

_FIELDS: Final[Mapping[str, str]] = {
    "pulsar_in_messages_total": "messages",
    "pulsar_in_bytes_total": "bytes",
    "pulsar_out_messages_total": "out_messages",
    "pulsar_out_bytes_total": "out_bytes",
    "pulsar_producers_count": "producers",
    "pulsar_consumers_count": "consumers",
    "pulsar_publish_rate_limit_times": "throttles",
}
_OF_SUBSCRIPTIONS: Final = ("out_messages", "out_bytes")
_ALL: Final = Lines(*_FIELDS)
_SUBSCRIPTION_CONSUMERS: Final = "pulsar_subscription_consumers_count"
_WITH_SUBSCRIPTIONS: Final = Lines(*_FIELDS, _SUBSCRIPTION_CONSUMERS)
_BROKER_OUT: Final = "pulsar_broker_out_bytes_total"
_PASSED: Final = Lines(
    _BROKER_OUT, *(name for name in _FIELDS if name.startswith(("pulsar_in", "pulsar_out")))
)
_STARTED: Final = Lines("process_start_time_seconds")
_REPLICATED: Final = Lines("pulsar_replication_backlog")
_LABEL: Final = label_pattern(
    ("namespace", "topic", "partition", "subscription", "consumer_name", "remote_cluster")
)
_WHOLE_TOPIC: Final = re.compile(rb',topic="((?:[^"]|(?<=\\)")*)"')
"""The name of a topic with the quotes in it, which brokers escape."""

_UNCOMPRESSED: Final = {"Accept-Encoding": "identity"}
_UNCOUNTED_MAX: Final = 100
"""Namespaces with lines that cannot be read, of which a reading tells."""

_Key = tuple[str, str, str]
"""Namespace, topic and subscription."""

_Sums = dict[_Key, dict[str, int]]
_Backlogs = dict[tuple[str, str], dict[str, int]]
"""Entries that are still to be replicated, by namespace and topic, and by remote cluster."""


class MetricsCounters(WebServiceClient):
    """`coordinator.native.engine.outside.OwnerCounters` over HTTP.

    Args:
        web_service_url: the broker's own web service.
        token: sent as bearer token; None sends none.
        passed_only: read the counters of messages and bytes alone, those sent by subscription and, in
            the row `ENDED`, of the whole broker; wait for as long as readings may be apart
            (reconciliation/engine/spacing.py).
        transport: for tests; None is the network.
    """

    def __init__(
        self,
        web_service_url: str,
        *,
        token: str | None = None,
        passed_only: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        timeout_s = _PASSED_TIMEOUT_S if passed_only else _TIMEOUT_S
        super().__init__(web_service_url, "", token=token, timeout_s=timeout_s, transport=transport)
        self._lines = _PASSED if passed_only else _ALL
        self._headers: dict[str, str] = {}
        self._replicators = Replicators(self._client)
        self._reads = 0

    async def read(
        self, subscriptions: Collection[str] = (), remotes: Collection[str] = ()
    ) -> CounterReading:
        """See `OwnerCounters`."""
        sums: _Sums = {}
        backlogs: _Backlogs = {}
        lines_read = _WITH_SUBSCRIPTIONS if subscriptions else self._lines
        uncounted: set[str] = set()
        started_s: float | None = None
        try:
            async with (
                whole_answer("GET /metrics/"),
                self._client.stream("GET", "/metrics/", headers=self._headers) as answer,
            ):
                if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                    raise Refused(f"GET /metrics/ answered {answer.status_code}")
                if answer.status_code != httpx.codes.OK:
                    raise BrokerUnreachable(f"GET /metrics/ answered {answer.status_code}")
                self._headers = _UNCOMPRESSED if _is_of_this_host(answer) else {}
                async for lines in whole_lines(answer.aiter_bytes(65_536)):
                    add_lines(lines, sums, uncounted, lines_read, subscriptions)
                    _add_backlogs(lines, backlogs, remotes)
                    started_s = started_s or _started_in(lines)
        except httpx.HTTPError as error:
            raise BrokerUnreachable(f"GET /metrics/: {type(error).__name__} {error}") from error
        topics = tuple(_count(key, found) for key, found in sums.items())
        self._reads += 1
        signs = {
            # Messages of a topic with a quote in its name are not found, so it is asked for each time.
            topic: (sums.get((space, topic, ""), {}).get("messages", -self._reads), *each.values())
            for (space, topic), each in backlogs.items()
        }
        replicated = await self._replicators.read(signs, remotes)
        return CounterReading(
            topics,
            started_s,
            frozenset(uncounted),
            replicated,
            self._replicators.error,
        )


def _is_of_this_host(answer: httpx.Response) -> bool:
    """Return whether both ends of an answer's connection have the same address."""
    stream = answer.extensions.get("network_stream")
    ends = [
        stream.get_extra_info(f"{side}_addr") if stream else None for side in ("client", "server")
    ]
    here, there = (end[0] if end else None for end in ends)
    return here is not None and here == there


def _started_in(text: bytes) -> float | None:
    found = _STARTED.find(b"\n%b\n" % text)
    return float(found[0][2]) if found else None


def _count(key: _Key, found: Mapping[str, int]) -> TopicCount:
    namespace, topic, subscription = key
    fields = (found.get(field, 0) for field in _FIELDS.values())
    return TopicCount._make((namespace, topic, *fields, subscription, ""))


def add_lines(
    text: bytes,
    sums: _Sums,
    uncounted: set[str],
    lines: Lines = _ALL,
    subscriptions: Collection[str] = (),
) -> None:
    """Add the counts in whole lines of an answer, by namespace and topic.

    Args:
        text: the lines.
        sums: takes the counts.
        uncounted: takes the namespaces of lines that cannot be read, `_UNCOUNTED_MAX` at most.
        lines: those that count; of `_PASSED`, sent messages are counted by subscription.
        subscriptions: those that are counted once more by themselves, by `owner_of`.
    """
    text = b"\n%b\n" % text
    found = lines.find(text)
    for metric, labels, value in found:
        name, number = metric.decode(), int(float(value))
        if name == _BROKER_OUT:
            whole = sums.setdefault((ENDED, "", ""), {"out_bytes": 0})
            whole["out_bytes"] += number
        elif name == _SUBSCRIPTION_CONSUMERS:
            _add_apart("consumers", labels_of(labels, _LABEL), number, sums, subscriptions)
        else:
            field, labelled = _FIELDS[name], labels_of(labels, _LABEL)
            _add(field, labelled, number, sums, apart=lines is _PASSED)
            if subscriptions and field in _OF_SUBSCRIPTIONS:
                _add_apart(field, labelled, number, sums, subscriptions)
    for namespace in lines.cut_namespaces(text, len(found)):
        if len(uncounted) < _UNCOUNTED_MAX:
            uncounted.add(namespace)


def _add_apart(
    field: str,
    labels: Mapping[str, str],
    value: int,
    sums: _Sums,
    subscriptions: Collection[str],
) -> None:
    """Add a count of a subscription to its own sum, if it is one of these."""
    topic, subscription = labels.get("topic", ""), labels.get("subscription", "")
    if subscription and owner_of(topic, subscription) in subscriptions:
        _add(field, labels, value, sums, apart=True)


def _add_backlogs(text: bytes, backlogs: _Backlogs, remotes: Collection[str]) -> None:
    """Add the backlogs of replication to these clusters; brokers' own topics have no limits."""
    if not remotes:
        return
    for _, labels, value in _REPLICATED.find(b"\n%b\n" % text):
        labelled = labels_of(labels, _LABEL)
        if (name := _WHOLE_TOPIC.search(labels)) is not None:
            labelled["topic"] = name[1].replace(b'\\"', b'"').decode(errors="replace")
        topic, remote = topic_in(labelled), labelled.get("remote_cluster", "")
        if remote in remotes and base_of(topic):
            found = backlogs.setdefault((labelled.get("namespace", ""), topic), {})
            found[remote] = int(float(value))


def _add(field: str, labels: Mapping[str, str], value: int, sums: _Sums, *, apart: bool) -> None:
    namespace, topic = labels.get("namespace"), topic_in(labels)
    if not namespace or "consumer_name" in labels:
        return
    # Sent messages are counted by subscription wherever topics are listed.
    if field in _OF_SUBSCRIPTIONS and topic and "subscription" not in labels:
        return
    subscription = labels.get("subscription", "") if apart else ""
    found = sums.setdefault((namespace, topic, subscription), {})
    found[field] = found.get(field, 0) + value
