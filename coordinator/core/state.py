"""The coordinator as one state machine: events in, instructions out, with the time as an argument.

``CoordinatorState.handle(event, now_ns)`` is the only input and returns the instructions, in order. Every
call has the same five steps:

1. *facts*: the event changes them (members, groups, usage map, meters, degradations);
2. *round*: a Tick that ends a round closes it: the meters become samples, the reporter marks changes;
3. *lifecycle*: it follows from the facts (lifecycle.py has the table);
4. *decision*: the limits of every group whose facts changed are decided anew (allocation/splitting.py,
   transfer/policies.py, degradation.py); changed ones become SetLocalLimits;
5. *report*: the news for the other brokers becomes one PublishUsageReport.

The gate's counts are facts that come too often to decide on each: they take the first step alone. Time
passes with Ticks. ``tick_due_ns`` says when the core needs the next one: at once while facts wait for a
decision or news for a report, otherwise at the end of the round or of a term, such as the lease's.

The own report is a fact, too, from the moment when it is sent, as a peer's is from the moment when it
arrives. It changes the facts after the decision, because it announces the limits that were decided; the
next event, at the latest the next Tick, decides on it. To decide on the new samples at once was tried in
the simulator: S2 settles a round sooner, and in S4 and S10 more passes above the limit.

Limits come before reports: a report announces the limits in force and the grants, so a limit is lowered
before any other broker learns of the room. A higher limit waits until the others have confirmed that they
know it (transfer/raise_protocol.py); under the policy ``strict`` it waits for their grants
(escrow/books.py).

The state never reads a clock. An event that the table does not allow raises before anything changed. A
bug may raise half-way, when limits were decided whose instructions are lost: `start_over` returns them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import assert_never

from coordinator.core import events
from coordinator.core.allocation.forest import resolve
from coordinator.core.allocation.laws import JOINT_LAW, LAWS_OF_USE
from coordinator.core.certificate.certifier import Certifier, Facts
from coordinator.core.certificate.statement import Certificate
from coordinator.core.certificate.trees import certificate_of_all
from coordinator.core.decisions.decider import Decider
from coordinator.core.degradation import Degradations
from coordinator.core.demand.meters import Meters
from coordinator.core.demand.observing import Observer, is_observed
from coordinator.core.escrow.escrow import Escrow
from coordinator.core.escrow.lease import Lease, needs_lease
from coordinator.core.instructions import (
    ConfirmSession,
    DrainGate,
    HoldLease,
    Instruction,
    JoinMembership,
    LeaveMembership,
    PublishUsageReport,
    RemoveEscrow,
    RemoveLocalLimits,
    SetLocalLimits,
    WriteEscrow,
)
from coordinator.core.invariants import holds
from coordinator.core.lifecycle import Degradation, Lifecycle, Trigger, next_state
from coordinator.core.model import (
    Dimension,
    Member,
    Rates,
    ResourceGroup,
    UsageReport,
    redefined,
)
from coordinator.core.registration import Registration
from coordinator.core.reports.plausibility import Heard, Plausibility
from coordinator.core.reports.reporting import Reporter
from coordinator.core.rounds import Rounds
from coordinator.core.settings import CoreSettings
from coordinator.core.transfer.acknowledgements import answers_to_all, asked_by
from coordinator.core.transfer.policies import STRICT
from coordinator.core.transfer.raise_protocol import Raises
from coordinator.core.usage.agreement import Agreement
from coordinator.core.usage.map import NOT_OF_A_MEMBER, UsageMap, Verdict
from coordinator.core.validation import validate_limits


class CoordinatorState:
    """The knowledge and the decisions of one sidecar. See the module's head."""

    def __init__(self, settings: CoreSettings) -> None:
        self.settings = settings
        self.lifecycle = Lifecycle.STARTING
        self.degradations = Degradations(settings)
        self.usage = UsageMap(settings.broker)
        self.agreement = Agreement(settings)
        self.certifier = Certifier(settings)
        self.plausibility = Plausibility(settings)
        self.meters = Meters(settings)
        self.observer = Observer(settings)
        #: All live brokers, this one included once it has joined; the last known ones while cut off.
        self.members: dict[str, Member] = {}
        #: Every definition; None until the store was read for the first time.
        self.groups: dict[str, ResourceGroup] | None = None
        #: Reports not taken, by reason; the copies of those taken, by other topics, are not counted.
        self.reports_dropped: dict[Verdict, int] = {}
        self.lease = Lease(settings)
        self.escrow = Escrow(settings)
        self._raises = Raises(settings)
        self.decider = Decider(
            settings, self.escrow, self.lease, self._raises, self.plausibility.capped
        )
        self._reporter = Reporter(settings, self.escrow, self._raises)
        self._rounds = Rounds(settings.round_ns)
        self._registration = Registration(settings.broker)
        #: The time of the last event that took all five steps.
        self._decided_ns = 0

    def handle(self, event: events.Event, now_ns: int) -> list[Instruction]:
        """Take one event in and return the instructions, in order.

        Raises:
            IllegalTransition: the event cannot happen in this state; nothing was changed.
        """
        if self.lifecycle is Lifecycle.STOPPED:
            return []
        self._rounds.begin(now_ns)
        instructions = self._apply(event, now_ns)
        if isinstance(event, events.TrafficCounted):
            return instructions
        self._decided_ns = now_ns
        instructions += self._follow_lifecycle(now_ns)
        limits = self._decide(now_ns)
        if self.lease.ask(now_ns):
            instructions.append(ConfirmSession(now_ns))
        return [*limits, *instructions, *self._write_escrow(now_ns), *self._report(now_ns)]

    @property
    def tick_due_ns(self) -> int:
        """Return when the core next needs a Tick if no event arrives; "at once" is in the past."""
        if (
            self.lifecycle is not Lifecycle.ACTIVE
            or self.decider.is_marked
            or self._reporter.is_pending()
        ):
            return self._decided_ns
        terms_ns = [self._rounds.ends_ns]
        if self.lease.needed:
            terms_ns += [self.lease.next_ns, *self.escrow.fences_ns(self._decided_ns)]
        return min(terms_ns)

    @property
    def round(self) -> int:
        """Return the number of rounds closed since the start."""
        return self._rounds.closed

    @property
    def incarnation(self) -> int | None:
        """Return this broker's registration; None while it is not registered."""
        return self._registration.incarnation

    def limits(self) -> dict[str, Rates]:
        """Return the local limits in force, by group."""
        return self.decider.in_force

    def start_over(self) -> list[SetLocalLimits]:
        """After an event that failed half-way, return all that is decided; all is decided anew next.

        The instructions of that event are lost. The caller has the gate do this and nothing else; the
        core asks again for what it wants beside.
        """
        self.decider.mark_all()
        groups = self.groups or {}
        decided = [groups[name] for name in sorted(self.decider.in_force) if name in groups]
        return [self._set_local_limits(group) for group in decided]

    def certificate(self, group: ResourceGroup, dimension: Dimension, now_ns: int) -> Certificate:
        """Return the most that the local limits of a group can add up to, where it has a limit."""
        obstacle = ""
        if self.incarnation is None or self.settings.broker not in self.members:
            obstacle = "this sidecar is not a member"
        elif self.degradations.cut_off:
            obstacle = "this sidecar is cut off from ZooKeeper"
        forest = self.decider.forest
        decision = self.decider.decisions.get((group.name, dimension))
        split = None if decision is None else decision.split
        facts = Facts(
            members=self.members,
            usage=self.usage,
            agreement=self.agreement,
            limits=self.limits(),
            booked=self.escrow.told(group.name),
            now_ns=now_ns,
            kin=forest.kin(group.name),
            fractions={} if split is None else split.fractions,
        )
        if not forest.is_inner(group.name):
            return self.certifier.certificate(group, dimension, facts, obstacle)
        leaves = ((self.groups or {})[name] for name in forest.leaves_of[group.name])
        each = [self.certificate(leaf, dimension, now_ns) for leaf in leaves]
        whole = certificate_of_all(group, dimension, each)
        return self.certifier.of_strict_root(group, dimension, facts, whole) or whole

    def validate(self, names: Collection[str] | None = None) -> None:
        """Check the invariants; a broken one is a bug in the core.

        Args:
            names: the groups that are checked; everything is checked by default.

        Raises:
            InvariantBroken: a statement does not hold.
        """
        checked = self.decider.in_force.keys() if names is None else names
        groups = self.groups or {}
        self.usage.validate(names)
        self.escrow.validate()
        validate_limits(self.decider, checked, groups, self.members, self.escrow, self.settings)
        self._raises.validate(groups, self.limits(), self.members)
        active = self.lifecycle is Lifecycle.ACTIVE
        holds(
            not active or (self.incarnation is not None and not self.degradations),
            "An active sidecar is registered and not degraded",
            incarnation=self.incarnation,
            degradations=[degradation.name for degradation in self.degradations.all()],
        )

    # Step 1: the event changes facts.

    def _apply(  # noqa: C901, PLR0912  # one row per event
        self, event: events.Event, now_ns: int
    ) -> list[Instruction]:
        match event:
            case events.TrafficCounted():
                self._handle_traffic_counted(event, now_ns)
            case events.Tick():
                self._close_round(now_ns)
            case events.UsageReportReceived():
                self._handle_usage_report_received(event.report, now_ns)
            case events.ParticipantsChanged():
                for name in self.observer.counting(event.group):
                    key = (name, event.monitoring_class)
                    self.meters.set_participants(key, event.participants)
                    self._reporter.require(key)
            case events.MembersChanged():
                self._handle_members_changed(event, now_ns)
            case events.GroupsChanged():
                return self._handle_groups_changed(event)
            case events.EscrowChanged():
                self.decider.mark(self.escrow.set_records(event.records, now_ns))
            case events.MembershipJoined():
                return self._handle_joined(event, now_ns)
            case events.ConnectionChanged():
                self._handle_connection_changed(event, now_ns)
            case events.SessionConfirmed():
                return self._handle_confirmed(event, now_ns)
            case events.BrokerAvailabilityChanged(answering):
                self._registration.answering = answering
                return [] if answering else self._leave()
            case events.DrainRequested():
                self.lifecycle = next_state(self.lifecycle, Trigger.DRAIN)
                return [*self._leave(), DrainGate()]
            case events.DrainCompleted():
                self.lifecycle = next_state(self.lifecycle, Trigger.DRAINED)
            case _:
                assert_never(event)
        return []

    def _handle_traffic_counted(self, event: events.TrafficCounted, now_ns: int) -> None:
        elapsed_ns = self._rounds.count(now_ns)
        self.certifier.counted(elapsed_ns, now_ns)
        for traffic in self.observer.mirror(event.traffic):
            limits = self.limits().get(traffic.group, Rates())
            self.observer.count(traffic, self.decider.enforced, elapsed_ns)
            group = None if self.groups is None else self.groups.get(traffic.group)
            if self.meters.count(
                traffic,
                elapsed_ns,
                limits,
                jointly=group is not None and group.law == JOINT_LAW,
            ):
                self._reporter.require((traffic.group, traffic.monitoring_class))

    def _handle_usage_report_received(self, report: UsageReport, now_ns: int) -> None:
        if report.broker == self.settings.broker:
            return  # the own reports were taken in when they were sent
        verdict = self.usage.verdict(report)
        if verdict in NOT_OF_A_MEMBER:
            self._drop(verdict)
            return
        if (fault := self.plausibility.fault(report, now_ns)) is not None:
            self._drop(fault)
            return
        # Before the rest, since a grant counts in whatever order the reports arrive.
        self.decider.mark(self.escrow.take(report, now_ns))
        if verdict is not Verdict.TAKEN:
            if verdict is not Verdict.COPY:
                self._drop(verdict)
            return
        taken = self.usage.take(report, now_ns)
        self.certifier.take(report)
        if report.view is not None:
            digest = self.usage.digest(report.broker)
            self.agreement.heard(report.broker, report.view, digest, now_ns)
        if report.learning or self.settings.broker in report.asks:
            self._reporter.require_complete()
        groups = self.groups or {}
        if report.waiting and asked_by(
            report.broker, self.usage, groups, self.settings, self.decider.forest
        ):
            self._reporter.reply()
        self.decider.mark(self._raises.take(report, self.incarnation, now_ns))
        self.decider.mark(taken.groups)

    def _drop(self, verdict: Verdict) -> None:
        self.reports_dropped[verdict] = self.reports_dropped.get(verdict, 0) + 1

    def _handle_members_changed(self, event: events.MembersChanged, now_ns: int) -> None:
        before = self.members
        self.members = {member.broker: member for member in event.members}
        self.certifier.set_members(
            self.members, self.usage, self.groups or {}, self.limits(), now_ns
        )
        self.usage.set_members(self.members)
        self.agreement.set_members(self.members)
        self.plausibility.set_members(self.members.keys())
        self.escrow.set_members(self.members, now_ns)
        self.degradations.members_changed(self.members, now_ns)
        self._raises.set_members(self.members)
        if self._registration.look(self.members):
            self._unregister()
        if any(before.get(broker) != member for broker, member in self.members.items()):
            self._reporter.require_complete()
        self.decider.mark_all()

    def _handle_groups_changed(self, event: events.GroupsChanged) -> list[Instruction]:
        before = self.groups or {}
        self.groups, self.decider.forest = resolve(event.groups)
        self.agreement.set_groups(before, self.groups)
        self.certifier.set_groups(before, self.groups)
        self._reporter.set_groups(self.groups)
        self.observer.set_groups(event.groups)
        # A strict broker gives to those that need it, whether or not it takes part; and the part of a
        # leaf depends on what the others want.
        self.usage.follow(
            [name for name, group in self.groups.items() if group.overshoot_policy == STRICT]
            + list(self.decider.forest.leaves())
        )
        self.usage.split_by_use(
            [name for name, group in self.groups.items() if group.law in LAWS_OF_USE]
        )
        instructions: list[Instruction] = []
        for name in sorted(before.keys() - self.groups.keys()):
            self.decider.forget(name)
            self.meters.forget(name)
            self._reporter.forget(name)
            instructions.append(RemoveLocalLimits(name))
        self.decider.mark(redefined(before, self.groups))
        self.lease.need(needed=any(map(needs_lease, event.groups)))
        return instructions

    def _handle_joined(self, event: events.MembershipJoined, now_ns: int) -> list[Instruction]:
        if self.lifecycle is Lifecycle.DRAINING or not self._registration.answering:
            return [LeaveMembership()]  # it was asked for before that
        self.lifecycle = next_state(self.lifecycle, Trigger.JOINED)
        self._registration.joined(event.incarnation, self.members)
        self._reporter.restart()
        self._raises.restart()
        self.degradations.restart(now_ns)
        self.escrow.open_accounts(event.incarnation, now_ns)
        self.decider.restart()
        return []

    def _handle_connection_changed(self, event: events.ConnectionChanged, now_ns: int) -> None:
        self._registration.connected = event.state is events.ConnectionState.CONNECTED
        self.degradations.connection_changed(event.state, now_ns)
        self.lease.connection_changed(event.state)
        if event.state is events.ConnectionState.LOST:
            self._unregister()

    def _handle_confirmed(self, event: events.SessionConfirmed, now_ns: int) -> list[Instruction]:
        held, before_ns = self.lease.holds(now_ns), self.lease.until_ns
        self.lease.confirmed(event.asked_ns, event.connected_ns, event.timeout_ns, now_ns)
        if self.lease.holds(now_ns) is not held:
            self.decider.mark_all()
        if self.lease.until_ns in (None, before_ns):
            return []
        return [HoldLease(self.lease.until_ns)]

    def _leave(self) -> list[Instruction]:
        """Say farewell if registered, and leave the membership: a join may be under way."""
        farewell: list[Instruction] = []
        if self.incarnation is not None:
            farewell.append(PublishUsageReport(self._reporter.farewell(self.incarnation)))
        self._unregister()
        return [*farewell, LeaveMembership()]

    def _unregister(self) -> None:
        self._registration.end()
        self.escrow.close_accounts()
        self.decider.mark_all()

    # Step 2: rounds.

    def _close_round(self, now_ns: int) -> None:
        if not self._rounds.close():
            return
        elapsed_ns = self._rounds.elapsed_ns
        self.meters.close_round(elapsed_ns, self.limits(), self.groups or {}, len(self.members))
        self.escrow.close_round()
        self._reporter.close_round(self.meters, self.limits(), self.groups or {}, elapsed_ns)
        self.decider.mark(self._raises.groups())  # silence depends on time
        self.certifier.close_round(self.agreement)
        heard = Heard(self.usage, self.agreement, now_ns)
        self.decider.mark(
            self.plausibility.close_round(self.groups or {}, self.decider.split_of, heard)
        )
        self.degradations.listen(self.usage, now_ns)
        if self.degradations:
            self.decider.mark_all()  # the limit while degraded depends on the duration of the degradation

    # Step 3: the lifecycle follows from the facts.

    def _follow_lifecycle(self, now_ns: int) -> list[Instruction]:
        if self.lifecycle in (Lifecycle.DRAINING, Lifecycle.STOPPED):
            return []
        before = self.lifecycle
        answering, lease_over = self._registration.answering, self.lease.is_over(now_ns)
        if self.degradations.look(now_ns, answering=answering, lease_over=lease_over):
            self.decider.mark_all()  # a session that is over must not wait for the end of the round
        degraded = self.degradations or self.incarnation is None
        if degraded and before in (Lifecycle.LEARNING, Lifecycle.ACTIVE):
            self.lifecycle = next_state(before, Trigger.DEGRADED)
        elif before is Lifecycle.DEGRADED and not degraded:
            self.lifecycle = next_state(before, Trigger.RECOVERED)
        elif before is Lifecycle.LEARNING and self._is_informed():
            self.lifecycle = next_state(before, Trigger.INFORMED)
        if self.lifecycle is not before:
            self.decider.mark_all()
        wants_to_join = self.groups is not None and self._registration.ask(self.round)
        return [JoinMembership()] if wants_to_join else []

    def _is_informed(self) -> bool:
        return self._registration.seen and self.usage.knows_all()

    # Steps 4 and 5: limits, then reports.

    def _decide(self, now_ns: int) -> list[Instruction]:
        if self.groups is None:
            return []
        changed = self.decider.decide(
            self.groups,
            self.members,
            self.usage,
            self.degradations,
            self.lifecycle,
            self.round,
            now_ns,
        )
        for name, before in changed.items():
            self._reporter.limits_changed(name, before, self.decider.in_force[name], self.meters)
        return [self._set_local_limits(self.groups[name]) for name in changed]

    def _set_local_limits(self, group: ResourceGroup) -> SetLocalLimits:
        if is_observed(group):
            return SetLocalLimits(group.name, Rates())
        return SetLocalLimits(
            group.name,
            self.decider.enforced(group.name),
            leased=group.name in self.decider.leased,
        )

    def _write_escrow(self, now_ns: int) -> list[Instruction]:
        trusted = self.lifecycle in (Lifecycle.ACTIVE, Lifecycle.DEGRADED)
        if not trusted or self.degradations.cut_off or self.groups is None:
            return []
        records = []
        if self.lease.holds(now_ns):  # a creator without one would put limits at 0
            records = self.escrow.writes(self.groups, self.decider.forest, self.usage, now_ns)
        leftovers = self.escrow.leftovers(self.groups)
        return [*map(WriteEscrow, records), *map(RemoveEscrow, leftovers)]

    def _report(self, now_ns: int) -> list[Instruction]:
        if self.incarnation is None or self.lifecycle in (Lifecycle.DRAINING, Lifecycle.STOPPED):
            return []
        if not self._reporter.due(now_ns):
            return []
        groups = self.groups or {}
        report = self._reporter.build(
            self.incarnation,
            self.meters,
            self.limits(),
            groups,
            self._rounds.elapsed_ns,
            now_ns,
            learning=not self._is_informed(),
            asks=tuple(sorted(name for name in self.members if self.usage.has_gap(name, now_ns))),
            answers=answers_to_all(self.usage, groups, self.settings, self.decider.forest),
        )
        self.decider.mark(self.usage.take(report, now_ns).groups)
        view = self.agreement.digest(self.usage.digest(self.settings.broker))
        silent = Degradation.BUS_SILENT in self.degradations
        return [PublishUsageReport(replace(report, view=view, bus_silent=silent))]
