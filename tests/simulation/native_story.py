"""The demo's story on simulated brokers without gates, judged by the demo's own figures.

All chance comes from the seed: the phases at which brokers compute and report, delays, the moments of the
events within a second, who serves the topics of the broker that is killed, and how long it takes brokers
and sidecars to find the topic of entries again if that broker served it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

from coordinator.core.model import (
    NANOS_PER_SECOND,
    AnyRates,
    ExactRates,
    MonitoringClass,
    Rates,
    TrafficKey,
    Unit,
)
from coordinator.core.settings import CoreSettings
from coordinator.simulation.host import Host
from coordinator.simulation.native import NativeHost
from coordinator.simulation.native_broker import NativeBroker, UsageTopic
from coordinator.simulation.traffic import Constant, Load
from coordinator.simulation.world import World
from deploy.demo.figures import DemoFigures, evaluate
from deploy.demo.recording import Act, DemoRecording, LimitChange, Sample

LIMIT: Final = 3_000
DEMANDS: Final = {"broker-1": 5_000, "broker-2": 2_500, "broker-3": 5_000}
JOINER: Final = "broker-3"
MORTAL: Final = "broker-2"
GROUP: Final = "g"
_KEY: Final = (GROUP, MonitoringClass.PUBLISH)
_SAMPLED_EVERY_NS: Final = NANOS_PER_SECOND // 10
_SESSION_S: Final = 4
_MOVES_WITHIN_S: Final = (5.0, 7.0)
"""Seconds after its kill in which a broker's topics are served again."""

_RECONNECT_S: Final = (6.0, 13.0)
"""A reader of a topic that lost its broker tries again after 6.3 and 12.7 s, the client's backoff."""

_WINDOW_NS: Final = NANOS_PER_SECOND // 2
"""A client has hundreds of messages under way, which pass at once when a bucket is filled."""

_ACT_S: Final = 20
_FIRST_S: Final = 12


@dataclass(frozen=True, slots=True)
class LimitSet:
    """A local limit that a core set, and when."""

    at_s: float
    broker: str
    limit: int | None


class _WatchedHost(NativeHost):
    """Tells the story of the limits that its core sets."""

    def __init__(self, *given: Any, story: NativeStory, **options: Any) -> None:
        self._story = story
        super().__init__(*given, **options)

    def _limit(self, group: str, limits: AnyRates, *, leased: bool) -> None:
        at_s = self._schedule.now_ns / NANOS_PER_SECOND
        whole = limits.whole if isinstance(limits, ExactRates) else limits
        self._story.limits_set.append(LimitSet(at_s, self.name, whole.publish_messages))
        super()._limit(group, limits, leased=leased)


@dataclass(slots=True)
class NativeStory:
    """One run of the story.

    Args:
        seed: of all chance.
        headroom_permille: of the records.
        owner_dies: whether the killed broker serves the topic of entries.
        stalls: whether brokers stand still now and then, as on a busy machine.
        sidecar_dies: whether a broker's sidecar ends for good, five seconds into the last act.
        acts: how many of them to play, from the first.
        computed: told of each broker that has just computed its quotas.
    """

    seed: int
    headroom_permille: int = 1000
    owner_dies: bool = False
    stalls: bool = False
    sidecar_dies: bool = False
    acts: int = 6
    computed: Callable[[NativeBroker], None] | None = None
    limits_set: list[LimitSet] = field(init=False, default_factory=list)
    world: World = field(init=False)
    topic: UsageTopic = field(init=False)
    _rng: Random = field(init=False)
    _counts: dict[str, int] = field(init=False, default_factory=dict)
    _samples: list[Sample] = field(init=False, default_factory=list)
    _offered: dict[str, int] = field(init=False, default_factory=dict)
    _acts: list[Act] = field(init=False, default_factory=list)
    _limits: list[LimitChange] = field(init=False, default_factory=list)
    _killed_s: float | None = field(init=False, default=None)
    _limit: int = field(init=False, default=LIMIT)

    def play(self) -> tuple[DemoRecording, DemoFigures]:
        """Play it; return its recording and figures."""
        self._rng = Random(self.seed)
        end_s = _FIRST_S + self.acts * (_ACT_S + 1) + 12
        self.world = World(self.seed, end_s)
        self.topic = UsageTopic(self.world.schedule, Random(self.seed + 1))
        self.topic.computed = self.computed
        kind = partial(
            _WatchedHost,
            story=self,
            topic=self.topic,
            headroom_permille=self.headroom_permille,
        )
        self.world.kinds = dict.fromkeys(DEMANDS, kind)
        self.world.passed = self._passed  # type: ignore[method-assign]
        self._define(LIMIT)
        for broker in DEMANDS:
            self._begin(broker)
        self.world.schedule.after(_SAMPLED_EVERY_NS, self._sample)
        last_s = self._plan()
        if self.stalls:
            self._plan_stalls(last_s)
        if self.sidecar_dies:
            self.world.at(last_s - _ACT_S + 5.0, self._lose_sidecar)
        self.world.schedule.run_until(round((last_s + 0.5) * NANOS_PER_SECOND))
        recording = DemoRecording(self._samples, (), self._acts, self._limits, self._killed_s)
        return recording, evaluate(recording)

    # The acts.

    def _plan(self) -> float:
        """Plan all acts; return when the last one ends."""
        at_s = _FIRST_S + self._rng.random()
        self._limits.append(LimitChange(0.0, LIMIT))
        first, second = (name for name in DEMANDS if name != JOINER)
        between_s = 0.6 * self._rng.random()
        self.world.at(at_s, partial(self._offer, first))
        self.world.at(at_s + between_s, partial(self._offer, second))
        at_s = self._act("start", at_s, at_s + between_s)
        later = (self._join, self._double, self._halve, self._kill, self._return)
        for act in later[: self.acts - 1]:
            at_s = act(at_s)
        return at_s

    def _act(self, event: str, at_s: float, known_s: float) -> float:
        end_s = known_s + _ACT_S
        self.world.at(end_s - 1e-6, partial(self._close, event, at_s, known_s, end_s))
        return end_s + self._rng.random()

    def _close(self, event: str, at_s: float, known_s: float, end_s: float) -> None:
        act = Act(event, event, at_s, known_s, end_s, self._limit, dict(self._offered))
        self._acts.append(act)

    def _join(self, at_s: float) -> float:
        self.world.at(at_s, partial(self._offer, JOINER))
        return self._act("join", at_s, at_s)

    def _double(self, at_s: float) -> float:
        return self._change(at_s, "double", 2 * LIMIT)

    def _halve(self, at_s: float) -> float:
        return self._change(at_s, "halve", LIMIT)

    def _change(self, at_s: float, event: str, limit: int) -> float:
        self._limits.append(LimitChange(at_s, limit))
        self.world.at(at_s, partial(self._define, limit))
        return self._act(event, at_s, at_s)

    def _kill(self, at_s: float) -> float:
        self._killed_s = at_s
        heir = self._rng.choice([name for name in DEMANDS if name != MORTAL])
        moved_s = at_s + self._rng.uniform(*_MOVES_WITHIN_S)
        self.world.at(at_s, self._die)
        self.world.at(moved_s, partial(self._offer, heir, DEMANDS[heir] + DEMANDS[MORTAL]))
        return self._act("kill", at_s, at_s + _SESSION_S)

    def _die(self) -> None:
        self.world.crash(MORTAL)
        self._offered.pop(MORTAL)
        if not self.owner_dies:
            return
        for name in DEMANDS:
            for reader in (name, f"sidecar of {name}"):
                away_ns = round(self._rng.uniform(*_RECONNECT_S) * NANOS_PER_SECOND)
                self.topic.disconnect(reader, self.world.schedule.now_ns + away_ns)

    def _return(self, at_s: float) -> float:
        self.world.at(at_s, partial(self._begin, MORTAL))
        known_s = at_s + 6 + self._rng.random()
        for name in DEMANDS:
            self.world.at(known_s, partial(self._offer, name))
        return self._act("return", at_s, known_s)

    # The world.

    def _begin(self, broker: str) -> None:
        self._counts.pop(broker, None)
        session_ns = _SESSION_S * NANOS_PER_SECOND
        settings = CoreSettings(broker=broker, session_timeout_ns=session_ns)
        self.world.start(broker, {GROUP: Constant(None)}, settings=settings)

    def _offer(self, broker: str, rate: int = 0) -> None:
        self._offered[broker] = rate or DEMANDS[broker]
        source = Constant(self._offered[broker], message_bytes=100)
        host = self.world.hosts[broker]
        host.loads[_KEY] = Load(source, None, Unit.MESSAGES, _WINDOW_NS)

    def _define(self, limit: int) -> None:
        self._limit = limit
        rates = Rates(publish_messages=limit)
        self.world.define(GROUP, rates, law="max-min", policy="balanced")

    def _plan_stalls(self, end_s: float) -> None:
        """A broker stands still for 0.2 to 0.7 s, one of them about every ten seconds."""
        at_s = float(_FIRST_S)
        while (at_s := at_s + self._rng.expovariate(0.1)) < end_s:
            broker = self._rng.choice(tuple(DEMANDS))
            still_ns = self._rng.randint(2, 7) * NANOS_PER_SECOND // 10
            self.world.at(at_s, partial(self._stand_still, broker, still_ns))

    def _lose_sidecar(self) -> None:
        host = self.world.hosts[MORTAL]
        assert isinstance(host, NativeHost)
        host.kill_sidecar()

    def _stand_still(self, broker: str, still_ns: int) -> None:
        host = self.world.hosts.get(broker)
        if isinstance(host, NativeHost):
            host.server.stand_still(still_ns)

    def _passed(self, host: Host, key: TrafficKey, load: Load, admitted: int) -> None:  # noqa: ARG002
        self._counts[host.name] = self._counts.get(host.name, 0) + admitted

    def _sample(self) -> None:
        self.world.schedule.after(_SAMPLED_EVERY_NS, self._sample)
        now_s = self.world.schedule.now_ns / NANOS_PER_SECOND
        for broker in self.world.hosts:
            count = self._counts.get(broker, 0)
            self._samples.append(Sample(broker, broker, now_s, now_s, count, 1))


def seconds(recording: DemoRecording) -> list[Mapping[str, int]]:
    """Return what each broker passed, second by second, to look at."""
    last: dict[str, int] = {}
    found: dict[int, dict[str, int]] = {}
    for sample in recording.samples:
        before = last.get(sample.broker, 0)
        passed = sample.messages - before if sample.messages >= before else 0
        last[sample.broker] = sample.messages
        of_second = found.setdefault(int(sample.at_s - 1e-6), {})
        of_second[sample.broker] = of_second.get(sample.broker, 0) + passed
    return [found.get(second, {}) for second in range(max(found) + 1)]
