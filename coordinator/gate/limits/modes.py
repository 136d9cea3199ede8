"""The ways to limit that few clusters use, and the one place where a gate is told of them.

Without any of them every limit is a token bucket, and a topic counts against the groups that it is
attached to. The decision on a message does not know them: a limiter compares a total with a ceiling
(metering.py), whichever tokens gave the ceiling, and a group that all topics count against is one more
group. Only where delayed messages have a group are messages told apart (engine/delayed.py). Limits by
partition, topic and broker are in scopes.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator.core.limiting.tokens import MakeTokens, new_bucket
from coordinator.gate.limits.metering import DEBT_NS


@dataclass(frozen=True, slots=True)
class Modes:
    """The makers of tokens, and the groups that traffic counts against without an attachment.

    Args:
        groups: makes the tokens of resource groups and the broker (core/limiting/windows.py).
        topics: makes the tokens of topics and their partitions.
        cluster_group: the resource group that all traffic counts against; empty is none.
        delayed_group: the group whose limit is on delayed messages only, whatever their topic; empty is
            none.
        debt_ns: the most that is taken of a limit in advance, as time at its rate.
    """

    groups: MakeTokens = new_bucket
    topics: MakeTokens = new_bucket
    cluster_group: str = ""
    delayed_group: str = ""
    debt_ns: int = DEBT_NS


DEFAULT_MODES: Final = Modes()
