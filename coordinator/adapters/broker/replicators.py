"""A broker's counters of the replication of its topics to remote clusters, topic by topic.

A broker's metrics have the backlogs of replication, and rates of it that are up to a minute old. What
was sent stands in each topic's ``.../stats`` alone. So a topic is asked for when its metrics have
changed, `_TOPICS_MAX` of them at a time, those first that were asked for the longest ago. The counters
only grow, so what a topic has sent meanwhile is told when its turn comes. One that the broker does not
answer for keeps its last counters, and hides no other one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from coordinator.adapters.broker.paths import topic_path
from coordinator.adapters.broker.web_service import accepted, asked, json_in, said
from coordinator.native.engine.counting import ReplicatorCount
from coordinator.ports import BrokerUnreachable, PortError

_TOPICS_MAX: Final = 400
_AT_ONCE: Final = 8
"""Topics that are asked for in a reading, and requests that are under way together."""

_WITHIN_S: Final = 2.0

Signs = Mapping[str, tuple[int, ...]]
"""Of each topic, the numbers of its metrics that change when it replicates or is published to."""


@dataclass(slots=True)
class _Topic:
    """A topic as it was asked for last.

    Args:
        signs: its numbers then; none if it was not answered for.
        turn: of the reading.
        counts: by remote cluster.
    """

    signs: tuple[int, ...]
    turn: int
    counts: tuple[ReplicatorCount, ...]


class Replicators:
    """The counters of replication at one broker.

    Args:
        client: of its web service.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._topics: dict[str, _Topic] = {}
        self._turn = 0
        #: Why a topic's counters could not be read the last time; empty if all could.
        self.error = ""

    async def read(self, signs: Signs, remotes: Collection[str]) -> tuple[ReplicatorCount, ...]:
        """Return the counters of all topics that are replicated to these clusters.

        Args:
            signs: of the topics that are.
            remotes: the clusters.
        """
        self._turn += 1
        self._topics = {name: each for name, each in self._topics.items() if name in signs}
        changed = [
            name
            for name, now in signs.items()
            if (known := self._topics.get(name)) is None or known.signs != now
        ]
        changed.sort(key=lambda name: self._topics[name].turn if name in self._topics else 0)
        due, self.error = changed[:_TOPICS_MAX], ""
        for first in range(0, len(due), _AT_ONCE):
            some = due[first : first + _AT_ONCE]
            answers = await asyncio.gather(*map(self._ask, some), return_exceptions=True)
            for name, found in zip(some, answers, strict=True):
                if isinstance(found, PortError):
                    self.error = str(found)
                    self._topics[name] = _Topic((), self._turn, self._counts_of(name))
                elif isinstance(found, BaseException):
                    raise found
                elif found is None:  # has had its turn like any other: clients choose names
                    self._topics[name] = _Topic((), self._turn, ())
                else:
                    self._topics[name] = _Topic(signs[name], self._turn, found)
            if all(isinstance(found, BrokerUnreachable) for found in answers):
                break  # the others would wait in vain, too, and all other counters with them
        counts = (count for topic in self._topics.values() for count in topic.counts)
        return tuple(count for count in counts if count.remote in remotes)

    def _counts_of(self, topic: str) -> tuple[ReplicatorCount, ...]:
        known = self._topics.get(topic)
        return () if known is None else known.counts

    async def _ask(self, topic: str) -> tuple[ReplicatorCount, ...] | None:
        """Return a topic's counters; None: it is not here any more, or its name cannot be asked for."""
        try:
            path = topic_path(topic)
        except ValueError:
            return None
        try:
            async with asyncio.timeout(_WITHIN_S):
                answer = await asked(self._client, "GET", f"/admin/v2{path}/stats", None)
        except TimeoutError as error:
            raise BrokerUnreachable(f"GET {path}/stats: no answer in {_WITHIN_S} s") from error
        if answer.is_redirect or answer.status_code == httpx.codes.NOT_FOUND:
            return None
        stats = json_in(accepted(answer))
        try:
            return tuple(_counts(topic, stats))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BrokerUnreachable(f"{said(answer)}: no counters of replication") from error


def _counts(topic: str, stats: Any) -> Iterator[ReplicatorCount]:
    replicators = stats["replication"]
    received = sum(_number(each, "msgInCount") for each in replicators.values())
    for remote, each in replicators.items():
        yield ReplicatorCount(
            topic,
            remote,
            _number(stats, "msgInCounter"),
            _number(stats, "bytesInCounter"),
            received,
            _number(each, "msgOutCount"),
            _number(each, "replicationBacklog"),
        )


def _number(fields: Any, name: str) -> int:
    found = fields[name]
    if not isinstance(found, int) or found < 0:
        raise ValueError(f"{name}: {found!r}")
    return found
