"""Brokers hold their parts of a dispatch limit by their topics' rates."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coordinator.core.model import NANOS_PER_SECOND, Attachments, MonitoringClass, Rates
from coordinator.native.engine.counting import CounterBook, TopicCount
from coordinator.native.engine.dispatch import DispatchSteering
from coordinator.native.engine.entries import NOTHING
from coordinator.native.engine.rate_policy import NO_RATE, PolicyRate
from coordinator.native.engine.steering import Steering
from coordinator.native.engine.table import Statement

S = NANOS_PER_SECOND
HALF = S // 2
A, B = "persistent://t/n/a", "persistent://t/n/b"


class Pulsar:
    """The rates that topics have, for all brokers."""

    def __init__(self) -> None:
        self.rates: dict[str, PolicyRate] = {}
        self.by_operator: dict[str, PolicyRate] = {}
        self.floor: PolicyRate = NO_RATE
        self.partitions: dict[str, int] = {}

    def rate(self, topic: str) -> PolicyRate:
        """The rate in force of each partition."""
        return self.rates.get(topic) or self.by_operator.get(topic) or self.floor


class Broker:
    """One broker with its sidecar, whose consumers are sent what the rates let."""

    def __init__(self, pulsar: Pulsar, part: int = 600, whole: int = 600) -> None:
        self.pulsar = pulsar
        self.steering = Steering()
        self.steering.set_whole({"g": Rates(dispatch_messages=whole)})
        self.steering.set_attachments(Attachments({}, {"t/n": "g"}))
        self.limit(dispatch_messages=part)
        self.dispatch = DispatchSteering(self.steering)
        self.now_ns = 0
        #: Wanted per second, by topic or partition; and sent since the start.
        self.wants: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.writes = 0

    def limit(self, **limits: int) -> None:
        """Its local limit."""
        self.steering.set_limits("g", Rates(**limits))

    def hear(self, *sidecars: str, gates: tuple[str, ...] = ()) -> None:
        """These sidecars live and write for their brokers; some have a gate, too."""
        self.steering.set_members(sidecars)
        for name in sidecars:
            said = Statement(f"of-{name}", {"g": NOTHING}, name, name, has_gate=name in gates)
            self.steering.take(said, self.now_ns)

    def poll(self, seconds: float = 1.0, consumers: int = 1) -> dict[str, int]:
        """Poll twice a second and write what is due; return what was sent, by topic or partition."""
        before = dict(self.sent)
        for _ in range(round(2 * seconds)):
            self.now_ns += HALF
            for name, want in self.wants.items():
                most = self.pulsar.rate(_base(name)).messages
                self.sent[name] = (
                    self.sent.get(name, 0) + min(want, want if most is None else most) // 2
                )
            counts = [
                TopicCount("t/n", n, 0, 0, s, 9 * s, 0, consumers) for n, s in self.sent.items()
            ]
            self.dispatch.poll(counts, HALF, self.now_ns)
            for topic in self.dispatch.written_topics():
                self.dispatch.seen(topic, self.pulsar.rate(topic), self.now_ns)
            self.write()
        return {name: total - before.get(name, 0) for name, total in self.sent.items()}

    def write(self) -> None:
        """Write all that is due, after what was set before was read."""
        for due in self.dispatch.due(self.now_ns):
            if not due.is_known:
                by_operator = self.pulsar.by_operator.get(due.topic, NO_RATE)
                present = self.pulsar.rates.get(due.topic)
                partitions = self.pulsar.partitions.get(due.topic, 0)
                self.dispatch.found(
                    due.topic, by_operator, present, self.now_ns, partitions=partitions
                )
        for due in self.dispatch.due(self.now_ns):
            if due.is_known:
                self.pulsar.rates[due.topic] = due.rate
                self.dispatch.written(due.topic, due.rate, self.now_ns)
                self.writes += 1


def _base(name: str) -> str:
    return name.partition("-partition-")[0]


def floored(broker: Broker, messages: int) -> Broker:
    """The broker, whose namespace has this floor."""
    broker.pulsar.floor = PolicyRate(messages)
    broker.dispatch.default_found("t/n", NO_RATE)
    broker.dispatch.floor_in_force("t/n", PolicyRate(messages))
    return broker


def test_dispatch_is_limited_as_soon_as_a_group_with_a_limit_is_attached() -> None:
    """Before this broker has a part of it; publishing alone is no limit of dispatch."""
    steering = Steering()
    dispatch = DispatchSteering(steering)
    found = []
    for limits in (Rates(publish_messages=600), Rates(dispatch_messages=600)):
        for attached in ({}, {"t/n": "g"}):
            steering.set_whole({"g": limits})
            steering.set_attachments(Attachments({}, attached))
            found.append(dispatch.is_limited)
    assert found == [False, False, False, True]


def test_a_part_is_shared_by_the_topics_that_want_more() -> None:
    """Once it is, nothing is written."""
    broker = floored(Broker(Pulsar()), 10)
    broker.wants = {A: 5_000, B: 5_000}
    broker.poll(4)
    assert broker.poll() == {A: 300, B: 300}
    written = broker.writes
    assert broker.poll(10) == {A: 3_000, B: 3_000}
    assert broker.writes == written


def test_topics_with_little_use_cost_no_write() -> None:
    """A thousand of them keep the floor, and what they use is not given to others."""
    broker = floored(Broker(Pulsar(), part=5_000), 10)
    broker.wants = {f"persistent://t/n/little-{number}": 2 for number in range(1_000)} | {A: 9_000}
    broker.poll(5)
    assert broker.pulsar.rates.keys() == {A}
    assert broker.poll()[A] == pytest.approx(3_000, abs=2)


def test_without_a_floor_each_topic_with_consumers_gets_a_rate() -> None:
    """It would be unlimited otherwise."""
    broker = Broker(Pulsar())
    broker.wants = {A: 0, B: 1}
    broker.poll(2)
    assert broker.pulsar.rates.keys() == {A, B}


def test_what_an_operator_has_set_is_the_most_that_a_topic_gets() -> None:
    """The other topic gets the rest; the same for the default of the namespace."""
    pulsar = Pulsar()
    pulsar.by_operator[A] = PolicyRate(50)
    broker = floored(Broker(pulsar), 10)
    broker.wants = {A: 5_000, B: 5_000}
    broker.poll(4)
    assert broker.poll() == {A: 50, B: 550}
    broker.dispatch.default_found("t/n", PolicyRate(100))
    broker.poll(2)
    assert broker.poll() == {A: 50, B: 100}


def test_a_topic_at_the_rate_of_its_operator_does_not_count_as_held() -> None:
    """Its broker would be given a larger part that it cannot use."""
    pulsar = Pulsar()
    pulsar.by_operator[A] = PolicyRate(50)
    broker = floored(Broker(pulsar), 10)
    broker.wants = {A: 5_000}
    waiting = {}
    for name, wants in (("one", {A: 5_000}), ("both", {A: 5_000, B: 5_000})):
        broker.wants = wants
        broker.poll(6)
        broker.steering.count({}, HALF, broker.now_ns)
        native = broker.steering.by_set["g",]
        waiting[name] = native.dispatched[0].held_permille
    assert waiting == {"one": 0, "both": 1000}


def test_a_topic_a_little_below_the_rate_of_its_operator_does_not_count_as_held() -> None:
    """It would draw the limit to its broker, which has no use for it."""
    broker = floored(Broker(Pulsar()), 10)
    broker.pulsar.by_operator[A] = PolicyRate(50)
    broker.wants = {A: 5_000}
    for written, held in ((PolicyRate(49), 0), (PolicyRate(40), 1)):
        broker.poll(5)
        broker.dispatch.written(A, written, broker.now_ns)
        (groups,) = broker.dispatch._rates
        assert broker.dispatch._held(groups, broker.now_ns)[0] == held


@pytest.mark.parametrize("seed", range(3))
def test_partitions_at_several_brokers_come_to_the_rate_that_all_can_give(seed: int) -> None:
    """The least counts; it is tried again seldom, and never for long."""
    pulsar = Pulsar()
    pulsar.partitions[A] = 3
    brokers = [Broker(pulsar, part=200), Broker(pulsar, part=200)]
    for broker in brokers:
        floored(broker, 10)
    brokers[0].wants = {f"{A}-partition-0": 900, f"{A}-partition-1": 900}
    brokers[1].wants = {f"{A}-partition-2": 900}
    order = brokers if seed % 2 else brokers[::-1]
    for _ in range(600):
        for broker in order:
            broker.poll(0.5)
    sums = [{each: sum(each.poll(1).values()) for each in order} for _ in range(300)]
    first = [found[brokers[0]] for found in sums]
    assert sum(first) / 300 <= 200 * 1.03, first
    assert sum(first) / 300 >= 200 * 0.9, first


def test_a_broker_whose_partitions_are_held_by_another_one_does_not_count_as_held() -> None:
    """So the law gives what it does not use to others."""
    pulsar = Pulsar()
    pulsar.partitions[A] = 6
    broker = floored(Broker(pulsar, part=200), 10)
    broker.wants = {f"{A}-partition-0": 900}
    broker.poll(6)
    for _ in range(12):
        pulsar.rates[A] = PolicyRate(100)  # as another sidecar writes it again and again
        broker.poll(0.5)
        broker.steering.count({}, HALF, broker.now_ns)
    assert broker.steering.by_set["g",].dispatched[0].held_permille == 0


def test_a_topic_without_consumers_is_idle_and_one_that_moved_is_forgotten() -> None:
    """The first goes back to the floor by a write, the second is another broker's."""
    broker = floored(Broker(Pulsar()), 10)
    broker.wants = {A: 5_000, B: 5_000}
    broker.poll(3)
    broker.wants = {}
    broker.poll(9, consumers=0)
    assert broker.dispatch.idle(broker.now_ns) == ()
    broker.poll(2, consumers=0)
    assert sorted(broker.dispatch.idle(broker.now_ns)) == [A, B]
    broker.sent = {}
    broker.poll(1)
    assert broker.dispatch.idle(broker.now_ns) == ()
    assert broker.dispatch.written_topics() == ()


def test_a_sidecar_goes_on_from_the_rate_that_it_finds() -> None:
    """A topic that has moved here keeps its rate where that fits."""
    pulsar = Pulsar()
    first, second = floored(Broker(pulsar), 10), floored(Broker(pulsar), 10)
    first.wants = {A: 5_000}
    first.poll(4)
    assert pulsar.rates[A] == PolicyRate(600)
    second.wants = {A: 5_000}
    second.poll(4)
    assert (second.writes, second.poll()) == (0, {A: 600})


def test_a_rate_that_was_found_is_not_lowered_by_much_at_first() -> None:
    """The sidecar has the reserve of a newcomer until the law knows what its clients want."""
    broker = floored(Broker(Pulsar(), part=5), 10)
    broker.pulsar.rates[A] = PolicyRate(300)
    broker.wants = {A: 5_000}
    broker.poll(9)
    assert broker.pulsar.rates[A] == PolicyRate(300)
    broker.poll(3)
    assert broker.pulsar.rates[A] == PolicyRate(5)


def test_both_units_are_held() -> None:
    """Of 9 bytes each, 100 messages are 900 bytes."""
    broker = floored(Broker(Pulsar()), 10)
    broker.dispatch.floor_in_force("t/n", PolicyRate(10, 90))
    broker.limit(dispatch_messages=600, dispatch_bytes=900)
    broker.wants = {A: 5_000}
    broker.poll(4)
    assert broker.pulsar.rates[A] == PolicyRate(600, 900)


def test_a_floor_is_a_small_part_of_each_brokers_equal_part() -> None:
    """None where a sidecar has a gate, or does not write for its broker, for half a minute."""
    broker = Broker(Pulsar(), whole=6_000)
    assert broker.dispatch.floors() == {"t/n": NO_RATE}
    broker.hear("a", "b", "c")
    broker.poll()
    assert broker.dispatch.floors() == {"t/n": PolicyRate(100)}
    broker.hear("a", "b", "c", gates=("c",))
    broker.poll(29)
    assert broker.dispatch.floors() == {"t/n": PolicyRate(100)}
    broker.poll(3)
    assert broker.dispatch.floors() == {"t/n": NO_RATE}
    assert broker.dispatch.has_floors is False


def test_nothing_is_due_behind_a_gate_or_without_a_limit() -> None:
    """Neither rates nor floors."""
    for steering in (Steering(behind_gate=True), Steering()):
        if steering.behind_gate:
            steering.set_limits("g", Rates(dispatch_messages=5))
            steering.set_whole({"g": Rates(dispatch_messages=5)})
        steering.set_attachments(Attachments({}, {"t/n": "g"}))
        dispatch = DispatchSteering(steering)
        for second in (1, 2):
            dispatch.poll([TopicCount("t/n", A, consumers=1)], S, second * S)
        found: Mapping[str, PolicyRate] = dispatch.floors()
        assert (dispatch.due(2 * S), found) == ([], {})


AUDIT, OTHER = "persistent/t/n/a/audit", "persistent/t/n/b/audit"


class Subscriptions:
    """A broker with two subscriptions of a group of their own, and the namespace of a third group."""

    def __init__(self) -> None:
        self.steering = Steering()
        whole = {"g": Rates(dispatch_messages=6_000), "audit": Rates(dispatch_messages=300)}
        self.steering.set_whole(whole)
        owners = {AUDIT: "audit", OTHER: "audit"}
        self.steering.set_attachments(Attachments({}, {"t/n": "g"}, subscriptions=owners))
        self.steering.set_limits("g", Rates(dispatch_messages=6_000))
        self.steering.set_limits("audit", Rates(dispatch_messages=300))
        self.dispatch = DispatchSteering(self.steering)
        self.book = CounterBook()
        self.now_ns = self.sent = 0

    def poll(self, seconds: int, each: int) -> None:
        """Send at this rate to each subscription, of three partitions of one topic; write."""
        for _ in range(2 * seconds):
            self.now_ns += HALF
            self.sent += each // 2
            topics = [f"{A}-partition-{number}" for number in range(3)]
            counts = [
                TopicCount("t/n", topic, 0, 0, self.sent, 0, 0, 1, 0, subscription)
                for topic in (*topics, B)
                for subscription in ("", "audit")
            ]
            self.dispatch.poll(counts, HALF, self.now_ns)
            self.steering.count(self.book.poll(counts), HALF, self.now_ns)
            for due in self.dispatch.due(self.now_ns):
                if not due.is_known:
                    self.dispatch.found(due.topic, NO_RATE, None, self.now_ns)
            for due in self.dispatch.due(self.now_ns):
                self.dispatch.written(due.topic, due.rate, self.now_ns)


def test_subscriptions_share_the_limit_of_their_group() -> None:
    """By partitions: four of them have a fourth each. Pulsar needs no record of such a group."""
    world = Subscriptions()
    world.poll(10, 100)
    rates = {name: world.dispatch._policies[name].rate for name in (AUDIT, OTHER)}
    assert rates == {AUDIT: PolicyRate(75), OTHER: PolicyRate(75)}
    assert list(world.steering.records()) == ["g"]
    assert list(world.steering.attachments()) == ["t/n"]
    assert world.dispatch.floors().keys() <= {"t/n"}
    assert {view.name for view in world.steering.views()} == {"g", "audit"}


def test_a_subscription_counts_against_its_own_group_once() -> None:
    """Its namespace's group counts the topic's messages, of all subscriptions together."""
    world = Subscriptions()
    world.poll(1, 0)
    world.steering.collect(world.now_ns)
    world.poll(4, 1_000)
    world.now_ns += S
    sent = {
        each.group: each.participants
        for each in world.steering.collect(world.now_ns)
        if each.monitoring_class is MonitoringClass.DISPATCH
    }
    assert sent == {"g": 4, "audit": 4}


def test_an_idle_subscription_has_the_floor_of_its_group() -> None:
    """A twentieth of an equal part, where no sidecar has a gate; else its own limit alone."""
    world = Subscriptions()
    world.dispatch.set_own_limit(AUDIT, PolicyRate(300))
    assert world.dispatch.idle_rate(AUDIT) == PolicyRate(300)
    world.steering.set_members(("a",))
    world.steering.take(Statement("of-a", {"g": NOTHING}, "a", "a"), world.now_ns)
    world.poll(1, 0)
    assert world.dispatch.idle_rate(AUDIT) == PolicyRate(15)
    assert world.dispatch.idle_rate(OTHER) == NO_RATE
