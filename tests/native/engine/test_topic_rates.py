"""Rates of topics add up to their group's part, follow demand, and are seldom written."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.native.engine.rate_policy import LEAST
from coordinator.native.engine.topic_rates import TopicRates, split

POLL_NS = NANOS_PER_SECOND // 2
DELAY_NS = 400_000_000
"""A written rate is in force then."""

Demand = Callable[[int], Mapping[str, int]]
"""The messages that clients want of each topic, by second."""


class Story:
    """A broker whose topics are sent what their clients want and their rates let."""

    def __init__(self, part: Callable[[int], int], demand: Demand) -> None:
        self._part, self._demand = part, demand
        self.rates = TopicRates()
        self.in_force: dict[str, int] = {}
        self._under_way: list[tuple[int, str, int]] = []
        #: What was sent, by poll; what was written, by poll.
        self.sent: list[dict[str, int]] = []
        self.writes: list[int] = []

    def run(self, seconds: int) -> None:
        """Poll twice a second."""
        for poll in range(2 * seconds):
            now_ns = poll * POLL_NS
            wants = self._demand(poll // 2)
            for at_ns, name, rate in tuple(self._under_way):
                if at_ns <= now_ns:
                    self.in_force[name] = rate
                    self._under_way.remove((at_ns, name, rate))
            sent = {name: min(want, self.in_force.get(name, LEAST)) for name, want in wants.items()}
            self.sent.append(sent)
            uses = {name: {name: use} for name, use in sent.items()}
            decided = self.rates.decide(self._part(poll // 2), uses, {}, (), now_ns)
            for name, rate in decided.items():
                self.rates.written(name, rate, now_ns)
                self._under_way.append((now_ns + DELAY_NS, name, rate))
            self.writes.append(len(decided))

    def total(self, second: int) -> int:
        """The messages that were sent in a second."""
        return sum(sum(sent.values()) for sent in self.sent[2 * second : 2 * second + 2]) // 2


def test_a_saturated_part_is_split_equally_within_three_seconds() -> None:
    """Of three topics that want more, and none is written again."""
    story = Story(lambda _: 600, lambda _: dict.fromkeys("abc", 1_000))
    story.run(20)
    assert story.sent[-1] == dict.fromkeys("abc", 200)
    assert story.total(3) == 600
    assert sum(story.writes[8:]) == 0


def test_what_one_topic_leaves_another_one_gets() -> None:
    """A topic whose clients want a tenth keeps that and some room; the others share the rest."""
    story = Story(lambda _: 600, lambda _: {"a": 1_000, "b": 1_000, "c": 60})
    story.run(20)
    last = story.sent[-1]
    assert last["c"] == 60
    assert last["a"] == pytest.approx(264, abs=2)
    assert last["a"] == pytest.approx(last["b"], abs=2)


def test_a_topic_that_wants_more_has_its_part_within_three_seconds() -> None:
    """The rates never add up to more meanwhile."""
    story = Story(lambda _: 600, lambda s: {"a": 1_000, "b": 1_000 if s >= 10 else 30})
    story.run(20)
    assert story.sent[2 * 14]["b"] == pytest.approx(300, abs=45)
    assert all(story.total(second) <= 600 for second in range(20))


def test_a_lower_part_is_kept_at_once() -> None:
    """Within a second of the change."""
    story = Story(lambda s: 600 if s < 10 else 300, lambda _: dict.fromkeys("abcd", 1_000))
    story.run(20)
    assert all(story.total(second) <= 300 for second in range(11, 20))
    assert story.total(13) == 300


@pytest.mark.parametrize("seed", range(20))
def test_rates_never_add_up_to_more_than_the_part(seed: int) -> None:
    """Demands, topics and parts change all the time; a topic's least rate may be too much."""
    dice = random.Random(seed)
    names = [f"t{number}" for number in range(dice.randint(1, 12))]
    levels = {name: [dice.choice((0, 5, 50, 500)) for _ in range(60)] for name in names}
    there = {name: dice.randint(0, 20) for name in names}
    story = Story(
        lambda _: 600,
        lambda s: {name: levels[name][s] for name in names if s >= there[name]} or {"t": 1},
    )
    story.run(60)
    for second in range(60):
        assert story.total(second) <= 600 + len(names) * LEAST, f"seed {seed}, second {second}"
    assert sum(story.writes) <= 60 * len(names)


def test_more_topics_than_messages_have_one_each() -> None:
    """Pulsar knows no lower rate."""
    assert divided(3, **dict.fromkeys("abcde")) == dict.fromkeys("abcde", LEAST)


def test_a_split_adds_up_to_the_part() -> None:
    """The remainder goes to the first by name."""
    assert divided(100, a=None, b=10, c=None) == {"a": 45, "b": 10, "c": 45}
    assert divided(101, a=10, b=10) == {"a": 51, "b": 50}


def test_no_topic_gets_more_than_its_most() -> None:
    """Neither what it wants nor what is left over."""
    assert divided(100, {"a": 20}, a=None, b=None) == {"a": 20, "b": 80}
    assert divided(100, {"a": 20, "b": 30}, a=None, b=10) == {"a": 20, "b": 30}


def test_partitions_have_the_rate_of_the_one_that_wants_most() -> None:
    """The other one counts with what it wants, so a second topic gets the rest."""
    rates = TopicRates()
    rates.written("a", 100, 0)
    rates.written("b", 100, 0)
    uses = {"a": {"a-0": 100, "a-1": 5}, "b": {"b": 100}}
    decided = rates.decide(300, uses, {}, (), NANOS_PER_SECOND)
    assert decided == {"a": 147, "b": 147}


def test_a_debt_that_is_small_beside_the_new_rate_delays_no_rise() -> None:
    """A topic with the least rate owes a second's worth with its second message."""
    rates = TopicRates()
    rates.written("a", LEAST, 0)
    second = NANOS_PER_SECOND
    rates.count("a", {"a": 5}, second // 2, 2 * second)
    assert rates.decide(200, {"a": {"a": 5}}, {}, (), 2 * second) == {"a": 200}
    rates.written("a", 200, 2 * second)
    rates.count("a", {"a": 500}, second // 2, 4 * second)
    assert rates.decide(300, {"a": {"a": 1_000}}, {}, (), 4 * second) == {}


def test_a_rate_that_is_a_little_above_the_part_is_lowered_after_a_while() -> None:
    """A hundredth of the part is worth no write, unless it stays."""
    rates = TopicRates()
    rates.written("a", 202, 0)
    decided = {
        s: rates.decide(200, {"a": {"a": 202}}, {}, (), s * NANOS_PER_SECOND) for s in range(1, 8)
    }
    assert [second for second, found in decided.items() if found] == [6, 7]
    assert decided[6] == {"a": 200}


def divided(
    part: int, most: Mapping[str, int] | None = None, **wants: int | None
) -> dict[str, int]:
    """Split among topics without partitions."""
    return split(part, {name: {name: want} for name, want in wants.items()}, most or {})
