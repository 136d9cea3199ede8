"""The counters of all topics on a broker, from its metrics.

``/metrics`` is the one answer that has the live counters of every topic at once: ``/broker-stats/topics``
is as old as ``statsUpdateFrequencyInSecs``, and ``.../stats`` is one request per topic. It is parsed as
it arrives and never held as a whole: with 10,000 topics it is some 50 MB. Without
``exposeTopicLevelMetricsInPrometheus`` it lists namespaces only, which is enough; but throttled
publishing is unknown then.

A line is searched by the line feed before it: a pattern that begins with ``^`` takes six times as long,
1.4 s for 45 MB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

import httpx

from coordinator.adapters.broker.web_service import client_of
from coordinator.native.engine.counting import TopicCount
from coordinator.ports import BrokerUnreachable, Refused

_TIMEOUT_S = 10.0

_FIELDS: Final[Mapping[bytes, str]] = {
    b"in_messages_total": "messages",
    b"in_bytes_total": "bytes",
    b"out_messages_total": "out_messages",
    b"out_bytes_total": "out_bytes",
    b"producers_count": "producers",
    b"consumers_count": "consumers",
    b"publish_rate_limit_times": "throttles",
}
_PUBLISHED: Final = (b"in_messages_total", b"in_bytes_total")
_OF_SUBSCRIPTIONS: Final = ("out_messages", "out_bytes")


def _lines_of(names: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(rb"\npulsar_(" + b"|".join(names) + rb")\{([^}\n]*)\} ([0-9.eE+]+)(?=\n)")


_LINE: Final = _lines_of(_FIELDS)
_PUBLISHED_LINE: Final = _lines_of(_PUBLISHED)
_LABEL = re.compile(rb'(namespace|topic|partition|subscription|consumer_name)="([^"]*)"')
_NOT_PARTITIONED: Final = "-1"

_Sums = dict[tuple[str, str], dict[str, int]]


class MetricsCounters:
    """`coordinator.native.engine.outside.BrokerCounters` over HTTP.

    Args:
        web_service_url: the broker's own web service.
        token: sent as bearer token; None sends none.
        published_only: read the counters of published messages and bytes alone, at a fifth of the cost.
        transport: for tests; None is the network.
    """

    def __init__(
        self,
        web_service_url: str,
        *,
        token: str | None = None,
        published_only: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._client = client_of(
            web_service_url, token=token, timeout_s=_TIMEOUT_S, transport=transport
        )
        self._line = _PUBLISHED_LINE if published_only else _LINE

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def read(self) -> Sequence[TopicCount]:
        """See `BrokerCounters`."""
        sums: _Sums = {}
        tail = b""
        try:
            async with self._client.stream("GET", "/metrics/") as answer:
                if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                    raise Refused(f"GET /metrics/ answered {answer.status_code}")
                if answer.status_code != httpx.codes.OK:
                    raise BrokerUnreachable(f"GET /metrics/ answered {answer.status_code}")
                async for chunk in answer.aiter_bytes(65_536):
                    lines, _, tail = (tail + chunk).rpartition(b"\n")
                    add_lines(lines, sums, self._line)
        except httpx.HTTPError as error:
            raise BrokerUnreachable(f"GET /metrics/: {type(error).__name__} {error}") from error
        add_lines(tail, sums, self._line)
        return tuple(_count(*key, found) for key, found in sums.items())


def _count(namespace: str, topic: str, found: Mapping[str, int]) -> TopicCount:
    return TopicCount(namespace, topic, *(found.get(field, 0) for field in _FIELDS.values()))


def add_lines(text: bytes, sums: _Sums, line: re.Pattern[bytes] = _LINE) -> None:
    """Add the counts in whole lines of an answer, by namespace and topic."""
    for field, labels, value in _values(text, line):
        namespace, topic = labels.get("namespace"), labels.get("topic", "")
        # With splitTopicAndPartitionIndexLabel the name is that of all partitions.
        partition = labels.get("partition", _NOT_PARTITIONED)
        if partition != _NOT_PARTITIONED:
            topic = f"{topic}-partition-{partition}"
        if not namespace or "consumer_name" in labels:
            continue
        # Sent messages are counted by subscription wherever topics are listed.
        if field in _OF_SUBSCRIPTIONS and topic and "subscription" not in labels:
            continue
        found = sums.setdefault((namespace, topic), {})
        found[field] = found.get(field, 0) + value


def _values(text: bytes, line: re.Pattern[bytes]) -> Iterator[tuple[str, Mapping[str, str], int]]:
    for name, labels, value in line.findall(b"\n%b\n" % text):
        pairs = _LABEL.findall(labels)
        yield (
            _FIELDS[name],
            {key.decode(): found.decode(errors="replace") for key, found in pairs},
            int(float(value)),
        )
