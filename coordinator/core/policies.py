"""Transfer policies: how a new target becomes a limit in force.

A target is computed from what the others said some time ago, so at the moment it is known it may be
wrong, and the question is who pays for that: the limit (overshoot) or the traffic (unused quota).

**eager**: a target is in force at once. Settles one report sooner; while views differ the limits in
force may add up to more than the group's limit.

**balanced**: lower at once, raise only into slack, the part of the limit that nobody announces to
hold; when several want to raise, each takes its part of the slack in proportion to its need, so that
all of them together take no more than there is. With equal views the limits in force never add up to
more than the limit. Price: one more report to settle (PIP-82's "smooth" against its "minimum number
of iterations").

**strict**: the limit is what this broker's books say that it holds (escrow.py); who is above its target
gives, who is below it waits for gifts. The limits in force never add up to more than the limit,
whatever gets lost. Price: a dead broker's share returns later, and without ZooKeeper nothing passes.

Eager and balanced are pure functions of the limit, the targets and the limits in force as announced,
and answer with the own new limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coordinator.core.laws import apportion

Policy = Callable[[int, str, Mapping[str, int], Mapping[str, int]], int]


def eager(limit: int, broker: str, targets: Mapping[str, int], in_force: Mapping[str, int]) -> int:  # noqa: ARG001  # every policy has the same signature
    """The target, at once."""
    return targets[broker]


def balanced(
    limit: int, broker: str, targets: Mapping[str, int], in_force: Mapping[str, int]
) -> int:
    """Lower at once; raise by this broker's part of what nobody holds.

    Args:
        limit: the group's limit for the cluster, per second.
        broker: whose limit to compute.
        targets: the law's target of every member.
        in_force: the limit that every member announces to hold, the own one as it is in force.
    """
    own = in_force[broker]
    if targets[broker] <= own:
        return targets[broker]
    slack = limit - sum(in_force.values())
    if slack <= 0:
        return own
    needs = {name: max(0, target - in_force[name]) for name, target in targets.items()}
    if slack >= sum(needs.values()):
        return targets[broker]
    return own + apportion(slack, needs)[broker]


ANNOUNCED: Mapping[str, Policy] = {"balanced": balanced, "eager": eager}
"""The policies that go by what the others announce, by name."""

STRICT = "strict"
"""The policy that goes by the books."""

POLICIES = (*ANNOUNCED, STRICT)
"""Every name that a group's ``overshootPolicy`` setting can have."""

PARTITION_POLICIES = ("hold", "safe", "stop")
"""What a sidecar does past the end of its ZooKeeper session: keep its limit, keep at most an equal
part of the group's limit, or let nothing pass."""
