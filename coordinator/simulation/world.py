"""A cluster made up: hosts, their network, their ZooKeeper, and what is written down about them.

The world is put together by a scenario and then only runs. It hands reports from host to host, keeps
the sum of every group's limits in force, and holds the run to its promises (invariants.py) at every event
that made a core do something; once a second it also looks whether all views are equal, and checks one
core whole.

Chance has one root: the seed. Each part (network, ZooKeeper, traffic, phases of the hosts) draws from a
generator of its own, so that one more report does not change who sends when.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from coordinator.core.allocation.splitting import reserve_of
from coordinator.core.events import Event, Tick, UsageReportReceived
from coordinator.core.instructions import Instruction, SetLocalLimits
from coordinator.core.invariants import InvariantBroken
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import (
    DIMENSIONS_OF,
    NANOS_PER_SECOND,
    AnyRates,
    Dimension,
    ExactRates,
    LimitKey,
    ResourceGroup,
    TrafficKey,
    Unit,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.ports import Recorder
from coordinator.simulation.certificate_watch import CertificateWatch
from coordinator.simulation.host import Host
from coordinator.simulation.invariants import (
    AFTER_A_RAISE,
    AT_ANY_INSTANT,
    WITH_EQUAL_VIEWS,
    PromiseBroken,
    Sum,
    SumPromise,
    agreed_targets,
)
from coordinator.simulation.network import Network, NetworkConditions
from coordinator.simulation.recording import Passed, RunRecording
from coordinator.simulation.schedule import Schedule
from coordinator.simulation.traffic import Load, Source
from coordinator.simulation.valve import STEP_NS
from coordinator.simulation.zookeeper import ZooKeeper
from coordinator.wire import reports

_RECLAIMED_PERMILLE = 990
_COMMON = CoreSettings(broker="any")


class World:
    """See the module's head.

    Args:
        seed: the root of all chance.
        seconds: how long the run lasts.
        conditions: the network's, at the start.
    """

    def __init__(
        self, seed: int, seconds: int, conditions: NetworkConditions | None = None
    ) -> None:
        self.seed = seed
        self.schedule = Schedule()
        root = random.Random(seed)  # noqa: S311  # a replayable run, no secret
        self._phases = _child(root)
        self._traffic = _child(root)
        #: For the scenario's own choices.
        self.rng = _child(root)
        self.network = Network(_child(root), conditions or NetworkConditions())
        self.zookeeper = ZooKeeper(self.schedule, _child(root), _COMMON.session_timeout_ns)
        self.recording = RunRecording(seconds)
        self.hosts: dict[str, Host] = {}
        #: Others that read every report but run no core of ours.
        self.listeners: list[Callable[[str, UsageReport], None]] = []
        #: Makes a host of another kind, by its broker's name.
        self.kinds: dict[str, Callable[..., Host]] = {}
        #: Makes the recorder of a host that starts, by its broker's name; None records nothing.
        self.record_with: Callable[[str], Recorder] | None = None
        self._definitions: dict[str, ResourceGroup] = {}
        #: Definitions that a sidecar may still go by, by group, the newest not included.
        self._outgoing: dict[str, list[ResourceGroup]] = {}
        self._sums: dict[LimitKey, int] = {}
        self._crashes: dict[LimitKey, list[int]] = {}
        self._views_checked = 0
        #: Holds every certificate against what is in force.
        self.watch = CertificateWatch(
            self.schedule,
            self.zookeeper,
            self.hosts,
            self._definitions,
            self._uncertain,
        )
        self.schedule.after(NANOS_PER_SECOND, self._each_second)

    # What a scenario does.

    def define(
        self, name: str, limits: AnyRates, *, law: str, policy: str, weights: str = "equal"
    ) -> None:
        """Create a group, or change its limits, law, policy or weights."""
        exact = limits if isinstance(limits, ExactRates) else ExactRates(limits)
        self.plant(
            ResourceGroup(
                name, exact.whole, law, weights, overshoot_policy=policy, fractions=exact.fractions
            )
        )

    def plant(self, definition: ResourceGroup) -> None:
        """Create or change a group, which may have a parent."""
        name = definition.name
        before = self._definitions.get(name)
        if before is not None:
            self._outgoing.setdefault(name, []).append(before)
        self._definitions[name] = self.zookeeper.define(definition)
        for dimension, limit in _limited(definition):
            record = self.recording.group(name, dimension)
            record.limit_changes.append((self.schedule.now_ns, limit))

    def limit_of(self, group: str, dimension: Dimension = Dimension.PUBLISH_MESSAGES) -> int:
        """A group's limit as it stands in the store; 0 when there is none."""
        return self._definitions[group].limits.of(dimension) or 0

    def start(
        self,
        name: str,
        sources: Mapping[str, Source],
        *,
        dimension: Dimension = Dimension.PUBLISH_MESSAGES,
        settings: CoreSettings | None = None,
        poisson: bool = False,
        clock_ns: int = 0,
    ) -> None:
        """Start a host at a random moment of the next step; one of that name must not be running.

        Args:
            name: its broker id.
            sources: what its clients want, by group.
            dimension: what the sources speak of: whose clients, and what their rates count.
            settings: the core's.
            poisson: messages come at random moments, not evenly.
            clock_ns: how far its clock is ahead of the true time.
        """
        settings = settings or CoreSettings(broker=name)
        loads = self._loads(sources, dimension, poisson=poisson)

        def begin() -> None:
            self._begin(settings, loads, clock_ns)

        self.schedule.after(self._phases.randrange(STEP_NS), begin)

    def connect(self, name: str, sources: Mapping[str, Source], dimension: Dimension) -> None:
        """Clients come to a host in more groups; see ``start``."""
        self.hosts[name].loads.update(self._loads(sources, dimension))

    def crash(self, name: str) -> None:
        """Kill a host; when its part is back with the others is written down."""
        self.hosts.pop(name).crash()
        for subject in self.recording.records:
            self._crashes.setdefault(subject, []).append(self.schedule.now_ns)

    def restart(self, name: str, down_ns: int, *, graceful: bool = False) -> None:
        """Stop a host, with SIGKILL or in order, and start it again a while later, same traffic."""
        old = self.hosts.pop(name)
        if graceful:
            old.drain()
        else:
            old.crash()

        def begin() -> None:
            self._begin(old.state.settings, old.loads)

        self.schedule.after(down_ns, begin)

    def _begin(
        self, settings: CoreSettings, loads: dict[TrafficKey, Load], clock_ns: int = 0
    ) -> None:
        recorder = self.record_with and self.record_with(settings.broker)
        kind = self.kinds.get(settings.broker, Host)
        self.hosts[settings.broker] = kind(
            settings, loads, self.schedule, self.zookeeper, self, clock_ns, recorder
        )

    def leave(self, name: str) -> None:
        """Stop a host in order, for good."""
        self.hosts.pop(name).drain()

    def at(self, second: float, action: Callable[[], None]) -> None:
        """Run an action at this second of the run."""
        self.schedule.at(round(second * NANOS_PER_SECOND), action)

    def run(self) -> RunRecording:
        """Let everything happen.

        Raises:
            PromiseBroken: a core raised, or something came about that must not.
        """
        self.schedule.run_until(self.recording.seconds * NANOS_PER_SECOND)
        return self.recording

    # What hosts tell (host.Surroundings).

    def publish(self, host: Host, report: UsageReport) -> None:
        """Hand a report to every other host, as the network lets it."""
        sender, size = host.name, len(reports.encode(report))
        control = self.recording.control
        control.reports += 1
        control.bytes_out += size
        event = UsageReportReceived(report)
        for name, reader in self.hosts.items():
            if name == sender:
                continue
            arrivals = self.network.arrivals(sender, name, self.schedule.now_ns)
            control.lost += not arrivals
            for arrival_ns in arrivals:
                control.deliveries += 1
                control.bytes_in += size
                self.schedule.at(arrival_ns, partial(reader.receive, event))
        for listener in self.listeners:
            listener(sender, report)

    def limit_changed(
        self, host: Host, group: str, dimension: Dimension, before: int, after: int
    ) -> None:
        """Keep the sum of the limits in force, and hold the policy to its promise."""
        subject = (group, dimension)
        self._sums[subject] = self._sums.get(subject, 0) + after - before
        total = Sum(self._sums[subject], self._known_limit(group, dimension) or 0)
        record = self.recording.group(group, dimension)
        record.changes_ns.append(self.schedule.now_ns)
        if total.limit:
            record.max_sum_limits = max(record.max_sum_limits, total.in_force / total.limit)
        self._hold_to(AT_ANY_INSTANT, group, total, host.name)
        if before < after and host.state.lifecycle is Lifecycle.ACTIVE:
            self._hold_to(AFTER_A_RAISE, group, self._of_members(subject, total), host.name)
        self._note_reclaim(subject, total)
        if after > before and group in self._definitions:
            self.watch.raised(subject)
        self._sum_up(host, subject, after - before)

    def passed(self, host: Host, key: TrafficKey, load: Load, admitted: int) -> None:
        """Write a step of a group's traffic down, in every dimension that is limited."""
        group, monitoring_class = key
        definition, source = self._definitions[group], load.source
        weight = source.topics if definition.weights == "topics" else 1
        for dimension in DIMENSIONS_OF[monitoring_class]:
            if definition.limits.of(dimension) is None:
                continue
            size = 1 if dimension.unit is Unit.MESSAGES else source.message_bytes
            step = Passed(
                admitted * size,
                load.offered * size,
                host.limit_of(group, dimension),
                weight,
                load.waiting * size,
            )
            self.recording.group(group, dimension).passed(host.name, self.schedule.now_ns, step)

    def handled(self, host: Host, event: Event, instructions: Sequence[Instruction]) -> None:
        """Hold the core to its invariants: in all groups, or where what comes often changed a limit."""
        limits = host.state.limits()
        often = isinstance(event, Tick | UsageReportReceived)
        changed = [each.group for each in instructions if isinstance(each, SetLocalLimits)]
        try:
            host.state.validate(changed if often else limits.keys())
        except InvariantBroken as error:
            self.failed(host, event, error)

    def failed(self, host: Host, event: Event, error: Exception) -> None:
        """End the run: a core raised."""
        what = f"{type(error).__name__}: {error}, after {type(event).__name__}"
        raise PromiseBroken(self._where(host.name, what)) from error

    def _loads(
        self, sources: Mapping[str, Source], dimension: Dimension, *, poisson: bool = False
    ) -> dict[TrafficKey, Load]:
        return {
            (group, dimension.monitoring_class): Load(
                source, _child(self._traffic) if poisson else None, dimension.unit
            )
            for group, source in sources.items()
        }

    # Promises.

    def _hold_to(
        self, promises: Mapping[str, SumPromise], group: str, total: Sum, broker: str
    ) -> None:
        promise = promises.get(self._definitions[group].overshoot_policy)
        broken = promise(total) if promise is not None else None
        if broken is not None:
            raise PromiseBroken(self._where(broker, f"{group}: {broken}"))

    def _sum_up(self, host: Host, subject: LimitKey, change: int) -> None:
        """Keep the sums of all groups above one in a tree, and hold them to the same promise."""
        dimension = subject[1]
        above = self._definitions[subject[0]].parent if subject[0] in self._definitions else ""
        while above in self._definitions:
            place = (above, dimension)
            self._sums[place] = self._sums.get(place, 0) + change
            limit = self._known_limit(above, dimension)
            if change > 0 and limit is not None:
                self._hold_to(AT_ANY_INSTANT, above, Sum(self._sums[place], limit), host.name)
            if change > 0 and limit is not None and host.state.lifecycle is Lifecycle.ACTIVE:
                total = self._of_members(place, Sum(self._sums[place], limit))
                self._hold_to(AFTER_A_RAISE, above, total, host.name)
            above = self._definitions[above].parent

    def in_force(self, group: str, dimension: Dimension = Dimension.PUBLISH_MESSAGES) -> int:
        """Return the sum of all local limits of a group, or of those below it in its tree."""
        return self._sums.get((group, dimension), 0)

    def _of_members(self, subject: LimitKey, total: Sum) -> Sum:
        """Sum the limits in force at members, beside their due: the limit and the reserves."""
        most = total.limit + reserve_of(total.limit, 1, _COMMON)
        if total.in_force <= most:  # as nearly always, and then the members need not be known
            return Sum(total.in_force, most)
        in_force = sum(
            host.limit_of(leaf, subject[1])
            for host in self.hosts.values()
            if host.session.member is not None
            for leaf in host.state.decider.forest.leaves_of.get(subject[0], subject[:1])
        )
        return Sum(in_force, most)

    def _known_limit(self, group: str, dimension: Dimension) -> int | None:
        """The largest limit of a group's dimension that any sidecar goes by; None if there is none."""
        own = self._own_known_limit(group, dimension)
        parent = self._definitions[group].parent
        above = self._known_limit(parent, dimension) if parent in self._definitions else None
        return min((each for each in (own, above) if each is not None), default=None)

    def _own_known_limit(self, group: str, dimension: Dimension) -> int | None:
        newest = self._definitions[group]
        outgoing = self._outgoing.get(group)
        if not outgoing:
            return newest.limits.of(dimension)
        known = {_version(host, group) for host in self.hosts.values()}
        self._outgoing[group] = [old for old in outgoing if old.configuration_version in known]
        limits = (each.limits.of(dimension) for each in (newest, *self._outgoing[group]))
        return max((limit for limit in limits if limit is not None), default=None)

    def _uncertain(self, broker: str, what: str) -> None:
        raise PromiseBroken(self._where(broker, what))

    def _note_reclaim(self, subject: LimitKey, total: Sum) -> None:
        crashes = self._crashes.get(subject)
        if crashes and total.in_force * 1000 >= total.limit * _RECLAIMED_PERMILLE:
            self.recording.reclaims += [(crash, self.schedule.now_ns) for crash in crashes]
            crashes.clear()

    def _each_second(self) -> None:
        self.schedule.after(NANOS_PER_SECOND, self._each_second)
        self._check_a_core()
        subjects = list(self.recording.records)
        if not subjects:
            return
        # One a second: comparing all views of every group would outweigh the run.
        group, dimension = subjects[self._views_checked % len(subjects)]
        self._views_checked += 1
        targets = agreed_targets(self.hosts.values(), group, dimension)
        if targets is not None:
            most = max(self._known_limit(group, dimension) or 0, sum(targets.values()))
            total = Sum(self._sums.get((group, dimension), 0), most)
            self._hold_to(WITH_EQUAL_VIEWS, group, total, "all views equal")

    def _check_a_core(self) -> None:
        """Check all of one core, another one each second: all of them would outweigh the run."""
        hosts = list(self.hosts.values())
        if not hosts:
            return
        host = hosts[self.schedule.now_ns // NANOS_PER_SECOND % len(hosts)]
        try:
            host.state.validate()
        except InvariantBroken as error:
            raise PromiseBroken(self._where(host.name, str(error))) from error

    def _where(self, broker: str, what: str) -> str:
        seconds = self.schedule.now_ns / NANOS_PER_SECOND
        return f"seed {self.seed}, {seconds:.6f} s, {broker}: {what}"


def _child(root: random.Random) -> random.Random:
    return random.Random(root.getrandbits(64))  # noqa: S311  # a replayable run, no secret


def _limited(group: ResourceGroup) -> Iterator[tuple[Dimension, int]]:
    for dimension in Dimension:
        limit = group.limits.of(dimension)
        if limit is not None:
            yield dimension, limit


def _version(host: Host, group: str) -> int | None:
    known = (host.state.groups or {}).get(group)
    return None if known is None else known.configuration_version
