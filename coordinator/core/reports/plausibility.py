"""Bounds on what a member's reports can do to the other brokers.

A broker that enforces nothing admits any rate; no protocol prevents that. A false report of a member can
harm the *others* only as far as these bounds and the rest of the core let it:

=====================  ================================================================================
report                 most harm
=====================  ================================================================================
endless demand         gets its fair share: a throttled broker's demand is unbounded
use above its limit    gets its fair share under max-min, which ignores use; under laws that go by use,
                       the target of full use
no use                 gets less itself
holds more than its    keeps the others from raising themselves for CAPPED_AT rounds; from then on it
target                 counts with at most an equal part
grants more than it    under ``strict`` each receiver holds up to all of the limit: grants are believed
has
has heard no report    delays each raise of the others by ``hold`` (transfer/raise_protocol.py)
endless reports        causes the work of twice as many reports as a sidecar sends; the others are dropped
reports after its      none: its incarnation is over, they are dropped
farewell
in another broker's    none: ZooKeeper shows which key belongs to which registration (wire/senders.py)
name
=====================  ================================================================================

Flood and farewell are certain at once. What a broker holds is compared once a round, in up to MAX_JUDGED
groups and dimensions in turn, with twice its target. It can be more at an honest broker for a moment: a
limit falls in the middle of a round, or its view is old. So only an announcement that was too high at
CAPPED_AT looks in a row is capped, later than the owner of an old view reports it itself
(``silence_rounds``), and a broker is not judged while it does not hear all members, or goes by other
definitions or members. The first plausible look ends the cap: to keep others low, a liar must announce
too much at every look. A difference of less than a hundredth of the group's limit is ignored.

The cap is the judgement of this sidecar alone, as it depends on when reports arrived. It therefore never
enters a split, which must be equal everywhere: it decides only how far an announced limit keeps this
broker from raising itself (decisions/moving.py). If a broker is judged wrongly and does hold more than
an equal part, the sum of the limits is larger by that excess; the certificate shows it meanwhile. Under
``strict`` no limit depends on an announcement, and a false statement of a holding does no more than delay
transfers.

Weights are believed: under ``weights: topics`` a broker that claims more topics than it has gets their
part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from coordinator.core.allocation.splitting import Split
from coordinator.core.model import Dimension, LimitKey, ResourceGroup, UsageReport
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.policies import STRICT
from coordinator.core.usage.agreement import Agreement
from coordinator.core.usage.map import UsageMap, Verdict

CAPPED_AT = 21
"""Looks in a row at which a broker announced too much before its announcement is capped."""

MAX_JUDGED = 500
"""Groups and dimensions checked in one round."""

MAX_WATCHED = 4_096
"""Announcements that are counted as too high; at the bound no further one is until one is cleared."""

_SLACK_PARTS = 100
_PATIENCE_NS = 10_000_000_000
"""The reports that a sender may save up, as time: after a pause all waiting reports arrive at once."""


@dataclass(slots=True)
class _Flow:
    """The reports that one incarnation may still send, as time."""

    incarnation: int
    left_ns: int
    as_of_ns: int
    #: The newest report that was let through; older ones are copies and cost nothing.
    sequence: int = 0
    #: Whether it does not hear all other members.
    bus_silent: bool = False
    #: Whether it sent a farewell.
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """The reports of the others, and their age."""

    usage: UsageMap
    agreement: Agreement
    now_ns: int


class Plausibility:
    """Bound the reports of the others. See the module's head."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        #: The brokers whose announced limits are capped, by place.
        self.capped: dict[LimitKey, frozenset[str]] = {}
        #: Looks at which an announcement was capped, by member.
        self.times_capped: Counter[str] = Counter()
        self._members: AbstractSet[str] = frozenset()
        self._flows: dict[str, _Flow] = {}
        #: Looks in a row at which a broker announced too much.
        self._too_high: dict[tuple[LimitKey, str], int] = {}
        self._turn = 0

    def fault(self, report: UsageReport, now_ns: int) -> Verdict | None:
        """Return why a member's report is to be dropped; None if it may be taken."""
        if report.broker not in self._members:
            return None  # the usage map bounds these
        flow = self._flows.get(report.broker)
        if flow is None or report.incarnation > flow.incarnation:
            flow = _Flow(report.incarnation, _PATIENCE_NS, now_ns)
            self._flows[report.broker] = flow
        elif report.incarnation < flow.incarnation or report.sequence <= flow.sequence:
            return None  # and has names for these
        flow.left_ns = min(_PATIENCE_NS, flow.left_ns + now_ns - flow.as_of_ns)
        flow.as_of_ns = now_ns
        cost_ns = self._settings.urgent_gap_ns // 2
        if flow.left_ns < cost_ns:
            return Verdict.FLOOD
        flow.left_ns -= cost_ns
        if flow.gone:
            return Verdict.FAREWELL
        # A report that was dropped is none of these: its copies are looked at as it was.
        flow.sequence = report.sequence
        flow.bus_silent, flow.gone = report.bus_silent, report.leaving
        return None

    def set_members(self, members: AbstractSet[str]) -> None:
        """Take over the membership; departed members are no longer checked."""
        self._members = members
        self._flows = {broker: flow for broker, flow in self._flows.items() if broker in members}
        for place, broker in [key for key in self._too_high if key[1] not in members]:
            self._clear(place, broker)
        for broker in self.times_capped.keys() - members:
            del self.times_capped[broker]

    def close_round(
        self,
        groups: Mapping[str, ResourceGroup],
        split_of: Callable[[LimitKey], Split | None],
        heard: Heard,
    ) -> set[str]:
        """Check the announcements of the others on some of the groups that this broker follows.

        Returns:
            The groups where an announcement is now capped, or believed again.
        """
        before = dict(self.capped)
        followed = [name for name in heard.usage.followed() if name in groups]
        for place, broker in [key for key in self._too_high if key[0][0] not in groups]:
            self._clear(place, broker)
        for _ in range(min(MAX_JUDGED // len(Dimension), len(followed))):
            self._turn += 1
            group = groups[followed[self._turn % len(followed)]]
            for dimension in Dimension:
                place = (group.name, dimension)
                split = split_of(place)
                if split is None or group.overshoot_policy == STRICT:
                    continue
                for broker, too_high in self._judged(group, dimension, split, heard):
                    self._count(place, broker, too_high=too_high)
        return {place[0] for place, _ in before.items() ^ self.capped.items()}

    def _judged(
        self, group: ResourceGroup, dimension: Dimension, split: Split, heard: Heard
    ) -> Iterator[tuple[str, bool]]:
        """Yield the brokers to judge now, and whether each announces too much."""
        usage, now_ns = heard.usage, heard.now_ns
        # A part of a tree may be nothing for a moment, and single messages are no lie.
        slack = max(split.limit, group.limits.of(dimension) or 0) // _SLACK_PARTS
        others = split.claims.keys() - {self._settings.broker}
        late = {broker for broker in others if not usage.is_current(broker, now_ns)}
        for broker, row in usage.rows(group.name, dimension.monitoring_class).items():
            limit = row.usage.limit_of(dimension.unit)
            if broker not in others or limit is None or not self._is_fresh(broker, heard):
                continue
            if not late - {broker} and self._sees_the_same(broker, heard):
                due = min(split.limit, split.target_of(broker))
                yield broker, limit > 2 * due + slack

    def _is_fresh(self, broker: str, heard: Heard) -> bool:
        heard_ns = heard.usage.heard_ns(broker)
        round_ns = max(self._settings.round_ns, heard.usage.round_ns(broker))
        return heard_ns is not None and heard.now_ns - heard_ns <= round_ns

    def _sees_the_same(self, broker: str, heard: Heard) -> bool:
        """Return whether a broker reports to have all facts that its target is made from."""
        flow = self._flows.get(broker)
        return (
            flow is not None
            and not flow.bus_silent
            and heard.agreement.same_definitions(broker)
            and heard.agreement.same_members(broker)
        )

    def _count(self, place: LimitKey, broker: str, *, too_high: bool) -> None:
        looks = self._too_high.get((place, broker), 0)
        if not too_high:
            if looks:
                self._clear(place, broker)
            return
        if not looks and len(self._too_high) >= MAX_WATCHED:
            return
        self._too_high[place, broker] = min(CAPPED_AT, looks + 1)
        if looks + 1 >= CAPPED_AT:
            self.capped[place] = self.capped.get(place, frozenset()) | {broker}
            self.times_capped[broker] += 1

    def _clear(self, place: LimitKey, broker: str) -> None:
        del self._too_high[place, broker]
        if place in self.capped:
            self.capped[place] -= {broker}
            if not self.capped[place]:
                del self.capped[place]
