"""The backlog monitor's shell: what it asks, how fast, and what it does without an answer."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.adapters.clock import MonotonicClock
from coordinator.backlog.rules.evictions import EvictionCounts
from coordinator.backlog.rules.model import BacklogQuota, QuotaPolicy, QuotaType, TopicStorage
from coordinator.backlog.rules.monitor import BacklogMonitor
from coordinator.backlog.rules.views import BacklogView
from coordinator.backlog.shell.checker import BacklogWatch
from coordinator.backlog.shell.questioner import GIVE_UP
from coordinator.ports import BrokerUnreachable, NotFound, Refused
from tests.memory.backlog import MemoryBacklogSource, MemoryTopicStorage

NOW_MS = 1_800_000_000_000
TOPIC = "persistent://shop/orders/incoming"


def topic(messages: int = 3, age_s: float = 10.0) -> MemoryTopicStorage:
    """A topic with a backlog of that age."""
    made = MemoryTopicStorage(acknowledged={"a": 0})
    for _ in range(messages):
        made.publish(NOW_MS - round(age_s * 1000))
    return made


def watch_of(source: MemoryBacklogSource, calls_per_second: int = 100_000) -> BacklogWatch:
    """A watch that stands at one moment of the wall."""
    return BacklogWatch(
        source,
        BacklogMonitor(),
        clock=MonotonicClock(),
        wall_ms=lambda: NOW_MS,
        calls_per_second=calls_per_second,
    )


async def test_a_check_brings_the_age_of_every_topic_with_a_backlog() -> None:
    """The checker tells its listener."""
    topics = {f"{TOPIC}-{number}": topic(age_s=number) for number in range(20)}
    told: list[tuple[BacklogView, ...]] = []
    watch = watch_of(MemoryBacklogSource(topics))
    watch.watch(told.append)
    await watch.check()
    assert {view.topic: view.age_s for view in watch.views()} == {
        f"{TOPIC}-{number}": float(number) for number in range(20)
    }
    assert told == [watch.views()]
    assert watch.cluster == "memory"


async def test_a_second_check_asks_for_the_summaries_only() -> None:
    """Nothing has moved, and quotas are still believed."""
    source = MemoryBacklogSource({TOPIC: topic()})
    watch = watch_of(source)
    await watch.check()
    source.asked.clear()
    await watch.check()
    assert source.asked == [("summaries", "")]


async def test_topics_without_backlog_cost_no_question() -> None:
    """10,000 idle topics are one question."""
    idle = {f"{TOPIC}-{n}": MemoryTopicStorage(acknowledged={"a": 0}) for n in range(10_000)}
    source = MemoryBacklogSource(idle)
    watch = watch_of(source)
    await watch.check()
    assert source.asked == [("cluster", ""), ("summaries", "")]
    assert watch.checks.topics == 10_000


async def test_questions_under_way_at_once_are_bounded() -> None:
    """However many topics there are."""
    under_way = most = 0

    class Slow(MemoryBacklogSource):
        async def storage(self, topic: str) -> TopicStorage:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.001)
            under_way -= 1
            return await super().storage(topic)

    watch = watch_of(Slow({f"{TOPIC}-{number}": topic() for number in range(50)}))
    await watch.check()
    assert most == 4
    assert len(watch.views()) == 50


async def test_questions_keep_their_pace() -> None:
    """60 questions at 1,000 a second take at least 59 ms, by the clock that paces them."""
    source = MemoryBacklogSource({f"{TOPIC}-{number}": topic() for number in range(20)})
    clock = MonotonicClock()
    watch = watch_of(source, calls_per_second=1_000)
    began_ns = clock.now_ns()
    await watch.check()
    assert watch.checks.questions == 60
    assert clock.now_ns() - began_ns >= 59_000_000


@pytest.mark.parametrize("error", [Refused("401"), BrokerUnreachable("timed out")])
async def test_a_broker_that_does_not_answer_leaves_what_was_known(
    error: Refused | BrokerUnreachable,
) -> None:
    """The reason is told, and the next check goes well again."""
    source = MemoryBacklogSource({TOPIC: topic()})
    watch = watch_of(source)
    await watch.check()
    source.trouble["summaries"] = error
    await watch.check()
    assert watch.checks.problem == str(error)
    assert watch.views()[0].age_s == 10.0
    source.trouble.clear()
    await watch.check()
    assert watch.checks.problem == ""
    assert watch.checks.count == 3


async def test_a_check_gives_up_on_a_broker_that_stops_answering() -> None:
    """It would wait for as many timeouts as there are topics otherwise."""
    source = MemoryBacklogSource({f"{TOPIC}-{number}": topic() for number in range(100)})
    source.trouble["storage"] = source.trouble["quota"] = BrokerUnreachable("timed out")
    watch = watch_of(source)
    await watch.check()
    assert len(source.asked) - 2 <= GIVE_UP + 4
    assert "given up" in watch.checks.problem
    assert all(view.problem for view in watch.views())


async def test_a_topic_that_is_gone_or_moved_during_a_check_hurts_no_other() -> None:
    """404 and 307 are the same to this broker."""

    class Losing(MemoryBacklogSource):
        async def storage(self, topic: str) -> TopicStorage:
            if topic.endswith("-0"):
                raise NotFound("307")
            return await super().storage(topic)

    watch = watch_of(Losing({f"{TOPIC}-{number}": topic() for number in range(3)}))
    await watch.check()
    assert [view.topic for view in watch.views()] == [f"{TOPIC}-1", f"{TOPIC}-2"]
    assert watch.view(f"{TOPIC}-0") is None


async def test_the_broker_refuses_one_question_and_answers_the_others() -> None:
    """Without topic policies, a topic's quota is not to be had; its age is."""
    source = MemoryBacklogSource({TOPIC: topic()})
    source.trouble["quota"] = Refused("405")
    watch = watch_of(source)
    await watch.check()
    (view,) = watch.views()
    assert (view.age_s, view.quota, view.problem) == (10.0, None, "405")


async def test_an_entry_that_is_gone_does_not_make_its_topic_gone() -> None:
    """Its ledger was trimmed between two answers; the next check asks anew."""
    source = MemoryBacklogSource({TOPIC: topic()})
    source.trouble["published_ms"] = NotFound("404")
    watch = watch_of(source)
    await watch.check()
    (view,) = watch.views()
    assert (view.age_s, view.problem) == (None, "404")
    source.trouble.clear()
    await watch.check()
    assert watch.views()[0].age_s == 10.0


async def test_the_brokers_evictions_are_read_while_a_quota_evicts() -> None:
    """Once at the start; a quota that holds or refuses needs no more readings."""
    source = MemoryBacklogSource({TOPIC: topic()})
    counts = EvictionCounts()
    watch = BacklogWatch(
        source,
        BacklogMonitor(quota_ttl_ms=0),
        clock=MonotonicClock(),
        wall_ms=lambda: NOW_MS,
        calls_per_second=100_000,
        evictions=counts,
    )
    await watch.check()
    await watch.check()
    assert source.asked.count(("evictions", "")) == 1
    source.topics[TOPIC].quota = BacklogQuota(size_bytes=100, size_policy=QuotaPolicy.EVICT)
    await watch.check()
    source.evicted = {(TOPIC, QuotaType.SIZE): 2}
    await watch.check()
    assert counts.topics == {(TOPIC, QuotaType.SIZE): 2}
    assert watch.monitor.exceedances == {("shop/orders", QuotaType.SIZE): 1}


async def test_evictions_that_cannot_be_read_fail_no_check() -> None:
    """The counts stay as they were."""
    source = MemoryBacklogSource({TOPIC: topic()})
    source.trouble["evictions"] = Refused("not allowed")
    counts = EvictionCounts()
    watch = BacklogWatch(
        source,
        BacklogMonitor(),
        clock=MonotonicClock(),
        wall_ms=lambda: NOW_MS,
        calls_per_second=100_000,
        evictions=counts,
    )
    await watch.check()
    assert watch.checks.problem == ""
    assert not counts.has_begun
