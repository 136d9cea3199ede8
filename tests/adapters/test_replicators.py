"""A broker's counters of replication are read topic by topic, and nothing else is believed."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from coordinator.adapters.broker import replicators
from coordinator.adapters.broker.counters import MetricsCounters
from coordinator.native.engine.counting import ReplicatorCount
from coordinator.ports import BrokerUnreachable, Refused

A, B, PART = "persistent://t/n/a", "persistent://t/n/b", "persistent://t/n/p-partition-3"


def stats(sent: int = 5, **more: Any) -> dict[str, Any]:
    """The stats of a topic that is replicated to two clusters."""
    each = {"msgInCount": 20, "msgOutCount": sent, "replicationBacklog": 7}
    return {
        "msgInCounter": 100,
        "bytesInCounter": 900,
        "replication": {"west": each, "east": each},
    } | more


class Broker:
    """A broker's web service."""

    def __init__(self) -> None:
        #: By topic, the backlog in the metrics, and the answer of its stats.
        self.backlogs: dict[str, int] = {}
        self.stats: dict[str, Any] = {}
        self.status: dict[str, int] = {}
        self.asked: list[str] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer for metrics, or the stats of a topic."""
        if request.url.path == "/metrics/":
            return httpx.Response(200, text="".join(map(self._lines, self.backlogs)))
        path = unquote(request.url.raw_path.decode()).removesuffix("/stats")
        topic = path.removeprefix("/admin/v2/").replace("persistent/", "persistent://", 1)
        self.asked.append(topic)
        found = self.stats.get(topic, stats())
        text = found if isinstance(found, str) else json.dumps(found)
        return httpx.Response(self.status.get(topic, 200), text=text)

    def _lines(self, topic: str) -> str:
        escaped = topic.replace('"', '\\"')
        labels = f'cluster="c",namespace="t/n",topic="{escaped}"'
        if "-partition-" in topic:
            name, _, part = topic.rpartition("-partition-")
            labels = f'cluster="c",namespace="t/n",topic="{name}",partition="{part}"'
        backlog = self.backlogs[topic]
        return (
            f"pulsar_in_messages_total{{{labels}}} 100\n"
            f'pulsar_replication_backlog{{{labels},remote_cluster="west"}} {backlog}\n'
            f'pulsar_replication_backlog{{{labels},remote_cluster="east"}} {backlog}\n'
        )

    def counters(self) -> MetricsCounters:
        """Their reader."""
        return MetricsCounters("http://b", transport=httpx.MockTransport(self.answer))


def counted(topic: str, sent: int = 5) -> ReplicatorCount:
    """A topic's counters for one cluster."""
    return ReplicatorCount(topic, "west", 100, 900, 40, sent, 7)


async def test_topics_that_are_replicated_to_the_clusters_asked_for_are_counted() -> None:
    """Partitions by themselves, and no topics of brokers; without a cluster none is asked for."""
    broker = Broker()
    broker.backlogs = {A: 1, PART: 2, "persistent://t/n/__change_events": 3}
    async with broker.counters() as counters:
        assert (await counters.read()).replicators == ()
        assert broker.asked == []
        reading = await counters.read((), {"west"})
    assert sorted(reading.replicators) == [counted(A), counted(PART)]
    assert sorted(broker.asked) == [A, PART]


async def test_a_topic_is_asked_for_again_when_its_metrics_have_changed() -> None:
    """Meanwhile its last counters stand."""
    broker = Broker()
    broker.backlogs = {A: 1, B: 1}
    async with broker.counters() as counters:
        await counters.read((), {"west"})
        broker.asked.clear()
        broker.backlogs[B], broker.stats[B] = 2, stats(sent=9)
        reading = await counters.read((), {"west"})
    assert broker.asked == [B]
    assert sorted(reading.replicators) == [counted(A), counted(B, sent=9)]


async def test_a_topic_with_quotes_in_its_name_is_counted_too() -> None:
    """A client would escape its limit by one otherwise; it is asked for each time."""
    broker, name = Broker(), 'persistent://t/n/q"uo,topic="te'
    broker.backlogs = {name: 1}
    async with broker.counters() as counters:
        for _ in range(2):
            assert (await counters.read((), {"west"})).replicators == (counted(name),)
    assert broker.asked == [name, name]


async def test_few_topics_are_asked_for_at_a_time_and_each_has_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those first that were asked for the longest ago."""
    monkeypatch.setattr(replicators, "_TOPICS_MAX", 10)
    broker = Broker()
    names = [f"persistent://t/n/{number}" for number in range(30)]
    async with broker.counters() as counters:
        for turn in range(6):
            broker.backlogs = dict.fromkeys(names, turn)
            await counters.read((), {"west"})
            assert len(broker.asked) == 10 * (turn + 1)
    assert sorted(broker.asked) == sorted(names * 2)


@pytest.mark.parametrize("status", [404, 307])
async def test_a_topic_that_is_not_here_any_more_is_left_out(status: int) -> None:
    """It was when the metrics were written."""
    broker = Broker()
    broker.backlogs, broker.status = {A: 1, B: 1}, {A: status}
    async with broker.counters() as counters:
        assert (await counters.read((), {"west"})).replicators == (counted(B),)


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (401, stats(), Refused),
        (500, stats(), BrokerUnreachable),
        (200, "[", BrokerUnreachable),
        (200, [], BrokerUnreachable),
        (200, {}, BrokerUnreachable),
        (200, stats(msgInCounter=-1), BrokerUnreachable),
        (200, stats(msgInCounter="100"), BrokerUnreachable),
        (200, stats(msgInCounter=1e300), BrokerUnreachable),
        (200, stats(replication={"west": None}), BrokerUnreachable),
        (200, stats(replication=[1]), BrokerUnreachable),
        (200, stats(replication={"west": {"msgInCount": 0}}), BrokerUnreachable),
    ],
)
async def test_an_answer_that_is_not_understood_counts_nothing(
    status: int, answer: object, error: type[Exception]
) -> None:
    """The reading fails, and is tried again."""
    broker = Broker()
    broker.backlogs, broker.status, broker.stats = {A: 1}, {A: status}, {A: answer}
    async with broker.counters() as counters:
        with pytest.raises(error):
            await counters.read((), {"west"})
        broker.status, broker.stats = {}, {}
        assert (await counters.read((), {"west"})).replicators == (counted(A),)


async def test_a_topic_that_the_broker_cannot_answer_for_hides_no_other_one() -> None:
    """As one that is fenced: its last counters stand."""
    broker = Broker()
    async with broker.counters() as counters:
        broker.backlogs = {A: 1, B: 1}
        await counters.read((), {"west"})
        broker.backlogs, broker.status, broker.stats = {A: 2, B: 2}, {A: 500}, {B: stats(sent=9)}
        reading = await counters.read((), {"west"})
    assert sorted(reading.replicators) == [counted(A), counted(B, sent=9)]


async def test_names_of_topics_make_up_no_request() -> None:
    """A client chooses them."""
    broker = Broker()
    names = [
        "persistent://t/n/a?x=/../../clusters",
        "persistent://t/n/ü #%2F",
        "persistent://t/n/..",
    ]
    broker.backlogs = dict.fromkeys(names, 1)
    paths: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path != "/metrics/":
            paths.append(request.url.raw_path.decode())
        return broker.answer(request)

    counters = MetricsCounters("http://b", transport=httpx.MockTransport(answer))
    async with counters:
        await counters.read((), {"west"})
    for path in paths:
        assert path.startswith("/admin/v2/persistent/t/n/")
        assert path.endswith("/stats")
        assert path.count("/") == 7
