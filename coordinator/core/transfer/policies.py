"""Transfer policies: how a new target becomes a limit in force.

A target is computed from reports that are some time old, so it may be wrong at the moment it is known.
The policy decides which side pays for that: the limit (overshoot) or the traffic (unused quota).

**eager**: a target is in force at once. Settles one report sooner; while views differ the limits in
force may add up to more than the group's limit.

**balanced**: lower at once; raise in two steps, so that two brokers that have not heard of each other do
not take the same room.

1. *Announce.* Every report states, besides the limit in force, the *ceiling* up to which the sender may
   raise itself. It is the limit that the sender gets when every broker above its target has lowered
   itself; if several demand more than the room, each announces its part, in proportion to its need.
2. *Raise*, but never above the ceiling that all other participants have confirmed, and only into room:
   the limit less the ceilings of all others, as far as they are known. An answer names the newest report
   taken from the asker, and lists the limits and ceilings of the answering broker itself.

   *A participant holds at most the limit that every other participant knows it may hold.*

So the sum of the ceilings that any one of them knows is never less than the sum of the limits in force,
at any instant (a certificate can be made from it). A broker that raises finds that sum, its own raise
included, within the limit. Therefore **the limits in force never add up to more than the limit**,
whatever reports are lost, late, doubled or overtaken, for however long. Of two brokers that demand the
same room, the one that announces later has heard of the other before it may raise. The argument needs:

* Before a broker raises itself above its arrival reserve for the first time, *all members* have to
  answer; later only the participants. So every participant knows all brokers above the reserve. (The
  first raise counts, not the present limit: the reserve becomes smaller with every newcomer.)
* A broker that is no member holds nothing. A broker that lost its ZooKeeper session and goes on
  (``partitionPolicy`` hold or safe) exceeds the limit by its own, once the others have taken over its
  share: they cannot tell it from a dead one. Back under a new incarnation it holds its reserve, even
  while degraded, as the limits of the old one are unknown. A broker that stays degraded moves to C/N
  unasked (degradation.py); a new incarnation waits for that as long as one that has just begun to listen.
* Reserves of members that take no part are not reported. While members come and go, views of N differ, so
  the reserves may exceed their sum for some milliseconds: by half a per cent of the limit for each
  newcomer that does not know N yet.
* While a lower limit is on its way, "the limit" is the higher one. Each broker lowers itself to the
  target that it sees: where demands have just changed and some brokers have not heard, those targets add
  up to more than the new limit, though never to more than the old sum. The sum only falls from there: a
  broker that wanted to raise would find no room, since the ceilings that it knows are never less than the
  limits of the others. The sum is within the limit again as soon as the reports have arrived; until then
  the certificate states it.

Price: two more reports to settle, one way each (without loss about 60 ms); 4 bytes per raise and report
and about 10 per answer and report, while any broker raises; a member that died without a farewell delays
raises in its groups until its session has ended.

**strict**: the limit follows from this broker's books (escrow/books.py); a broker above its target gives,
a broker below it waits for transfers. The limits in force never add up to more than the limit, whatever
messages get lost and whichever brokers are cut off. Price: a dead broker's share returns later, and
without ZooKeeper nothing passes.

The functions here are the pure half of balanced; raise_protocol.py has the half that remembers.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.allocation.laws import apportion

BALANCED = "balanced"
"""The policy that raises a limit only into room that all others know of."""

EAGER = "eager"
"""The policy that ignores the limits of the others."""

STRICT = "strict"
"""The policy that follows the books."""

POLICIES = (BALANCED, EAGER, STRICT)
"""Every name that a group's ``overshootPolicy`` setting can have."""

PARTITION_POLICIES = ("hold", "safe", "stop")
"""The behaviours of a sidecar after the end of its ZooKeeper session: keep its limit, keep at most an
equal part of the group's limit, or let nothing pass."""


def ceiling(
    limit: int, broker: str, targets: Mapping[str, int], in_force: Mapping[str, int]
) -> int:
    """Return the limit of a broker once all others have lowered themselves to their targets.

    Args:
        limit: the group's limit for the cluster, per second.
        broker: the broker to raise; its target is above its limit in force.
        targets: the law's target of every participant.
        in_force: the limit that each of them announces to hold, the own one as it is in force.
    """
    needs = {name: max(0, target - in_force[name]) for name, target in targets.items()}
    left = limit - sum(min(in_force[name], target) for name, target in targets.items())
    if left >= sum(needs.values()):
        return targets[broker]
    return in_force[broker] + apportion(max(0, left), needs)[broker]


def room(limit: int, broker: str, ceilings: Mapping[str, int]) -> int:
    """Return the highest limit of a broker that is safe whatever the others do without a new report.

    Args:
        limit: the group's limit for the cluster, per second.
        broker: the broker to raise.
        ceilings: the limit up to which each participant may raise itself, as far as it is known.
    """
    return limit - sum(value for name, value in ceilings.items() if name != broker)
