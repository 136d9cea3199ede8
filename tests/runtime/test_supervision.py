"""A task that must not end does not end, whatever happens in it; and it is told."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from coordinator.ports import GateGone
from coordinator.runtime import supervision
from coordinator.runtime.supervision import TaskFailures, TaskSupervisor


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between two tries of a millisecond."""
    monkeypatch.setattr(supervision, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(supervision, "_LAST_PAUSE_S", 0.001)


async def test_a_task_that_fails_is_run_again_counted_and_logged_once_for_each_kind() -> None:
    """Until it returns by itself."""
    supervisor = TaskSupervisor()
    errors = [ValueError("one"), ValueError("two"), KeyError("three")]

    async def work() -> None:
        if errors:
            raise errors.pop(0)

    with capture_logs() as logs:
        await supervisor.keep("mirror", work)

    assert supervisor.failures == {"mirror": TaskFailures(3, "KeyError: 'three'", runs=True)}
    assert [(log["event"], log["task"]) for log in logs] == 2 * [
        ("a task failed and goes on", "mirror")
    ]


async def test_while_it_waits_to_be_run_again_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason."""
    monkeypatch.setattr(supervision, "_FIRST_PAUSE_S", 1_000.0)
    supervisor = TaskSupervisor()

    async def work() -> None:
        raise ValueError("why")

    task = asyncio.create_task(supervisor.keep("mirror", work))
    while not supervisor.failures:
        await asyncio.sleep(0)
    assert supervisor.failures == {"mirror": TaskFailures(1, "ValueError: why", runs=False)}
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_without_its_gate_the_sidecar_ends() -> None:
    """That is nothing to be tried again."""

    async def work() -> None:
        raise GateGone("it is gone")

    supervisor = TaskSupervisor()
    with pytest.raises(GateGone):
        await supervisor.keep("mirror", work)
    with pytest.raises(GateGone), supervisor.guard("mirror"):
        await work()
    assert supervisor.failures == {}


def test_a_listener_that_fails_costs_no_other_listener() -> None:
    """Each is called once."""
    supervisor, heard = TaskSupervisor(), list[int]()

    def failing(_: int) -> None:
        raise OverflowError("too large")

    supervisor.tell("bus", [heard.append, failing, heard.append], 7)

    assert heard == [7, 7]
    assert supervisor.failures["bus"] == TaskFailures(1, "OverflowError: too large")
