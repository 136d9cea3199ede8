"""Reports from the bus: a sidecar believes those of members, and tells of the others."""

from __future__ import annotations

import gc
import time

import pytest
from structlog.testing import capture_logs

from coordinator.core.events import UsageReportReceived
from coordinator.core.model import (
    Rates,
    ResourceGroup,
    UsageReport,
)
from coordinator.insight.model.views import HealthView
from coordinator.wire import reports
from coordinator.wire.columns import UnknownDefinition
from coordinator.wire.fields import BadReport
from coordinator.wire.intake import Intake
from coordinator.wire.senders import Opened
from coordinator.wire.signature import Signer
from tests.app.sidecars import World
from tests.contract.listening import eventually
from tests.memory.surroundings import (
    MemoryBus,
)


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


async def test_reports_are_forgotten_once_they_are_taken_in() -> None:
    """However many arrive, a handful is alive: a report is as large as there are groups."""
    async with World().sidecar("b1") as one:
        for sequence in range(1, 61):
            report = UsageReport("talkative", 1, sequence, 10**9, (), complete=True)
            one.runner.post(UsageReportReceived(report))
        gc.collect()
        reports = [each for each in gc.get_objects() if isinstance(each, UsageReport)]

        assert len([each for each in reports if each.broker == "talkative"]) < 10


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
        waiting = one.runner.reception._intake._waiting
        await eventually(lambda: "b2" in waiting, "a report waits")
        monkeypatch.setattr(decoding, is_bad)
        for name in ("first", "second"):
            await world.store.create_group(ResourceGroup(name, Rates(publish_messages=3000)))
        monkeypatch.setattr(decoding, real)
        await eventually(lambda: "second" in one.gate.limits, "later changes")
        assert one.runner.views.health().reports_dropped["definitions"] > 0
        assert one.runner.views.health().failed_tasks == ()


async def test_foreign_reports_in_a_members_name_are_named_and_change_nothing() -> None:
    """A stranger's farewell for b2: b1 goes on with b2's real reports, and counts the others."""
    world = World()
    async with world.sidecar("b1") as one, world.sidecar("b2") as two:
        for each in (one, two):
            await eventually(lambda: each.runner.views.health().ready, "ready")  # noqa: B023
        incarnation = two.runner.views.health().incarnation
        for number in (incarnation, 2**62):
            farewell = UsageReport("b2", number, 2**40, 1, (), leaving=True)
            world.topic.send(reports.encode(farewell))
            world.topic.send(Signer().sign(reports.encode(farewell)))

        def health() -> HealthView:
            return one.runner.views.health()

        await eventually(lambda: health().foreign_reports.get("b2") == 2, "counted")
        assert health().reports_dropped["foreign"] == 2
        counted_ns = time.monotonic_ns()

        def has_reported_since() -> bool:
            now_ns = time.monotonic_ns()
            ages = {member.broker: member.report_age_ns for member in health().members}
            age_ns = ages["b2"]
            return age_ns is not None and now_ns - age_ns > counted_ns

        await eventually(has_reported_since, "a later report of b2")
        assert health().ready
