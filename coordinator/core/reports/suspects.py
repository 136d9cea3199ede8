"""Reporters whose reports cannot be true: the harm that they can do, and their names.

A broker that enforces nothing admits any rate; no protocol prevents that. This module bounds the harm
that false reports do to the *other* brokers, and names their sender:

=====================  ===============================  ==============================================
report                 most harm                        named when
=====================  ===============================  ==============================================
endless demand         gets its fair share: a throttled never: it may be true
                       broker's demand is unbounded
use above its limit    gets its fair share under        it reports to use twice its limit
                       max-min, which ignores use;
                       under laws that go by use, the
                       target of full use
no use                 gets less itself                 never: it may be true
holds more than its    keeps the others from raising    it reports to hold twice its target, to hear
target                 themselves until it is named;    all members, and to use the same definitions
                       then it counts with at most an   and members
                       equal part
has heard no report    delays each raise of the others  never: it may be true
                       by ``hold`` (transfer/raising.py)
endless reports        causes the work of twice as many it sends more
                       reports as a sidecar sends; the
                       others are dropped
reports after its      none: they are dropped           at once: its incarnation is over
farewell
in another broker's    none: ZooKeeper shows which key  at once, by the name that was used: its owner
name                   belongs to which registration    is the victim (wire/senders.py)
by definitions that    none: its reports wait for a     when the first of them has waited in vain
never existed          while, then they are dropped     (wire/intake.py)
=====================  ===============================  ==============================================

Flood and farewell are certain at once, as are the findings of the shell (`accuse`). Use and holding are
checked once a round, in up to MAX_JUDGED groups and dimensions in turn. They can be implausible at an
honest broker for a moment: a limit falls in the middle of a round, one large batch passes on credit, a
view is old. Each implausible sample therefore counts one, each plausible one takes one away, and the
broker is named at NAMED_AT: later than the owner of an old view reports it itself (``silence_rounds``). A
difference of less than a hundredth of the group's limit is ignored, and so is all credit that the group
may have saved up (handling.py), for it can pass in one round.

Naming is the judgement of this sidecar alone, as it depends on when reports arrived. It therefore never
enters a split, which must be equal everywhere: it decides only how far an announced limit keeps this
broker from raising itself (decisions.py). If a broker is judged wrongly and does hold more than an equal
part, the sum of the limits is larger by that excess; the certificate shows it meanwhile. Under ``strict``
no broker depends on the announcement of another: a false statement of the books moves no more than its
sender can give.

Weights are believed: under ``weights: topics`` a broker that claims more topics than it has gets their
part. The use of an observed limit is not judged, because that limit is not enforced. The report of a
broker is not compared with its own statistics here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from coordinator.core.allocation.splitting import Split
from coordinator.core.demand.observing import is_observed
from coordinator.core.model import Dimension, ResourceGroup, Suspicion, UsageReport
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.policies import STRICT
from coordinator.core.usage.agreement import Agreement
from coordinator.core.usage.map import UsageMap

NAMED_AT = 21
"""Net implausible samples before a broker is distrusted."""

MAX_JUDGED = 500
"""Groups and dimensions checked in one round."""

MAX_WATCHED = 4_096
"""Implausible announcements that are counted; at the bound no further one is until another is cleared."""

MAX_NAMES = 256
"""Names that are remembered; further brokers are capped and dropped like the others, but not named."""

IMPERSONATED_FOR_NS = 300_000_000_000
"""The time after the last foreign report in a member's name during which the alarm lasts."""

_SLACK_PARTS = 100
_PATIENCE_NS = 10_000_000_000
"""The reports that a sender may save up, as time: after a pause all waiting reports arrive at once."""

Place = tuple[str, Dimension]
"""A group and a dimension: the key of one local limit."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A named broker: the reason, the number of samples or reports, and the last time and place.

    ``place`` is None if the reason concerns no group; ``detail`` describes the observation where
    the reason does not.
    """

    broker: str
    suspicion: Suspicion
    count: int
    last_ns: int
    place: Place | None
    detail: str = ""


@dataclass(slots=True)
class _Score:
    """The implausible samples of a broker in one place, less the plausible ones."""

    looks: int = 0
    named: bool = False


@dataclass(slots=True)
class _Flow:
    """The reports that one incarnation may still send, as time."""

    incarnation: int
    left_ns: int
    as_of_ns: int
    #: The newest report; older ones are copies and cost nothing.
    sequence: int = 0
    #: Whether it does not hear all other members.
    troubled: bool = False
    #: Whether it sent a farewell.
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """The reports of the others, and their age."""

    usage: UsageMap
    agreement: Agreement
    now_ns: int


class Suspects:
    """Check the reports of the others. See the module's head."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        #: The brokers whose announced limits are not believed, by place.
        self.doubted: dict[Place, frozenset[str]] = {}
        self._members: Collection[str] = ()
        self._flows: dict[str, _Flow] = {}
        self._scores: dict[Place, dict[tuple[str, Suspicion], _Score]] = {}
        self._watched = 0
        self._named: dict[tuple[str, Suspicion], Suspect] = {}
        self._turn = 0

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._named)

    def all(self) -> tuple[Suspect, ...]:
        """Return all named brokers, sorted."""
        return tuple(
            sorted(self._named.values(), key=lambda each: (each.broker, each.suspicion.name))
        )

    def all_since(self, count: int) -> tuple[Suspect, ...]:
        """Return the names added since there were ``count`` of them."""
        return tuple(islice(self._named.values(), count, None))

    def accused(self, place: Place) -> list[tuple[str, Suspicion]]:
        """Return the brokers named for a place, until they have been plausible for as long."""
        scores = self._scores.get(place, {})
        return sorted(
            (key for key, score in scores.items() if score.named),
            key=lambda key: (key[0], key[1].name),
        )

    def admits(self, report: UsageReport, now_ns: int) -> bool:
        """Return whether a report may be taken: its sender has not left and sends no flood."""
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

    def accuse(
        self, broker: str, suspicion: Suspicion, detail: str, count: int, now_ns: int
    ) -> None:
        """Name a member for a fault seen outside the core; brokers that are no members are ignored."""
        if broker in self._members:
            self._name(broker, suspicion, None, now_ns, detail=detail, count=count)

    def impersonated(self, since_ns: int) -> tuple[Suspect, ...]:
        """Return the members in whose name another sender has reported since then."""
        return tuple(
            each
            for each in self.all()
            if each.suspicion is Suspicion.IMPERSONATED and each.last_ns >= since_ns
        )

    def set_members(self, members: Collection[str]) -> None:
        """Take over the membership; departed members are no longer checked but stay named."""
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
        """Check the reports of the others on some of the groups that this broker follows.

        Returns:
            The groups where a broker became distrusted, or is believed again.
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
        """Yield the announcements of the others to check now, and whether each is implausible."""
        usage, now_ns = heard.usage, heard.now_ns
        # A part of a tree may be nothing for a moment, and single messages are no lie.
        slack = max(answer.limit, group.limits.of(dimension) or 0) // _SLACK_PARTS
        others = answer.claims.keys() - {self._settings.broker}
        late = {broker for broker in others if not usage.is_current(broker, now_ns)}
        for broker, row in usage.rows(group.name, dimension.monitoring_class).items():
            limit = row.usage.limit_of(dimension.unit)
            if broker not in others or limit is None or not self._is_fresh(broker, heard):
                continue
            if not is_observed(group):
                may = max(limit, row.usage.ceiling_of(dimension.unit) or 0)
                credit = may * group.burst_seconds
                implausible = row.rate_of(dimension) > 2 * may + slack + credit
                yield (broker, Suspicion.USED), implausible
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
        """Return whether a broker reports to have all facts that its target is made from."""
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

    def _name(
        self,
        broker: str,
        suspicion: Suspicion,
        place: Place | None,
        now_ns: int,
        *,
        detail: str = "",
        count: int = 1,
    ) -> None:
        key = (broker, suspicion)
        before = self._named.get(key)
        if before is not None or len(self._named) < MAX_NAMES:
            total = count if before is None else before.count + count
            self._named[key] = Suspect(broker, suspicion, total, now_ns, place, detail)
