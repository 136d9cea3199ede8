"""The conditions of groups (conditions.py), checked one after the other, in step with the board.

They follow from a group's row of the board, and from its certificate. Certificates cost most, so each
group's is checked in one of `CERTIFICATE_PASSES` passes, and between two checks the last one stands: this
is the price of a check, and no patience with a condition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import ceil
from zlib import crc32

from coordinator.core.lifecycle import Lifecycle
from coordinator.core.rates import in_digits
from coordinator.core.settings import ConditionThresholds
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.board import GroupRow
from coordinator.insight.model.conditions import Condition, ConditionKind

CERTIFICATE_PASSES = 8

_NAMED = 3


class GroupConditions:
    """Check the groups of one sidecar.

    Args:
        thresholds: of conditions.
    """

    def __init__(self, thresholds: ConditionThresholds) -> None:
        self._thresholds = thresholds
        self._pass = 0
        #: The certificates that were too high when it was last their group's turn.
        self._certificates: dict[str, Condition] = {}

    def begin(self, groups: Collection[str]) -> None:
        """Begin the next pass, over these groups; forget all others."""
        self._pass += 1
        for name in self._certificates.keys() - groups:
            del self._certificates[name]

    def of_group(self, state: CoordinatorState, row: GroupRow, now_ns: int) -> Iterator[Condition]:
        """Yield the conditions of a group that was just sampled; none while it has no participants."""
        if not row.is_used:
            self._certificates.pop(row.group, None)
            return
        if row.observed or state.lifecycle not in (Lifecycle.ACTIVE, Lifecycle.DEGRADED):
            return
        foremost = row.foremost
        if foremost is not None and row.used_permille >= self._thresholds.near_limit_permille:
            used = row.dimensions[foremost]
            sentence = (
                f"{row.group} uses {row.used_permille / 10:.0f} % of its {in_digits(used.limit)}/s "
                f"({foremost.value})"
            )
            yield Condition(ConditionKind.GROUP_NEAR_LIMIT, row.group, sentence)
        if row.throttled:
            sentence = f"clients of {row.group} wait at {_named(row.throttled)}"
            yield Condition(ConditionKind.THROTTLED, row.group, sentence)
        if (crc32(row.group.encode()) + self._pass) % CERTIFICATE_PASSES == 0:
            self._certify(state, row, now_ns)
        if row.group in self._certificates:
            yield self._certificates[row.group]

    def _certify(self, state: CoordinatorState, row: GroupRow, now_ns: int) -> None:
        """Check the certificate of the participated dimension that could be exceeded most."""
        self._certificates.pop(row.group, None)
        group, held = (state.groups or {}).get(row.group), state.limits().get(row.group)
        if group is None or held is None:
            return
        found = {
            dimension: state.certificate(group, dimension, now_ns).most
            for dimension, figures in row.dimensions.items()
            # Who holds a fraction alone need not be asked: each other counts with all of it, at rest too.
            if figures.participants and held.of(dimension)
        }
        exceeded = {
            # Certificates are whole numbers: that of 1.5/s is 2/s, at rest, too.
            dimension: most * 1000 // max(1, ceil(row.dimensions[dimension].limit))
            for dimension, most in found.items()
            if most is not None
        }
        worst = max(exceeded, key=exceeded.__getitem__, default=None)
        if worst is None or exceeded[worst] <= self._thresholds.certificate_permille:
            return
        sentence = (
            f"the local limits of {row.group} may add up to {found[worst]:,}/s of "
            f"{in_digits(row.dimensions[worst].limit)}/s ({worst.value})"
        )
        self._certificates[row.group] = Condition(
            ConditionKind.CERTIFICATE_HIGH, row.group, sentence
        )


def _named(brokers: tuple[str, ...]) -> str:
    more = len(brokers) - _NAMED
    named = ", ".join(brokers[:_NAMED])
    return f"{named} and {more} more" if more > 0 else named
