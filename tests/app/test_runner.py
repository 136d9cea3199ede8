"""The shell around the core, on memory adapters: news become events, instructions are carried out."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import structlog
from structlog.testing import capture_logs

from coordinator.adapters.clock import MonotonicClock
from coordinator.adapters.memory.ledgers import MemoryLedgers
from coordinator.adapters.memory.store import MemoryStore
from coordinator.adapters.memory.surroundings import (
    MemoryBrokerAdmin,
    MemoryBus,
    MemoryEnsemble,
    MemoryMembership,
    MemoryTopic,
)
from coordinator.app import runner
from coordinator.app.runner import Runner
from coordinator.backlog.rules.views import BacklogView
from coordinator.core.decisions import Decision
from coordinator.core.events import Event, UsageReportReceived
from coordinator.core.instructions import Instruction
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import (
    Attachments,
    Dimension,
    LedgerRecord,
    MonitoringClass,
    NamespaceTraffic,
    Rates,
    ResourceGroup,
    Traffic,
    UsageReport,
)
from coordinator.core.settings import CoreSettings
from coordinator.core.state import CoordinatorState
from coordinator.insight.model.operations import Operation
from coordinator.insight.model.views import HealthView
from coordinator.ports import Recorder, RecorderHealth
from coordinator.wire import reports
from coordinator.wire.columns import UnknownDefinition
from coordinator.wire.fields import BadReport
from coordinator.wire.intake import Intake
from coordinator.wire.seal import Seal
from coordinator.wire.senders import Opened
from coordinator.wire.signature import Signer

PUBLISH = MonitoringClass.PUBLISH


@dataclass
class RecordingGate:
    """A gate that remembers what it was told and counts what the test says."""

    limits: dict[str, Rates] = field(default_factory=dict)
    attachments: Attachments = field(default_factory=Attachments)
    told: list[str] = field(default_factory=list)
    traffic: tuple[Traffic, ...] = ()
    lease_until_ns: int | None = None
    leased: set[str] = field(default_factory=set)
    collected: int = 0

    def hold_lease(self, until_ns: int) -> None:
        self.lease_until_ns = until_ns

    def set_limits(self, group: str, limits: Rates, *, leased: bool = False) -> None:
        self.limits[group] = limits
        self.leased = self.leased - {group} | ({group} if leased else set())
        self.told.append("limits")

    def remove_limits(self, group: str) -> None:
        del self.limits[group]

    def set_attachments(self, attachments: Attachments) -> None:
        self.attachments = attachments
        self.told.append("attachments")

    def when_in_force(self, then: Callable[[], None]) -> None:
        then()

    def watch_traffic(self, resumed: Callable[[], None]) -> None:
        self.resumed = resumed

    async def collect(self) -> tuple[Traffic, ...]:
        self.collected += 1
        return self.traffic

    async def drain(self, timeout_s: float) -> None:
        self.told.append(f"drain {timeout_s}")


@dataclass
class World:
    """The store and the bus that several sidecars share."""

    store: MemoryStore = field(default_factory=MemoryStore)
    ledgers: MemoryLedgers = field(init=False)
    ensemble: MemoryEnsemble = field(default_factory=MemoryEnsemble)
    topic: MemoryTopic = field(default_factory=MemoryTopic)

    def __post_init__(self) -> None:
        self.ledgers = MemoryLedgers(self.store)

    @asynccontextmanager
    async def sidecar(
        self, broker: str, recorder: Recorder | None = None, *, checks_invariants: bool = True
    ) -> AsyncIterator[Sidecar]:
        """A running sidecar."""
        membership = MemoryMembership(self.ensemble)
        admin = MemoryBrokerAdmin()
        gate = RecordingGate()
        runner = Runner(
            CoordinatorState(CoreSettings(broker=broker, round_ns=200_000_000)),
            clock=MonotonicClock(),
            store=self.store,
            membership=membership,
            bus=MemoryBus(self.topic, name=broker),
            broker=admin,
            api_address="127.0.0.1:1",
            drain_timeout_s=3.0,
            checks_invariants=checks_invariants,
        )
        runner.start(gate, self.ledgers, recorder)
        membership.connect()
        try:
            yield Sidecar(runner, gate, membership, admin)
            assert "invariants" not in runner.supervisor.failures
        finally:
            await runner.close()


@dataclass
class Sidecar:
    """One runner with the adapters that a test may disturb."""

    runner: Runner
    gate: RecordingGate
    membership: MemoryMembership
    admin: MemoryBrokerAdmin

    def saturate(self) -> None:
        """Connect a producer that always wants more than it gets."""
        self.gate.traffic = (
            Traffic("orders", PUBLISH, messages=1, messages_held_ns=10**9, participants=1),
        )
        self.runner.participants_changed("orders", PUBLISH, 1)

    @property
    def limit(self) -> int | None:
        """Messages per second that the gate enforces."""
        return self.gate.limits.get("orders", Rates()).publish_messages


def shares(runner: Runner) -> dict[str, int | None]:
    """Every broker's local limit as one sidecar knows it."""
    return {
        row.broker: row.limits.publish_messages for row in runner.views.group_view("orders").brokers
    }


async def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until something holds; fails after half a minute."""
    try:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"never happened: {what}") from None


async def test_sidecars_find_each_other_and_share_a_limit() -> None:
    """Two saturated sidecars get half of the limit each, over real ports in memory."""
    world = World()
    await world.store.create_group(ResourceGroup("orders", Rates(publish_messages=3000)))
    async with world.sidecar("b1") as one, world.sidecar("b2") as two:
        await eventually(
            lambda: one.runner.views.health().ready and two.runner.views.health().ready, "ready"
        )
        one.saturate()
        two.saturate()
        await eventually(lambda: (one.limit, two.limit) == (1500, 1500), "equal shares")
        await eventually(lambda: shares(one.runner) == {"b1": 1500, "b2": 1500}, "b2's announced")


async def test_a_strict_group_is_shared_by_its_ledger() -> None:
    """The ledger is founded through the port, half is granted over the bus, and the heir inherits."""
    world = World()
    await world.store.create_group(
        ResourceGroup("orders", Rates(publish_messages=3000), overshoot_policy="strict")
    )
    records: list[tuple[LedgerRecord, ...]] = []
    world.ledgers.watch(records.append)
    async with world.sidecar("b1") as one:
        async with world.sidecar("b2") as two:
            await eventually(lambda: (one.limit or 0) > 2000, "founded")
            one.saturate()
            two.saturate()
            await eventually(lambda: (one.limit, two.limit) == (1500, 1500), "equal shares")
            await two.runner.drain()
        await eventually(lambda: one.limit == 3000, "inherited after a farewell")
        await world.store.delete_group("orders")
        await eventually(lambda: records[-1] == (), "the ledger removed")


async def test_counts_are_collected_at_once_when_something_passes_or_is_to_be_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While neither is the case, seldom: here never again."""
    monkeypatch.setattr(runner, "COLLECTED_QUIETLY_EVERY_S", 1_000)
    monkeypatch.setattr(runner, "COLLECTED_QUIETLY_OF_SESSION", 1_000)

    async def collects_after(news: Callable[[], None]) -> None:
        before = sidecar.gate.collected
        news()
        await eventually(lambda: sidecar.gate.collected > before, "collected")

    async with World().sidecar("b1") as sidecar:
        await eventually(lambda: sidecar.runner.views.health().ready, "ready")
        monkeypatch.setattr(CoordinatorState, "rests_ns", lambda *_: 10**12)
        for _ in range(3):  # the first may be the end of the last short rest
            await collects_after(sidecar.gate.resumed)
        monkeypatch.setattr(CoordinatorState, "rests_ns", lambda *_: 0)
        await collects_after(lambda: sidecar.runner.participants_changed("orders", PUBLISH, 1))


async def test_limits_are_set_before_attachments() -> None:
    """A namespace that is attached to a new group finds its limits in force."""
    world = World()
    await world.store.create_group(ResourceGroup("orders", Rates(publish_messages=3000)))
    await world.store.attach_namespace("public", "default", "orders")
    async with world.sidecar("b1") as sidecar:
        assert sidecar.gate.told[:2] == ["limits", "attachments"]
        assert sidecar.gate.attachments.groups_of("public", "default") == ("orders",)
        assert sidecar.runner.informed.is_set()


async def test_garbage_on_the_bus_is_counted_and_logged_once() -> None:
    """A stranger's bytes disturb nothing."""
    world = World()
    with capture_logs() as logs:
        async with world.sidecar("b1") as sidecar:
            await eventually(lambda: sidecar.runner.views.health().ready, "ready")
            for _ in range(3):
                world.topic.send(b"garbage")
            dropped = {"not a usage report": 3}
            await eventually(
                lambda: sidecar.runner.views.health().reports_dropped == dropped, "counted"
            )

            assert sidecar.runner.views.health().ready
    assert len([log for log in logs if log["event"] == "not a usage report"]) == 1


async def test_the_own_report_that_comes_back_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The core took it in when it was sent; every sidecar's bus brings it every round."""
    world, came_back, read = World(), list[bytes](), list[bytes]()
    MemoryBus(world.topic, name="witness").watch(came_back.append)

    def reading(_: Intake, opened: Opened, now_ns: int) -> None:
        read.append(opened.report)

    monkeypatch.setattr(Intake, "read", reading)
    async with world.sidecar("b1"):
        await eventually(lambda: len(came_back) > 5, "six reports")
    assert read == []


async def test_a_drain_stops_the_runner() -> None:
    """Leave, drain the gate with its timeout, stop."""
    world = World()
    async with world.sidecar("b1") as sidecar:
        await eventually(lambda: sidecar.runner.views.health().ready, "ready")
        await sidecar.runner.drain()

        assert sidecar.gate.told[-1] == "drain 3.0"
        assert sidecar.runner.views.health().state is Lifecycle.STOPPED
    assert world.ensemble.members == ()


async def test_a_lost_session_is_joined_again() -> None:
    """After the session expired the sidecar registers under a new incarnation."""
    world = World()
    async with world.sidecar("b1") as sidecar:
        await eventually(lambda: sidecar.runner.views.health().ready, "ready")
        before = sidecar.runner.views.health().incarnation
        sidecar.membership.expire()
        assert not sidecar.runner.views.health().ready
        sidecar.membership.connect()
        await eventually(lambda: sidecar.runner.views.health().ready, "ready again")

        assert sidecar.runner.views.health().incarnation > before


async def test_a_failing_task_stops_the_sidecar() -> None:
    """An unexpected error is logged and ends the process, so that its supervisor restarts it."""

    async def fail() -> None:
        raise RuntimeError("planted")

    structlog.reset_defaults()
    with capture_logs() as logs:
        async with World().sidecar("b1") as sidecar:
            sidecar.runner.spawn(fail())
            await eventually(sidecar.runner.stopped.is_set, "stopped")
    assert [log["event"] for log in logs if log["log_level"] == "error"] == [
        "a task of the sidecar failed"
    ]


class ListedRecorder:
    """A recorder that lists what it was told, and when that was last."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.last_ns = 0
        self.limits: Rates | None = None

    def report_sent(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        self._tell(f"sent {report.broker}" if size_bytes else "empty", now_ns)

    def report_received(self, report: UsageReport, size_bytes: int, now_ns: int) -> None:
        self._tell(f"received {report.broker}" if size_bytes else "empty", now_ns)

    def limits_set(self, group: str, decisions: Mapping[Dimension, Decision], now_ns: int) -> None:
        self._tell(f"limits {group}", now_ns)
        self.limits = Rates.from_mapping({d: made.local_limit for d, made in decisions.items()})

    def operation_changed(self, operation: Operation, at_ms: int, now_ns: int) -> None:
        self._tell(f"{operation.stage.value} since {at_ms}", now_ns)

    def backlogs_checked(self, views: Sequence[BacklogView], at_ms: int, now_ns: int) -> None:
        self._tell(f"{len(views)} backlogs at {at_ms}", now_ns)

    def namespaces_counted(self, counted: Sequence[NamespaceTraffic], now_ns: int) -> None:
        self._tell(f"{len(counted)} namespaces", now_ns)

    def handled(self, event: Event, state: CoordinatorState, now_ns: int) -> None:
        assert state.settings.broker == "b1"
        self._tell(type(event).__name__, now_ns)

    def _tell(self, what: str, now_ns: int) -> None:
        assert now_ns >= self.last_ns
        self.last_ns = now_ns
        self.told.append(what)

    def health(self) -> RecorderHealth:
        return RecorderHealth(recording=True, rows_written=len(self.told))


async def test_a_recorder_sees_all_that_happens() -> None:
    """Every event, report and limit, with the decisions that the gate got its limits from."""
    world, recorder = World(), ListedRecorder()
    await world.store.create_group(ResourceGroup("orders", Rates(publish_messages=3000)))
    async with world.sidecar("b1", recorder) as one, world.sidecar("b2") as two:
        await eventually(
            lambda: one.runner.views.health().ready and two.runner.views.health().ready, "ready"
        )
        one.saturate()
        await eventually(lambda: "sent b1" in recorder.told, "sent")
        await eventually(lambda: "received b2" in recorder.told, "received")
        await eventually(lambda: recorder.limits == one.gate.limits["orders"], "limits")

        await eventually(lambda: "TrafficCounted" in recorder.told, "counts")

        assert {"GroupsChanged", "MembersChanged"} <= set(recorder.told)
        assert "empty" not in recorder.told
        health = one.runner.views.recording()
        assert health is not None
        assert health.rows_written > 0
        assert two.runner.views.recording() is None


async def test_only_sealed_reports_are_believed_where_there_are_keys() -> None:
    """The one without the key is told of in the log, once, and counted by its reason."""
    world = World()
    with capture_logs() as logs:
        async with world.sidecar("b1") as first, world.sidecar("b2") as second:
            for each in (first, second):
                each.runner.reception.seal = Seal([b"secret of the bus"])
            async with world.sidecar("b3") as stranger:
                await eventually(
                    lambda: bool(first.runner.views.health().reports_dropped), "dropped"
                )
                ages = {
                    row.broker: row.report_age_ns for row in first.runner.views.health().members
                }
                assert ages["b2"] is not None
                assert stranger.runner.views.health().reports_dropped == {}
            assert set(first.runner.views.health().reports_dropped) == {"not sealed"}
    assert {log["reason"] for log in logs if log["event"] == "not a usage report"} == {
        "not sealed: bus_key_files is not set at its sender"
    }


async def test_reports_are_forgotten_once_they_are_taken_in() -> None:
    """However many arrive, a handful is alive: a report is as large as there are groups."""
    async with World().sidecar("b1") as one:
        for sequence in range(1, 301):
            report = UsageReport("talkative", 1, sequence, 10**9, (), complete=True)
            one.runner.post(UsageReportReceived(report))
        gc.collect()
        reports = [each for each in gc.get_objects() if isinstance(each, UsageReport)]

        assert len([each for each in reports if each.broker == "talkative"]) < 10


async def test_what_the_core_cannot_handle_costs_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other reports of a batch are taken; the failure is told and logged once."""
    handle = CoordinatorState.handle

    def failing(state: CoordinatorState, event: Event, now_ns: int) -> list[Instruction]:
        if isinstance(event, UsageReportReceived) and event.report.sequence % 2:
            raise OverflowError("too large")
        return handle(state, event, now_ns)

    monkeypatch.setattr(CoordinatorState, "handle", failing)
    with capture_logs() as logs:
        async with World().sidecar("b1") as one:
            await eventually(lambda: one.runner.views.health().ready, "ready")
            for sequence in range(1, 5):
                report = UsageReport("b9", 1, sequence, 10**9, ())
                one.runner.post(UsageReportReceived(report))
            health = one.runner.views.health()
            assert health.reports_dropped == {"no member": 2}
            (task,) = health.failed_tasks
            assert (task.task, task.failures) == ("core, UsageReportReceived", 2)
            assert not one.runner.stopped.is_set()
    assert [log["task"] for log in logs if log["log_level"] == "error"] == [
        "core, UsageReportReceived"
    ]


async def test_a_core_that_fails_at_every_count_ends_the_sidecar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new one begins with a new core; until then nothing is known of any round."""
    monkeypatch.setattr(runner, "_FAILED_COUNTS_MAX", 3)
    async with World().sidecar("b1") as one:
        await eventually(lambda: one.runner.views.health().ready, "ready")

        def failing(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr(CoordinatorState, "handle", failing)
        await eventually(one.runner.stopped.is_set, "stopped")


async def test_a_core_that_contradicts_itself_is_told_where_that_is_checked() -> None:
    """As a failed task with the invariant and its figures; the sidecar goes on."""
    async with World().sidecar("b1") as one, World().sidecar("b2", checks_invariants=False) as two:
        await eventually(lambda: one.runner.views.health().ready, "ready")
        await eventually(lambda: two.runner.views.health().ready, "ready")
        for each in (one, two):
            each.runner._state.decider.in_force["none"] = Rates()
            each.runner.participants_changed("orders", PUBLISH, 1)
        failures = one.runner.supervisor.failures
        await eventually(lambda: "invariants" in failures, "told")
        assert failures.pop("invariants").reason == (
            "InvariantBroken: Only existing groups have local limits (group none)"
        )
        assert not one.runner.stopped.is_set()
        assert not two.runner.supervisor.failures
        del one.runner._state.decider.in_force["none"]


async def test_a_report_that_cannot_be_read_ends_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for definitions, and is none when they come; later changes of the catalogue arrive."""
    world = World()
    await world.store.create_group(ResourceGroup("orders", Rates(publish_messages=3000)))
    async with world.sidecar("b1") as one, world.sidecar("b2") as two:
        await eventually(lambda: one.runner.views.health().ready, "ready")
        decoding = "coordinator.wire.intake.decode"
        real = reports.decode

        def waits(*_: object) -> None:
            raise UnknownDefinition("b2", 99)

        def is_bad(*_: object) -> None:
            raise BadReport("definitions: two versions of one group")

        monkeypatch.setattr(decoding, waits)
        two.saturate()
        await asyncio.sleep(0.5)
        monkeypatch.setattr(decoding, is_bad)
        for name in ("first", "second"):
            await world.store.create_group(ResourceGroup(name, Rates(publish_messages=3000)))
        monkeypatch.setattr(decoding, real)
        await eventually(lambda: "second" in one.gate.limits, "later changes")
        assert one.runner.views.health().reports_dropped["definitions"] > 0
        assert one.runner.views.health().failed_tasks == ()


async def test_foreign_reports_in_a_members_name_are_named_and_change_nothing() -> None:
    """A stranger's farewell for b2: b1 goes on with b2's real reports, and an alarm is seen."""
    world = World()
    async with world.sidecar("b1") as one, world.sidecar("b2") as two:
        for each in (one, two):
            await eventually(lambda: each.runner.views.health().ready, "ready")  # noqa: B023
        incarnation = two.runner.views.health().incarnation
        for number in (incarnation, 2**62):
            farewell = UsageReport("b2", number, 2**40, 1, (), leaving=True)
            world.topic.send(reports.encode(farewell))
            world.topic.send(Signer().sign(reports.encode(farewell)))

        def named() -> set[tuple[str, str]]:
            return {(each.broker, each.reason.name) for each in health().suspects}

        def health() -> HealthView:
            return one.runner.views.health()

        await eventually(lambda: ("b2", "IMPERSONATED") in named(), "named")
        assert health().reports_dropped["foreign"] == 2
        before = {member.broker: member.report_age_ns for member in health().members}
        assert before["b2"] is not None
        await asyncio.sleep(0.5)
        ages = {member.broker: member.report_age_ns or 0 for member in health().members}
        assert ages["b2"] < 10**9
        assert health().ready


async def test_a_sidecar_of_an_older_release_is_believed_while_that_is_asked_for() -> None:
    """It signs nothing and shows no key; the older one believes the newer one at every step."""
    world = World()
    async with world.sidecar("new") as new, world.sidecar("old") as old:
        old.runner.reception._signer = Unsigning()  # type: ignore[assignment]
        old.runner.reception.senders.accept_unsigned = True
        old.membership.expire()  # it was registered with a key a moment ago
        old.membership.connect()
        await eventually(
            lambda: "its sender shows no key" in new.runner.views.health().reports_dropped,
            "refused",
        )

        new.runner.reception.senders.accept_unsigned = True
        for each in (new, old):
            await eventually(lambda: each.runner.views.health().ready, "ready")  # noqa: B023


class Unsigning:
    """A signer of a release before signatures."""

    public_key = b""

    def sign(self, report: bytes) -> bytes:
        return report
