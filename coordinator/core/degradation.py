"""Degradation: when a sidecar cannot trust its view, and how its limits move then.

======================  ==========================================================================
bus silent              hold the last limits, raise nothing; after ``hold`` lower to an equal part
                        C/N; after a second ``hold``, when every other sidecar that is degraded so
                        has lowered itself, raise to C/N as well
ZooKeeper suspended     hold, raise nothing: the session may still be alive
ZooKeeper lost          the others may have taken this broker's share; the group's ``partitionPolicy``
                        decides: ``hold`` keeps the limit (traffic first), ``safe`` keeps at
                        most C/N, ``stop`` lets nothing pass (the limit first)
own broker down         there is no traffic; this sidecar leaves the membership and its share is free
======================  ==========================================================================

kazoo says LOST only after it has reconnected, so a sidecar that stays cut off would never hear it:
SUSPENDED for longer than the session timeout counts as lost, by the core's own timer. kazoo is late with
SUSPENDED too. That is good enough to hold a limit, and not to keep one: while any group is strict, or has
another ``partitionPolicy`` than ``hold``, there is a lease (escrow/lease.py), and its end counts as lost.
"""

from __future__ import annotations

from coordinator.core.events import ConnectionState
from coordinator.core.lifecycle import Degradation
from coordinator.core.model import Member
from coordinator.core.settings import CoreSettings
from coordinator.core.usage.map import UsageMap


class Degradations:
    """The present degradations and the time since when each lasts."""

    def __init__(self, settings: CoreSettings) -> None:
        self._settings = settings
        self._since: dict[Degradation, int] = {}
        #: In the order of their definition: read far more often than changed.
        self._all: tuple[Degradation, ...] = ()
        self._connection = ConnectionState.LOST
        self._suspended_ns = 0
        self._member_since: dict[str, tuple[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._since)

    def __contains__(self, degradation: Degradation) -> bool:
        return degradation in self._since

    def all(self) -> tuple[Degradation, ...]:
        """Return all present degradations, in the order of their definition."""
        return self._all

    @property
    def cut_off(self) -> bool:
        """Return whether this sidecar is cut off from ZooKeeper: it knows no present registrations."""
        return (
            Degradation.ZOOKEEPER_SUSPENDED in self._since
            or Degradation.ZOOKEEPER_LOST in self._since
        )

    def lasted_ns(self, degradation: Degradation, now_ns: int) -> int:
        """Return how long this degradation has lasted; 0 if it is absent."""
        return now_ns - self._since.get(degradation, now_ns)

    def connection_changed(self, state: ConnectionState, now_ns: int) -> None:
        """Note the state of the connection to ZooKeeper."""
        if state is not ConnectionState.CONNECTED and self._connection is ConnectionState.CONNECTED:
            self._suspended_ns = now_ns
        self._connection = state

    def members_changed(self, members: dict[str, Member], now_ns: int) -> None:
        """Remember since when each incarnation is a member: silence counts from there."""
        self._member_since = {
            broker: known
            if (known := self._member_since.get(broker)) and known[0] == member.incarnation
            else (member.incarnation, now_ns)
            for broker, member in members.items()
        }

    def restart(self, now_ns: int) -> None:
        """Restart the count of silence for a new incarnation."""
        self._set(Degradation.BUS_SILENT, now_ns, holds=False)
        self._member_since = {
            broker: (incarnation, now_ns) for broker, (incarnation, _) in self._member_since.items()
        }

    def look(self, now_ns: int, *, answering: bool, lease_over: bool) -> bool:
        """Update the degradations with ZooKeeper and the own broker; return whether they changed."""
        before = self._all
        disconnected = self._connection is not ConnectionState.CONNECTED
        lost = lease_over or (
            disconnected
            and (
                self._connection is ConnectionState.LOST
                or now_ns - self._suspended_ns >= self._settings.session_timeout_ns
            )
        )
        self._set(Degradation.ZOOKEEPER_SUSPENDED, now_ns, holds=disconnected and not lost)
        self._set(Degradation.ZOOKEEPER_LOST, now_ns, holds=lost)
        self._set(Degradation.BROKER_DOWN, now_ns, holds=not answering)
        return self._all != before

    def listen(self, usage: UsageMap, now_ns: int) -> None:
        """Check once a round whether every other member is heard."""
        silent = any(
            self._is_silent(broker, since_ns, usage, now_ns)
            for broker, (_, since_ns) in self._member_since.items()
            if broker != self._settings.broker
        )
        self._set(Degradation.BUS_SILENT, now_ns, holds=silent)

    def _is_silent(self, broker: str, since_ns: int, usage: UsageMap, now_ns: int) -> bool:
        # Rounds are as long as the member says, since sidecars may have different intervals.
        round_ns = max(self._settings.round_ns, usage.round_ns(broker))
        heard_ns = usage.heard_ns(broker) if usage.is_complete(broker) else None
        last_ns = max(since_ns, since_ns if heard_ns is None else heard_ns)
        return now_ns - last_ns > self._settings.silence_rounds * round_ns

    def _set(self, degradation: Degradation, now_ns: int, *, holds: bool) -> None:
        if holds is (degradation in self._since):
            return
        if holds:
            self._since[degradation] = now_ns
        else:
            del self._since[degradation]
        self._all = tuple(each for each in Degradation if each in self._since)


def degraded_limit(
    held: int,
    limit: int,
    members: int,
    degradations: Degradations,
    partition_policy: str,
    hold_ns: int,
    now_ns: int,
) -> int:
    """Return the local limit while degraded, per second.

    Args:
        held: the limit in force, or less if the shared sum has shrunk.
        limit: the group's limit for the cluster.
        members: N, as last known.
        degradations: the present degradations.
        partition_policy: the group's: hold, safe or stop.
        hold_ns: how long the bus may be silent before the limit goes to C/N.
        now_ns: the time.
    """
    equal_part = limit // max(1, members)
    if Degradation.ZOOKEEPER_LOST in degradations:
        match partition_policy:
            case "stop":
                return 0
            case "safe":
                return min(held, equal_part)
            case _:
                return held
    silent_ns = degradations.lasted_ns(Degradation.BUS_SILENT, now_ns)
    if silent_ns >= 2 * hold_ns:
        return equal_part
    if silent_ns >= hold_ns:
        return min(held, equal_part)
    return held
