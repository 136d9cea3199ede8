"""The core's settings: one frozen value, each field with its unit, default and reason."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.core.alarms import AlarmSettings
from coordinator.core.model import NANOS_PER_SECOND

_MILLISECOND_NS = 1_000_000
_ALARMS = AlarmSettings()


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """How the core decides and reports.

    Args:
        broker: this broker's id, the same in membership and reports.
        round_ns: the report interval. Pulsar's default is 60 s, too slow for any limit that users watch.
        complete_report_rounds: every so many rounds a report lists every group, changed or not
            (PIP-82: "mandatorily report its usage once in N cycles"; Pulsar's own come to 5 minutes).
            It heals nothing: whoever misses a change asks for a complete report a round later. In the
            rounds between, a report is sent too, empty if nothing changed: silence is never usual.
        small_report_entries: a report of no more entries than this is always complete: it costs less
            than a kilobyte, and then every report that arrives heals everything that was lost before.
        repeat_rounds: what changed is reported in so many more rounds, since one report may be lost.
        change_permille: a group is reported when a rate moved by more than this (PIP-82's example is
            100, Pulsar's code uses 50).
        negligible_permille: a change of a rate by less than this of the local limit is none, however
            large it is beside the rate: what all brokers together do not hear of so is less than this
            of the limit, and the last message of a few per second is most of the noise of small rates.
        urgent_gap_ns: reports that cannot wait for the round are at least this far apart.
        arrival_reserve_permille: of the limit, kept for all brokers together that do not take part,
            so that a first producer is served before the others have made room.
        headroom_permille: a demand is taken as this much more than was admitted, so that noise does
            not throttle it. Little, since a saturated broker pays for it; bursty traffic learns to need
            more (demand.py).
        throttled_permille: a broker that held producers for more of a round than this wants more than
            it admitted.
        saturated_permille: a broker that held producers for more of a round than this wants more than
            anybody can tell.
        silence_rounds: a member that was not heard for so many of its rounds is in trouble, or we are.
            With every third report lost, seven in a row are lost once in an hour.
        disagreement_rounds: a view that differs from this one's for more rounds than this is told of. A
            definition reaches all within milliseconds, the report that shows it within a round, and one
            or two of those may get lost.
        burst_ns: what the gate's buckets save up, as time at their rate; told with every certificate.
        hold_ns: how long the last limits are held when the bus is silent. The bus is silent for 12 s
            whenever the broker that owns its topic dies, so more than that; and no less than
            ``least_hold_ns``.
        session_timeout_ns: the ZooKeeper session's timeout. kazoo says LOST only after it has
            reconnected, so the core counts by itself when the others have dropped this broker.
        alarms: from where on something is worth an alarm.
        shadow_law: the law that every group's own is compared with (shadow.py); None is none.
    """

    broker: str
    round_ns: int = NANOS_PER_SECOND
    complete_report_rounds: int = 300
    change_permille: int = 50
    negligible_permille: int = 1
    urgent_gap_ns: int = 50 * _MILLISECOND_NS
    arrival_reserve_permille: int = 5
    headroom_permille: int = 5
    throttled_permille: int = 100
    saturated_permille: int = 900
    small_report_entries: int = 16
    repeat_rounds: int = 2
    silence_rounds: int = 7
    disagreement_rounds: int = 3
    burst_ns: int = 50 * _MILLISECOND_NS
    hold_ns: int = 30 * NANOS_PER_SECOND
    session_timeout_ns: int = 4 * NANOS_PER_SECOND
    alarms: AlarmSettings = _ALARMS
    shadow_law: str | None = None

    @property
    def least_hold_ns(self) -> int:
        """The shortest ``hold_ns`` for these rounds.

        Whoever waits no longer for a silent peer relies on that peer having noticed (raising.py), which
        takes it ``silence_rounds`` and the end of one more round.
        """
        return (self.silence_rounds + 1) * self.round_ns

    def moved(self, before: int | None, after: int | None, limit: int | None = None) -> bool:
        """Whether a value moved by more than ``change_permille`` of what it was; None is infinite.

        Where there is a local limit, also by more than ``negligible_permille`` of that.
        """
        if before is None or after is None:
            return before is not after
        difference = abs(after - before) * 1000
        negligible = (limit or 0) * self.negligible_permille
        return difference > before * self.change_permille and difference > negligible
