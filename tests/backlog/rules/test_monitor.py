"""Ages and sizes of backlogs: the cases of Pulsar's BacklogQuotaManagerTest, and what it has not.

As there: five entries of 1 KiB in a ledger.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from coordinator.backlog.rules import monitor
from coordinator.backlog.rules.model import (
    NO_QUOTA,
    BacklogQuota,
    Position,
    QuotaPolicy,
    QuotaType,
)
from coordinator.backlog.rules.monitor import PLACES_PER_CHECK, BacklogMonitor
from coordinator.backlog.rules.questions import AskQuota, AskStorage
from tests.backlog.rules.world import START_MS, TOPIC, World
from tests.memory.backlog import MemoryTopicStorage


@pytest.fixture
def world() -> World:
    """A monitor that reads the oldest message."""
    return World()


@pytest.fixture
def estimating() -> World:
    """A monitor that takes messages to be as old as the end of their ledger."""
    return World(BacklogMonitor(precise=False))


def test_a_topic_without_backlog_has_no_age_and_no_subscription(world: World) -> None:
    """backlogsStatsNotPrecise, first part: -1 and null in Pulsar's words."""
    world.topic.acknowledged = {"a": 0}
    world.check()
    assert (world.view().age_s, world.view().subscription) == (None, None)
    world.publish()
    world.topic.acknowledged["a"] = 1
    world.check()
    assert (world.view().age_s, world.view().subscription, world.view().size_bytes) == (
        None,
        None,
        0,
    )


def test_the_age_is_that_of_the_oldest_unacknowledged_message(world: World) -> None:
    """To the millisecond, and it goes on growing between checks."""
    world.topic.acknowledged = {"a": 0, "b": 0}
    world.publish(9, every_ms=1_000)
    world.topic.acknowledged = {"a": 4, "b": 2}
    world.check()
    view = world.view()
    assert (view.subscription, view.position) == ("b", Position(1, 2))
    assert view.publish_ms == START_MS + 2_000
    assert view.age_s == 7.0
    world.pass_s(1.5)
    assert world.view().age_s == 8.5


@pytest.mark.shows("pip-323/cached")
def test_nothing_is_read_while_nothing_moves(world: World) -> None:
    """backlogsAgeMetricsPreciseWithCache: one entry is read, and however many checks read no other."""
    world.topic.acknowledged = {"a": 0}
    world.publish(7)
    for _ in range(5):
        world.pass_s(10)
        world.check()
    assert world.asked["AskStorage"] == world.asked["AskEntry"] == 1


def test_what_is_published_behind_the_oldest_message_reads_no_entry(world: World) -> None:
    """The cache goes by the mark-delete position: the storage is asked, from memory, nothing more."""
    world.topic.acknowledged = {"a": 0}
    world.publish(2)
    world.check()
    world.publish(20)
    world.check()
    assert world.asked["AskEntry"] == 1
    assert world.view().size_bytes == 22 * 1024


def test_when_the_oldest_cursor_moves_its_message_is_read(world: World) -> None:
    """One entry for a move, however far."""
    world.topic.acknowledged = {"a": 0}
    world.publish(12, every_ms=1_000)
    world.check()
    world.topic.acknowledged["a"] = 11
    world.check()
    assert world.asked["AskEntry"] == 2
    assert world.view().age_s == 1.0


def test_the_subscription_changes_without_a_read_when_another_one_stands_at_the_same_place(
    world: World,
) -> None:
    """Only the name is replaced, as in the broker."""
    world.topic.acknowledged = {"a": 0, "b": 0}
    world.publish(3)
    world.check()
    assert world.view().subscription == "a"
    world.topic.acknowledged["a"] = 1
    world.check()
    assert (world.view().subscription, world.asked["AskEntry"]) == ("b", 1)


def test_a_seek_to_the_earliest_message_makes_the_backlog_older(world: World) -> None:
    """A position that goes back is a new one."""
    world.topic.acknowledged = {"a": 0}
    world.publish(4, every_ms=1_000)
    world.topic.acknowledged["a"] = 3
    world.check()
    world.topic.acknowledged["a"] = 0
    world.check()
    assert world.view().age_s == 4.0


@pytest.mark.parametrize(
    ("places", "acknowledged"), [(PLACES_PER_CHECK, 1), (PLACES_PER_CHECK, 4), (0, 4)]
)
def test_a_seek_is_seen_though_the_summaries_before_and_after_it_are_the_same(
    places: int, acknowledged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker's summary is as old as its statistics; acknowledgements come before the answer."""
    monkeypatch.setattr(monitor, "PLACES_PER_CHECK", places)
    world = World()
    world.topic.acknowledged = {"a": 0}
    world.publish(4, every_ms=1_000)
    before = world.summaries()
    world.topic.acknowledged["a"] = acknowledged
    world.check(before)
    assert world.view().age_s == (None if acknowledged == 4 else 3.0)
    world.topic.acknowledged["a"] = 0
    world.check(world.summaries())
    assert world.summaries() == before
    assert world.view().age_s == 4.0


def test_a_summary_that_comes_to_agree_with_the_last_answer_asks_nothing(world: World) -> None:
    """The answer was ahead of it."""
    world.topic.acknowledged = {"a": 0}
    world.publish(4)
    before = world.summaries()
    world.topic.acknowledged["a"] = 1
    world.check(before)
    world.check()
    assert world.asked["AskStorage"] == 1


def test_entries_that_are_acknowledged_one_by_one_ask_for_no_storage_again(world: World) -> None:
    """The summary has fewer of them than lie behind the position."""
    world.topic.acknowledged = {"a": 0}
    world.publish(4)
    (summary,) = world.summaries()
    for _ in range(3):
        world.check([replace(summary, backlogs={"a": 2})])
    assert world.asked["AskStorage"] == 1


def test_an_acknowledged_ledger_end_leads_to_the_next_ledger(world: World) -> None:
    """The first unacknowledged entry is the first one of the following ledger."""
    world.topic.acknowledged = {"a": 5}
    world.publish(7, every_ms=1_000)
    world.check()
    assert world.view().position == Position(2, 0)
    assert world.view().age_s == 2.0


@pytest.mark.shows("pip-323/estimated")
def test_estimated_ages_are_those_of_the_ends_of_ledgers(estimating: World) -> None:
    """14 messages: two closed ledgers and an open one with four, whose messages have no age."""
    world = estimating
    world.topic.acknowledged = {"a": 0}
    world.publish(14, every_ms=1_000)
    world.check()
    assert world.view().publish_ms == START_MS + 4_000
    world.topic.acknowledged["a"] = 5
    world.check()
    assert world.view().publish_ms == START_MS + 9_000
    assert world.asked["AskClosings"] == 1  # the second ledger's end was told with the first one's
    world.topic.acknowledged["a"] = 11
    world.check()
    assert (world.view().age_s, world.view().subscription) == (None, "a")
    assert world.asked["AskEntry"] == 0


def test_a_reader_holds_no_backlog(world: World) -> None:
    """Its cursor is not durable."""
    world.publish(3)
    storage = world.topic.storage()
    reader = MemoryTopicStorage(acknowledged={"reader-1": 0})
    reader.entries = world.topic.entries
    cursors = [
        type(cursor)(cursor.name, cursor.mark_delete, durable=False)
        for cursor in reader.storage().cursors
    ]
    assert type(storage)(storage.ledgers, cursors).oldest() is None


@pytest.mark.parametrize(
    ("name", "internal"),
    [("pulsar.dedup", True), ("__compaction", True), ("pulsar.repl.west", True), ("mine", False)],
)
def test_pulsars_own_cursors_are_told_apart(world: World, name: str, internal: bool) -> None:
    """They count, as in the broker, and no consumer can shorten them."""
    world.topic.acknowledged = {name: 0}
    world.publish()
    world.check()
    assert (world.view().subscription, world.view().internal) == (name, internal)


def test_every_partition_is_a_topic_of_its_own(world: World) -> None:
    """Each by its own name, with its own oldest subscription."""
    for index in range(3):
        part = world.topics.setdefault(f"{TOPIC}-partition-{index}", MemoryTopicStorage())
        part.acknowledged = {"a": 0}
        part.publish(START_MS - index * 1_000)
    world.check()
    ages = [world.view(f"{TOPIC}-partition-{index}").age_s for index in range(3)]
    assert ages == [0.0, 1.0, 2.0]


def test_a_topic_that_moved_away_is_forgotten_and_read_anew_when_it_comes_back(
    world: World,
) -> None:
    """Another broker may have evicted something meanwhile."""
    world.topic.acknowledged = {"a": 0}
    world.publish(2)
    world.check()
    topic = world.topics.pop(TOPIC)
    world.check()
    assert world.monitor.view(TOPIC, world.now_ms) is None
    world.topics[TOPIC] = topic
    world.check()
    assert world.asked["AskEntry"] == 2
    assert world.view().age_s == 0.0


def test_a_topic_that_is_gone_during_a_check_is_forgotten(world: World) -> None:
    """An answer that comes after that is about nothing."""
    world.topic.acknowledged = {"a": 0}
    world.publish()
    world.monitor.begin([world.topic.summary(TOPIC)], world.now_ms)
    world.monitor.gone(TOPIC)
    assert world.monitor.storage_read(TOPIC, world.topic.storage(), world.now_ms) == []
    world.monitor.entry_read(TOPIC, Position(1, 0), 0, world.now_ms)
    assert world.monitor.views(world.now_ms) == ()


def test_a_question_that_fails_leaves_what_was_known_and_is_asked_again(world: World) -> None:
    """The age grows on, and the reason is told."""
    world.topic.acknowledged = {"a": 0}
    world.publish(2)
    world.check()
    world.pass_s(5)
    world.monitor.failed(AskStorage(TOPIC), "500")
    assert (world.view().age_s, world.view().problem) == (5.0, "500")
    world.check()
    assert world.view().problem == ""
    assert world.asked["AskStorage"] == 2


def test_an_age_is_never_negative_and_a_clock_that_is_ahead_is_told_of(world: World) -> None:
    """A producer stamps messages with its own clock."""
    world.topic.acknowledged = {"a": 0}
    world.topic.publish(START_MS + 60_000)
    world.check()
    assert (world.view().age_s, world.view().skewed) == (0.0, True)


def test_a_message_that_is_older_than_its_ledger_is_told_of(world: World) -> None:
    """Its producer's clock is behind; the age is what the broker would say, too."""
    world.topic.acknowledged = {"a": 0}
    world.topic.publish(START_MS - 86_400_000)
    world.topic.publish(START_MS)
    world.check()
    assert (world.view().age_s, world.view().implausible) == (86_400.0, True)


def test_a_quota_is_believed_for_a_time(world: World) -> None:
    """The monitor then asks again: it may have changed."""
    world.topic.acknowledged = {"a": 0}
    world.topic.quota = BacklogQuota(age_s=5)
    world.publish()
    world.check()
    world.pass_s(15)
    world.check()
    assert world.asked["AskQuota"] == 1
    world.topic.quota = BacklogQuota(age_s=100)
    world.pass_s(15)
    world.check()
    quota = world.view().quota
    assert quota is not None
    assert quota.age_s == 100


def test_a_quota_is_asked_for_again_when_the_clock_was_set_back(world: World) -> None:
    """It cannot tell how old the last answer is."""
    world.topic.acknowledged = {"a": 0}
    world.topic.quota = BacklogQuota(age_s=5)
    world.publish()
    world.check()
    world.pass_s(-3_600)
    world.check()
    assert world.asked["AskQuota"] == 2


@pytest.mark.parametrize("places", [0, 1, PLACES_PER_CHECK])
def test_the_partitions_of_a_topic_have_one_quota(
    world: World, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for once for all of them, by the name of the topic, and a change is seen by all."""
    monkeypatch.setattr(monitor, "PLACES_PER_CHECK", places)
    names = [f"{TOPIC}-partition-{index}" for index in range(20)]
    for name in names:
        world.topics[name] = MemoryTopicStorage(
            acknowledged={"a": 0}, quota=BacklogQuota(age_s=5, age_policy=QuotaPolicy.REFUSE)
        )
        world.topics[name].publish(START_MS)
    world.check()
    assert {world.view(name).quota for name in names} == {world.topics[names[0]].quota}
    assert world.asked["AskQuota"] == 1
    for name in names:
        world.topics[name].quota = NO_QUOTA
    world.pass_s(60)
    world.check()
    assert {world.view(name).quota for name in names} == {NO_QUOTA}
    assert world.asked["AskQuota"] == 2


def test_a_quota_that_is_refused_is_told_by_every_partition_until_it_is_not(world: World) -> None:
    """Their ages are known all the same, and nothing else is asked for again."""
    name = f"{TOPIC}-partition-3"
    world.topics[name] = MemoryTopicStorage(acknowledged={"a": 0})
    world.topics[name].publish(START_MS)
    world.check()
    world.monitor.failed(AskQuota(TOPIC), "401")
    assert (world.view(name).problem, world.view(name).age_s) == ("401", 0.0)
    world.asked.clear()
    world.check()
    assert (world.view(name).problem, world.asked) == ("", {"AskQuota": 1})


def test_with_many_topics_behind_a_check_asks_for_the_oldest_quotas_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new topic's at once, and all topics' in a few checks; the broker's time for it is bounded."""
    most = 50
    monkeypatch.setattr("coordinator.backlog.rules.monitor.QUOTAS_PER_CHECK", most)
    names = [f"{TOPIC}-{number}" for number in range(2 * most + 10)]
    for name in names:
        world.topics[name] = MemoryTopicStorage()
        world.topics[name].acknowledged = {"a": 0}
        world.topics[name].publish(world.now_ms, 1024)
        world.topics[name].quota = BacklogQuota(age_s=5)
    world.check()
    assert world.asked["AskQuota"] == len(names)
    changed = BacklogQuota(age_s=100)
    for name in names:
        world.topics[name].quota = changed
    for known in (most, 2 * most, len(names)):
        world.pass_s(60)
        world.check()
        assert sum(world.view(name).quota == changed for name in names) == known
    assert world.asked["AskQuota"] == 2 * len(names) + most - 10


@pytest.mark.parametrize(
    ("quota", "exceeded"),
    [
        (BacklogQuota(), None),
        (BacklogQuota(size_bytes=10 * 1024), QuotaType.SIZE),
        (BacklogQuota(size_bytes=10 * 1024 + 1), None),
        (BacklogQuota(age_s=9), QuotaType.TIME),
        (BacklogQuota(age_s=10), None),
        (BacklogQuota(size_bytes=1, age_s=1), QuotaType.SIZE),
        (BacklogQuota(size_bytes=0), QuotaType.SIZE),
        (BacklogQuota(size_bytes=2**63 - 1, age_s=2**31 - 1), None),
    ],
)
def test_a_size_is_exceeded_from_its_limit_on_and_an_age_beyond_it(
    world: World, quota: BacklogQuota, exceeded: QuotaType | None
) -> None:
    """Pulsar's rules, absurd quotas included; of both the size comes first."""
    world.topic.acknowledged = {"a": 0}
    world.topic.quota = quota
    world.publish(10)
    world.pass_s(10)
    world.check()
    assert world.view().exceeded is exceeded


def test_an_empty_backlog_exceeds_no_quota(world: World) -> None:
    """A quota of 0 bytes does not block the producers of a topic without a backlog."""
    world.topic.acknowledged = {"a": 0}
    world.topic.quota = BacklogQuota(size_bytes=0)
    world.publish()
    world.check()
    world.topic.acknowledged = {"a": 1}
    world.check()
    assert world.view().exceeded is None


def test_a_backlog_beyond_a_quota_of_nothing_uses_more_than_all_of_it(world: World) -> None:
    """It stands before those of other topics that are within theirs."""
    world.topic.acknowledged = {"a": 0}
    world.topic.quota = BacklogQuota(size_bytes=0, age_s=100)
    world.publish(10)
    world.pass_s(50)
    world.check()
    assert (world.view().fullest, world.view().used(QuotaType.SIZE)) == (QuotaType.SIZE, 10 * 1024)


def test_a_backlog_that_grows_steadily_says_when_it_reaches_its_quota(world: World) -> None:
    """1 KiB a second, 100 KiB allowed; and a backlog of one stuck message ages a second a second."""
    world.topic.quota = BacklogQuota(size_bytes=100 * 1024, age_s=100)
    world.topic.acknowledged = {"a": 0}
    for _ in range(10):
        world.publish(1, every_ms=1_000)
        world.check()
    view = world.view()
    assert view.growth is not None
    assert view.growth.per_s == pytest.approx(1024)
    assert view.until_size is not None
    assert view.until_size.expected_s == pytest.approx(90)
    assert view.until_age is not None
    assert view.until_age.expected_s == pytest.approx(90)


@pytest.mark.parametrize("places", [0, 1, PLACES_PER_CHECK])
def test_the_monitor_agrees_with_a_plain_look_at_all_messages(
    places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishing and acknowledging at random on several topics, and glancing at any part of them."""
    monkeypatch.setattr(monitor, "PLACES_PER_CHECK", places)
    for seed in range(12):
        print(f"seed {seed}")  # noqa: T201  # pytest shows it when the test fails
        dice = random.Random(seed)
        world = World()
        for number in range(5):
            topic = MemoryTopicStorage(entries_per_ledger=dice.randint(1, 6))
            topic.acknowledged = dict.fromkeys("abc"[: dice.randint(1, 3)], 0)
            world.topics[f"{TOPIC}-{number}"] = topic
        for _ in range(60):
            topic = dice.choice(list(world.topics.values()))
            if dice.random() < 0.6:
                topic.publish(world.now_ms, dice.randint(1, 2_000))
            else:
                name = dice.choice(list(topic.acknowledged))
                topic.acknowledged[name] = dice.randint(0, len(topic.entries))
            world.pass_s(dice.random())
            if dice.random() < 0.3:
                world.check()
                for name, checked in world.topics.items():
                    view = world.view(name)
                    least = min(checked.acknowledged.values())
                    behind = checked.entries[least:]
                    expected = (world.now_ms - behind[0][1]) / 1000 if behind else None
                    assert view.age_s == expected
                    assert abs(view.size_bytes - sum(size for size, _ in behind)) <= 6 * 2_000
