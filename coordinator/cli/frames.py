"""The content of ``top`` at one moment, apart from its layout.

A frame holds the busiest groups, each with a row per broker. *Fair* is a broker's max-min share: its
demand, cut at the water level times its weight. The demand of a throttled broker is unknown and higher,
so its fair share is that level. Only the answering sidecar's own state is known; of the others, only the
time of their last report is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from coordinator.cli.client import AdminClient, NoSuchEntry
from coordinator.core.demand.observing import OBSERVE
from coordinator.core.model import Dimension
from coordinator.insight.model.views import (
    BrokerUsageView,
    Explanation,
    GroupUsageView,
    HealthView,
    WantView,
)

MAX_GROUPS = 5
"""The most groups that fit on a screen; every group costs a request per frame."""

_BARS = "▁▂▃▄▅▆▇█"
_SPARK_WIDTH = 10


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment: the sidecar, the groups shown, the number of groups left out, and observed groups."""

    health: HealthView
    groups: tuple[Explanation, ...]
    left_out: int
    observed: frozenset[str] = frozenset()


@dataclass(slots=True)
class RateHistory:
    """Admitted rates of the recent past, per group and broker; bounded by ``samples``."""

    samples: int
    _rates: dict[tuple[str, str], deque[int]] = field(default_factory=dict)

    def add(self, frame: Frame) -> None:
        """Remember a frame, and forget the brokers that are not in it any more."""
        rows = [(group, want) for group in frame.groups for want in group.wants]
        keys = [(group.group, want.broker) for group, want in rows]
        self._rates = {key: self._rates.get(key, deque(maxlen=self.samples)) for key in keys}
        for key, (_, want) in zip(keys, rows, strict=True):
            self._rates[key].append(want.admitted)

    def spark(self, group: str, broker: str) -> str:
        """Return the recent past as a line of bars."""
        return spark_line(self._rates.get((group, broker), ()))


def read_frame(client: AdminClient, group: str | None, dimension: Dimension | None) -> Frame:
    """Read everything that one frame shows from the sidecar."""
    health = client.health()
    if group is None:
        usages = client.pages(GroupUsageView, "usage")
    else:
        usages = [client.get(GroupUsageView, "usage", group)]
    usages.sort(key=lambda usage: (-_admitted(usage), usage.group))
    shown = usages[:MAX_GROUPS]
    groups = [_explained(client, usage, dimension or _limited_in(usage)) for usage in shown]
    found = tuple(group for group in groups if group is not None)
    observed = frozenset(usage.group for usage in shown if usage.enforcement == OBSERVE)
    return Frame(health, found, len(usages) - len(shown), observed)


def _explained(
    client: AdminClient, usage: GroupUsageView, dimension: Dimension
) -> Explanation | None:
    try:
        explanation = client.get(Explanation, "explain", usage.group, dimension=dimension.value)
    except NoSuchEntry:
        return None  # deleted since the list was made
    if not explanation.wants:
        # No decision exists where nothing is limited: every broker gets its demand.
        wants = tuple(_unlimited_want(row, dimension) for row in usage.brokers)
        return replace(explanation, wants=wants)
    return explanation


def _unlimited_want(row: BrokerUsageView, dimension: Dimension) -> WantView:
    admitted = row.admitted.of(dimension) or 0
    return WantView(
        broker=row.broker,
        wants=admitted,
        wants_at_least=admitted,
        weight=1,
        admitted=admitted,
        limit=row.limits.of(dimension),
        throttled_permille=row.throttled_permille[dimension],
        report_age_ns=row.report_age_ns,
    )


def fair_share(want: WantView, water_level: int | None) -> int | None:
    """Return a broker's part of a fair division; None if it is unknown."""
    if water_level is None:
        return want.wants
    level = water_level * want.weight
    return level if want.wants is None else min(want.wants, level)


def state_of(broker: str, health: HealthView) -> str:
    """Return the answering sidecar's state; of the others, whether their reports arrive."""
    if broker == health.broker:
        return health.state.value
    for member in health.members:
        if member.broker == broker:
            joining = member.report_age_ns is None
            return "joining" if joining else "silent" if member.silent else "heard"
    return "gone"


def spark_line(rates: Sequence[int]) -> str:
    """Return rates as at most ten bars, each the mean of its part of the time."""
    if not rates:
        return ""
    values = list(rates)
    bars = min(_SPARK_WIDTH, len(values))
    edges = [index * len(values) // bars for index in range(bars + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    highest = max(means) or 1
    return "".join(_BARS[round(mean / highest * (len(_BARS) - 1))] for mean in means)


def _admitted(usage: GroupUsageView) -> int:
    return sum(row.admitted.of(of) or 0 for row in usage.brokers for of in Dimension)


def _limited_in(usage: GroupUsageView) -> Dimension:
    limited = (of for of in Dimension if usage.limits.of(of) is not None)
    return next(limited, Dimension.PUBLISH_MESSAGES)
