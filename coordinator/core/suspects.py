"""Reporters that cannot be telling the truth: what harm they can do, and who they are.

A broker that enforces nothing lets through what it likes; no protocol prevents that. What is bounded here
is what a liar does to the *others*, and it gets a name:

=====================  ===============================  ==============================================
what it says           what it can do at most           named when
=====================  ===============================  ==============================================
it wants endlessly     get its fair share: a throttled  never: it may be true
                       broker's demand is unbounded
it uses more than it   get its fair share under         it says to use twice what it says that it may
may                    max-min, which does not ask;
                       under laws that go by usage what
                       one gets that uses all of it
it uses nothing        get less itself                  never: it may be true
it holds more than it  keep the others from raising     it says to hold twice its target, to hear
is due                 themselves until it is named;    everybody, and to go by the same definitions
                       then it counts with an equal     and members
                       part at the most
it has not heard       delay each raise of the others   never: it may be true
                       by ``hold`` (raising.py)
reports without end    have the work of twice as many   it sends more
                       as a sidecar sends done; the
                       others are dropped
reports after its      nothing: they are dropped        at once: its incarnation is over
farewell
=====================  ===============================  ==============================================

Flood and farewell are certain at once. The other two are looked at once a round, in up to MAX_JUDGED
groups and dimensions in turn, and can happen to an honest broker for a moment: a limit falls in the
middle of a round, one large batch passes on credit, a view is old. So each look at which a broker's word
cannot be counts one, each one at which it can takes one away, and it is named at NAMED_AT: later than the
owner of an old view says so itself (``silence_rounds``). What differs by less than a hundredth of the
group's limit is not worth a name.

Naming is this sidecar's own judgement, as it depends on when what was heard. So it never enters a split,
which must be the same everywhere: it decides only how much of what somebody says to hold keeps this
broker from raising itself (decisions.py). Whoever is judged wrongly, and does hold more than an equal
part, makes the sum of the limits larger by so much; that is what the certificate says meanwhile. Under
``strict`` nobody waits for anybody's word: a false statement of the books moves no more than its sender
has to give.

Weights are believed: under ``weights: topics`` a broker that claims more topics than it has gets their
part. What is used of a limit that is tried out is not judged, because that one holds nothing back. Not
compared here is what a broker reports with its own statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice

from coordinator.core.agreement import Agreement
from coordinator.core.allocation import Split
from coordinator.core.model import Dimension, ResourceGroup, UsageReport
from coordinator.core.observing import is_observed
from coordinator.core.policies import STRICT
from coordinator.core.settings import CoreSettings
from coordinator.core.usage_map import UsageMap

NAMED_AT = 21
"""Looks at which a broker's word could not be, less those at which it could."""

MAX_JUDGED = 500
"""Groups and dimensions looked at in one round."""

MAX_WATCHED = 4_096
"""Words that could not be and are counted; at the bound no further one is until another is cleared."""

MAX_NAMES = 256
"""Names that are remembered; further liars are capped and dropped like the others, but not named."""

_SLACK_PARTS = 100
_PATIENCE_NS = 10_000_000_000
"""What a sender may save up, as time: after a pause everything that waited arrives at once."""

Place = tuple[str, Dimension]
"""A group and a dimension: where there is one local limit."""


class Suspicion(Enum):
    """What cannot be."""

    USED = "uses twice what it says it may"
    HOLDS = "holds twice what it is due"
    FLOOD = "sends more reports than a sidecar does"
    FAREWELL = "reports after its farewell"


@dataclass(frozen=True, slots=True)
class Suspect:
    """A broker that was named: for what, at how many looks or reports, and when and where last.

    ``place`` is None for what concerns no group.
    """

    broker: str
    suspicion: Suspicion
    count: int
    last_ns: int
    place: Place | None


@dataclass(slots=True)
class _Score:
    """How often a broker's word in one place could not be, less how often it could."""

    looks: int = 0
    named: bool = False


@dataclass(slots=True)
class _Flow:
    """What the reports of one incarnation may still cost, as time."""

    incarnation: int
    left_ns: int
    as_of_ns: int
    #: The newest report; older ones are copies and cost nothing.
    sequence: int = 0
    #: It does not hear everybody.
    troubled: bool = False
    #: It said farewell.
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """What the others say, and how old it is."""

    usage: UsageMap
    agreement: Agreement
    now_ns: int


class Suspects:
    """Watches what the others say. See the module's head."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        #: Whose word on what they hold is not believed, by place.
        self.doubted: dict[Place, frozenset[str]] = {}
        self._members: Collection[str] = ()
        self._flows: dict[str, _Flow] = {}
        self._scores: dict[Place, dict[tuple[str, Suspicion], _Score]] = {}
        self._watched = 0
        self._named: dict[tuple[str, Suspicion], Suspect] = {}
        self._turn = 0

    def __len__(self) -> int:
        """How many names there are."""
        return len(self._named)

    def all(self) -> tuple[Suspect, ...]:
        """Everybody who was named, by broker."""
        return tuple(
            sorted(self._named.values(), key=lambda each: (each.broker, each.suspicion.name))
        )

    def all_since(self, count: int) -> tuple[Suspect, ...]:
        """The names that were added when there were so many."""
        return tuple(islice(self._named.values(), count, None))

    def accused(self, place: Place) -> list[tuple[str, Suspicion]]:
        """Who is named for what it says of a place, until it has been plausible for as long."""
        scores = self._scores.get(place, {})
        return sorted(
            (key for key, score in scores.items() if score.named),
            key=lambda key: (key[0], key[1].name),
        )

    def admits(self, report: UsageReport, now_ns: int) -> bool:
        """Whether a report may be taken: its sender is not gone, and sends no flood."""
        if report.broker not in self._members:
            return True  # the usage map bounds these
        flow = self._flows.get(report.broker)
        if flow is None or report.incarnation > flow.incarnation:
            flow = _Flow(report.incarnation, _PATIENCE_NS, now_ns)
            self._flows[report.broker] = flow
        elif report.incarnation < flow.incarnation or report.sequence <= flow.sequence:
            return True  # and has names for these
        flow.sequence, flow.troubled = report.sequence, report.troubled
        flow.left_ns = min(_PATIENCE_NS, flow.left_ns + now_ns - flow.as_of_ns)
        flow.as_of_ns = now_ns
        cost_ns = self._settings.urgent_gap_ns // 2
        if flow.left_ns < cost_ns:
            self._name(report.broker, Suspicion.FLOOD, None, now_ns)
            return False
        flow.left_ns -= cost_ns
        if flow.gone:
            self._name(report.broker, Suspicion.FAREWELL, None, now_ns)
            return False
        flow.gone = report.leaving
        return True

    def set_members(self, members: Collection[str]) -> None:
        """The membership changed; who is gone is watched no longer, but stays named."""
        self._members = members
        self._flows = {broker: flow for broker, flow in self._flows.items() if broker in members}
        gone = [(place, key) for place, key in self._everything() if key[0] not in members]
        for place, key in gone:
            self._clear(place, key)

    def close_round(
        self,
        groups: Mapping[str, ResourceGroup],
        split_of: Callable[[Place], Split | None],
        heard: Heard,
    ) -> set[str]:
        """Judge what the others say of some of the groups that this broker follows.

        Returns:
            The groups where somebody is doubted from now on, or believed again.
        """
        before = dict(self.doubted)
        followed = [name for name in heard.usage.followed() if name in groups]
        for place, key in [each for each in self._everything() if each[0][0] not in groups]:
            self._clear(place, key)
        for _ in range(min(MAX_JUDGED // len(Dimension), len(followed))):
            self._turn += 1
            group = groups[followed[self._turn % len(followed)]]
            for dimension in Dimension:
                place = (group.name, dimension)
                answer = split_of(place)
                if answer is None:
                    continue
                for key, implausible in self._judged(group, dimension, answer, heard):
                    self._count(place, key, heard.now_ns, implausible=implausible)
        return {place[0] for place, _ in before.items() ^ self.doubted.items()}

    def _judged(
        self, group: ResourceGroup, dimension: Dimension, answer: Split, heard: Heard
    ) -> Iterator[tuple[tuple[str, Suspicion], bool]]:
        """What the others say of a place that can be looked at now, and whether it cannot be."""
        usage, now_ns = heard.usage, heard.now_ns
        slack = answer.limit // _SLACK_PARTS
        others = answer.claims.keys() - {self._settings.broker}
        late = {broker for broker in others if not usage.is_current(broker, now_ns)}
        for broker, row in usage.rows(group.name, dimension.monitoring_class).items():
            limit = row.usage.limit_of(dimension.unit)
            if broker not in others or limit is None or not self._is_fresh(broker, heard):
                continue
            if not is_observed(group):
                may = max(limit, row.usage.ceiling_of(dimension.unit) or 0)
                yield (broker, Suspicion.USED), row.rate_of(dimension) > 2 * may + slack
            if (
                group.overshoot_policy != STRICT
                and not late - {broker}
                and self._sees_the_same(broker, heard)
            ):
                due = min(answer.limit, answer.target_of(broker))
                yield (broker, Suspicion.HOLDS), limit > 2 * due + slack

    def _is_fresh(self, broker: str, heard: Heard) -> bool:
        heard_ns = heard.usage.heard_ns(broker)
        round_ns = max(self._settings.round_ns, heard.usage.round_ns(broker))
        return heard_ns is not None and heard.now_ns - heard_ns <= round_ns

    def _sees_the_same(self, broker: str, heard: Heard) -> bool:
        """Whether a broker says that it has all that its target is made from."""
        flow = self._flows.get(broker)
        return (
            flow is not None
            and not flow.troubled
            and heard.agreement.same_definitions(broker)
            and heard.agreement.same_members(broker)
        )

    def _count(
        self, place: Place, key: tuple[str, Suspicion], now_ns: int, *, implausible: bool
    ) -> None:
        score = self._scores.get(place, {}).get(key)
        if score is None:
            if not implausible or self._watched >= MAX_WATCHED:
                return
            score = self._scores.setdefault(place, {})[key] = _Score()
            self._watched += 1
        score.looks = min(2 * NAMED_AT, score.looks + (1 if implausible else -1))
        if not score.looks:
            self._clear(place, key)
        elif implausible and score.looks >= NAMED_AT:
            score.named = True
            self._name(*key, place, now_ns)
            if key[1] is Suspicion.HOLDS:
                self.doubted[place] = self.doubted.get(place, frozenset()) | {key[0]}

    def _clear(self, place: Place, key: tuple[str, Suspicion]) -> None:
        broker, suspicion = key
        del self._scores[place][key]
        self._watched -= 1
        if not self._scores[place]:
            del self._scores[place]
        if suspicion is Suspicion.HOLDS and place in self.doubted:
            self.doubted[place] -= {broker}
            if not self.doubted[place]:
                del self.doubted[place]

    def _everything(self) -> list[tuple[Place, tuple[str, Suspicion]]]:
        return [(place, key) for place, scores in self._scores.items() for key in scores]

    def _name(self, broker: str, suspicion: Suspicion, place: Place | None, now_ns: int) -> None:
        key = (broker, suspicion)
        before = self._named.get(key)
        if before is not None or len(self._named) < MAX_NAMES:
            count = 1 if before is None else before.count + 1
            self._named[key] = Suspect(broker, suspicion, count, now_ns, place)
