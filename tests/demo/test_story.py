"""The story told about a system that obeys at once, so that its moments can be checked."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from deploy.demo.recording import DemoRecording, Sample
from deploy.demo.story import DEMANDS, JOINER, LIMIT, MORTAL, SaturatedStory, Story
from deploy.demo.system import RestCall

TOPICS = {broker: f"persistent://t/n/{broker}" for broker in DEMANDS}


class ObedientSystem:
    """A system and its sampler: every broker with load receives publishes."""

    samples = ()
    misses = ()
    alive = True

    def __init__(self) -> None:
        self.programs = self.topics = self
        self.brokers = dict.fromkeys(DEMANDS, "a broker")
        self.limits: list[int] = []
        self.owners: dict[str, str] = {}
        self.killed_s: float | None = None
        self.returned: list[str] = []

    def check(self) -> None:
        """All processes live."""

    def start_load(self, name: str, topic: str, rate: int) -> None:
        broker = name.removeprefix("load-")
        assert (TOPICS[broker], DEMANDS[broker]) == (topic, rate)
        self.owners[topic] = broker

    def latest(self, topic: str) -> Sample | None:
        now_s = time.monotonic()
        owner = self.owners.get(topic)
        return Sample(topic, owner, now_s, now_s, 1, 1) if owner else None

    def set_limit(self, limit: int) -> RestCall:
        self.limits.append(limit)
        now_s = time.monotonic()
        return RestCall(now_s, now_s + 0.01)

    def kill(self, broker: str) -> float:
        self.owners[TOPICS[broker]] = "broker-1"
        self.killed_s = time.monotonic()
        return self.killed_s

    def is_gone(self, broker: str) -> bool:
        assert broker == MORTAL
        assert self.killed_s is not None
        return time.monotonic() > self.killed_s + 0.02

    def bring_back(self, broker: str) -> None:
        assert broker == MORTAL
        self.returned.append("is back")

    def warm_up(self, broker: str) -> None:
        assert broker == MORTAL
        self.returned.append("is warm")

    def move(self, topic: str, _destination: str) -> None:
        self.returned.append("has its topic")
        self.owners[topic] = MORTAL


@pytest.fixture(scope="module")
def system() -> ObedientSystem:
    """One system for one telling."""
    return ObedientSystem()


@pytest.fixture(scope="module")
def told(system: ObedientSystem) -> DemoRecording:
    """The story, with acts of a hundredth of a second."""
    return Story(system, TOPICS, system, system.warm_up, act_s=0.01).tell()  # type: ignore[arg-type]


@pytest.mark.slow
def test_every_act_happens_is_known_and_ends_before_the_next(told: DemoRecording) -> None:
    """In this order."""
    assert [a.event for a in told.acts] == ["start", "join", "double", "halve", "kill", "return"]
    for act in told.acts:
        assert act.happened_s <= act.known_s < act.ended_s
    for before, after in pairwise(told.acts):
        assert before.ended_s <= after.happened_s


@pytest.mark.slow
def test_the_limit_is_doubled_when_asked_and_halved_when_answered(
    told: DemoRecording, system: ObedientSystem
) -> None:
    """While a request is under way, the higher limit is taken to hold."""
    assert system.limits == [2 * LIMIT, LIMIT]
    assert [change.limit for change in told.limits] == [LIMIT, 2 * LIMIT, LIMIT]
    _, doubled, halved = told.limits
    _, _, double, halve, *_ = told.acts
    assert doubled.at_s < double.known_s
    assert halved.at_s == halve.known_s


@pytest.mark.slow
def test_demands_follow_the_topics(told: DemoRecording) -> None:
    """The dead broker's load falls to a survivor, and goes back with its topic."""
    start, join, _, _, kill, back = (dict(act.demands) for act in told.acts)
    assert start == {name: rate for name, rate in DEMANDS.items() if name != JOINER}
    assert join == back == DEMANDS
    assert kill == {"broker-1": DEMANDS["broker-1"] + DEMANDS[MORTAL], "broker-3": DEMANDS[JOINER]}


@pytest.mark.slow
def test_a_death_is_known_when_the_others_know_it(told: DemoRecording) -> None:
    """The moment of the death itself does not count."""
    kill = told.acts[4]
    assert told.killed_s is not None
    assert kill.happened_s <= told.killed_s <= kill.known_s - 0.02


@pytest.mark.slow
def test_a_broker_that_returns_is_warm_before_it_has_its_topic(
    told: DemoRecording, system: ObedientSystem
) -> None:
    """Its Java is a new one."""
    assert told.acts[-1].event == "return"
    assert system.returned == ["is back", "is warm", "has its topic"]


def test_the_saturated_story_is_one_act_with_the_load_of_every_broker() -> None:
    """Nothing is changed in it."""
    system = ObedientSystem()

    told = SaturatedStory(system, TOPICS, system, system.warm_up, act_s=0.01).tell()  # type: ignore[arg-type]

    assert [(act.event, dict(act.demands)) for act in told.acts] == [("start", DEMANDS)]
    assert system.limits == []
    assert told.killed_s is None
