"""What happened, as series: who wanted, might and did how much, second by second.

Two resolutions: the group's aggregate per step, for sliding windows, and each broker's part per second,
for everything about shares. A second or a step counts what ended in it. Brokers appear when they first
take part; before that, and while they are down, they want and do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.core.model import NANOS_PER_SECOND
from coordinator.simulation.valve import STEP_NS


@dataclass(slots=True)
class Track:
    """One broker in one group, per second: admitted, wanted, and the limit in force at its end."""

    admitted: list[int]
    wanted: list[int]
    limits: list[int]


@dataclass(slots=True)
class GroupRecord:
    """One group over the whole run; lists have one entry per second, or per step where they say so."""

    seconds: int
    #: The group's limit: (moment, messages per second), by moment.
    limit_changes: list[tuple[int, int]] = field(default_factory=list)
    tracks: dict[str, Track] = field(default_factory=dict)
    admitted_per_step: list[int] = field(default_factory=list)
    wanted_per_step: list[int] = field(default_factory=list)
    #: The largest sum of limits in force, in parts of the group's limit.
    max_sum_limits: float = 0.0
    #: Moments at which a local limit in force changed.
    changes_ns: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        steps = self.seconds * NANOS_PER_SECOND // STEP_NS
        self.admitted_per_step = [0] * steps
        self.wanted_per_step = [0] * steps

    def passed(self, broker: str, now_ns: int, admitted: int, offered: int, limit: int) -> None:
        """Add one broker's step that ends now."""
        second = (now_ns - 1) // NANOS_PER_SECOND
        if second >= self.seconds:
            return
        track = self.tracks.get(broker)
        if track is None:
            empty = [0] * self.seconds
            track = self.tracks[broker] = Track(empty[:], empty[:], empty[:])
        track.admitted[second] += admitted
        track.wanted[second] += offered
        track.limits[second] = limit
        # A host's steps do not begin with the recording's: what passed belongs to two of those.
        step, ahead_ns = divmod(now_ns - 1, STEP_NS)
        now_admitted = admitted * ahead_ns // STEP_NS
        self.admitted_per_step[step] += now_admitted
        self.wanted_per_step[step] += offered
        if step:
            self.admitted_per_step[step - 1] += admitted - now_admitted

    def limit_at(self, moment_ns: int) -> int:
        """The group's limit at a moment, as it stood in the store."""
        current = 0
        for changed_ns, limit in self.limit_changes:
            if changed_ns > moment_ns:
                break
            current = limit
        return current


@dataclass(slots=True)
class ControlTraffic:
    """The usage reports of a run, in the bytes of their real encoding."""

    reports: int = 0
    bytes_out: int = 0
    deliveries: int = 0
    bytes_in: int = 0
    lost: int = 0


@dataclass(slots=True)
class Recording:
    """Everything that was recorded of one run."""

    seconds: int
    groups: dict[str, GroupRecord] = field(default_factory=dict)
    control: ControlTraffic = field(default_factory=ControlTraffic)
    #: Crash moment to the moment when the survivors' limits added up to 99 % of the limit again.
    reclaims: list[tuple[int, int]] = field(default_factory=list)

    def group(self, name: str) -> GroupRecord:
        """The record of a group, begun when first asked for."""
        record = self.groups.get(name)
        if record is None:
            record = self.groups[name] = GroupRecord(self.seconds)
        return record
