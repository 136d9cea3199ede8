"""The run as series: each broker's demand, limit and admitted rate, second by second.

Each dimension that a group limits has a record of its own, in messages or in bytes.

Two resolutions: the group's aggregate per step, for sliding windows, and each broker's part per second,
for everything about shares. A second or a step counts what ended in it. Brokers appear when they first
take part; before that, and while they are down, they want and do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.core.model import NANOS_PER_SECOND, Dimension, LimitKey
from coordinator.simulation.valve import STEP_NS


@dataclass(slots=True)
class Track:
    """One broker in one group, per second: admitted, wanted, limit in force and weight at its end."""

    admitted: list[int]
    wanted: list[int]
    limits: list[int]
    weights: list[int]


@dataclass(frozen=True, slots=True)
class Passed:
    """One broker's demand and admitted traffic in one step, and limit and queue at its end."""

    admitted: int
    wanted: int
    limit: int
    weight: int = 1
    waiting: int = 0


@dataclass(slots=True)
class GroupRecord:
    """A group in one dimension over the whole run; lists go by second, or by step where they say so."""

    seconds: int
    #: The group's limit: (moment, messages or bytes per second), by moment.
    limit_changes: list[tuple[int, int]] = field(default_factory=list)
    tracks: dict[str, Track] = field(default_factory=dict)
    admitted_per_step: list[int] = field(default_factory=list)
    wanted_per_step: list[int] = field(default_factory=list)
    waiting_per_step: list[int] = field(default_factory=list)
    #: The largest sum of limits in force, in parts of the group's limit.
    max_sum_limits: float = 0.0
    #: Moments at which a local limit in force changed.
    changes_ns: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        steps = self.seconds * NANOS_PER_SECOND // STEP_NS
        self.admitted_per_step = [0] * steps
        self.wanted_per_step = [0] * steps
        self.waiting_per_step = [0] * steps

    def passed(self, broker: str, now_ns: int, step: Passed) -> None:
        """Add one broker's step that ends now."""
        second = (now_ns - 1) // NANOS_PER_SECOND
        if second >= self.seconds:
            return
        track = self.tracks.get(broker)
        if track is None:
            empty = [0] * self.seconds
            track = self.tracks[broker] = Track(empty[:], empty[:], empty[:], [1] * self.seconds)
        track.admitted[second] += step.admitted
        track.wanted[second] += step.wanted
        track.limits[second] = step.limit
        track.weights[second] = step.weight
        # A host's step lies across two steps of the recording: divide its count between both.
        number, ahead_ns = divmod(now_ns - 1, STEP_NS)
        now_admitted = step.admitted * ahead_ns // STEP_NS
        self.admitted_per_step[number] += now_admitted
        self.wanted_per_step[number] += step.wanted
        self.waiting_per_step[number] += step.waiting
        if number:
            self.admitted_per_step[number - 1] += step.admitted - now_admitted

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
class RunRecording:
    """Everything that was recorded of one run."""

    seconds: int
    #: By group and limited dimension.
    records: dict[LimitKey, GroupRecord] = field(default_factory=dict)
    control: ControlTraffic = field(default_factory=ControlTraffic)
    #: Crash moment to the moment when the survivors' limits added up to 99 % of the limit again.
    reclaims: list[tuple[int, int]] = field(default_factory=list)

    def group(self, name: str, dimension: Dimension = Dimension.PUBLISH_MESSAGES) -> GroupRecord:
        """The record of a group's dimension, begun when first asked for."""
        record = self.records.get((name, dimension))
        if record is None:
            record = self.records[name, dimension] = GroupRecord(self.seconds)
        return record
