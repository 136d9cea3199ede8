"""``pulsar-quota operations``, and ``--wait``: whether the cluster has settled on a change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.core.model import Dimension
from coordinator.insight.model.operations import OperationStage
from tests.admin_api.world import World
from tests.cli.conftest import Run

UPDATE = ("groups", "update", "orders", "-mp", "4000")


async def _end_all(world: World, stage: OperationStage) -> None:
    for recorded in await world.operations.opened():
        ended = replace(
            recorded.operation,
            stage=stage,
            settle_ns=1_250_000_000 if stage is OperationStage.SETTLED else None,
            residual_permille=4,
            moved={Dimension.PUBLISH_MESSAGES: {"broker-1": 500, "broker-2": -1_200}},
        )
        await world.operations.end(replace(recorded, operation=ended))


@pytest.fixture
def ends(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[OperationStage], None]:
    """Operations end so while the command sleeps."""

    def arrange(stage: OperationStage) -> None:
        monkeypatch.setattr(
            "coordinator.cli.operations.sleep", lambda _: asyncio.run(_end_all(world, stage))
        )

    return arrange


def test_waiting_says_when_it_settled_and_who_gained_and_lost(
    run: Run, ends: Callable[[OperationStage], None]
) -> None:
    """The largest first."""
    ends(OperationStage.SETTLED)

    done = run(*UPDATE, "--wait")

    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "ResourceGroup orders updated.",
        "Settled after 1.25 s, 0 % off; publish messages: broker-2 -1,200, broker-1 +500.",
    ]


def test_waiting_for_machines_ends_with_the_operation(
    run: Run, ends: Callable[[OperationStage], None]
) -> None:
    """Beside the definition."""
    ends(OperationStage.SETTLED)

    done = json.loads(run(*UPDATE, "--wait", "--json").stdout)

    assert (done["publishRateInMsgs"], done["operation"]["state"]) == (4_000, "settled")


@pytest.mark.parametrize(
    ("stage", "why"),
    [(OperationStage.SUPERSEDED, "changed again"), (OperationStage.UNSETTLED, "did not settle")],
)
def test_a_change_that_does_not_settle_fails_and_stands(
    run: Run, ends: Callable[[OperationStage], None], stage: OperationStage, why: str
) -> None:
    """The exit code is 1, and the message says that the change was made."""
    ends(stage)

    failed = run(*UPDATE, "--wait")

    assert failed.exit_code == 1
    assert "The change was made" in failed.stderr
    assert why in failed.stderr
    assert json.loads(run("groups", "get", "orders", "--json").stdout)["publishRateInMsgs"] == 4_000


def test_nothing_changed_is_nothing_to_wait_for(run: Run) -> None:
    """It returns at once."""
    done = run("groups", "update", "orders", "-mp", "3000", "--wait")

    assert (done.exit_code, done.stdout) == (0, "ResourceGroup orders updated.\n")


def test_operations_are_a_table_newest_first(run: Run, world: World) -> None:
    """A row has the change, its author and its result."""
    run(*UPDATE)
    asyncio.run(_end_all(world, OperationStage.SETTLED))
    run("groups", "attach", "orders", "--tenant", "public")

    listed = run("operations")

    rows = [line for line in listed.stdout.splitlines() if "orders" in line]
    assert "public attached" in rows[0]
    assert "accepted" in rows[0]
    assert "publishRateInMsgs 3,000" in rows[1]
    assert "after 1.25 s" in rows[1]
    assert json.loads(run("operations", "none", "--json").stdout) == []
