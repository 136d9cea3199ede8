"""Pulsar's records and attachments, kept by one sidecar at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Attachments, Rates
from coordinator.native.engine.conditions import Observed
from coordinator.native.engine.counting import CounterReading, NamespaceCount, TopicCount
from coordinator.native.engine.dispatch import DispatchSteering
from coordinator.native.engine.entries import Amounts, Record
from coordinator.native.engine.replication import ReplicationBook
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.table import Statement
from coordinator.native.engine.topic_limits import TopicLimitBook
from coordinator.native.shell.polling import Polling
from coordinator.native.shell.upkeep import UNUSED_AFTER_NS, Upkeep
from coordinator.ports import BrokerUnreachable, PortError, Refused
from tests.memory.native import MemoryNativeAdmin
from tests.memory.surroundings import ManualClock

S = NANOS_PER_SECOND


class Pulsar(MemoryNativeAdmin):
    """Records and attachments in memory, and what was written of them."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = {"t/n": "", "t/free": ""}
        self.writes: list[object] = []

    async def set_record(self, group: str, record: Record) -> None:
        """Write it."""
        await super().set_record(group, record)
        self.writes.append((group, record))

    async def attach(self, namespace: str, group: str) -> None:
        """Attach it."""
        await super().attach(namespace, group)
        self.writes.append((namespace, group))


class Answers:
    """The answers of a broker, one after the other; `native.engine.outside.OwnerCounters`."""

    def __init__(self, *answers: float | PortError | None) -> None:
        """Each is why there are no counters, or when the broker says that its process started."""
        self._answers = deque(answers)

    async def read(self, *_: Collection[str]) -> CounterReading:
        """Counters of a topic of each namespace; the last answer is given again."""
        answer = self._answers[0] if len(self._answers) == 1 else self._answers.popleft()
        if isinstance(answer, PortError):
            raise answer
        return CounterReading([TopicCount("t/n", "t"), TopicCount("t/free", "t")], answer)


REFUSED = Refused("GET /metrics/ answered 401")
UNREACHABLE = BrokerUnreachable("GET /metrics/: ConnectError")
FAILED = BrokerUnreachable("GET /metrics/ answered 500")


class World:
    """One sidecar's upkeep of one group."""

    def __init__(self, rank: int | None = 0, headroom_permille: int = 0) -> None:
        self.clock, self.pulsar, self.seen = ManualClock(100 * S), Pulsar(), Observed()
        self.steering = Steering(headroom_permille=headroom_permille)
        self.steering.start(0)
        self.upkeep = Upkeep(self.steering, self.pulsar, self.seen, self.clock)
        self.upkeep.rank = rank
        self.limit(3_000)
        self.steering.set_attachments(Attachments({}, {"t/n": "g"}))

    def limit(self, messages: int) -> None:
        """Define the group so."""
        self.upkeep.known = frozenset({"g"})
        self.steering.set_whole({"g": Rates(publish_messages=messages)})

    def hear_itself(self) -> None:
        """Let what the sidecar writes arrive."""
        self.steering.decide(self.clock.now_ns())
        for broker, amounts in list(self.steering.to_write(self.clock.now_ns())):
            self.steering.take(Statement(broker, amounts, "a", "s"), self.clock.now_ns())

    def polls(self, *answers: float | PortError | None) -> Polling:
        """Return the polls of a broker that gives these answers, one after the other."""
        dispatch, limits = DispatchSteering(self.steering), TopicLimitBook()
        return Polling(
            Answers(*answers),
            self.steering,
            dispatch,
            limits,
            ReplicationBook(),
            self.seen,
            self.clock,
            0.5,
        )

    async def after(self, seconds: float) -> None:
        """Run the upkeep again after this time."""
        self.clock.advance(round(seconds * S))
        await self.upkeep.look()


async def test_the_first_member_makes_what_is_missing() -> None:
    """The record at kappa of the limit, then the attachment; and once."""
    world = World()
    await world.after(0)
    await world.after(2)
    assert world.pulsar.writes == [("g", Record(1_500, -1)), ("t/n", "g")]


async def test_a_namespace_is_attached_a_second_after_its_group_was_made() -> None:
    """A broker that hears of the attachment first forgets it."""
    world = World()
    await world.after(0)
    await world.after(0.5)
    assert world.pulsar.writes == [("g", Record(1_500, -1))]
    await world.after(0.5)
    assert world.pulsar.writes == [("g", Record(1_500, -1)), ("t/n", "g")]


async def test_a_group_that_its_broker_has_forgotten_is_attached_again() -> None:
    """After 4, 14, 34 and 74 seconds, with or without messages, and no more once the broker names it."""
    world = World()
    world.steering.start(0)
    world.steering.set_limits("g", Rates(publish_messages=3_000))
    await world.after(0)
    await world.after(1)
    began_ns, attached_again_s = world.clock.now_ns(), []
    for _ in range(160):
        world.pulsar.writes.clear()
        world.hear_itself()
        await world.after(0.5)
        if world.pulsar.writes:
            assert world.pulsar.writes == [("t/n", "g")]
            attached_again_s.append(round((world.clock.now_ns() - began_ns) / S))
    assert attached_again_s == [4, 14, 34, 74]
    assert "g" in world.seen.forgotten

    named = Statement("pulsar://a:6650", {}, producer="p", named=frozenset({"g"}))
    world.steering.take(named, world.clock.now_ns())
    world.pulsar.writes.clear()
    await world.after(0)
    assert world.pulsar.writes == []
    assert not world.seen.forgotten


async def test_a_namespace_of_which_too_much_passes_is_attached_again() -> None:
    """Its topics have no limiter if they were loaded before the broker knew the group."""
    world = World()
    world.steering.start(0)
    world.steering.set_limits("g", Rates(publish_messages=3_000))
    await world.after(0)
    await world.after(1)
    for passed in (30_000, 3_000):
        world.pulsar.writes.clear()
        named = Statement("pulsar://a:6650", {}, producer="p", named=frozenset({"g"}))
        for _ in range(16):
            world.hear_itself()
            world.steering.take(named, world.clock.now_ns())
            count = NamespaceCount(messages=passed // 2)
            world.steering.count({"t/n": count}, S // 2, world.clock.now_ns())
            await world.after(0.5)
        assert world.pulsar.writes == ([("t/n", "g")] if passed == 30_000 else [])
        assert world.seen.overflowing == (("t/n",) if passed == 30_000 else ())


async def test_topics_that_a_broker_loaded_early_are_attached_again_once_it_names_their_group() -> (
    None
):
    """Within half a second, and once; a namespace that others moved meanwhile is left to them."""
    world = World()
    world.steering.set_attachments(Attachments({}, {"t/n": "g", "t/free": "g"}))
    await world.after(0)
    await world.after(1)
    polling = world.polls(10.0, 20.0)
    for _ in range(2):
        await polling.poll()
    world.pulsar.writes.clear()
    world.pulsar.groups["t/free"] = "other"
    await world.after(0.5)
    assert world.pulsar.writes == []

    named = Statement("pulsar://a:6650", {}, producer="p", named=frozenset({"g"}))
    world.steering.take(named, world.clock.now_ns())
    await polling.poll()
    for _ in range(3):
        await world.after(0.5)
    assert world.pulsar.writes == [("t/n", "g")]


@pytest.mark.parametrize(
    ("answers", "has_started"),
    [
        ((10.0, 20.0), True),
        ((10.0, UNREACHABLE, 20.0), True),
        ((UNREACHABLE, REFUSED, 10.0), True),
        ((UNREACHABLE, None), True),
        ((REFUSED, 10.0), False),
        ((10.0, FAILED, 10.0), False),
        ((10.0, UNREACHABLE, UNREACHABLE, 10.0), False),
        ((None, FAILED, None), False),
        ((10.0, None, 10.0), False),
        ((10.0, None, 20.0), True),
    ],
)
async def test_a_broker_has_started_when_its_process_is_another_or_was_not_there_before(
    answers: tuple[float | PortError | None, ...], has_started: bool
) -> None:
    """Pulsar answers 500 now and then while subscriptions come and go: that is no start."""
    world = World()
    await world.after(0)
    polling = world.polls(*answers)
    expected = []
    for _ in answers:
        await polling.poll()
        expected.append(world.steering.early.is_expected)
    assert expected == [False] * (len(answers) - 1) + [has_started]


@pytest.mark.parametrize(
    ("amounts", "passed", "is_due"),
    [
        ({"g": Amounts(5)}, 0, True),
        ({"g": Amounts(5)}, 10, False),
        ({"g": Amounts()}, 0, False),
        ({"other": Amounts(5)}, 0, False),
    ],
)
async def test_a_poll_is_due_once_a_broker_reports_use_of_a_group_that_had_none(
    amounts: dict[str, Amounts], passed: int, *, is_due: bool
) -> None:
    """Of a group that is limited; more use of one that had some is seen at the next poll."""
    world = World()
    await world.after(0)
    world.steering.count({"t/n": NamespaceCount(messages=passed)}, NANOS_PER_SECOND, 0)
    polling = world.polls(10.0)
    polling.heard(Statement("pulsar://a:6650", {}))
    assert not polling.has_news
    polling.heard(Statement("pulsar://a:6650", amounts))
    assert polling.has_news is is_due


async def test_a_poll_is_due_once_settings_have_changed() -> None:
    """As dispatch may be limited from now on, for which polls must not be rare."""
    polling = World().polls(10.0)
    assert not polling.has_news
    polling.settings_changed()
    assert polling.has_news


async def test_the_second_waits_for_its_turn() -> None:
    """A sidecar that is no member writes nothing."""
    world, outsider = World(rank=1), World(rank=None)
    await world.after(0)
    assert world.pulsar.writes == []
    await world.after(2)
    await world.after(2)
    await world.after(2)
    assert len(world.pulsar.writes) == 2
    await outsider.after(0)
    await outsider.after(99)
    assert outsider.pulsar.writes == []


async def test_what_others_change_is_seen_told_and_set_again() -> None:
    """Records and attachments."""
    world = World()
    await world.after(0)
    await world.after(1)
    world.pulsar.records["g"] = Record(9, -1)
    world.pulsar.groups["t/n"] = ""
    await world.after(2)
    assert world.seen.edited == {}
    await world.after(2)
    assert world.pulsar.records["g"] == Record(1_500, -1)
    assert world.pulsar.groups["t/n"] == "g"
    assert set(world.seen.edited) == {"g", "t/n"}


async def test_a_record_that_is_right_again_at_the_next_look_was_no_edit() -> None:
    """A broker's cache may answer once with what was there before a write."""
    world = World()
    await world.after(0)
    world.pulsar.records["g"] = Record(9, -1)
    await world.after(2)
    world.pulsar.records["g"] = Record(1_500, -1)
    await world.after(2)
    world.pulsar.records["g"] = Record(9, -1)
    await world.after(0.5)
    assert world.seen.edited == {}


async def test_a_peer_that_knows_a_new_limit_earlier_edits_nothing() -> None:
    """The record stays as the peer has set it, and nothing is told."""
    world = World()
    await world.after(0)
    world.pulsar.records["g"] = Record(2_500, -1)
    await world.after(0.1)
    world.limit(5_000)
    await world.after(2)
    assert world.pulsar.records["g"] == Record(2_500, -1)
    assert world.seen.edited == {}


async def test_a_raised_limit_is_written_at_once_and_a_lowered_one_later() -> None:
    """Each write lets a whole record pass, so one that is not needed waits while the group is used."""
    world = World()
    await world.after(0)
    world.steering.set_limits("g", Rates(publish_messages=3_000))
    world.steering.count({"t/n": NamespaceCount(messages=500)}, S, world.clock.now_ns())
    world.limit(2_500)
    await world.after(2)
    assert world.pulsar.records["g"] == Record(1_500, -1)
    await world.after(UNUSED_AFTER_NS / S)
    assert world.pulsar.records["g"] == Record(1_250, -1)
    world.limit(5_000)
    await world.after(2)
    assert world.pulsar.records["g"] == Record(2_500, -1)


async def test_a_raised_limit_within_the_headroom_is_not_written_while_the_group_is_used() -> None:
    """No broker then lets a whole record pass; without traffic the record follows at once."""
    world = World(headroom_permille=1_000)
    await world.after(0)
    assert world.pulsar.records["g"] == Record(3_030, -1)
    world.steering.set_limits("g", Rates(publish_messages=3_000))
    world.steering.count({"t/n": NamespaceCount(messages=500)}, S, world.clock.now_ns())
    for limit in (6_000, 3_000):
        world.limit(limit)
        await world.after(60)
        assert world.pulsar.records["g"] == Record(3_030, -1)
    world.limit(6_000)
    world.steering.collect(world.clock.now_ns())
    world.steering.collect(world.clock.now_ns() + 10 * S)
    world.steering.count({}, 10 * S, world.clock.now_ns())
    await world.after(2)
    assert world.pulsar.records["g"] == Record(6_060, -1)
    assert world.seen.edited == {}


async def test_a_record_with_room_waits_until_every_broker_had_the_time_to_report() -> None:
    """Entries of idle brokers are no use; a broker's own report of use is, for as long as it is new."""
    world = World()
    world.pulsar.records["g"] = Record(3_000, -1)
    world.steering.start(world.clock.now_ns())
    await world.after(0)
    await world.after(5)
    assert world.pulsar.records["g"] == Record(3_000, -1)
    idle = Statement("pulsar://b:6650", {"g": Amounts(1_000)}, sidecar="b")
    world.steering.take(idle, world.clock.now_ns())
    in_use = Statement("pulsar://b:6650", {"g": Amounts(1)}, producer="p")
    world.steering.take(in_use, world.clock.now_ns())
    await world.after(5)
    assert world.pulsar.records["g"] == Record(3_000, -1)
    world.steering.take(idle, world.clock.now_ns())
    await world.after(2)
    assert world.pulsar.records["g"] == Record(1_500, -1)


async def test_a_namespace_in_a_group_of_theirs_is_left_there() -> None:
    """The upkeep tells of it."""
    world = World()
    world.pulsar.groups["t/n"] = "theirs"
    await world.after(0)
    await world.after(60)
    assert world.pulsar.groups["t/n"] == "theirs"
    assert world.seen.foreign == {"t/n": "theirs"}


async def test_a_namespace_that_is_attached_no_more_is_told_as_theirs_no_more() -> None:
    """Nothing here concerns it any longer."""
    world = World()
    world.pulsar.groups["t/n"] = "theirs"
    await world.after(0)
    assert world.seen.foreign == {"t/n": "theirs"}
    world.steering.set_attachments(Attachments())
    await world.after(2)
    assert world.seen.foreign == {}


async def test_a_group_that_is_attached_again_at_another_limit_was_edited_by_no_one_else() -> None:
    """Its record is still what it was when the last namespace was detached."""
    world = World()
    await world.after(0)
    await world.after(1)
    world.steering.set_attachments(Attachments())
    await world.after(2)
    world.limit(5_000)
    world.steering.set_attachments(Attachments({}, {"t/n": "g"}))
    for _ in range(2):
        await world.after(2)
    assert world.pulsar.records["g"] == Record(2_500, -1)
    assert world.seen.edited == {}


async def test_a_namespace_that_cannot_be_asked_for_keeps_no_other_from_its_group() -> None:
    """Pulsar has none of such a name; it is told at each look."""
    world = World()
    world.pulsar.groups["t/a b"] = ""
    world.steering.set_attachments(Attachments({"t": "g"}, {}))
    for seconds in (0, 1, 2):
        with pytest.raises(ValueError, match="is not a name"):
            await world.after(seconds)
    assert world.pulsar.groups == {"t/n": "g", "t/free": "g", "t/a b": ""}


async def test_a_group_that_is_refused_keeps_no_other_from_its_record() -> None:
    """Its namespaces are attached, too."""
    world = World()
    world.upkeep.known = frozenset({"a", "g"})
    limits = Rates(publish_messages=3_000)
    world.steering.set_whole({"a": limits, "g": limits})
    world.steering.set_attachments(Attachments({}, {"t/free": "a", "t/n": "g"}))
    set_record = world.pulsar.set_record

    async def refuse(group: str, record: Record) -> None:
        if group == "a":
            raise Refused("PUT /a answered 412")
        await set_record(group, record)

    world.pulsar.set_record = refuse  # type: ignore[method-assign]
    for seconds in (0, 1):
        with pytest.raises(Refused, match="answered 412"):
            await world.after(seconds)
    assert world.pulsar.writes == [("g", Record(1_500, -1)), ("t/n", "g")]


async def test_a_tenants_namespaces_follow_new_ones_too() -> None:
    """They leave when the tenant is detached."""
    world = World()
    world.steering.set_attachments(Attachments({"t": "g"}, {}))
    await world.after(0)
    world.pulsar.groups["t/new"] = ""
    await world.after(6)
    assert set(world.pulsar.groups.values()) == {"g"}
    world.steering.set_attachments(Attachments())
    await world.after(6)
    await world.after(6)
    assert set(world.pulsar.groups.values()) == {""}
