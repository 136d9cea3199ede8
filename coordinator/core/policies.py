"""Transfer policies: how a new target becomes a limit in force.

A target is computed from what the others said some time ago, so at the moment it is known it may be
wrong, and the question is who pays for that: the limit (overshoot) or the traffic (unused quota).

**eager**: a target is in force at once. Settles one report sooner; while views differ the limits in
force may add up to more than the group's limit.

**balanced**: lower at once; raise in two steps, since two brokers must not take the same room because
neither has heard of the other.

1. *Announce.* Every report says, besides the limit in force, the *ceiling* up to which the sender may
   raise itself. It is what the sender gets when everybody above its target has lowered itself; if several
   want more than there will be, each announces its part, in proportion to its need.
2. *Raise*, but never above what all others that take part have answered to know, and only into room:
   the limit less the ceilings of all others, as far as they are known. An answer says which report of the
   asker was taken last, and lists what the answering broker itself holds and may hold.

   *Whoever takes part in a group holds at most what every other one that takes part knows it may hold.*

So the sum of the ceilings that any one of them knows is never less than what is in force, at any instant
(which is what a certificate can be made from), and since whoever raises finds that sum within the limit
with its own raise in it, **the limits in force never add up to more than the limit**, whatever reports
are lost, late, doubled or overtaken, for however long. Of two that want the same room, the one whose
announcement is later has heard of the other before it may raise. What the argument needs:

* Before a broker raises itself above its arrival reserve for the first time, *all members* have to
  answer; later those that take part. So whoever takes part knows of all who hold more than the reserve.
  (The first time counts, not what it holds: the reserve becomes smaller with every newcomer.)
* Who is no member holds nothing. A broker that lost its ZooKeeper session and goes on
  (``partitionPolicy`` hold or safe) adds what it holds, once the others have taken over its share:
  nobody can tell it from a dead one. Back under a new incarnation it holds its reserve, whatever trouble
  it is in then: nobody knows what the old one held. Whoever is in trouble for long moves to C/N unasked
  (trouble.py); a new incarnation is as patient as if it had never listened before.
* Reserves of those that take no part are nobody's news. While members come and go views of N differ,
  so these may add up to more than they should for some milliseconds: by half a per cent of the limit
  for each newcomer that does not know N yet.
* "The limit" is, while a lower one is on its way, the higher one. And each lowers itself to the target
  that it sees: where demands have just changed and not everybody has heard, those targets add up to more
  than the new limit, though never to more than there was. It only falls from there: whoever raised itself
  would find no room, since what it knows of the others is never less than what they hold. So it is right
  again as soon as the reports have arrived, and the certificate says what it is until then.

Price: two more reports to settle, one way each (without loss about 60 ms); 4 bytes per raise and report
and about 10 per answer and report, while somebody wants to raise; a member that died without a farewell
delays raises in its groups until its session has ended.

**strict**: the limit is what this broker's books say that it holds (escrow.py); who is above its target
gives, who is below it waits for gifts. The limits in force never add up to more than the limit,
whatever gets lost and whoever is cut off. Price: a dead broker's share returns later, and without
ZooKeeper nothing passes.

The functions here are the pure half of balanced; raising.py has the half that remembers.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.laws import apportion

BALANCED = "balanced"
"""The policy that raises what the others know of, into room that nobody else may take."""

EAGER = "eager"
"""The policy that does not look at what the others hold."""

STRICT = "strict"
"""The policy that goes by the books."""

POLICIES = (BALANCED, EAGER, STRICT)
"""Every name that a group's ``overshootPolicy`` setting can have."""

PARTITION_POLICIES = ("hold", "safe", "stop")
"""What a sidecar does past the end of its ZooKeeper session: keep its limit, keep at most an equal
part of the group's limit, or let nothing pass."""


def ceiling(
    limit: int, broker: str, targets: Mapping[str, int], in_force: Mapping[str, int]
) -> int:
    """What a broker may hold once everybody has lowered itself to its target.

    Args:
        limit: the group's limit for the cluster, per second.
        broker: whose ceiling to compute; its target is above what it holds.
        targets: the law's target of everybody who takes part.
        in_force: the limit that each of them announces to hold, the own one as it is in force.
    """
    needs = {name: max(0, target - in_force[name]) for name, target in targets.items()}
    left = limit - sum(min(in_force[name], target) for name, target in targets.items())
    if left >= sum(needs.values()):
        return targets[broker]
    return in_force[broker] + apportion(max(0, left), needs)[broker]


def room(limit: int, broker: str, ceilings: Mapping[str, int]) -> int:
    """How high a broker's limit can be, whatever the others do without another word.

    Args:
        limit: the group's limit for the cluster, per second.
        broker: whose room to compute.
        ceilings: what everybody who takes part may hold, as far as it is known.
    """
    return limit - sum(value for name, value in ceilings.items() if name != broker)
