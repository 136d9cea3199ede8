"""The shell around the core, on memory adapters: news become events, instructions are carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
import structlog
from structlog.testing import capture_logs

from coordinator.app import runner
from coordinator.backlog.rules.views import BacklogView
from coordinator.config import ConfigError
from coordinator.core.decisions.decision import Decision
from coordinator.core.events import Event, Tick, TrafficCounted, UsageReportReceived
from coordinator.core.instructions import Instruction
from coordinator.core.lifecycle import Lifecycle
from coordinator.core.model import Dimension, EscrowRecord, Rates, ResourceGroup, UsageReport
from coordinator.core.owners import namespace_owner
from coordinator.core.state import CoordinatorState
from coordinator.core.topics import TopicName
from coordinator.core.traffic import NamespaceTraffic
from coordinator.insight.model.operations import Operation
from coordinator.ports import RecorderHealth, TopicLimit
from tests.app.sidecars import PUBLISH, World, shares
from tests.contract.listening import eventually


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


async def test_of_two_sidecars_of_one_broker_one_waits_until_the_other_is_gone() -> None:
    """It says so once, with the other's address, and takes over when the other's session is over."""
    world = World()
    await world.store.create_group(ResourceGroup("orders", Rates(publish_messages=3000)))
    with capture_logs() as logs:
        async with world.sidecar("b1", api_address="one:8087") as one:
            await eventually(lambda: one.runner.views.health().ready, "ready")
            async with world.sidecar("b1", api_address="two:8087") as two:
                await eventually(lambda: two.runner.views.health().round > 3, "rounds")
                assert one.runner.views.health().ready
                assert not two.runner.views.health().ready
                one.membership.expire()
                await eventually(lambda: two.runner.views.health().ready, "its turn")

    told = [each["reason"] for each in logs if each["event"].startswith("cannot join")]
    assert told.count("the sidecar at one:8087 is registered for b1") == 1


async def test_brokers_share_the_limit_of_a_scalable_topic_by_demand() -> None:
    """The only one with traffic has nearly all of it, and half once the other has traffic, too."""
    topic = TopicName("topic", "shop", "eu", "orders")
    name = str(topic)
    limits = {name: TopicLimit(topic, Rates(publish_messages=3000), version=7)}
    world = World()
    async with world.sidecar("b1") as one, world.sidecar("b2") as two:
        for sidecar in (one, two):
            sidecar.runner.topic_limits_changed(limits)
            assert sidecar.gate.attachments.topics == {name}
            assert sidecar.runner.views.defined() == {name}
        await eventually(lambda: two.runner.views.health().ready, "ready")
        one.saturate(name)
        # The other keeps what a broker may begin with.
        await eventually(lambda: one.limit_of(name) >= 2_900, "all for one")
        two.saturate(name)
        await eventually(lambda: one.limit_of(name) == two.limit_of(name) == 1_500, "halves")

        one.runner.topic_limits_changed({})

        assert name not in one.gate.limits
        assert not one.gate.attachments.topics


async def test_a_strict_group_is_shared_by_its_books() -> None:
    """The record is created through the port, half is granted over the bus, and the heir inherits."""
    world = World()
    await world.store.create_group(
        ResourceGroup("orders", Rates(publish_messages=3000), overshoot_policy="strict")
    )
    records: list[tuple[EscrowRecord, ...]] = []
    world.escrow.watch(records.append)
    async with world.sidecar("b1") as one:
        async with world.sidecar("b2") as two:
            await eventually(lambda: (one.limit or 0) > 2000, "the record is there")
            one.saturate()
            two.saturate()
            await eventually(lambda: (one.limit, two.limit) == (1500, 1500), "equal shares")
            await two.runner.drain()
        await eventually(lambda: one.limit == 3000, "inherited after a farewell")
        await world.store.delete_group("orders")
        await eventually(lambda: records[-1] == (), "the escrow record removed")


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
        monkeypatch.setattr(CoordinatorState, "tick_due_ns", 10**30)
        for _ in range(3):  # the first may be the end of the last short rest
            await collects_after(sidecar.gate.resumed)
        monkeypatch.setattr(CoordinatorState, "tick_due_ns", 0)
        await collects_after(lambda: sidecar.runner.participants_changed("orders", PUBLISH, 1))


async def test_limits_are_set_before_attachments() -> None:
    """A namespace that is attached to a new group finds its limits in force."""
    world = World()
    await world.store.create_group(ResourceGroup("orders", Rates(publish_messages=3000)))
    await world.store.attach(namespace_owner("public", "default"), "orders")
    async with world.sidecar("b1") as sidecar:
        assert sidecar.gate.told[:2] == ["limits", "attachments"]
        assert sidecar.gate.attachments.groups_of("public", "default") == ("orders",)
        assert sidecar.runner.informed.is_set()


async def test_a_mistake_in_the_configuration_that_a_task_finds_stops_the_runner() -> None:
    """It is kept to be told as the reason, which the log would only hide."""
    mistake = ConfigError("gate_listen 127.0.0.1:1: address already in use")

    async def opens() -> None:
        raise mistake

    async with World().sidecar("b1") as sidecar:
        with capture_logs() as logs:
            sidecar.runner.spawn(opens())
            await sidecar.runner.stopped.wait()

        assert sidecar.runner.mistake is mistake
    assert [each for each in logs if each["log_level"] == "error"] == []


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

        await eventually(lambda: {"TrafficCounted", "Tick"} <= set(recorder.told), "counts")

        assert {"GroupsChanged", "MembersChanged"} <= set(recorder.told)
        assert "empty" not in recorder.told
        health = one.runner.views.recording()
        assert health is not None
        assert health.rows_written > 0
        assert two.runner.views.recording() is None


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


async def test_limits_that_a_failing_core_has_decided_are_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It fails behind the decision, so its instructions are lost; a deleted group is gone, too."""
    world = World()
    orders = await world.store.create_group(ResourceGroup("orders", Rates(publish_messages=3000)))
    await world.store.create_group(ResourceGroup("others", Rates(publish_messages=3000)))
    async with world.sidecar("b1") as one:
        await eventually(lambda: one.gate.limits.keys() == {"orders", "others"}, "both")
        await eventually(lambda: one.runner.views.health().ready, "ready")

        def fail(*_: object) -> list[Instruction]:
            raise OverflowError("too large")

        monkeypatch.setattr(CoordinatorState, "_report", fail)
        before = one.gate.limits["orders"]
        changed = replace(orders.group, limits=Rates(publish_messages=500))
        await world.store.update_group(changed, orders.version)
        await world.store.delete_group("others")
        await eventually(lambda: one.gate.limits.keys() == {"orders"}, "the other one is gone")
        monkeypatch.undo()
        assert one.gate.limits == one.runner._state.limits()
        assert one.gate.limits["orders"] != before


async def test_a_core_that_cannot_drain_ends_the_sidecar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gate is not drained by anyone else, and the supervisor waits for its end."""
    async with World().sidecar("b1") as one:
        await eventually(lambda: one.runner.views.health().ready, "ready")

        def fail(*_: object) -> list[Instruction]:
            raise OverflowError("too large")

        monkeypatch.setattr(CoordinatorState, "_leave", fail)
        assert not await one.runner.drain()


@pytest.mark.parametrize("failing_at", [TrafficCounted, Tick])
async def test_a_core_that_fails_at_every_count_or_tick_ends_the_sidecar(
    monkeypatch: pytest.MonkeyPatch, failing_at: type[Event]
) -> None:
    """A new one begins with a new core; until then nothing is known of any round."""
    monkeypatch.setattr(runner, "_FAILURES_MAX", 3)
    handle = CoordinatorState.handle

    def failing(state: CoordinatorState, event: Event, now_ns: int) -> list[Instruction]:
        if isinstance(event, failing_at):
            raise MemoryError  # noqa: TRY004  # as any bug
        return handle(state, event, now_ns)

    async with World().sidecar("b1") as one:
        await eventually(lambda: one.runner.views.health().ready, "ready")
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
