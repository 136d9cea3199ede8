"""A broker's counters of replication are read topic by topic, and nothing else is believed."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from coordinator.adapters.broker import replicators
from coordinator.adapters.broker.counters import MetricsCounters
from coordinator.native.engine.counting import ReplicatorCount

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


async def test_topics_that_a_broker_knows_nothing_of_take_no_turn_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients may choose names that it lists, and does not find."""
    monkeypatch.setattr(replicators, "_TOPICS_MAX", 10)
    broker = Broker()
    names = [f"persistent://t/n/{number}" for number in range(20)]
    broker.status = dict.fromkeys(names[:10], 404)
    async with broker.counters() as counters:
        for turn in range(4):
            broker.backlogs = dict.fromkeys(names, turn)
            await counters.read((), {"west"})
    assert sorted(broker.asked) == sorted(names * 2)


@pytest.mark.parametrize("status", [404, 307])
async def test_a_topic_that_is_not_here_any_more_is_left_out(status: int) -> None:
    """It was when the metrics were written."""
    broker = Broker()
    broker.backlogs, broker.status = {A: 1, B: 1}, {A: status}
    async with broker.counters() as counters:
        assert (await counters.read((), {"west"})).replicators == (counted(B),)


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (401, stats()),
        (500, stats()),
        (200, "["),
        (200, []),
        (200, {}),
        (200, stats(msgInCounter=-1)),
        (200, stats(msgInCounter="100")),
        (200, stats(msgInCounter=1e300)),
        (200, stats(replication={"west": None})),
        (200, stats(replication=[1])),
        (200, stats(replication={"west": {"msgInCount": 0}})),
    ],
)
async def test_an_answer_that_is_not_understood_is_told_and_hides_no_other_topic(
    status: int, answer: object
) -> None:
    """The topic's last counters stand; it is asked for again, and then all is well."""
    broker = Broker()
    async with broker.counters() as counters:
        broker.backlogs = {A: 1, B: 1}
        assert (await counters.read((), {"west"})).replicators_error == ""
        broker.backlogs, broker.status = {A: 2, B: 2}, {A: status}
        broker.stats = {A: answer, B: stats(sent=9)}
        reading = await counters.read((), {"west"})
        assert sorted(reading.replicators) == [counted(A), counted(B, sent=9)]
        assert f"{A.rpartition('/')[2]}/stats" in reading.replicators_error
        broker.status, broker.stats = {}, {A: stats(sent=8), B: stats(sent=9)}
        reading = await counters.read((), {"west"})
        assert sorted(reading.replicators) == [counted(A, sent=8), counted(B, sent=9)]
        assert reading.replicators_error == ""


async def test_a_broker_that_does_not_answer_for_topics_delays_its_other_counters_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of many topics eight are waited for, and not for long."""
    monkeypatch.setattr(replicators, "_WITHIN_S", 0.01)
    broker = Broker()
    broker.backlogs = {f"persistent://t/n/{number}": 1 for number in range(100)}

    async def answer(request: httpx.Request) -> httpx.Response:
        found = broker.answer(request)
        if request.url.path != "/metrics/":
            await asyncio.Event().wait()
        return found

    async with MetricsCounters("http://b", transport=httpx.MockTransport(answer)) as counters:
        reading = await counters.read((), {"west"})
    assert len(broker.asked) == 8
    assert len(reading.topics) == 100
    assert "no answer in 0.01 s" in reading.replicators_error


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


async def test_topics_whose_names_fit_into_no_request_hide_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are told; a client can name them so, and many of them. Each topic has its turn."""
    monkeypatch.setattr(replicators, "_TOPICS_MAX", 4)
    broker, long = Broker(), "x" * 70_000
    broker.backlogs = {f"persistent://t/n/{number}-{long}": 1 for number in range(8)} | {A: 1}
    async with broker.counters() as counters:
        readings = [await counters.read((), {"west"}) for _ in range(3)]
    assert [reading.replicators for reading in readings] == [(), (), (counted(A),)]
    assert all("persistent/t/n/" in reading.replicators_error for reading in readings)
