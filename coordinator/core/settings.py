"""The core's settings: one frozen value, each field with its unit, default and reason."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.model import NANOS_PER_MILLI, NANOS_PER_SECOND, Rate


@dataclass(frozen=True, slots=True)
class ConditionThresholds:
    """The thresholds of conditions (insight/model/conditions.py).

    Args:
        near_limit_permille: a group that uses this part of a limit is near it; likewise a backlog
            of its quota.
        certificate_permille: the sum of a group's local limits, of its limit, above which it is
            a condition; a little more than 1, since rounding and newcomers count.
        backlog_age_s: the longest that a message may wait for its acknowledgement, whatever the
            quota; None is no bound.
    """

    near_limit_permille: int = 800
    certificate_permille: int = 1_050
    backlog_age_s: float | None = None


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """The parameters of the core's decisions and reports.

    Args:
        broker: this broker's id, the same in membership and reports.
        round_ns: the report interval. Pulsar's default is 60 s, too slow for any limit that users
            watch.
        complete_report_rounds: rounds from one report that lists every group to the next (PIP-82:
            "mandatorily report its usage once in N cycles"; Pulsar's own come to 5 minutes). It
            heals nothing: a receiver that misses a change asks for a complete report a round later.
            In the rounds between, a report is sent too, empty if nothing changed: silence is never
            usual.
        small_report_entries: a report of no more entries than this is always complete: it costs less
            than a kilobyte, and then every report that arrives heals everything that was lost
            before.
        repeat_rounds: rounds in which a change is repeated, since one report may be lost.
        change_permille: a group is reported when a rate moved by more than this (PIP-82's example is
            100, Pulsar's code uses 50).
        negligible_permille: a change of a rate by less than this part of the local limit is
            ignored, however large it is beside the rate: all ignored changes together are less than
            this part of the limit, and single messages are most of the noise of small rates.
        urgent_gap_ns: reports that cannot wait for the round are at least this far apart.
        arrival_reserve_permille: of the limit, kept for all brokers together that do not take part,
            so that a first producer is served before the others have made room.
        headroom_permille: the part by which a demand exceeds the admitted rate, so that noise does
            not throttle it. Small, since a saturated broker pays for it; the estimate widens it for
            bursty traffic (demand/estimator.py).
        throttled_permille: a broker that held producers for more of a round than this has a demand
            above the admitted rate.
        saturated_permille: a broker that held producers for more of a round than this has an
            unbounded demand.
        silence_rounds: if a member was not heard for this many of its rounds, it or this sidecar is
            degraded. With every third report lost, seven in a row are lost once in an hour.
        disagreement_rounds: a view that differs from this one's for more rounds than this is
            reported. A definition reaches all within milliseconds, the report that shows it within
            a round, and one or two of those may get lost.
        burst_ns: the tokens that the gate's buckets save up, as time at their rate; stated with
            every certificate.
        hold_ns: how long the last limits are held when the bus is silent. The bus is silent for 12 s
            whenever the broker that owns its topic dies, so more than that; and no less than
            ``least_hold_ns``.
        session_timeout_ns: the ZooKeeper session's timeout. kazoo says LOST only after it has
            reconnected, so the core counts by itself when the others have dropped this broker.
        thresholds: of conditions.
    """

    broker: str
    round_ns: int = NANOS_PER_SECOND
    complete_report_rounds: int = 300
    change_permille: int = 50
    negligible_permille: int = 1
    urgent_gap_ns: int = 50 * NANOS_PER_MILLI
    arrival_reserve_permille: int = 5
    headroom_permille: int = 5
    throttled_permille: int = 100
    saturated_permille: int = 900
    small_report_entries: int = 16
    repeat_rounds: int = 2
    silence_rounds: int = 7
    disagreement_rounds: int = 3
    burst_ns: int = 50 * NANOS_PER_MILLI
    hold_ns: int = 30 * NANOS_PER_SECOND
    session_timeout_ns: int = 4 * NANOS_PER_SECOND
    thresholds: ConditionThresholds = ConditionThresholds()

    @property
    def least_hold_ns(self) -> int:
        """Return the shortest ``hold_ns`` for these rounds.

        A broker that stops waiting for a silent peer relies on that peer having noticed the silence
        (transfer/raise_protocol.py), which takes it ``silence_rounds`` and the end of one more round.
        """
        return (self.silence_rounds + 1) * self.round_ns

    def moved(self, before: Rate | None, after: Rate | None, limit: int | None = None) -> bool:
        """Return whether a value moved by more than ``change_permille`` of it; None is infinite.

        With a local limit, the move must also exceed ``negligible_permille`` of that.
        """
        if before is None or after is None:
            return before is not after
        difference = max(after - before, before - after) * 1000
        negligible = (limit or 0) * self.negligible_permille
        return difference > before * self.change_permille and difference > negligible
