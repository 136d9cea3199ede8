"""The stories, told by the same code about any `System`: six acts of twenty seconds, or one long one.

`Story` changes what it can, act by act. `SaturatedStory` changes nothing: all brokers start at once, more
is wanted than the limit for the whole of its one act, and buckets.py judges what passed.

Every act has an event, and three moments belong to it: when the story makes it *happen*, when it can be
*known* to those who must react, and when the act *ends*, a fixed time after it was known. A limit is
known when the request that changed it was answered, a producer when the broker that serves it counts it
as a publisher, a death when the others no longer list the dead broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from deploy.demo.counters import CounterSampler
from deploy.demo.recording import Act, DemoRecording, LimitChange, Sample
from deploy.demo.system import System
from deploy.local.errors import LocalClusterError
from deploy.local.waiting import wait_for, wait_until

#: The group's limit, and the offered load of each broker's topic, in messages per second. Each of them
#: wants more than its share of the doubled limit, so that all stay saturated throughout.
LIMIT = 3_000
DEMANDS = {"broker-1": 5_000, "broker-2": 2_500, "broker-3": 5_000}
JOINER = "broker-3"
MORTAL = "broker-2"

#: After the last act, so that every topic has a sample behind its end.
_LAST_SAMPLES_S = 0.5


def load_of(broker: str) -> str:
    """Name the program that is a broker's load."""
    return f"load-{broker}"


@dataclass(slots=True)
class StoryProgress:
    """Where the story stands, for the screen; written by the story alone.

    Attributes:
        number: of the act, from 1; 0 before the first.
        title: of the act.
        limit: the group's limit.
        began_s: when the first act began.
        limits: all limits so far.
    """

    number: int = 0
    title: str = "setting up"
    limit: int = LIMIT
    began_s: float = field(default_factory=time.monotonic)
    limits: list[LimitChange] = field(default_factory=list)


ActPlan = tuple[str, str, Callable[[], float]]
"""An act's event, its title, and what makes it happen and returns when that was known."""


class Story:
    """Tells the story once.

    Args:
        system: set up, without load.
        topics: of each broker, by its name.
        sampler: samples these topics.
        warm_up: warms a broker up that has come back.
        act_s: how long an act lasts after its event is known, in seconds.
    """

    ends_with_dispatch: ClassVar[bool] = True
    """Whether the scene of a dispatch limit follows (dispatch.py), where the system has one."""

    def __init__(
        self,
        system: System,
        topics: dict[str, str],
        sampler: CounterSampler,
        warm_up: Callable[[str], None],
        act_s: float = 20.0,
    ) -> None:
        self._system = system
        self._topics = topics
        self._sampler = sampler
        self._warm_up = warm_up
        self._act_s = act_s
        #: Offered messages per second of every topic that has load.
        self._offered: dict[str, int] = {}
        self._killed_s: float | None = None
        self.stage = StoryProgress()
        self._acts = self._plan()

    @property
    def acts(self) -> int:
        """The number of acts."""
        return len(self._acts)

    def tell(self) -> DemoRecording:
        """Play all acts and return what was recorded.

        Raises:
            LocalClusterError: a process died, or an event never became known.
        """
        self.stage.began_s = time.monotonic()
        self.stage.limits.append(LimitChange(self.stage.began_s, LIMIT))
        acts: list[Act] = []
        for number, (event, title, happen) in enumerate(self._acts, start=1):
            self.stage.number, self.stage.title = number, title
            happened_s = time.monotonic()
            known_s = happen()
            wait_for(known_s + self._act_s, self._attend)
            acts.append(
                Act(
                    event=event,
                    title=title,
                    happened_s=happened_s,
                    known_s=known_s,
                    ended_s=time.monotonic(),
                    limit=self.stage.limit,
                    demands=self._all_demands(title),
                )
            )
        wait_for(time.monotonic() + _LAST_SAMPLES_S, self._attend)
        return DemoRecording(
            samples=self._sampler.samples,
            misses=self._sampler.misses,
            acts=tuple(acts),
            limits=tuple(self.stage.limits),
            killed_s=self._killed_s,
        )

    def demands(self) -> dict[str, int]:
        """Return what is offered now to each broker that serves a producer, messages per second."""
        offered: dict[str, int] = {}
        for topic, rate in self._offered.items():
            sample = self._sampler.latest(topic)
            if sample is not None and sample.clients:
                offered[sample.broker] = offered.get(sample.broker, 0) + rate
        return offered

    def _plan(self) -> tuple[ActPlan, ...]:
        return (
            ("start", "two brokers start", self._start),
            ("join", f"{JOINER} joins", self._join),
            ("double", "limit doubled", lambda: self._change_limit(2 * LIMIT)),
            ("halve", "limit halved", lambda: self._change_limit(LIMIT)),
            ("kill", f"{MORTAL} killed", self._kill),
            ("return", f"{MORTAL} returns", self._return),
        )

    def _all_demands(self, title: str) -> dict[str, int]:
        demands = self.demands()
        if sum(demands.values()) != sum(self._offered.values()):
            raise LocalClusterError(
                f"At the end of '{title}' a client had no connection to its topic."
            )
        return demands

    def _start(self) -> float:
        return self._start_each([broker for broker in DEMANDS if broker != JOINER])

    def _start_each(self, brokers: Sequence[str]) -> float:
        for broker in brokers:
            self._add_load(broker)
        return max(self._until_published(self._topics[broker], broker) for broker in brokers)

    def _join(self) -> float:
        self._add_load(JOINER)
        return self._until_published(self._topics[JOINER], JOINER)

    def _change_limit(self, limit: int) -> float:
        call = self._system.set_limit(limit)
        # While the request is under way either limit may hold; the higher one is taken to.
        in_force_s = call.sent_s if limit > self.stage.limit else call.answered_s
        self.stage.limits.append(LimitChange(in_force_s, limit))
        self.stage.limit = limit
        return call.answered_s

    def _kill(self) -> float:
        self._killed_s = self._system.kill(MORTAL)
        wait_until(
            lambda: self._system.is_gone(MORTAL),
            f"{MORTAL} is still listed as alive",
            self._attend,
        )
        return time.monotonic()

    def _return(self) -> float:
        self._system.bring_back(MORTAL)
        self._warm_up(MORTAL)
        self._system.topics.move(self._topics[MORTAL], self._system.brokers[MORTAL])
        return self._until_published(self._topics[MORTAL], MORTAL)

    def _add_load(self, broker: str) -> None:
        topic, rate = self._topics[broker], DEMANDS[broker]
        self._system.start_load(load_of(broker), topic, rate)
        self._offered[topic] = rate

    def _until_published(self, topic: str, broker: str) -> float:
        """Wait until this broker counts a publisher of the topic; return when it was first seen to."""

        def seen() -> Sample | None:
            sample = self._sampler.latest(topic)
            return sample if sample and sample.broker == broker and sample.clients else None

        trouble = f"{broker} serves no publisher of {topic}"
        sample = wait_until(seen, trouble, self._attend)
        assert sample is not None
        return sample.at_s

    def _attend(self) -> None:
        self._system.programs.check()
        if not self._sampler.alive:
            raise LocalClusterError("The brokers' counters are no longer sampled.")


class SaturatedStory(Story):
    """WSO2's protocol: every broker's clients want more than its share, and nothing else happens."""

    ends_with_dispatch = False

    def _plan(self) -> tuple[ActPlan, ...]:
        return (("start", "all brokers saturated", lambda: self._start_each(list(DEMANDS))),)
